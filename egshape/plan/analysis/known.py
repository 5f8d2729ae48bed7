"""What a program knows of its sizes beyond their form: what its steps have checked so far.

``level`` says how much of it the planner uses (for measurements of what facts are worth): ``none``, not even that
sizes of different ops are equal; ``shape``, sizes equal by their form; ``all``, also what was given about sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product
from typing import Literal, get_args

from egshape.decide.context import Context
from egshape.decide.reason import Check
from egshape.dims import Dim, broadcast_gap, const, symbol
from egshape.dims.joins import leaves, rejoined
from egshape.errors import Contradiction, InvalidInput
from egshape.facts import Facts, Relation, SymbolFacts
from egshape.plan.ir.loops import Bounds

Level = Literal["none", "shape", "all"]

LARGEST = 2**63 - 1
"""The largest size that native code holds."""


QUESTIONS = 64
"""Of what is checked beside conditions of a program that are asked about: each takes milliseconds."""


class Known:
    """The relations that the steps so far have checked: they hold for all later steps of the same scope."""

    def __init__(self, level: str = "all") -> None:
        if level not in get_args(Level):
            raise InvalidInput(f"facts={level!r}", hint=f"one of {', '.join(map(repr, get_args(Level)))}")
        self.level = level
        self._relations: dict[Relation, None] = {}
        self._context: Context | None = None
        self._bounds: dict[str, Bounds] | None = None
        self._same: dict[str, Dim] | None = None
        self._names = set[str]()
        self._questions = iter(range(QUESTIONS))

    def copy(self) -> Known:
        """The same for a region: what is checked there holds only there."""
        new = Known(self.level)
        new._relations = dict(self._relations)
        new._names = set(self._names)
        new._questions = self._questions  # of all regions together
        return new

    def checked(self, relation: Relation) -> None:
        """A relation that holds from here on, because a step has checked it."""
        if relation not in self._relations:
            self._relations[relation] = None
            self._names |= relation.symbols()
            self._bounds = self._same = None
            if self._context is not None:
                with suppress(Contradiction):  # then no step from here on runs
                    self._context.assume(_rejoined(relation), Check())

    @property
    def forms(self) -> bool:
        """Whether sizes of different ops may be taken as equal."""
        return self.level != "none"

    def equal(self, one: Dim, two: Dim) -> bool:
        """Whether two sizes are always equal."""
        if one is two:
            return self.forms or one.const is not None
        if self.level != "all" or not self._relations:
            return False
        return self._known().decide(Relation("==", one, two)) == "proved"

    def implies(self, relation: Relation) -> bool:
        """Whether a relation follows from those that were checked; the first ones that are no equal of these are asked
        about."""
        if self.level != "all" or not self._relations:
            return False
        asked = _rejoined(relation)
        if relation in self._relations or self._joins(asked):
            return True
        if self._names.isdisjoint(relation.symbols()) or next(self._questions, None) is None:
            return False
        return self._known().decide(asked) == "proved"

    def _joins(self, relation: Relation) -> bool:
        """Whether this says that a size is 1 or the common size of sizes, it among them, each two of which are checked
        to broadcast."""
        apart = [each.lhs - each.rhs for each in relation.alternatives()]
        for one, other in permutations(apart, 2) if len(apart) == 2 else ():
            for size, gap in product((one + 1, 1 - one), (other, -other)):
                joined, own = set(leaves(size - gap)), set(leaves(size))
                if len(joined) > 1 and own <= joined:
                    return all(self._broadcast(*pair) for pair in product(own, joined))
        return False

    def _broadcast(self, one: Dim, two: Dim) -> bool:
        gap, zero = broadcast_gap(one, two), const(0)
        return gap is zero or any(Relation("==", each, zero) in self._relations for each in (gap, -gap))

    def _known(self) -> Context:
        if self._context is None:
            self._context = Context()
            with suppress(Contradiction):
                self._context.assume_all([(_rejoined(relation), Check()) for relation in self._relations])
        return self._context

    def same(self) -> Mapping[str, Dim]:
        """Symbols that are checked to be equal to another one or to a number, and what stands for all of them: one that
        a model names, where there is one."""
        if self.level != "all":
            return {}
        if self._same is None:
            self._same = {}
            for relation in self._relations:
                one, two = (side.substitute(self._same) for side in (relation.lhs, relation.rhs))
                if relation.kind == "==" and one is not two and all(_is_plain(each) for each in (one, two)):
                    kept, left = sorted((one, two), key=_rank)
                    for name in left.symbols():
                        env = {name: kept}
                        self._same = {each: dim.substitute(env) for each, dim in self._same.items()} | env
        return self._same

    def _shared(self) -> dict[Relation, None]:
        """The relations, also of what stands for a size in its place."""
        same = self.same()
        moved = [
            replace(each, lhs=each.lhs.substitute(same), rhs=each.rhs.substitute(same))
            for each in self._relations
            if same.keys() & (each.lhs.symbols() | each.rhs.symbols())
        ]
        return self._relations | dict.fromkeys(each for each in moved if each.lhs is not each.rhs)

    def is_one(self, size: Dim) -> bool:
        """Whether a size is always 1."""
        return size.const == 1 or (size.const is None and self.equal(size, const(1)))

    def bounds(self, names: Sequence[str]) -> tuple[Bounds, ...]:
        """Divisors and ranges of symbols that have some."""
        if self.level != "all" or not self._relations:
            return ()
        if self._bounds is None:
            self._bounds = {}
            with suppress(Contradiction):
                found = map(_bounds, Facts().with_relations(self._shared()).symbols)
                self._bounds = {each.name: each for each in found if each is not None}
        return tuple(self._bounds[name] for name in names if name in self._bounds)


def _rejoined(relation: Relation) -> Relation:
    """With common sizes of broadcasts in the place of what computes them."""
    return replace(relation, lhs=rejoined(relation.lhs), rhs=rejoined(relation.rhs))


def _is_plain(dim: Dim) -> bool:
    """Whether a size is a number or one symbol."""
    return dim.const is not None or any(dim is symbol(name) for name in dim.symbols())


def _rank(dim: Dim) -> tuple[int, str]:
    """An order of sizes that stand for each other: numbers, names, axes of inputs."""
    text = str(dim)
    return 0 if dim.const is not None else 2 if "." in text else 1, text


def _bounds(facts: SymbolFacts) -> Bounds | None:
    divisor, rest = facts.divisor
    low, high = facts.ranges[0][0] or 0, facts.ranges[-1][1]
    # A fact may speak of numbers that no 64-bit size can be; native code must not be told them.
    divisor = divisor if rest == 0 and divisor <= LARGEST else 1
    low = low if low <= LARGEST else 0
    high = None if high is not None and high >= LARGEST else high
    return Bounds(facts.name, divisor, low, high) if divisor > 1 or low > 0 or high is not None else None
