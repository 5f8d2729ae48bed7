"""Sizes at which the assumptions of a world hold: its free symbols are chosen, the solved ones follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from egshape.decide.known import Known
from egshape.dims import Dim
from egshape.dims.core import monomial_weight, natural_key, of_atom
from egshape.errors import UndefinedSize
from egshape.facts.intervals import Ranges, contains

_SMALL = (0, 1, 2, 3, 4, 5, 7, 8)
_LARGE = (6, 9, 12, 16, 24, 31, 64, 97, 128, 1000)
_SPREAD = (*_SMALL, *_LARGE)
_FEW = 10
_MAX_EXHAUSTIVE = 400
_MAX_NEAR = 8
_MAX_COEFFICIENTS = 8
_MAX_TERMS = 40_000  # evaluated in one search
_MIN_TRIES = 4


class Sampler:
    """Admitted points of one world.  The world must not change while it is in use."""

    def __init__(self, world: Known) -> None:
        self.world = world
        self._few: list[dict[str, int]] | None = None

    def few(self, names: Iterable[str]) -> Iterator[dict[str, int]]:
        """Some admitted points, found once; symbols of which nothing is known get any sizes."""
        if self._few is None:
            self._few = list(self.points((), _FEW))
        for k, point in enumerate(self._few):
            others = sorted(n for n in names if n not in point)
            yield {**point, **{n: _SPREAD[(5 * k + 3 * i + k * i) % len(_SPREAD)] for i, n in enumerate(others)}}

    def points(
        self, names: Iterable[str], limit: int, tries: int | None = None, near: Iterable[int] = ()
    ) -> Iterator[dict[str, int]]:
        """Up to `limit` admitted points that give a value to these names and to all that is assumed.

        `near` are numbers around which something may change.
        """
        tries = 6 * limit if tries is None else tries
        tries = min(tries, max(_MIN_TRIES, _MAX_TERMS // self._terms()))
        choices = islice(self._choices(names, near), tries)
        return islice((p for c in choices if (p := self._complete(c)) is not None), limit)

    def _terms(self) -> int:
        """How many terms one point evaluates."""
        values = (entry.value for entry in self.world.solved.values())
        return 1 + sum(1 + monomial_weight(m) for dims in (values, self._assumed()) for d in dims for m, _ in d.terms)

    def _choices(self, names: Iterable[str], near: Iterable[int]) -> Iterator[dict[str, int]]:
        free = self._free(names)
        ranges = [self.world.ranges.get(n) for n in free]
        patterns = _patterns(ranges, sorted(self._turning_points() | set(near)))
        yield from (dict(zip(free, values, strict=True)) for values in patterns)

    def _turning_points(self) -> set[int]:
        """Where a known inequality in one symbol would turn."""
        found: set[int] = set()
        for part, (constant, _) in self.world.bounds.items():
            found |= {abs(constant) // abs(c) for _, c in part.terms[:_MAX_COEFFICIENTS]}
        return found

    def _free(self, names: Iterable[str]) -> list[str]:
        world = self.world
        found: set[str] = {*names, *world.ranges}
        for dim in self._assumed():
            found |= dim.symbols()
        for entry in world.solved.values():
            found |= entry.value.symbols()
        return sorted((n for n in found if n not in world.solved), key=natural_key)

    def _assumed(self) -> Iterator[Dim]:
        world = self.world
        yield from world.bounds
        for rule in world.rules:
            yield rule.equation()
        for item in (*world.members, *world.distinct, *world.stuck):
            yield item.dim
        for choice in world.choices:
            for item in choice.choices:
                yield item.dim
        for atom in world.exact:
            yield of_atom(atom)

    def _complete(self, env: dict[str, int]) -> dict[str, int] | None:
        """The point with its solved symbols, or None where something assumed is false."""
        world = self.world
        try:
            for name, entry in reversed(world.solved.items()):
                env[name] = entry.value.evaluate(env)
                if env[name] < 0:
                    return None
            return env if self._admits(env) else None
        except UndefinedSize:
            return None

    def _admits(self, env: dict[str, int]) -> bool:
        world = self.world
        for name, ranges in world.ranges.items():
            if name in env and not contains(ranges, env[name]):
                return False
        if any(part.evaluate(env) + constant < 0 for part, (constant, _) in world.bounds.items()):
            return False
        if any(rule.equation().evaluate(env) != 0 for rule in world.rules):
            return False
        if any(not contains(i.ranges, i.dim.evaluate(env)) for i in world.members):
            return False
        if any(i.dim.evaluate(env) == 0 for i in world.distinct):
            return False
        if any(i.dim.evaluate(env) != 0 for i in world.stuck):
            return False
        for choice in world.choices:
            if all(i.dim.evaluate(env) != 0 for i in choice.choices):
                return False
        for atom, (remainder, _) in world.exact.items():
            if atom.num.evaluate(env) % atom.den.evaluate(env) != remainder:
                return False
        return True


def _patterns(ranges: list[Ranges | None], near: list[int]) -> Iterator[list[int]]:
    """Values for each symbol: a spread, then corners, then all small ones by growing sum, then a sequence."""
    count = len(ranges)
    if count == 0:
        yield []
        return
    allowed = [_candidates(r) for r in ranges]
    for seed in range(10):
        yield [column[(seed * 5 + 3 * i + seed * i) % len(column)] for i, column in enumerate(allowed)]
    numbers = [n + step for n in near[:_MAX_NEAR] for step in (0, 1, -1) if n + step > _SMALL[-1]]
    for number in numbers:
        for others in (0, 1):
            for i, own in enumerate(ranges[:_MAX_NEAR]):
                if own is None or contains(own, number):
                    yield (
                        [column[min(others, len(column) - 1)] for column in allowed[:i]]
                        + [number]
                        + [column[min(others, len(column) - 1)] for column in allowed[i + 1 :]]
                    )
    for column, own in zip(allowed, ranges, strict=True):
        column.extend(n for n in numbers if n not in column and (own is None or contains(own, n)))
    for total in range(9):
        for indices in islice(_compositions(count, total), _MAX_EXHAUSTIVE):
            if all(i < len(column) for i, column in zip(indices, allowed, strict=True)):
                yield [column[i] for i, column in zip(indices, allowed, strict=True)]
    state = 12345
    while True:
        values = []
        for column in allowed:
            state = (state * 1103515245 + 12345) % 2**31
            values.append(column[(state >> 16) % len(column)])
        yield values


def _candidates(ranges: Ranges | None) -> list[int]:
    if ranges is None:
        return list(_SPREAD)
    found = [v for v in _SPREAD if contains(ranges, v)]
    for lo, hi in ranges:
        for end in (lo, hi):
            if end is not None:
                found.extend(v for v in (end, end - 1, end + 1) if contains(ranges, v))
    return list(dict.fromkeys(found)) or [0]


def _compositions(count: int, total: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(count - 1, total - first):
            yield (first, *rest)
