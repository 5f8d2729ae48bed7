"""Which box of the result computes what a box of the original computed, and what became of each in the terms of the
model: a node that reads the same in the same way has not changed, whatever the ops of ours in it went through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from egshape.ir.keys import hashable
from egshape.viz.report.boxes import Box
from egshape.viz.report.items import Items, attributes

if TYPE_CHECKING:
    from egshape.api import Result


class Twins:
    """The rows of the result for those of the original (``rows``), and what became of boxes."""

    def __init__(self, result: Result, old: Items, new: Items) -> None:
        self._old, self._new = old, new
        self._boxes = {new.number[box]: box for box in new.boxes.every}
        self._opener = {new.number[box.end]: new.number[box] for box in new.boxes.every if box.end is not None}
        self.rows = {row: self._opener.get(twin, twin) for row, twin in self._found(result).items()}
        self.became: dict[Box, str] = {}
        """Of each op of the original: "" where it stands as it was, else "changed" or "gone"."""
        claims: dict[int | None, list[Box]] = {}
        for box in old.boxes.every:
            if box.kind == "op":
                claims.setdefault(self.rows.get(old.number[box]), []).append(box)
        for row, boxes in claims.items():
            self.became.update(dict.fromkeys(boxes, "gone"))
            twin = self._boxes.get(-1 if row is None else row)
            if twin is not None and twin.kind == "op":
                kept = _heir(boxes, twin)
                self.became[kept] = "" if self._same(kept, twin) else "changed"

    def _found(self, result: Result) -> dict[int, int]:
        before, old, new = self._old.boxes, self._old, self._new
        made = {value: op for op in result.graph.body.walk() for value in op.results}
        standing = result.optimized.outcome.standing
        unchanged = result.unchanged
        out: dict[int, int] = {}
        for box in before.every:
            for value in box.gives:
                stands = value if unchanged else standing.get(value, value if value in made else None)
                if stands is not None and (found := new.of(stands)) >= 0:
                    out.setdefault(old.number[box], found)
        for value, op in before.constants.items():
            if (found := new.of(standing.get(value, value))) >= 0:
                out.setdefault(old.number[op], found)
        for one, two in zip(result.source.inputs, result.graph.inputs, strict=True):
            out[old.of(one)] = new.of(two)
        out.update(zip(_outputs(old), _outputs(new), strict=True))
        checks = _checks(new)
        out.update({row: checks[said] for said, row in _checks(old).items() if said in checks})
        return out

    def _same(self, one: Box, two: Box) -> bool:
        """Whether a box does what its twin does, in the same way, with the same."""
        if one.title != two.title or one.op is None or two.op is None:
            return False
        if one.op.name != two.op.name or attributes(one.op) != attributes(two.op):
            return False
        mine, its = (self._read(self._old, one, self.rows), self._read(self._new, two, None))
        return mine == its

    def _read(self, items: Items, box: Box, rows: Mapping[int, int] | None) -> tuple[set[int], set[object]]:
        """The rows of the result that a box reads, and the constants."""
        constants = items.boxes.constants
        found = [items.of(value) for value in box.reads if value not in constants]
        held = {hashable(constants[value].attrs["value"]) for value in box.reads if value in constants}
        return {rows.get(row, -1) if rows is not None else self._opener.get(row, row) for row in found}, held


def _heir(boxes: Sequence[Box], twin: Box) -> Box:
    """Of boxes whose values one box gives now, the one that it is: by the name of its value, else by its title."""
    names = {value.name for value in twin.gives}
    same = [box for box in boxes if names.intersection(value.name for value in box.gives)]
    like = [box for box in boxes if box.title == twin.title]
    return next(iter([*same, *like, *boxes]))


def _checks(items: Items) -> dict[object, int]:
    """The row of each check by what it says."""
    found = [box for box in items.boxes.every if box.op is not None and box.op.name == "check"]
    return {hashable({key: box.op.attrs[key] for key in ("relation", "sides")}): items.number[box]
            for box in found if box.op is not None}  # fmt: skip


def _outputs(items: Items) -> list[int]:
    return [items.number[box] for box in items.boxes.every if box.kind == "output"]
