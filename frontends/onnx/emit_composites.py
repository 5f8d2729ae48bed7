"""Composites as the ONNX nodes that they were: without operands that say what holds without them, and a convolution
together with the constant that is added to each of its channels.

ONNX Runtime adds a convolution's bias to the finished sums, as an Add behind it does, in f32 and f64. Gemm adds up from
its third operand on, which rounds otherwise, so MatMul and Add stay two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.frontends.onnx.emit_ops import is_zero, under
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.node import node_of
from egshape.frontends.onnx.subgraphs import rebind
from egshape.ir.graph import Block, Op, Value

ZERO_IF_LEFT_OUT = {
    "onnx.LSTM": (5, 6),
    "onnx.GRU": (5,),
    "onnx.RNN": (5,),
    "com.microsoft.DynamicQuantizeLSTM": (5, 6),
}
"""The inputs of an op that are zeros where they are left out."""

BIASED = ("onnx.Conv", "onnx.ConvTranspose")
_EXACT = ("f32", "f64")


@dataclass(frozen=True)
class Biased:
    """A convolution that is written with a bias: what is added to each channel."""

    part: Op
    bias: np.ndarray


def node(e: Emitter, op: Op, names: Sequence[str], bias: np.ndarray | None = None) -> None:
    """Write the node of a composite, whose results get these names."""
    held = dict(op.attrs["attrs"])
    zeros = ZERO_IF_LEFT_OUT.get(op.attrs["name"], ())
    given = [
        (place, e.name(value))
        for place, value in zip(held["inputs"], op.operands, strict=True)
        if not (place in zeros and is_zero(e, value))
    ]
    if bias is not None:
        given.append((2, e.scope.constant(bias, f"{names[0]}_bias")))
    record = {**held, "inputs": tuple(place for place, _ in given)}
    found = node_of(
        op.attrs["name"], record, [name for _, name in given], names, e.scope.titles.fresh(str(op.location))
    )
    rebind(found, {}, e.scope.names.fresh)
    e.scope.frame.nodes.append(found)


def stands(e: Emitter, op: Op) -> Value | None:
    """The operand that a composite hands on as it is: what a Pad of nothing, of any mode, is given."""
    operands = dict(zip(dict(op.attrs["attrs"])["inputs"], op.operands, strict=True))
    nothing = op.attrs["name"] == "onnx.Pad" and 1 in operands and is_zero(e, operands[1])
    return operands[0] if nothing else None


def biased(e: Emitter, block: Block) -> dict[Value, Biased]:
    """Convolutions without a bias that only an addition of a constant for each channel reads, by its result."""
    readers = block.readers()
    made = {op.result: op for op in block.ops if op.name == "composite" and op.attrs["name"] in BIASED}
    plain = {value: op for value, op in made.items() if dict(op.attrs["attrs"])["inputs"] == (0, 1)}
    out: dict[Value, Biased] = {}
    for op in block.ops:
        if op.name not in ("add", "subtract") or op.result.type.dtype not in _EXACT:
            continue
        one, two = op.operands
        for conv, other in ((one, two), (two, one)) if op.name == "add" else ((one, two),):
            if conv in plain and readers[conv] == 1 and conv.type == op.result.type:
                bias = _by_channel(e, other)
                if bias is not None:
                    out[op.result] = Biased(plain[conv], bias if op.name == "add" else -bias)
    return out


def _by_channel(e: Emitter, value: Value) -> np.ndarray | None:
    """The numbers of a constant that has one for each place of axis 1; None for any other value."""
    source, axes = under(e, value)
    made, count = e.producer(source), value.type.dims[1].const
    if made is None or made.name != "constant" or count is None or tuple(axes) != tuple(sorted(axes)):
        return None
    held = made.attrs["value"]
    whole = np.expand_dims(held, [axis for axis in range(value.type.rank) if axis not in axes])
    first = whole[tuple(slice(None) if axis == 1 else slice(0, 1) for axis in range(whole.ndim))]
    if not first.size or np.broadcast_to(first, whole.shape).tobytes() != whole.tobytes():
        return None
    return np.ascontiguousarray(np.broadcast_to(first.reshape(-1), (count,)))
