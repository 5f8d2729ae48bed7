"""The row of each box: as near to the top as its arrows allow, bands one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WIDEST = 5200.0
"""A row that is wider goes on in the next one."""


@dataclass(frozen=True)
class Band:
    """A run of boxes with rows of its own."""

    label: str
    kind: str
    items: tuple[int | Band, ...]
    opener: int | None = None
    """The box that stands for it where it is an op with regions."""


@dataclass(frozen=True)
class Frame:
    """The rows of a band, and the frame that it lies in (-1: none)."""

    label: str
    kind: str
    first: int
    last: int
    inside: int
    opener: int | None = None


@dataclass(frozen=True)
class Rows:
    """The boxes of each row, the row of each box, the rows of each band (outer ones first)."""

    boxes: tuple[tuple[int, ...], ...]
    row: tuple[int, ...]
    frames: tuple[Frame, ...]


@dataclass
class _Rowing:
    widths: Sequence[float]
    above: list[list[int]]
    below: list[list[int]]
    rows: list[list[int]] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    def enter(self, items: Iterable[int | Band], inside: int) -> None:
        run: list[int] = []
        for item in items:
            if isinstance(item, Band):
                self._run(run)
                run = []
                self._band(item, inside)
            else:
                run.append(item)
        self._run(run)

    def _band(self, band: Band, inside: int) -> None:
        number, first = len(self.frames), len(self.rows)
        self.frames.append(Frame(band.label, band.kind, first, first, inside, band.opener))
        self.enter(band.items, number)
        if len(self.rows) == first:  # nothing in it
            self.rows.append([])
        self.frames[number] = Frame(band.label, band.kind, first, len(self.rows) - 1, inside, band.opener)

    def _run(self, run: list[int]) -> None:
        """Rows of boxes among which no band lies, by the longest way from above; what nothing is above of stands right
        above its first reader."""
        if not run:
            return
        own = set(run)
        level: dict[int, int] = {}
        for box in run:
            level[box] = max((level[each] + 1 for each in self.above[box] if each in own), default=0)
        deepest = max(level.values())
        for box in reversed(run):
            if not any(each in own for each in self.above[box]):
                readers = [level[each] for each in self.below[box] if each in own]
                level[box] = min(readers) - 1 if readers else deepest if self.below[box] else level[box]
        levels: list[list[int]] = [[] for _ in range(deepest + 1)]
        for box in run:
            levels[level[box]].append(box)
        for boxes in levels:
            self._row(boxes)

    def _row(self, boxes: Sequence[int]) -> None:
        row: list[int] = []
        width = 0.0
        for box in boxes:
            if row and width + self.widths[box] > WIDEST:
                self.rows.append(row)
                row, width = [], 0.0
            row.append(box)
            width += self.widths[box]
        if row:
            self.rows.append(row)


def rows_of(widths: Sequence[float], arrows: Sequence[tuple[int, int]], items: Sequence[int | Band]) -> Rows:
    """The rows of boxes. ``items``: each box once, in an order in which arrows go forwards."""
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for tail, head in arrows:
        above[head].append(tail)
        below[tail].append(head)
    rowing = _Rowing(widths, above, below)
    rowing.enter(items, -1)
    row = [0] * len(widths)
    for number, boxes in enumerate(rowing.rows):
        for box in boxes:
            row[box] = number
    return Rows(tuple(map(tuple, rowing.rows)), tuple(row), tuple(rowing.frames))
