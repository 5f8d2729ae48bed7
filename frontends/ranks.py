"""Ranks by equations: what ops say of the ranks of values, solved one unknown at a time, along the program and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

Ranks = MutableMapping[Any, int]
"""The ranks that are known, by what stands for a value."""


@dataclass(frozen=True)
class Sum:
    """The sum of ``factor * rank`` over values is a number."""

    terms: tuple[tuple[int, Hashable], ...]
    total: int

    def solve(self, ranks: Ranks) -> bool:
        """Find the one rank that is not known; whether there is one."""
        unknown = [term for term in self.terms if term[1] not in ranks]
        if len(unknown) != 1:
            return False
        ((factor, value),) = unknown
        rest = self.total - sum(each * ranks[known] for each, known in self.terms if known in ranks)
        if rest % factor or rest // factor < 0:
            return False
        ranks[value] = rest // factor
        return True

    def holds(self, ranks: Ranks) -> bool:
        """Whether ranks may be so."""
        known = all(value in ranks for _, value in self.terms)
        return not known or sum(factor * ranks[value] for factor, value in self.terms) == self.total


@dataclass(frozen=True)
class Widest:
    """The rank of a value is the largest of others."""

    value: Hashable
    among: tuple[Hashable, ...]

    def solve(self, ranks: Ranks) -> bool:
        """Find it, or the one of the others that must have it; whether there is one."""
        unknown = [each for each in dict.fromkeys(self.among) if each not in ranks]
        most = max((ranks[each] for each in self.among if each in ranks), default=0)
        wanted = ranks.get(self.value)
        if wanted is None and not unknown:
            ranks[self.value] = most
            return True
        if wanted is not None and len(unknown) == 1 and most < wanted:
            ranks[unknown[0]] = wanted
            return True
        return False

    def holds(self, ranks: Ranks) -> bool:
        """Whether ranks may be so."""
        known = all(value in ranks for value in (self.value, *self.among))
        return not known or ranks[self.value] == max(ranks[each] for each in self.among)


Equation = Sum | Widest


def solve(equations: Sequence[Equation], ranks: Ranks) -> None:
    """Ranks flow along the program and back, until nothing is new."""
    left, before = list(equations), -1
    while len(left) != before:
        before = len(left)
        left = [each for each in left if not each.solve(ranks)][::-1]


def same(*values: Hashable | None) -> Iterator[Equation]:
    """Values have one rank; None stands for one that is not there."""
    known = [value for value in values if value is not None]
    return (Sum(((1, known[0]), (-1, other)), 0) for other in known[1:])


def pairs(one: Sequence[Hashable | None], two: Sequence[Hashable | None]) -> Iterator[Equation]:
    """Values have the ranks of others, one by one."""
    for pair in zip(one, two, strict=False):
        yield from same(*pair)


def is_of(value: Hashable | None, rank: int | None) -> Iterator[Equation]:
    """A value has a rank, if that is known."""
    if value is not None and rank is not None:
        yield Sum(((1, value),), rank)


def sums(total: int, *terms: tuple[int, Hashable | None]) -> Iterator[Equation]:
    """A sum, if all its values are there."""
    known = tuple((factor, value) for factor, value in terms if value is not None)
    if len(known) == len(terms):
        yield Sum(known, total)
