"""Ops with one result as ONNX nodes, but for elementwise ones."""

from __future__ import annotations

from collections.abc import Callable

from egshape.frontends.onnx import emit_blocks
from egshape.frontends.onnx.emit_folds import convolution, reduce
from egshape.frontends.onnx.emit_indexing import gather
from egshape.frontends.onnx.emit_loops import dynamic_slice, dynamic_update_slice
from egshape.frontends.onnx.emit_ops import splat
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.graph import Op

COMPUTED_PADS = 11
"""The opset since which Pad takes how much as an input, and all numbers."""


def _reshape(e: Emitter, op: Op) -> str:
    x = op.operands[0]
    pick = e.picks.get(op.result)
    if pick is not None:
        return e.moves.pick(pick, e.name(pick.part.operands[0]), op.result.name)
    return e.moves.reshape(e.name(x), x.type.dims, op.result.type.dims, op.result.name)


def _slice(e: Emitter, op: Op) -> str:
    turned = e.backward.get(op.result)
    if turned is None:
        return e.moves.slice(op, e.name(op.operands[0]))
    return e.moves.slice(op, e.name(turned.operands[0]), turned.attrs["dims"])


def _broadcast(e: Emitter, op: Op) -> str:
    maker = e.producer(op.operands[0])
    held = maker.attrs["value"] if maker is not None and maker.name == "constant" else None
    if held is not None and held.size == 1:
        return e.moves.broadcast(op, "", held.reshape(()))
    return e.moves.broadcast(op, e.name(op.operands[0]), None)


def _transpose(e: Emitter, op: Op) -> str:
    return e.node(op, "Transpose", [e.name(op.operands[0])], perm=list(op.attrs["permutation"]))


def _concatenate(e: Emitter, op: Op) -> str:
    if op.result in e.blocks:
        return emit_blocks.write(e, op, e.blocks[op.result])
    return e.node(op, "Concat", [e.name(value) for value in op.operands], axis=op.attrs["dim"])


def _dims(e: Emitter, op: Op) -> str:
    elements, shape, dtype = op.attrs["elements"], op.attrs["shape"], op.attrs["dtype"]
    if tuple(shape) == () and len(elements) == 1:
        name = e.sizes.scalar(elements[0])
    else:
        name = e.sizes.vector(elements)
        if len(shape) != 1:
            name = e.scope.shared("Reshape", [name, e.scope.ints(shape, "shape")], "sizes", e.scope.frame)
    return name if dtype == "i64" else e.scope.shared("Cast", [name], "sizes", e.scope.frame, to=elem_type_of(dtype))


def _size(e: Emitter, op: Op) -> str:
    name = e.sizes.scalar(op.operands[0].type.dims[op.attrs["dim"]])
    return e.scope.shared("Cast", [name], "sizes", e.scope.frame, to=elem_type_of(op.result.type.dtype))


def _pad(e: Emitter, op: Op) -> str:
    """Pad, which takes how much as an input since opset 11, and before as attributes. It cuts off no more than there
    is."""
    (x, value), a = op.operands[:2], op.attrs
    places = (*a["low"], *a["high"])
    left = [size + place for size, place in zip(x.type.dims * 2, places, strict=True)]
    if any(gap.const != 0 for gap in a["interior"]) or not all(map(e.moves.nonnegative, left)):
        raise e.unsupported(op, "a pad between elements, or one that may cut off more than there is,")
    if e.scope.opset < COMPUTED_PADS:
        numbers, fill = [place.const for place in places], splat(e, value)
        if None in numbers or fill is None:
            raise e.unsupported(op, f"a pad by computed amounts or numbers before opset {COMPUTED_PADS}")
        return e.node(op, "Pad", [e.name(x)], pads=numbers, value=float(fill))
    return e.node(op, "Pad", [e.name(x), e.sizes.vector(places), e.name(value)])


SINGLE: dict[str, Callable[[Emitter, Op], str]] = {
    "reshape": _reshape,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "dims": _dims,
    "get_dimension_size": _size,
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "pad": _pad,
    "reduce": reduce,
    "convolution": convolution,
    "constant": lambda e, op: e.scope.constant(op.attrs["value"], op.result.name),
    "slice": _slice,
    "reverse": lambda e, op: e.moves.reverse(op, e.name(op.operands[0])),
    "iota": lambda e, op: e.moves.iota(op),
    "optimization_barrier": lambda e, op: e.node(op, "Identity", [e.name(op.operands[0])]),
}
"""How an op of ours is written, by its name."""
