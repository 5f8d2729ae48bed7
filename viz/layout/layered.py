"""A drawing in layers (Sugiyama, Tagawa and Toda 1981): rows, an order in each, places, in this order.

A band is a run of boxes with rows of its own, such as a layer of a model or the body of a loop. Since nothing stands
beside it, it folds into one row without anything else being laid out again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egshape.viz.layout.order import ordered
from egshape.viz.layout.place import placed
from egshape.viz.layout.rows import Band, Frame, Rows, rows_of

SPACE = 18.0
"""Between boxes of a row."""
FAR = 30
"""An arrow over more rows than this is not drawn, but told at both ends."""
MANY = 6
"""So are arrows from a box with more readers than this, but for those that go a few rows."""
NEAR = 3

Point = tuple[float, int]
"""A place that an arrow goes through: where in the row, and the row."""


@dataclass(frozen=True)
class Layout:
    """Where boxes stand: the middle of each, and its row. ``bends`` of each arrow: the places that it goes through
    between its ends; None for one that is too long to be drawn."""

    x: tuple[float, ...]
    row: tuple[int, ...]
    heights: tuple[float, ...]
    """Of each row."""
    bends: tuple[tuple[Point, ...] | None, ...]
    frames: tuple[Frame, ...]
    width: float


def layered(
    sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]], items: Sequence[int | Band]
) -> Layout:
    """The layout of boxes with these widths and heights. ``items``: all of them, in an order in which arrows go
    forwards, with the bands. The same is given for the same on every machine."""
    rows = rows_of([width for width, _ in sizes], arrows, items)
    drawn = _drawn(rows, arrows)
    chains, neighbours, grid = _with_chains(rows, arrows, drawn)
    grid = ordered(grid, neighbours)
    widths = [width for width, _ in sizes] + [4.0] * (len(neighbours.above) - len(sizes))
    x = placed(grid, neighbours, widths, SPACE, len(sizes))
    heights = tuple(max((sizes[box][1] for box in row), default=0.0) for row in rows.boxes)
    bends = tuple(
        tuple((round(x[node], 1), row) for node, row in _through(chains, rows, tail, head)) if is_drawn else None
        for (tail, head), is_drawn in zip(arrows, drawn, strict=True)
    )
    right = max((x[box] + sizes[box][0] / 2 for box in range(len(sizes))), default=0.0)
    right = max([right, *(point[0] for each in bends for point in each or ())])
    return Layout(tuple(round(each, 1) for each in x[: len(sizes)]), rows.row, heights, bends, rows.frames, right)


def _drawn(rows: Rows, arrows: Sequence[tuple[int, int]]) -> list[bool]:
    """Which arrows are short enough to be drawn."""
    readers: dict[int, int] = {}
    for tail, _ in arrows:
        readers[tail] = readers.get(tail, 0) + 1
    spans = [rows.row[head] - rows.row[tail] for tail, head in arrows]
    return [0 < span <= (FAR if readers[tail] <= MANY else NEAR) for span, (tail, _) in zip(spans, arrows, strict=True)]


@dataclass
class Neighbours:
    """What stands above and below each node of the grid: boxes first, then places that arrows go through."""

    above: list[list[int]]
    below: list[list[int]]


def _with_chains(
    rows: Rows, arrows: Sequence[tuple[int, int]], drawn: Sequence[bool]
) -> tuple[Mapping[int, list[int]], Neighbours, list[list[int]]]:
    """One chain of places below each box, down to the row above its last reader: its arrows share it as far as they
    go; and all nodes row by row."""
    count = len(rows.row)
    last: dict[int, int] = {}
    for (tail, head), is_drawn in zip(arrows, drawn, strict=True):
        if is_drawn:
            last[tail] = max(last.get(tail, 0), rows.row[head])
    near = Neighbours([[] for _ in range(count)], [[] for _ in range(count)])
    grid = [list(row) for row in rows.boxes]
    chains: dict[int, list[int]] = {}
    for tail, end in last.items():
        chain: list[int] = []
        for row in range(rows.row[tail] + 1, end):
            node = len(near.above)
            above = chain[-1] if chain else tail
            near.above.append([above])
            near.below.append([])
            near.below[above].append(node)
            grid[row].append(node)
            chain.append(node)
        chains[tail] = chain
    for (tail, head), is_drawn in zip(arrows, drawn, strict=True):
        if is_drawn:
            place = rows.row[head] - rows.row[tail] - 1
            above = chains[tail][place - 1] if place else tail
            near.above[head].append(above)
            near.below[above].append(head)
    return chains, near, grid


def _through(chains: Mapping[int, list[int]], rows: Rows, tail: int, head: int) -> list[tuple[int, int]]:
    first = rows.row[tail] + 1
    return [(node, first + k) for k, node in enumerate(chains[tail][: rows.row[head] - first])]
