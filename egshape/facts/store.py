"""Facts: everything known about the sizes of one program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from egshape.dims import quote_name, symbol
from egshape.dims.core import natural_key
from egshape.errors import Contradiction, InvalidInput
from egshape.facts.absorb import ResidueClass, about_symbol
from egshape.facts.intervals import (
    EVERYTHING,
    Ranges,
    clip_to_class,
    combine_classes,
    intersect,
    normalized,
    to_text,
)
from egshape.facts.relation import Likely, Relation, parse_facts

if TYPE_CHECKING:
    from egshape.facts.model import FactsModel


@dataclass(frozen=True)
class SymbolFacts:
    """What is known about one symbol by itself.

    `sources` are the input axes it names, `ranges` the sizes it may have, `divisor` = (d, r) means
    size % d == r, `likely` are sizes to expect.
    """

    name: str
    sources: tuple[str, ...] = ()
    ranges: Ranges = EVERYTHING
    divisor: ResidueClass = (1, 0)
    likely: tuple[int, ...] = ()

    def relations(self) -> tuple[Relation, ...]:
        """The same as statements (sources and likely sizes aside)."""
        found: list[Relation] = []
        dim, name = symbol(self.name), quote_name(self.name)
        zero = dim - dim
        if self.ranges != EVERYTHING:
            found.append(Relation("in", dim, zero, f"{name} in {to_text(self.ranges)}", self.ranges))
        divisor, remainder = self.divisor
        if divisor > 1:
            found.append(Relation("==", dim % divisor, zero + remainder, f"{name} % {divisor} == {remainder}"))
        return tuple(found)


@dataclass(frozen=True)
class Facts:
    """Per symbol: ranges, divisor, likely sizes, sources; between symbols: relations.

    `assumed` holds the texts that the user gave, which are checked at entry.  `implied` holds the texts of what a
    program's own ops and checks say, which need no check where it is that program.  `stated` keeps the statements that
    went into `symbols`, so that a contradiction can name them.

    Examples:
        >>> import egshape
        >>> facts = egshape.Facts.parse("n % 8 == 0", "n <= 64", "likely n = 32")
        >>> facts.symbol("n").ranges, facts.symbol("n").divisor, facts.symbol("n").likely
        (((0, 64),), (8, 0), (32,))
    """

    symbols: tuple[SymbolFacts, ...] = ()
    relations: tuple[Relation, ...] = ()
    assumed: tuple[str, ...] = ()
    stated: tuple[Relation, ...] = field(default=(), compare=False, repr=False)
    implied: tuple[str, ...] = ()

    @staticmethod
    def parse(*texts: str, assumed: bool = False) -> Facts:
        """From texts; with `assumed` they are recorded as the user's."""
        return Facts().with_text(*texts, assumed=assumed)

    def symbol(self, name: str) -> SymbolFacts:
        """What is known about this symbol (of an unknown one: that it is a size)."""
        return self._by_name.get(name) or SymbolFacts(name)

    @cached_property
    def _by_name(self) -> dict[str, SymbolFacts]:
        return {each.name: each for each in self.symbols}

    def with_text(self, *texts: str, assumed: bool = False) -> Facts:
        """Also these statements.  Raises ParseError, Contradiction."""
        statements = [s for text in texts for s in parse_facts(text)]
        result = self
        for statement in statements:
            if isinstance(statement, Likely):
                result = result.with_symbol(statement.name, likely=statement.values)
        result = result.with_relations(s for s in statements if isinstance(s, Relation))
        if assumed:
            given = (s.text if isinstance(s, Relation) else str(s) for s in statements)
            result = replace(result, assumed=tuple(dict.fromkeys((*self.assumed, *given))))
        return result

    def with_symbol(
        self, name: str, sources: Sequence[str] = (), likely: Sequence[int] = (), ranges: Ranges | None = None
    ) -> Facts:
        """Also these sources, likely sizes and ranges of a symbol."""
        result = self.with_symbols([SymbolFacts(name, tuple(sources), likely=tuple(likely))])
        if ranges is None:
            return result
        dim = symbol(name)
        return result.with_relation(Relation("in", dim, dim - dim, "", normalized(ranges)))

    def with_symbols(self, symbols: Iterable[SymbolFacts]) -> Facts:
        """Also the sources and likely sizes of these symbols; what they say else is left out."""
        table = {s.name: s for s in self.symbols}
        for new in symbols:
            old = table.get(new.name, SymbolFacts(new.name))
            table[new.name] = replace(
                old,
                sources=tuple(dict.fromkeys((*old.sources, *new.sources))),
                likely=tuple(dict.fromkeys((*old.likely, *new.likely))),
            )
        return replace(self, symbols=_sorted_symbols(table.values()))

    def with_relation(self, relation: Relation) -> Facts:
        """Also this statement.  Raises Contradiction where ranges or divisors leave no size."""
        return self.with_relations((relation,))

    def with_relations(self, relations: Iterable[Relation]) -> Facts:
        """Also these statements, whose order does not matter."""
        table = {s.name: s for s in self.symbols}
        between = dict.fromkeys(self.relations)
        stated = dict.fromkeys(self.stated)
        for relation in relations:
            found = about_symbol(relation)
            if found is None:
                if relation.kind != "in" and (relation.lhs - relation.rhs).is_const and not relation.needs:
                    _check_constant(relation)
                    continue
                between.setdefault(relation)
                continue
            name, ranges, residue = found
            stated.setdefault(relation)
            old = table.get(name, SymbolFacts(name))
            new = _narrowed(old, ranges, residue)
            if new is None:
                raise _clash(name, tuple(stated))
            table[name] = new
        ordered = tuple(sorted(between, key=lambda r: (r.lhs.key, r.kind, r.rhs.key, r.ranges != ())))
        return Facts(_sorted_symbols(table.values()), ordered, self.assumed, tuple(stated), self.implied)

    def merge(self, other: Facts) -> Facts:
        """The facts of both.  Raises Contradiction."""
        result = self.with_symbols(other.symbols)
        stated = other.stated or tuple(r for s in other.symbols for r in s.relations())
        result = result.with_relations((*stated, *other.relations))
        return replace(
            result,
            assumed=tuple(dict.fromkeys((*self.assumed, *other.assumed))),
            implied=tuple(dict.fromkeys((*self.implied, *other.implied))),
        )

    def apart(self) -> tuple[Facts, tuple[Relation, ...]]:
        """The facts that need no program to hold, and the statements that a program implied."""
        if not self.implied:
            return self, ()
        texts = frozenset(self.implied)
        implied = tuple(each for each in self.statements() if each.text in texts)
        own = Facts().with_symbols(self.symbols).with_relations(r for r in self.statements() if r.text not in texts)
        return replace(own, assumed=self.assumed), implied

    def statements(self) -> tuple[Relation, ...]:
        """All of it as relations: those about one symbol as they were stated, then the others."""
        return (*(self.stated or (r for s in self.symbols for r in s.relations())), *self.relations)

    def __str__(self) -> str:
        likely = (Likely(each.name, each.likely) for each in self.symbols if each.likely)
        return "; ".join(map(str, (*self.statements(), *likely)))

    def to_model(self) -> FactsModel:
        """As the pydantic model of the JSON."""
        from egshape.facts.model import FactsModel, SymbolFactsModel  # slow to load, and only JSON needs it

        return FactsModel(
            symbols=[
                SymbolFactsModel(
                    name=s.name,
                    sources=list(s.sources),
                    ranges=list(s.ranges),
                    divisor=s.divisor,
                    likely=list(s.likely),
                )
                for s in self.symbols
            ],
            relations=[str(r) if not r.needs else r.text for r in self.relations],
            assumed=list(self.assumed),
            implied=list(self.implied),
        )

    def to_json(self) -> str:
        """The JSON of version 1."""
        return self.to_model().model_dump_json(exclude=None if self.implied else {"implied"})

    @staticmethod
    def from_model(model: FactsModel) -> Facts:
        """From the pydantic model.  Raises InvalidInput, ParseError, Contradiction."""
        if model.version != 1:
            raise InvalidInput(f"facts of version {model.version}", hint="this egshape reads version 1")
        symbols = [SymbolFacts(each.name, tuple(each.sources), likely=tuple(each.likely)) for each in model.symbols]
        facts = Facts().with_symbols(symbols).with_text(*model.assumed).with_text(*model.implied)
        relations: list[Relation] = []
        for entry in model.symbols:
            divisor, remainder = entry.divisor
            if divisor < 1 or not 0 <= remainder < divisor or min(entry.likely, default=0) < 0:
                raise InvalidInput(
                    f"divisor {[divisor, remainder]}, likely {entry.likely}",
                    where=f"symbol {entry.name}",
                    hint="a divisor is at least 1, its remainder smaller, a size at least 0",
                )
            plain = SymbolFacts(entry.name, (), normalized(entry.ranges), (divisor, remainder))
            known = facts.symbol(entry.name)
            if (known.ranges, known.divisor) != (plain.ranges, plain.divisor):
                relations.extend(plain.relations())
        relations.extend(r for text in model.relations for r in parse_facts(text) if isinstance(r, Relation))
        facts = facts.with_relations(relations)
        return replace(facts, assumed=tuple(dict.fromkeys(model.assumed)), implied=tuple(model.implied))

    @staticmethod
    def from_json(text: str | bytes) -> Facts:
        """From JSON.  Raises InvalidInput with the field that is wrong."""
        from egshape.facts.model import read

        return Facts.from_model(read(text))


def _sorted_symbols(symbols: Iterable[SymbolFacts]) -> tuple[SymbolFacts, ...]:
    return tuple(sorted(symbols, key=lambda s: natural_key(s.name)))


def _narrowed(old: SymbolFacts, ranges: Ranges, residue: ResidueClass) -> SymbolFacts | None:
    divisor = combine_classes(old.divisor, residue)
    if divisor is None:
        return None
    left = clip_to_class(intersect(old.ranges, ranges), *divisor)
    return replace(old, ranges=left, divisor=divisor) if left else None


def _is_clash(name: str, relations: Sequence[Relation]) -> bool:
    facts: SymbolFacts | None = SymbolFacts(name)
    for relation in relations:
        found = about_symbol(relation)
        if found is None or found[0] != name or facts is None:
            continue
        facts = _narrowed(facts, found[1], found[2])
    return facts is None


def _clash(name: str, stated: tuple[Relation, ...]) -> Contradiction:
    """Names a smallest set of statements about the symbol that leave it no size."""
    needed = list(stated)
    for relation in stated:
        without = [r for r in needed if r is not relation]
        if _is_clash(name, without):
            needed = without
    return contradiction(needed)


def contradiction(relations: Iterable[Relation]) -> Contradiction:
    """The error that names facts that cannot hold together."""
    stated = tuple(relations)
    facts = tuple(dict.fromkeys(each.text for each in stated))
    error = Contradiction(
        f"no sizes satisfy {' and '.join(repr(f) for f in facts)}", hint="take one of these facts away"
    )
    error.facts, error.relations = facts, stated
    return error


def _check_constant(relation: Relation) -> None:
    """Raise Contradiction for a relation whose sides differ by a number, and that is false."""
    difference = relation.lhs - relation.rhs
    if not Relation(relation.kind, difference, difference - difference).holds({}):
        raise contradiction((relation,))
