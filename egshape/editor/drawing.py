"""The e-graph of the playground as a picture: a box for each class, arrows from what its e-nodes read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.viz.egraph import Row
from egshape.viz.layout.layered import layered

LINE = 16.0
"""Height of a line of text, in pixels; a character is ``CHARACTER`` wide."""
CHARACTER = 7.2
LONGEST = 44
"""Characters of a line; longer ones end in an ellipsis, the table has them whole."""
_EDGE, _GAP = 8.0, 26.0
"""Between a box and its text; between rows of boxes."""


@dataclass(frozen=True)
class Box:
    """A class: its corner above on the left, its size, its number, a title, and its e-nodes, the chosen one first."""

    x: float
    y: float
    width: float
    height: float
    number: int
    title: str
    lines: tuple[str, ...]
    used: bool


@dataclass(frozen=True)
class Picture:
    """Boxes, and arrows as places that they go through; those that go up, in a cycle, are told in the boxes alone."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[tuple[float, float], ...], ...]


def picture(rows: Sequence[Row]) -> Picture:
    """The picture of classes that are numbered one after the other."""
    texts = [[_title(row), *map(_short, row.nodes)] for row in rows]
    sizes = [(2 * _EDGE + CHARACTER * max(map(len, each)), 2 * _EDGE + LINE * len(each)) for each in texts]
    ends = [(read, row.number) for row in rows for read in row.reads if read < row.number]
    found = layered(sizes, ends, range(len(rows)))
    tops = [0.0]
    for height in found.heights:
        tops.append(tops[-1] + height + _GAP)
    boxes = tuple(
        Box(x - width / 2, tops[place], width, height, row.number, text[0], tuple(text[1:]), row.used)
        for row, text, x, place, (width, height) in zip(rows, texts, found.x, found.row, sizes, strict=True)
    )
    arrows = tuple(
        (
            (found.x[tail], boxes[tail].y + boxes[tail].height),
            *((x, tops[row] + found.heights[row] / 2) for x, row in bends),
            (found.x[head], boxes[head].y),
        )
        for (tail, head), bends in zip(ends, found.bends, strict=True)
        if bends is not None
    )
    return Picture(found.width, max(tops[-1] - _GAP, 0.0), boxes, arrows)


def _title(row: Row) -> str:
    return _short(" ".join(filter(None, (f"#{row.number}", *row.names, row.type))))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
