"""What lookups say of sizes: a table that is read at the places ``range(p, p + s)`` has more than ``p + s - 1`` rows,
or the model itself fails, unless there are no places at all (s = 0)."""

from __future__ import annotations

from dataclasses import dataclass

from egshape.dims import Dim, const, symbol
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds


@dataclass(frozen=True)
class Span:
    """An integer tensor all of whose elements lie in ``low .. high``; it has none where a size in ``sizes`` is 0."""

    low: Dim
    high: Dim
    sizes: frozenset[Dim]

    def among(self, shape: tuple[Dim, ...]) -> Span:
        """The same elements in, or repeated to, another shape."""
        return Span(self.low, self.high, self.sizes | {size for size in shape if size.const is None})


@dataclass(frozen=True)
class Lookup:
    """``fact`` holds wherever the model does not fail, unless a size in ``sizes`` is 0."""

    fact: Relation
    sizes: frozenset[Dim]

    @staticmethod
    def of(span: Span, size: Dim) -> Lookup:
        """Elements of a span as places on an axis of this size."""
        return Lookup(Relation("<=", span.high + 1, size), span.sizes)

    def decide(self, relation: Relation, bounds: Bounds) -> bool | None:
        """Decide a relation that shares a symbol with the fact by cases: a size is 0, or the fact holds."""
        if not relation.symbols() & self.fact.symbols():
            return None
        answers = set()
        for size in self.sizes:
            names = size.symbols()
            if len(names) != 1 or size is not symbol(next(iter(names))):
                return None
            zero = {name: const(0) for name in names}
            answers.add(
                bounds.decide(Relation(relation.kind, relation.lhs.substitute(zero), relation.rhs.substitute(zero)))
            )
        if len(answers) > 1 or None in answers:
            return None
        answers.add(bounds.with_fact(self.fact).decide(relation))
        return answers.pop() if len(answers) == 1 else None
