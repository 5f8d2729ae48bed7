"""Gathers as ONNX nodes: Gather along one axis, Slice for one window, GatherND at vectors of places.

Ours clamp their places into the operand, as StableHLO does; ONNX rejects them, so they are clamped here first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import Dim, const
from egshape.frontends.onnx.emit_moves import COMPUTED_SLICES
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.graph import Op, Value

VECTORS = 11
"""The opset since which there is GatherND, and Max and Min soon after."""


def gather(e: Emitter, op: Op) -> str:
    """A gather of slices: whole but for the axes that the index vectors name, or one window."""
    x, indices = op.operands[:2]
    a, axes = op.attrs, tuple(op.attrs["start_index_map"])
    if a["operand_batch"]:
        raise e.unsupported(op, "a gather with batch axes")
    if indices.type.dtype == "ui64":
        raise e.unsupported(op, "a gather at places in ui64")
    batch = [size for place, size in enumerate(indices.type.dims) if place != a["index_vector_dim"]]
    whole = [axis for axis in range(x.type.rank) if axis not in axes]
    name, dims = _cut(e, e.name(x), x.type.dims, whole, a["sizes"], op.result.name)
    single = all(a["sizes"][axis].const == 1 for axis in axes)
    if not batch and not single:
        return _window(e, op, name, dims)
    if not single:
        raise e.unsupported(op, "a gather of several windows")
    # The result has the axes of the places first, then the whole ones of the operand, but for one axis, whose places
    # stand where it stood.
    places = _places(e, op, dims)
    if len(axes) == 1:
        (axis,) = axes
        found = e.scope.node("Gather", [name, places], op.result.name, axis=axis)
        held = [*whole[:axis], *range(-len(batch), 0), *whole[axis:]]
    else:
        if e.scope.opset < VECTORS:
            raise e.unsupported(op, f"a gather of several axes before opset {VECTORS}")
        turned = e.moves.turned(name, (*axes, *whole), "turned")
        found = e.scope.node("GatherND", [turned, places], op.result.name)
        held = [*range(-len(batch), 0), *whole]
    return _laid_out(e, op, found, held, len(batch))


def _cut(
    e: Emitter, name: str, dims: Sequence[Dim], whole: Sequence[int], sizes: Sequence[Dim], hint: str
) -> tuple[str, tuple[Dim, ...]]:
    """The operand without what lies behind the slices along axes at which all of them begin."""
    short = [axis for axis in whole if sizes[axis] is not dims[axis]]
    kept = tuple(sizes[axis] if axis in short else size for axis, size in enumerate(dims))
    if not short:
        return name, kept
    ends = [sizes[axis] for axis in short]
    return e.moves.cut(name, [const(0)] * len(short), ends, short, hint), kept


def _window(e: Emitter, op: Op, name: str, dims: Sequence[Dim]) -> str:
    """The only slice, at a place that is clamped so that it lies inside."""
    s, a = e.scope, op.attrs
    if s.opset < COMPUTED_SLICES:
        raise e.unsupported(op, f"a slice at run-time places before opset {COMPUTED_SLICES}")
    axes = list(a["start_index_map"])
    room = [dims[axis] - a["sizes"][axis] for axis in axes]
    start = s.node("Reshape", [_as_i64(e, op.operands[1]), s.ints([len(axes)], "shape")], "place")
    start = e.sizes.clamped(start, s.ints([0], "size"), e.sizes.vector(room))
    end = s.node("Add", [start, e.sizes.vector([a["sizes"][axis] for axis in axes])], "end")
    found = s.node("Slice", [name, start, end, s.ints(axes, "axes")], op.result.name)
    gone = list(a["collapsed"])
    return e.moves.axes_changed("Squeeze", found, gone, op.result.name) if gone else found


def _places(e: Emitter, op: Op, dims: Sequence[Dim]) -> str:
    """The places, clamped into the axes: along one axis plain numbers, else vectors that stand on the last axis."""
    (_, indices), a, s = op.operands[:2], op.attrs, e.scope
    axes, at = list(a["start_index_map"]), a["index_vector_dim"]
    name, maker = e.name(indices), e.producer(indices)
    sizes = [dims[axis] for axis in axes]
    held = maker.attrs["value"] if maker is not None and maker.name == "constant" else None
    vectors = len(axes) > 1
    if held is not None and held.size and all(size.const is not None for size in sizes):
        spread = held if at == held.ndim else np.moveaxis(held, at, -1)
        spread = spread[..., None] if at == held.ndim else spread
        highest = np.array([(size.const or 0) - 1 for size in sizes])
        clamped = np.clip(spread.astype(np.int64), 0, highest)
        return s.constant(clamped if vectors else clamped[..., 0], f"{op.result.name}_places")
    name = _as_i64(e, indices)
    if at != indices.type.rank and not vectors:
        name = e.moves.axes_changed("Squeeze", name, [at], f"{op.result.name}_places")
    elif vectors and at < indices.type.rank - 1:
        order = [*(axis for axis in range(indices.type.rank) if axis != at), at]
        name = s.node("Transpose", [name], f"{op.result.name}_places", perm=order)
    if not vectors:
        return e.sizes.clamped(name, s.constant(np.array(0, np.int64), "zero"), e.sizes.scalar(sizes[0] - const(1)))
    return e.sizes.clamped(name, s.ints([0], "size"), e.sizes.vector([size - const(1) for size in sizes]))


def _as_i64(e: Emitter, value: Value) -> str:
    name = e.name(value)
    if value.type.dtype == "i64":
        return name
    return e.scope.shared("Cast", [name], f"{value.name}_wide", e.scope.frame, to=elem_type_of("i64"))


def _laid_out(e: Emitter, op: Op, name: str, held: Sequence[int], batch: int) -> str:
    """The axes in the order of the result. ``held``: the operand's axes as they stand, those of the places below 0."""
    a, rank = op.attrs, op.result.type.rank
    kept = [axis for axis in range(op.operands[0].type.rank) if axis not in a["collapsed"]]
    places = iter(range(-batch, 0))
    offsets = dict(zip(a["offset_dims"], kept, strict=True))
    wanted = [offsets[at] if at in offsets else next(places) for at in range(rank)]
    units = [at for at, axis in enumerate(wanted) if axis not in held]  # an axis of one place that stays
    order = [list(held).index(axis) for axis in wanted if axis in held]
    if order != sorted(order):
        name = e.scope.node("Transpose", [name], op.result.name, perm=order)
    return e.moves.axes_changed("Unsqueeze", name, units, op.result.name) if units else name
