"""Boxes as the layout wants them: an order, bands, sizes, arrows; and the layout as the page reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from egshape.viz.layout.layered import Layout, layered
from egshape.viz.layout.rows import Band
from egshape.viz.report.boxes import Box, Boxes, Part
from egshape.viz.report.layers import layers_of

Json = dict[str, Any]

_FEW_INPUTS = 8
"""More inputs than this do not stand at the top, but above what reads them."""


class Arranged:
    """Some of the boxes of a graph, laid out."""

    def __init__(self, boxes: Boxes, shown: Callable[[Box], bool], size: Callable[[Box], tuple[float, float]]) -> None:
        self._boxes = boxes
        self._shown = shown
        self._opener: dict[Box, Box] = {}
        """The op in whose regions an argument or an end lies."""
        self._readers: dict[Box, list[Box]] = {}
        for box in boxes.every:
            for other in self.reads(box):
                self._readers.setdefault(other, []).append(box)
        items = self._run(boxes.top)
        self.drawn = list(_leaves(items))
        place = {box: k for k, box in enumerate(self.drawn)}
        self.arrows = sorted(
            {
                (place[other], place[box])
                for box in self.drawn
                for other in self._tails(box)
                if other in place and place[other] < place[box]
            }
        )
        sizes = [size(box) for box in self.drawn]
        self.layout: Layout = layered(sizes, self.arrows, [_numbered(item, place) for item in items])
        self._sizes = sizes

    def reads(self, box: Box) -> list[Box]:
        """The boxes that one reads, in the order of its operands."""
        found = (self._boxes.outside(value) for value in box.reads)
        return list(dict.fromkeys(each for each in found if each is not None and each is not box))

    def _tails(self, box: Box) -> list[Box]:
        """The boxes from which arrows come: those that it reads, and the op in whose region an argument is."""
        opener = self._opener.get(box)
        return [*self.reads(box), *([opener] if opener is not None else [])]

    # -- the order ---------------------------------------------------------------------------------------------------

    def _run(self, boxes: Sequence[Box]) -> list[Box | _Band]:
        order = [box for box in self._sunk(boxes) if self._shown(box)]
        out: list[Box | _Band] = []
        for label, run in layers_of(order, self.reads, self._hints):
            inner = [item for box in run for item in self._one(box)]
            out.extend([_Band(label, "layer", inner, None)] if label else inner)
        return out

    def _one(self, box: Box) -> Iterator[Box | _Band]:
        if not box.parts:
            yield box
            return
        inner: list[Box | _Band] = [box, *(self._part(box, part) for part in box.parts)]
        if box.end is not None:
            self._opener[box.end] = box
            inner.append(box.end)
        yield _Band(box.title, "op", inner, box)

    def _part(self, box: Box, part: Part) -> _Band:
        self._opener.update({each: box for each in part.boxes if each.kind == "argument"})
        return _Band(part.label, "region", self._run(part.boxes), None)

    def _sunk(self, boxes: Sequence[Box]) -> list[Box]:
        """The boxes in an order in which what reads nothing but constants and inputs stands before its first
        reader."""
        own = set(boxes)
        many = sum(box.kind == "input" for box in boxes) > _FEW_INPUTS
        floating: set[Box] = set()
        for box in boxes:
            read = self._readers.get(box)
            fixed = box.kind not in ("op", "input") or (box.kind == "input" and not many) or box.parts
            if read and not fixed and all(each in floating or each.kind == "input" for each in self.reads(box)):
                floating.add(box)
        out: dict[Box, None] = {}
        for box in boxes:
            if box not in floating:
                self._emit(box, floating & own, out)
        for box in boxes:  # what is read inside of regions only
            out.setdefault(box)
        return list(out)

    def _emit(self, box: Box, floating: set[Box], out: dict[Box, None]) -> None:
        stack = [(box, iter(self._wanted(box)))]
        while stack:
            current, rest = stack[-1]
            found = next((each for each in rest if each in floating and each not in out), None)
            if found is not None:
                stack.append((found, iter(self._wanted(found))))
                continue
            stack.pop()
            out.setdefault(current)

    def _wanted(self, box: Box) -> list[Box]:
        """What a box reads, inside of its regions too."""
        inner = [each for part in box.parts for one in part.boxes for each in self._wanted(one)]
        return [*self.reads(box), *inner]

    def _hints(self, box: Box) -> list[str]:
        where = [box.op.location.name] if box.op is not None else []
        return [*where, *(value.name for value in box.reads if value in self._boxes.constants)]

    # -- for the page ------------------------------------------------------------------------------------------------

    def data(self, number: Callable[[Box], int]) -> Json:
        """The layout with the boxes by their numbers."""
        layout = self.layout
        return {
            "boxes": [[number(box), layout.x[k], layout.row[k], *self._sizes[k]] for k, box in enumerate(self.drawn)],
            "heights": layout.heights,
            "arrows": [
                [tail, head, *([] if bends is None else [[x for x, _ in bends]])]
                for (tail, head), bends in zip(self.arrows, layout.bends, strict=True)
            ],
            "frames": [
                [each.label, each.kind, each.first, each.last, each.inside, -1 if each.opener is None else each.opener]
                for each in layout.frames
            ],
            "width": layout.width,
        }


class _Band:
    """A band of boxes."""

    def __init__(self, label: str, kind: str, items: Sequence[Box | _Band], opener: Box | None) -> None:
        self.label, self.kind, self.items, self.opener = label, kind, items, opener


def _leaves(items: Sequence[Box | _Band]) -> Iterator[Box]:
    for item in items:
        if isinstance(item, _Band):
            yield from _leaves(item.items)
        else:
            yield item


def _numbered(item: Box | _Band, place: dict[Box, int]) -> int | Band:
    if isinstance(item, Box):
        return place[item]
    opener = place.get(item.opener) if item.opener is not None else None
    return Band(item.label, item.kind, tuple(_numbered(each, place) for each in item.items), opener)
