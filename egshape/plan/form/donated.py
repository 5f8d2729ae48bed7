"""Inputs that a program gives back changed in places: a cache to which a step adds, a buffer of a model.

Such an input and its output are one buffer here, to which the input is copied first, so that updates are written where
it lies. A caller who gives the input's own memory for the output (``out=``) spares the copy: source and target are one
then, and nothing is moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from egshape.dims import Dim, const
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType


def updates_of(block: Block) -> dict[Value, Value]:
    """The inputs of a block's results that are an input, changed in places, whose old elements nothing reads once one
    is changed. Each input is that of one result at most."""
    producers = {result: op for op in block.ops for result in op.results}
    numbers = {op: number for number, op in enumerate(block.ops)}
    counted = Counter(block.results)
    last: dict[Value, int] = {}
    for number, op in enumerate(block.ops):
        for value in op.reads():
            last[value] = number
    found: dict[Value, Value] = {}
    for result in block.results:
        value = result
        while value in producers and _is_update(producers[value]):
            op = producers[value]
            value = op.operands[0]
            if last[value] != numbers[op] or value in counted or op.operands.count(value) != 1:
                break
        else:
            taken = value in found.values() or counted[result] > 1
            if value in block.args and value is not result and value.type == result.type and not taken:
                found[result] = value
    return found


def _is_update(op: Op) -> bool:
    return op.name == "dynamic_update_slice" or (op.name == "scatter" and len(op.operands) == 3)


def with_updates(graph: Graph) -> Graph:
    """The graph with results that put a part between two ends of an input written as updates of it."""
    body = graph.body
    slices = {op.result: op for op in body.ops if op.name == "slice"}
    ops: list[Op] = []
    for op in body.ops:
        part = _replaced(op, slices) if op.name == "concatenate" and op.result in body.results else None
        ops += [op] if part is None else _update(op, *part)
    return replace(graph, body=replace(body, ops=tuple(ops)))


def _replaced(op: Op, slices: Mapping[Value, Op]) -> tuple[Value, Value, Dim] | None:
    """What a concatenation changes: of which value, the new part, and where it begins; None if it does not."""
    operands = op.operands
    if len(operands) not in (2, 3):
        return None
    for place in (1,) if len(operands) == 3 else (0, 1):
        others = [slices[each] for at, each in enumerate(operands) if at != place and each in slices]
        sources = {each.operands[0] for each in others}
        if len(others) != len(operands) - 1 or len(sources) != 1:
            continue
        (x,), axis = sources, op.attrs["dim"]
        start = others[0].attrs["limits"][axis] if place else const(0)
        behind = start + operands[place].type.dims[axis]
        ends = [(const(0), start)] * place + [(behind, x.type.dims[axis])] * (len(others) - place)
        if x.type == op.result.type and all(map(_is_end, others, [axis] * len(ends), ends)):
            return x, operands[place], start
    return None


def _is_end(op: Op, axis: int, ends: tuple[Dim, Dim]) -> bool:
    """Whether a slice is all of its operand between two places of one axis."""
    a, sizes = op.attrs, op.operands[0].type.dims
    wanted = [(const(0), size) for size in sizes]
    wanted[axis] = ends
    found = list(zip(a["starts"], a["limits"], strict=True))
    return found == wanted and all(each.const == 1 for each in a["strides"])


def _update(op: Op, x: Value, part: Value, start: Dim) -> list[Op]:
    """The ops of an update that gives the result of an op."""
    scalar = TensorType("i64", ())
    places = [Value(f"{op.result.name}.at.{axis}", scalar) for axis in range(x.type.rank)]
    begins = [start if axis == op.attrs["dim"] else const(0) for axis in range(x.type.rank)]
    told = [
        Op("dims", (), {"elements": (begin,), "shape": (), "dtype": "i64"}, (place,), location=op.location)
        for place, begin in zip(places, begins, strict=True)
    ]
    return [*told, Op("dynamic_update_slice", (x, part, *places), {}, op.results, (), op.location, op.requires)]
