"""The order of the nodes of each row: by the middle of what they are joined with, swept down and up, the sweep with the
fewest crossings is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SWEEPS = 8


class Joined(Protocol):
    """What stands in the row above each node, and in the row below it."""

    above: list[list[int]]
    below: list[list[int]]


def ordered(grid: Sequence[Sequence[int]], joined: Joined) -> list[list[int]]:
    """The rows in an order with few crossings."""
    best = [list(row) for row in grid]
    place = [0] * len(joined.above)
    for row in best:
        _number(row, place)
    fewest = crossings(best, joined, place)
    rows = [list(row) for row in best]
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = joined.above if down else joined.below
        for row in rows if down else reversed(rows):
            _sort(row, near, place)
        found = crossings(rows, joined, place)
        if found < fewest:
            best, fewest = [list(row) for row in rows], found
    return best


def _number(row: Sequence[int], place: list[int]) -> None:
    for k, node in enumerate(row):
        place[node] = k


def _sort(row: list[int], near: Sequence[Sequence[int]], place: list[int]) -> None:
    """By the mean place of the neighbours; what has none keeps its place among those that have."""
    keys = {
        node: (sum(place[each] for each in near[node]) / len(near[node]) if near[node] else float(place[node]))
        for node in row
    }
    row.sort(key=lambda node: (keys[node], place[node]))
    _number(row, place)


def crossings(rows: Sequence[Sequence[int]], joined: Joined, place: Sequence[int]) -> int:
    """How many pairs of arrows between neighbouring rows cross."""
    total = 0
    for row in rows:
        ends = [each for node in row for each in sorted(place[other] for other in joined.above[node])]
        total += _inversions(ends)
    return total


def _inversions(ends: Sequence[int]) -> int:
    """How many pairs stand in the wrong order, by a Fenwick tree."""
    if len(ends) < 2:
        return 0
    size = max(ends) + 1
    tree = [0] * (size + 1)
    total = 0
    for seen, end in enumerate(ends):
        k, before = end + 1, 0
        while k:
            before += tree[k]
            k &= k - 1
        total += seen - before
        k = end + 1
        while k <= size:
            tree[k] += 1
            k += k & -k
    return total
