"""Composites as the ONNX nodes that they were: without operands that say what holds without them, and a convolution
together with the zeros that are put around its operand, and the constant that is added to each of its channels.

ONNX Runtime adds a convolution's bias to the finished sums, as an Add behind it does, in f32 and f64. Gemm adds up from
its third operand on, which rounds otherwise, so MatMul and Add stay two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    held, operands = dict(op.attrs["attrs"]), op.operands
    pad = e.padded.get(operands[0]) if operands else None
    if pad is not None:
        held["attributes"], operands = _with_pads(held["attributes"], pad), (pad.operands[0], *operands[1:])
    given = [
        (place, e.name(value))
        for place, value in zip(held["inputs"], operands, strict=True)
        if not (place in ZERO_IF_LEFT_OUT.get(op.attrs["name"], ()) and _zero_state(e, op, value))
    ]
    if bias is not None:
        given.append((2, e.scope.constant(bias, f"{names[0]}_bias")))
    record = {**held, "inputs": tuple(place for place, _ in given)}
    found = node_of(
        op.attrs["name"], record, [name for _, name in given], names, e.scope.titles.fresh(str(op.location))
    )
    rebind(found, {}, e.scope.names.fresh)
    e.scope.frame.nodes.append(found)


def _zero_state(e: Emitter, op: Op, state: Value) -> bool:
    """Whether a state is zeros, one for each sequence: what has another size is refused only where it is there."""
    held = {name: value for name, _, value in dict(op.attrs["attrs"])["attributes"]}
    batch = 0 if held.get("layout") else 1
    return is_zero(e, state) and state.type.dims[batch] is op.operands[0].type.dims[batch]


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


def padded(e: Emitter, block: Block) -> dict[Value, Op]:
    """Pads by zeros of spatial axes that only a convolution reads, which pads by itself, by their results."""
    readers, pads = block.readers(), {op.result: op for op in block.ops if op.name == "pad"}
    out: dict[Value, Op] = {}
    for op in block.ops:
        pad = pads.get(op.operands[0]) if op.name == "composite" and op.attrs["name"] == "onnx.Conv" else None
        if pad is None or readers[pad.result] != 1 or pad.result.type.dtype not in _EXACT:
            continue
        own = {name: value for name, _, value in dict(op.attrs["attrs"])["attributes"]}
        low, high, between = (pad.attrs[key] for key in ("low", "high", "interior"))
        known = [size.const for size in (*low, *high)]
        plain = all(size.const == 0 for size in (*low[:2], *high[:2], *between)) and is_zero(e, pad.operands[1])
        if (
            plain
            and own.get("auto_pad", "NOTSET") == "NOTSET"
            and all(size is not None and size >= 0 for size in known)
        ):
            out[pad.result] = pad
    return out


def _with_pads(attributes: Sequence[tuple[str, str, Any]], pad: Op) -> tuple[tuple[str, str, Any], ...]:
    """The attributes of a convolution that pads by what a pad does, too."""
    more = [size.const or 0 for size in (*pad.attrs["low"][2:], *pad.attrs["high"][2:])]
    own = next((value for name, _, value in attributes if name == "pads"), [0] * len(more))
    rest = [each for each in attributes if each[0] != "pads"]
    return (*rest, ("pads", "ints", [one + two for one, two in zip(own, more, strict=True)]))


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
