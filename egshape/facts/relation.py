"""One statement about sizes, and its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from egshape.dims import (
    Definedness,
    Dim,
    Relu,
    const,
    is_nonnegative,
    is_positive,
    maximum,
    minimum,
    product,
    quote_name,
    relu,
)
from egshape.dims.core import from_terms
from egshape.dims.factors import factors
from egshape.dims.text import Scanner
from egshape.errors import InvalidInput, UndefinedSize
from egshape.facts.intervals import Interval, Ranges, complement, contains, normalized, to_text

_SWAPPED = {">=": "<=", ">": "<"}
_NEGATED = {"==": "!=", "!=": "=="}
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


@dataclass(frozen=True)
class Relation:
    """`lhs kind rhs`; kind "in" holds where lhs lies in `ranges` (rhs is then 0).

    `source` says where it comes from (a text, an op's location) and is no part of its identity.
    `needs` is what the text needed in order to have a value, beyond the divisions still in the sizes.
    `certain`: an op makes sure of it, whatever its operands, so that it needs no check.
    `message`: what its check says, where nobody assumed it.
    """

    kind: str
    lhs: Dim
    rhs: Dim
    source: str = field(default="", compare=False)
    ranges: Ranges = ()
    needs: tuple[Definedness, ...] = ()
    certain: bool = field(default=False, compare=False)
    message: str = field(default="", compare=False)

    @staticmethod
    def of(lhs: Dim | int, kind: str, rhs: Dim | int, source: str = "") -> Relation:
        """From any of the comparisons; >= and > are turned around."""
        left = lhs if isinstance(lhs, Dim) else const(lhs)
        right = rhs if isinstance(rhs, Dim) else const(rhs)
        if kind in _SWAPPED:
            return Relation(_SWAPPED[kind], right, left, source)
        return Relation(kind, left, right, source)

    def __str__(self) -> str:
        if self.kind == "in":
            return f"{self.lhs} in {to_text(self.ranges)}"
        several = self.alternatives()
        if len(several) == 1 and self.rhs.const != 0:  # a proof tells n*n == 9 from the n == 3 that it follows from
            several = (self,)
        return " or ".join(f"{each.lhs} {each.kind} {each.rhs}" for each in several)

    @property
    def text(self) -> str:
        """The source if it has one, else its canonical text."""
        return self.source or str(self)

    def symbols(self) -> frozenset[str]:
        """Names of all symbols in it."""
        names = self.lhs.symbols() | self.rhs.symbols()
        for need in self.needs:
            names |= need.one.symbols() | need.two.symbols()
        return names

    def conditions(self) -> tuple[Definedness, ...]:
        """All that must hold for it to have a truth value."""
        found = dict.fromkeys(self.needs)
        for dim in (self.lhs, self.rhs):
            found.update((Definedness("nonzero", d), None) for d in dim.divisors_maybe_zero())
        return tuple(found)

    def negated(self) -> Relation:
        """True exactly where this is false and has a value."""
        if self.kind == "in":
            return Relation("in", self.lhs, self.rhs, "", complement(self.ranges), self.needs)
        if self.kind in _NEGATED:
            return Relation(_NEGATED[self.kind], self.lhs, self.rhs, "", (), self.needs)
        return Relation("<" if self.kind == "<=" else "<=", self.rhs, self.lhs, "", (), self.needs)

    def substitute(self, env: Mapping[str, Dim | int]) -> Relation:
        """With sizes in the place of symbols."""
        needs = tuple(Definedness(n.kind, n.one.substitute(env), n.two.substitute(env)) for n in self.needs)
        sides = self.lhs.substitute(env), self.rhs.substitute(env)
        return Relation(self.kind, *sides, self.source, self.ranges, needs, self.certain, self.message)

    def parts(self) -> tuple[Relation, ...]:
        """Comparisons that say the same together, what it needs to have a value first. A gap [a, b] in a list of
        intervals becomes min(max(n - (a-1), 0), max(b+1 - n, 0)) == 0."""
        out = list[Relation]()
        for need in self.needs:
            if need.kind == "nonzero":
                out.append(Relation("!=", need.one, const(0)))
            else:
                out.append(Relation("==", (need.one - 1) * (need.two - 1) * (need.one - need.two), const(0)))
        if self.kind != "in":
            return (*out, self)
        size = self.lhs
        if not self.ranges:
            return (Relation("<", size, size),)
        low, high = self.ranges[0][0], self.ranges[-1][1]
        if low is not None and (low > 0 or not is_nonnegative(size)):
            out.append(Relation("<=", const(low), size))
        if high is not None:
            out.append(Relation("<=", size, const(high)))
        for (_, end), (start, _) in pairwise(self.ranges):
            assert end is not None and start is not None
            out.append(Relation("==", minimum(maximum(size - end, 0), maximum(start - size, 0)), const(0)))
        return tuple(out)

    def alternatives(self) -> tuple[Relation, ...]:
        """Comparisons of which one holds exactly where this does: those of the factors of a product that is 0, itself
        for anything else. None of them needs a product, which may leave 64 bits."""
        difference = self.lhs - self.rhs
        if self.kind != "==" or all(sum(power for _, power in mono) < 2 for mono, _ in difference.terms):
            return (self,)
        found = [each for each in factors(difference) if not is_positive(each) and not is_positive(-each)]
        divisors = {*self.lhs.divisors_maybe_zero(), *self.rhs.divisors_maybe_zero()}
        left = {divisor for each in found for divisor in each.divisors_maybe_zero()}
        if not found or found == [difference] or left != divisors:  # it has no value where a divisor is 0
            return (self,)
        plain = dict.fromkeys(_equal_to_zero(each) for each in found)
        return tuple(sorted(plain, key=_of_two_first))

    def holds(self, env: Mapping[str, int]) -> bool:
        """Its truth at the given sizes.  Raises UndefinedSize where it has no value."""
        for need in self.needs:
            one = need.one.evaluate(env)
            if need.kind == "nonzero":
                if one == 0:
                    raise UndefinedSize(f"{self} divides by 0", hint=f"{need.one} is 0 at these sizes")
            elif one != 1 and (two := need.two.evaluate(env)) not in (1, one):
                raise UndefinedSize(f"{one} and {two} do not broadcast", hint="equal, or one of them 1")
        left = self.lhs.evaluate(env)
        if self.kind == "in":
            return contains(self.ranges, left)
        right = self.rhs.evaluate(env)
        if self.kind == "==":
            return left == right
        if self.kind == "!=":
            return left != right
        return left <= right if self.kind == "<=" else left < right


def _equal_to_zero(dim: Dim) -> Relation:
    """That a size is 0, as it is read best: ``a == b`` for a - b, ``a <= b`` for max(a - b, 0)."""
    for arg in (side for atom in dim.atoms() if isinstance(atom, Relu) for side in (atom.arg, -atom.arg)):
        if dim in (relu(arg), -relu(arg)):
            return Relation("<=", *_sides(arg))
    one, two = _sides(dim)
    if one.const is not None or (two.const is None and two.key < one.key):
        one, two = two, one
    alone = dim if one.terms and one.terms[0] in dim.terms else -dim
    return min(Relation("==", one, two), Relation("==", alone, const(0)), key=lambda each: len(f"{each.lhs}{each.rhs}"))


def _of_two_first(relation: Relation) -> tuple[object, ...]:
    return relation.rhs.const is not None, len(relation.lhs.terms), relation.lhs.key, relation.rhs.key


def _sides(dim: Dim) -> tuple[Dim, Dim]:
    """The terms with a plus, and those with a minus, without it."""
    return from_terms(t for t in dim.terms if t[1] > 0), from_terms((m, -c) for m, c in dim.terms if c < 0)


def any_of(relations: Iterable[Relation], source: str = "") -> Relation:
    """That one of several comparisons holds: that the product of what is 0 where each of them does is 0."""
    found = tuple(relations)
    needs = tuple(dict.fromkeys(need for each in found for need in each.needs))
    return Relation("==", product(map(_distance, found)), const(0), source, (), needs)


def _distance(relation: Relation) -> Dim:
    """What is 0 where a comparison holds."""
    above = relation.lhs - relation.rhs
    if relation.kind == "!=":
        return relu(1 - above * above)
    return above if relation.kind == "==" else relu(above + (relation.kind == "<"))


@dataclass(frozen=True)
class Likely:
    """`likely s = 128, 512`: sizes to expect, which prove nothing."""

    name: str
    values: tuple[int, ...]

    def __str__(self) -> str:
        return f"likely {quote_name(self.name)} = {', '.join(map(str, self.values))}"


def parse_facts(text: str) -> tuple[Relation | Likely, ...]:
    """The statements of a text, separated by `;`.  Raises ParseError with column and cause."""
    scanner = Scanner(text)
    found: list[Relation | Likely] = []
    while not scanner.at_end:
        if scanner.accept(";"):
            continue
        found.extend(_statement(scanner))
        if not scanner.at_end and scanner.peek() != ";":
            scanner.fail(f"expected ';' or the end, found {scanner.rest()}")
    return tuple(found)


def several(texts: str | Iterable[str]) -> tuple[str, ...]:
    """The texts given; a text alone is one, not its letters."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def facts_given(texts: str | Iterable[str]) -> tuple[str, ...]:
    """The same of facts. Raises InvalidInput for what is no text of one."""
    listed = isinstance(texts, Iterable) and not isinstance(texts, bytes | Mapping)
    found = several(texts) if listed else (texts,)
    for each in found:
        if not isinstance(each, str):
            raise InvalidInput(f"{each!r} is no text of a fact", where="facts", hint="give texts, as 'n % 8 == 0'")
    return tuple(map(str, found))


def parse_relation(text: str) -> Relation:
    """The one relation of a text (a goal).  Raises ParseError if it is none or several."""
    found = parse_facts(text)
    if len(found) != 1 or not isinstance(found[0], Relation):
        Scanner(text).fail("expected one relation such as 'a + b == c'")
    return found[0]


def _statement(scanner: Scanner) -> list[Relation | Likely]:
    start = scanner.pos
    if scanner.word("likely"):
        return [_likely(scanner)]
    scanner.conditions = {}
    first = scanner.expression()
    if scanner.word("in"):
        ranges = read_ranges(scanner)
        source = scanner.text[start : scanner.pos].strip()
        return [Relation("in", first, const(0), source, ranges, tuple(scanner.conditions))]
    found = _chain(scanner, first)
    if scanner.word("or"):
        found = [any_of([*_alone(scanner, found), *_others(scanner)])]
    source, needs = scanner.text[start : scanner.pos].strip(), tuple(scanner.conditions)
    return [replace(each, source=source, needs=needs) for each in found]


def _others(scanner: Scanner) -> Iterator[Relation]:
    """The comparisons behind the first ``or``."""
    while True:
        yield from _alone(scanner, _chain(scanner, scanner.expression()))
        if not scanner.word("or"):
            return


def _alone(scanner: Scanner, chain: list[Relation]) -> list[Relation]:
    if len(chain) > 1:
        scanner.fail("a chain of comparisons cannot stand beside 'or'", "state each comparison on its own")
    return chain


def _chain(scanner: Scanner, first: Dim) -> list[Relation]:
    """The comparisons of each two that stand side by side."""
    sides, found = [first], list[Relation]()
    while kind := scanner.accept(*_COMPARISONS):
        sides.append(scanner.expression())
        found.append(Relation.of(sides[-2], kind, sides[-1]))
    if not found:
        scanner.fail(f"expected one of {' '.join(_COMPARISONS)} or 'in', found {scanner.rest()}")
    return found


def _likely(scanner: Scanner) -> Likely:
    name = scanner.name()
    scanner.expect("=")
    values = [scanner.integer()]
    while scanner.accept(","):
        values.append(scanner.integer())
    if min(values) < 0:
        scanner.fail("a size is at least 0")
    return Likely(name, tuple(dict.fromkeys(values)))


def read_ranges(scanner: Scanner) -> Ranges:
    """An interval list such as `[1,32] or {64}`."""
    intervals: list[Interval] = []
    while True:
        if scanner.accept("{"):
            while True:
                value = scanner.integer()
                intervals.append((value, value))
                if not scanner.accept(","):
                    break
            scanner.expect("}")
        else:
            scanner.expect("[")
            low = _bound(scanner)
            scanner.expect(",")
            high = _bound(scanner)
            scanner.expect("]")
            intervals.append((low, high))
        if not scanner.word("or"):
            return normalized(intervals)


def _bound(scanner: Scanner) -> int | None:
    start = scanner.pos
    scanner.accept("-")
    if scanner.word("inf"):
        return None
    scanner.pos = start
    return scanner.integer()
