"""Slices that take every place of a block of an image, joined along the channels, as one SpaceToDepth, and a Gather
where the places stand in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np

from egshape.dims import Dim, const, minimum
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import is_float


@dataclass(frozen=True)
class Blocks:
    """The slices that a concatenation joins, how long the sides of a block are, and which place of it, row by row, each
    slice takes."""

    parts: tuple[Op, ...]
    side: int
    places: tuple[int, ...]


def blocks(block: Block) -> dict[Value, Blocks]:
    """The concatenations of slices that nothing else reads, of all places of blocks, by their results."""
    readers = block.readers()
    slices = {op.result: op for op in block.ops if op.name == "slice" and readers[op.result] == 1}
    found = {op.result: _taken(op, slices) for op in block.ops if op.name == "concatenate" and op.attrs["dim"] == 1}
    return {value: held for value, held in found.items() if held is not None}


def write(e: Emitter, op: Op, held: Blocks) -> str:
    """The nodes of a concatenation that takes blocks apart."""
    x = held.parts[0].operands[0]
    name = e.scope.node("SpaceToDepth", [e.name(x)], op.result.name, blocksize=held.side)
    if held.places == tuple(range(len(held.places))):
        return name
    channels = x.type.dims[1].const or 0
    rows = np.concatenate([np.arange(channels) + place * channels for place in held.places])
    return e.scope.node("Gather", [name, e.scope.constant(rows.astype(np.int64), "channels")], op.result.name, axis=1)


def _taken(op: Op, slices: Mapping[Value, Op]) -> Blocks | None:
    parts = [slices[value] for value in op.operands if value in slices]
    side = isqrt(len(parts))
    if len(parts) < len(op.operands) or side < 2 or side**2 != len(parts) or not is_float(op.result.type.dtype):
        return None
    x = parts[0].operands[0]
    if x.type.rank != 4 or x.type.dims[1].const is None or any(each.operands != (x,) for each in parts):
        return None
    if any(size.const is not None and size.const % side for size in x.type.dims[2:]):
        return None
    places = [_place(each, x.type.dims, side) for each in parts]
    known = tuple(place for place in places if place is not None)
    return Blocks(tuple(parts), side, known) if sorted(known) == list(range(side**2)) else None


def _place(part: Op, dims: tuple[Dim, ...], side: int) -> int | None:
    """Which place of a block a slice takes; None if it takes anything else."""
    starts, limits, strides = (part.attrs[key] for key in ("starts", "limits", "strides"))
    whole = tuple(limits) == dims and all(start.const == 0 for start in starts[:2])
    if not whole or [stride.const for stride in strides] != [1, 1, side, side]:
        return None
    rows = [
        next((at for at in range(side) if start in (const(at), minimum(size, const(at)))), None)
        for start, size in zip(starts[2:], dims[2:], strict=True)
    ]
    return None if rows[0] is None or rows[1] is None else rows[0] * side + rows[1]
