"""Reductions and convolutions as ONNX nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from egshape.dims import const
from egshape.frontends.onnx.emit_ops import BINARY
from egshape.frontends.onnx.emit_sizes import AXES_AS_INPUT
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.types import elem_type_of
from egshape.frontends.shaping import start_of
from egshape.ir.graph import Op
from egshape.ir.types import is_float
from egshape.ops.kinds import region_kind

FOLDS = {
    "add": "ReduceSum",
    "multiply": "ReduceProd",
    "maximum": "ReduceMax",
    "minimum": "ReduceMin",
    "and": "ReduceMin",
    "or": "ReduceMax",
}
AXES_OF_FOLDS = 18
"""The opset since which reductions but ReduceSum take their axes as an input."""

_JOINS = {**BINARY, "maximum": "Max", "minimum": "Min", "and": "Min", "or": "Max"}
_WIDE = ("i32", "i64")


def reduce(e: Emitter, op: Op) -> str:
    """A reduction by one op, joined with its start where that is not the neutral element. Of no elements ONNX gives
    the neutral element."""
    kind = region_kind(op.regions[0])
    if len(op.operands) != 2:
        raise e.unsupported(op, "a reduction of several operands at once")
    dtype = op.result.type.dtype
    if kind not in FOLDS or (kind in ("and", "or") and dtype != "i1") or dtype.startswith("c"):
        raise e.unsupported(op, f"a reduction of {dtype} by {kind or 'a computation of its own'}")
    s, hint, (x, start) = e.scope, op.result.name, op.operands
    name, first, given = e.name(x), e.name(start), e.producer(start)
    held = given.attrs["value"] if given is not None and given.name == "constant" else None
    neutral = held is not None and held.tobytes() == start_of(kind, dtype).tobytes()
    wide = dtype in _WIDE or is_float(dtype)
    if not wide:  # the neutral elements of max and min are others there
        to = elem_type_of("i32" if dtype == "i1" else "i64")
        name = s.node("Cast", [name], f"{hint}_wide", to=to)
        neutral = neutral and kind in ("add", "multiply")
        first = first if neutral else s.shared("Cast", [first], f"{hint}_start", s.frame, to=to)
    axes = [int(axis) for axis in op.attrs["dims"]]
    if axes:
        named = s.opset >= (AXES_AS_INPUT if kind == "add" else AXES_OF_FOLDS)
        operands = [name, s.ints(axes, "axes")] if named else [name]
        held_axes: dict[str, Any] = {} if named else {"axes": axes}
        name = s.node(FOLDS[kind], operands, hint, keepdims=0, **held_axes)
    if not neutral:
        name = s.node(_JOINS[kind], [name, first], hint)
    if not wide:
        return e.node(op, "Cast", [name], to=elem_type_of(dtype))
    return name if axes or not neutral else e.node(op, "Identity", [name])


def convolution(e: Emitter, op: Op) -> str:
    """Conv, the axes turned to ONNX's order and back."""
    s, a, hint = e.scope, op.attrs, op.result.name
    batch, feature, spatial, kernel_in, kernel_out, kernel_spatial, *out = a["numbers"]
    x, kernel = op.operands[:2]
    if any(size != 1 for size in a["lhs_dilation"]) or a["batch_groups"] != 1 or not spatial:
        raise e.unsupported(op, "a convolution with holes in its operand, with batch groups or without spatial axes")
    if not x.type.dtype == kernel.type.dtype == op.result.type.dtype or not is_float(x.type.dtype):
        raise e.unsupported(op, f"a convolution of {x.type.dtype} to {op.result.type.dtype}")
    name = e.moves.turned(e.name(x), (batch, feature, *spatial), f"{hint}_turned")
    taps = e.moves.turned(e.name(kernel), (kernel_out, kernel_in, *kernel_spatial), f"{hint}_kernel")
    flipped = [place + 2 for place, flip in enumerate(a["reversal"]) if flip]
    if flipped:
        taps = e.moves.flipped(taps, flipped, f"{hint}_kernel")
    low, high = a["padding"][::2], a["padding"][1::2]
    numbers = [size.const for size in (*low, *high)]
    if any(number is None or number < 0 for number in numbers):
        if not all(map(e.moves.nonnegative, (*low, *high))):
            raise e.unsupported(op, "a convolution that cuts off what may lie at the edge")
        if x.type.dtype != "f32":
            raise e.unsupported(op, f"a convolution of {x.type.dtype} with computed padding")
        zero = s.constant(np.zeros((), np.float32), "zero")
        nothing = [const(0)] * 2
        name = s.node("Pad", [name, e.sizes.vector([*nothing, *low, *nothing, *high]), zero], f"{hint}_padded")
        numbers = [0] * len(numbers)
    found = s.node(
        "Conv",
        [name, taps],
        hint,
        strides=list(a["strides"]),
        dilations=list(a["rhs_dilation"]),
        pads=numbers,
        group=a["feature_groups"],
    )
    order = (out[0], out[1], *out[2])
    return e.moves.turned(found, [int(place) for place in np.argsort(order)], hint)
