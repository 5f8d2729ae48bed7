"""Stretches of a row of numbers in which a part follows itself, and other places where such a part stands.

A part is known by its numbers alone; a negative number is like no other. A row is looked at in rounds, each of a few
comparisons of the row with itself: what one round found is left out of the next, so that there may be several parts of
several lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ROUNDS = 16
_PERIODS = 24
"""Distances between equal numbers that are tried in a round, those that are seen most often."""
_NEAR = 4
"""Distances to so many equal numbers are counted: a number may stand several times in a part."""


class Stretch(NamedTuple):
    """From ``start`` on each number is the one ``period`` before it, for ``length`` numbers with the first part."""

    start: int
    length: int
    period: int

    @property
    def stop(self) -> int:
        return self.start + self.length

    @property
    def copies(self) -> int:
        """Whole parts in it."""
        return self.length // self.period

    @property
    def core(self) -> slice:
        """What is in so many whole parts wherever they are cut; what is around it may belong to something else."""
        return slice(self.start + self.length % self.period, self.start + self.copies * self.period)


class Part(NamedTuple):
    """So many numbers, and where they start: the same in each place."""

    length: int
    starts: tuple[int, ...]


def stretches(row: Ints, least: int, copies: int) -> list[list[Stretch]]:
    """Stretches, those of one part (wherever it is cut) together; their ends may overlap. A part has ``least`` numbers
    or more, and stands ``copies`` times or more, in each stretch at least twice. First what spares most: numbers in
    copies of a part behind the first; a part that is made of equal ones is these."""
    rest = row.copy()
    found: list[list[Stretch]] = []
    for _ in range(_ROUNDS):
        before = len(found)
        for group in sorted(_groups(rest, least), key=_spared, reverse=True):
            free: list[Stretch] = []
            for each in group:
                if rest[each.start : each.stop].min() >= 0 and (not free or each.start >= free[-1].core.stop):
                    free.append(each)
            if sum(each.copies for each in free) < copies:
                continue
            for each in free:
                rest[each.core] = -1 - np.arange(each.core.start, each.core.stop)
            found.append([_whole(row, each) for each in free])
        if len(found) == before:
            break
    return found


def copies_of(row: Ints, repeated: Sequence[Stretch], first: int, free: Bools) -> Part:
    """The copies in stretches of one part, which starts at ``first`` in one of them, of numbers that are free."""
    period = repeated[0].period
    part = row[first : first + period]
    starts: list[int] = []
    for each in repeated:
        places = range(each.start, min(each.start + period, each.stop - period + 1))
        start = next((at for at in places if np.array_equal(row[at : at + period], part)), each.stop)
        starts += [at for at in range(start, each.stop - period + 1, period) if free[at : at + period].all()]
    return Part(period, tuple(starts))


def completed(row: Ints, parts: Sequence[Part], free: Bools, least: int, copies: int) -> list[Part]:
    """The parts with their copies elsewhere, and what stands ``copies`` times or more between copies, of ``least``
    numbers or more. ``free``: the numbers in no copy."""
    free = free & (row >= 0)
    found: list[Part] = []
    for part in parts:
        first = row[part.starts[0] : part.starts[0] + part.length]
        other = Part(part.length, tuple(_places(row, first, free)))
        taken(free, other)
        found.append(Part(part.length, tuple(sorted((*part.starts, *other.starts)))))
    return found + [each for each in _between(row, free, least) if len(each.starts) >= copies]


def taken(free: Bools, part: Part) -> None:
    """Note that what is in copies of the part is free no more."""
    for start in part.starts:
        free[start : start + part.length] = False


def _places(row: Ints, part: Ints, free: Bools) -> Iterator[int]:
    """Where a part stands among the numbers that are free; where places overlap, the first."""
    counts = np.bincount(row[free], minlength=part.max() + 1)
    seldom = int(np.argmin(counts[part]))
    places = np.flatnonzero((row == part[seldom]) & free) - seldom
    places = places[(places >= 0) & (places <= row.size - part.size)]
    for offset, value in enumerate(part):
        if places.size:
            places = places[(row[places + offset] == value) & free[places + offset]]
    stop = 0
    for place in map(int, places):
        if place >= stop:
            yield place
            stop = place + part.size


def _between(row: Ints, free: Bools, least: int) -> list[Part]:
    """The stretches of free numbers, those that are equal together."""
    parts: dict[bytes, list[int]] = {}
    for start, stop in _spans(free, least):
        parts.setdefault(row[start:stop].tobytes(), []).append(start)
    return [Part(len(part) // row.itemsize, tuple(starts)) for part, starts in parts.items()]


def _spared(group: Sequence[Stretch]) -> int:
    return sum(each.copies * each.period for each in group) - group[0].period


def _groups(row: Ints, least: int) -> list[list[Stretch]]:
    """Stretches, which may overlap, by what follows itself in them."""
    found = {each for period in _periods(row, least) for each in _runs(row, period, least)}
    groups: dict[tuple[int, bytes], list[Stretch]] = {}
    for each in sorted(found):
        part = np.sort(row[each.start : each.start + each.period])
        groups.setdefault((each.period, part.tobytes()), []).append(each)
    return list(groups.values())


def _periods(row: Ints, least: int) -> list[int]:
    """The distances between equal numbers that are seen most often."""
    places = np.flatnonzero(row >= 0)
    order = places[np.argsort(row[places], kind="stable")]
    kinds = row[order]
    near = range(1, min(_NEAR, order.size - 1) + 1)
    gaps = [(order[k:] - order[:-k])[kinds[k:] == kinds[:-k]] for k in near]
    counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *gaps]))
    counts[:least] = 0
    return [int(period) for period in np.argsort(-counts, kind="stable")[:_PERIODS] if counts[period]]


def _runs(row: Ints, period: int, least: int) -> Iterator[Stretch]:
    """Stretches of two copies or more in which each number is the one a period before it."""
    for start, stop in _spans((row[period:] == row[:-period]) & (row[period:] >= 0), period):
        part = row[start : stop + period]
        yield Stretch(start, part.size, _shortest(part, period, least))


def _whole(row: Ints, stretch: Stretch) -> Stretch:
    """A stretch with what others were given of it at its ends."""
    start, stop, period = stretch.start, stretch.stop, stretch.period
    while start > 0 and row[start - 1] == row[start - 1 + period]:
        start -= 1
    while stop < row.size and row[stop] == row[stop - period]:
        stop += 1
    return Stretch(start, stop - start, period)


def _shortest(part: Ints, period: int, least: int) -> int:
    """The shortest period of what has this one, among those that divide it."""
    for divisor in range(least, period // 2 + 1):
        if period % divisor == 0 and np.array_equal(part[divisor:], part[:-divisor]):
            return divisor
    return period


def _spans(chosen: Bools, least: int) -> Iterator[tuple[int, int]]:
    """The maximal stretches of True, of that many or more, as starts and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8))).reshape(-1, 2)
    for start, stop in edges[edges[:, 1] - edges[:, 0] >= least]:
        yield int(start), int(stop)
