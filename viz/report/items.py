"""What is told of each box and each constant of a graph: one row each, for the page's tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from egshape.ir.graph import Op, Value
from egshape.ops import REGISTRY
from egshape.viz.graph import says_nothing
from egshape.viz.look import attribute, clipped, constant
from egshape.viz.report.boxes import Box, Boxes, is_named
from egshape.viz.report.statistics import statistics
from egshape.viz.report.tables import Tables
from egshape.viz.result import Fate

Json = dict[str, Any]

_LONG = 400
_DETAIL = 30
_INSIDE = 24
"""Of more ops in a box, the first are told."""
_KINDS = ("contraction", "reduce", "indexing", "host", "custom", "unary", "binary", "ternary")
"""Families by how much one says of an op that several ops of ours are: the first that it has."""
_TELLING = ("kernel_shape", "window", "axis", "axes", "dims", "strides", "pads", "padding", "permutation", "mode")
"""Attributes that say most of an op, in this order; others come behind them."""
_SIZES = {"kernel_shape": "kernel", "window": "window", "strides": "stride"}
_USUAL = {"strides": "1", "dilations": "1", "group": "1", "pads": "0", "padding": "0"}
"""The digit of which values are made that say nothing."""
_FLOAT = re.compile(r"-?\d+\.\d{4,}(?:e[-+]?\d+)?")
_PLAIN = frozenset(("shape", "precision", "dtype", "kind", "value", "sides", "relation", "message", "args", "sorted"))
_PLAIN |= frozenset(("unique", "elements", "attrs", "name", "version", "whole"))
_OURS = frozenset(("lhs_contract", "rhs_contract", "lhs_batch", "rhs_batch", "direction"))
"""What a model's own name of an op says: MatMul, Equal."""


def kind_of(box: Box) -> str:
    """What sort of op a box is, which its colour says: the family of the op of ours that says most of it."""
    op = box.op
    if op is None:
        return box.kind
    if op.name == "check":
        return "check"
    if box.code:
        return "code"
    if box.parts:
        return "control"
    families = [_family(each) for each in _ops(box)]
    found = next((kind for kind in _KINDS if kind in families), None)
    return found or next((each for each in families if each != "control"), "control")


def _family(op: Op) -> str:
    return REGISTRY[op.name].family


def _ops(box: Box) -> list[Op]:
    """The ops of ours that a box is, those inside of an op that goes out as one too."""
    return [each for op in box.ops for each in (op, *(inner for region in op.regions for inner in region.walk()))]


class Items:
    """The rows of a graph: its boxes first, then its constants."""

    def __init__(self, boxes: Boxes, tables: Tables, fates: Mapping[Op, Fate]) -> None:
        self.boxes, self._tables, self._fates = boxes, tables, fates
        self.became: Mapping[Box, str] = {}
        """What became of boxes in the terms of the model; of others the fates of their ops tell."""
        self._readers: dict[Value, list[Box]] = {}
        for box in boxes.every:
            for value in box.reads:
                self._readers.setdefault(value, []).append(box)
        self.number: dict[Box | Op, int] = {box: k for k, box in enumerate(boxes.every)}
        self.number |= {op: len(boxes.every) + k for k, op in enumerate(boxes.constants.values())}

    def rows(self) -> list[Json]:
        """All rows, by number."""
        boxes = [self._box(box) for box in self.boxes.every]
        return [*boxes, *map(self._constant, self.boxes.constants.values())]

    def of(self, value: Value) -> int:
        """The row of what gives a value, -1 for what has none."""
        made = self.boxes.constants.get(value) or self.boxes.outside(value)
        return self.number.get(made, -1) if made is not None else -1

    def _box(self, box: Box) -> Json:
        op = box.op
        row: Json = {"title": box.title, "kind": box.kind, "type": kind_of(box)}
        row["gives"] = [[value.name, self._tables.type(value.type)] for value in (box.gives or box.reads[:1])]
        row["reads"] = [self._operand(value) for value in box.reads]
        if op is not None:
            row |= {
                "detail": detail(box),
                "op": self._tables.text(op.name),
                "where": str(op.location),
                "attrs": attributes(op),
                "under": op.name if op.name != box.title and not is_named(op) else "",
                "code": int(box.code),
                "inside": _inside(box),
            }
            row |= self._fate(box)
        if box.end is not None:
            row["end"] = self.number[box.end]
        return {key: value for key, value in row.items() if value not in ("", [], 0) or key == "op"}

    def _operand(self, value: Value) -> int | str:
        """What is read: its row, or its name where it has none."""
        found = self.of(value)
        return found if found >= 0 else value.name

    def _constant(self, op: Op) -> Json:
        array = op.attrs["value"]
        row: Json = {
            "title": op.results[0].name,
            "kind": "constant",
            "type": "creation",
            "gives": [[op.results[0].name, self._tables.type(op.results[0].type)]],
            "value": clipped(constant(array), 60),
            "where": str(op.location),
        }
        found = statistics(array) if REGISTRY[op.name].family == "creation" else None
        if found is not None:
            row["stats"] = found
        readers = self._readers.get(op.results[0], ())
        if not readers or any(self.became.get(box) != "" for box in readers):
            row |= self._status((op,))
        return {key: value for key, value in row.items() if value not in ("", [])}

    def _fate(self, box: Box) -> Json:
        became = self.became.get(box)
        if became == "":
            return {}
        row = self._status(box.ops)
        if became and not row:  # it reads another way what was before: for the reasons of that
            read = (self.boxes.outside(value) for value in box.reads)
            row = self._status(tuple(op for each in read if each is not None for op in each.ops))
        if became == "gone" and not row and self.boxes.nodes:
            row = {"status": "gone"}  # another node does the same, for no reason of a rule
        if became and row:
            row["status"] = became
        stands = next((fate.stands for op in reversed(box.ops) if (fate := self._fates.get(op)) and fate.stands), None)
        if stands and row:
            row["stands"] = stands
        return row

    def _status(self, ops: tuple[Op, ...]) -> Json:
        """What became of ops that are one thing: gone, or changed in part, with the reasons."""
        told = [self._fates[op] for op in ops if op in self._fates]
        if not told:
            return {}
        gone = len(told) == len(ops) and all(fate.status == "gone" for fate in told)
        why = self._tables.why(dict.fromkeys(step for fate in told for step in fate.why))
        return {"status": "gone" if gone else "changed", "why": why}


def _inside(box: Box) -> list[str]:
    """The ops of ours that a box is, where that is more than its title says."""
    names = [op.name for op in _ops(box) if op.name != "constant" and not is_named(op)]
    if names in ([], [box.title]) or box.parts:
        return []
    return names[:_INSIDE] + ([f"and {len(names) - _INSIDE} more"] if len(names) > _INSIDE else [])


def detail(box: Box) -> str:
    """The line of a box below its title: the attribute that says most, or a constant's number."""
    op = box.op
    if op is None:
        return ""
    if op.name == "check":
        sides = op.attrs["sides"]
        said = (
            "a condition on data"
            if op.attrs["relation"] == "value"
            else f" {op.attrs['relation']} ".join(map(str, sides))
        )
        return clipped(said, _DETAIL + 8)
    if op.name == "constant":
        return clipped(constant(op.attrs["value"]), _DETAIL)
    plain = _PLAIN if box.title == op.name else _PLAIN | _OURS
    every = {key: text for key, text in attributes(op) if key not in plain}
    told = {
        key: text for key, text in every.items() if not says_nothing(key, op.attrs.get(key)) and not _usual(key, text)
    }
    first = sorted(told, key=lambda key: _TELLING.index(key) if key in _TELLING else len(_TELLING))
    return clipped(", ".join(_line(key, told[key]) for key in first[:2]), _DETAIL)


def _usual(key: str, text: str) -> bool:
    """Whether a value is what one expects where nothing is said."""
    return text in ("NOTSET", "") or (key in _USUAL and set(text) <= set(f"[( ,{_USUAL[key]})]"))


def _line(key: str, text: str) -> str:
    """An attribute as a box shows it: ``kernel 3×3``, floats cut to four digits."""
    if key in _SIZES:
        return f"{_SIZES[key]} {'×'.join(text.strip('[()]').split(', '))}"
    return f"{key} {_FLOAT.sub(lambda found: f'{float(found[0]):.4g}', text)}"


def attributes(op: Op) -> list[tuple[str, str]]:
    """The attributes of an op as a reader of the model knows them."""
    if is_named(op):
        return [(key, clipped(text, _LONG)) for key, text in _recorded(op.attrs.get("attrs", ()))]
    if op.name == "constant":
        return [("value", clipped(constant(op.attrs["value"]), _LONG))]
    said = ((key, value) for key, value in op.attrs.items() if value not in ((), None, False) and key != "shape")
    return [(key, clipped(attribute(value), _LONG)) for key, value in said if not isinstance(value, bytes)]


def _recorded(record: Any) -> list[tuple[str, str]]:
    """The attributes of a part of a model that goes out as it came, each with its kind before the value or without."""
    if not isinstance(record, tuple):
        return []
    held = next((each[1] for each in record if isinstance(each, tuple) and each[:1] == ("attributes",)), record)
    named = [each for each in held if isinstance(each, tuple) and len(each) in (2, 3) and isinstance(each[0], str)]
    return [(each[0], attribute(each[-1])) for each in named]
