"""Composites as the ONNX nodes that they were: without operands that say what holds without them, a convolution or a
pool together with what is put around its operand, a convolution with the constant that is added to each of its
channels, and a reduction with the reshape that adds or drops the axes that it folds.

ONNX Runtime adds a convolution's bias to the finished sums, as an Add behind it does, in f32 and f64. Gemm adds up from
its third operand on, which rounds otherwise, so MatMul and Add stay two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egshape.dims import const
from egshape.facts import Relation
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
COUNTS_PADS = 7
"""The opset since which an AveragePool may count its padding."""
_QUANTIZED = ("i8", "ui8", "i16", "ui16")
_REDUCTIONS = ("onnx.Reduce", "onnx.ArgMax", "onnx.ArgMin")

Attributes = tuple[tuple[str, str, Any], ...]
"""The attributes of a node: name, kind, value."""


@dataclass(frozen=True)
class Joined:
    """A composite that is written together with the op behind it: the bias that this adds to each channel, or whether
    the folded axes are kept."""

    part: Op
    bias: np.ndarray | None = None
    keeps: bool | None = None


def node(e: Emitter, op: Op, names: Sequence[str], joined: Joined | None = None) -> None:
    """Write the node of a composite, whose results get these names."""
    held, operands = dict(op.attrs["attrs"]), op.operands
    bias, keeps = (joined.bias, joined.keeps) if joined is not None else (None, None)
    pad = e.padded.get(operands[0]) if operands else None
    if pad is not None:
        held["attributes"], operands = _with_pads(op, pad), (pad.operands[0], *operands[1:])
    if keeps is not None:
        held["attributes"] = (*_without(held["attributes"], "keepdims"), ("keepdims", "i", int(keeps)))
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
    held = _attributes(op)
    batch = 0 if held.get("layout") else 1
    return is_zero(e, state) and state.type.dims[batch] is op.operands[0].type.dims[batch]


def stands(e: Emitter, op: Op) -> Value | None:
    """The operand that a composite hands on as it is: what a Pad of nothing, of any mode, is given, and integers that
    are quantized as they were before."""
    operands = dict(zip(dict(op.attrs["attrs"])["inputs"], op.operands, strict=True))
    if op.attrs["name"] == "onnx.Pad":
        return operands[0] if 1 in operands and is_zero(e, operands[1]) else None
    made = _dequantized(e, op)
    return None if made is None else made.operands[0]


def unread(e: Emitter, block: Block) -> set[Op]:
    """What only ops read that hand on its operand."""
    passed = [made for op in block.ops if op.name == "composite" and (made := _dequantized(e, op)) is not None]
    readers = block.readers()
    return {op for op in passed if readers[op.result] == passed.count(op)}


def _dequantized(e: Emitter, op: Op) -> Op | None:
    """What made the floats that a composite quantizes as they were before; None for any other composite."""
    made = e.producer(op.operands[0]) if op.attrs["name"] == "onnx.QuantizeLinear" else None
    if made is None or made.name != "composite" or made.attrs["name"] != "onnx.DequantizeLinear":
        return None
    same = made.operands[1:] == op.operands[1:] and _attributes(made) == _attributes(op)
    kept = made.operands[0].type == op.result.type and op.result.type.dtype in _QUANTIZED
    return made if same and kept and _steps_apart(e, op.operands[1]) else None


def _steps_apart(e: Emitter, scale: Value) -> bool:
    """Whether any number of 17 bits times a scale, over it, rounds to itself."""
    made = e.producer(scale)
    if made is None or made.name != "constant" or scale.type.dtype != "f32":
        return False
    held = np.abs(made.attrs["value"].astype(np.float64))
    return bool(np.all((held > 1e-37) & (held < 1e32)))


def joined(e: Emitter, block: Block) -> dict[Value, Joined]:
    """The ops that are written together with the composite before them, by their results."""
    return {**_biased(e, block), **_kept(e, block)}


def _kept(e: Emitter, block: Block) -> dict[Value, Joined]:
    """Reshapes that only add the axes that a reduction folded, as axes of size 1, or drop them."""
    readers = block.readers()
    made = {op.result: op for op in block.ops if op.name == "composite" and len(op.results) == 1}
    out: dict[Value, Joined] = {}
    for op in block.ops:
        part = made.get(op.operands[0]) if op.name == "reshape" else None
        if part is None or not part.attrs["name"].startswith(_REDUCTIONS) or readers[part.result] != 1:
            continue
        axes, keeps = _folded(e, part), bool(_attributes(part).get("keepdims", 1))
        if axes is None or part.result.type.shape is None:
            continue
        whole = tuple(const(1) if axis in axes else size for axis, size in enumerate(part.operands[0].type.dims))
        rest = tuple(size for axis, size in enumerate(whole) if axis not in axes)
        if (part.result.type.dims, op.result.type.dims) == ((whole, rest) if keeps else (rest, whole)):
            out[op.result] = Joined(part, keeps=not keeps)
    return out


def _folded(e: Emitter, op: Op) -> Sequence[int] | None:
    """The axes that a reduction folds; None where the model does not say."""
    own = _attributes(op)
    named = [own["axis"]] if "axis" in own else own.get("axes")
    if named is None and len(op.operands) == 2:
        made = e.producer(op.operands[1])
        named = made.attrs["value"].tolist() if made is not None and made.name == "constant" else None
    x = op.operands[0].type
    return [axis % x.rank for axis in named] if named and x.shape else None


def _biased(e: Emitter, block: Block) -> dict[Value, Joined]:
    """Convolutions without a bias that only an addition of a constant for each channel reads, by its result."""
    readers = block.readers()
    made = {op.result: op for op in block.ops if op.name == "composite" and op.attrs["name"] in BIASED}
    plain = {value: op for value, op in made.items() if dict(op.attrs["attrs"])["inputs"] == (0, 1)}
    out: dict[Value, Joined] = {}
    for op in block.ops:
        if op.name not in ("add", "subtract") or op.result.type.dtype not in _EXACT:
            continue
        one, two = op.operands
        for conv, other in ((one, two), (two, one)) if op.name == "add" else ((one, two),):
            if conv in plain and readers[conv] == 1 and conv.type == op.result.type:
                bias = _by_channel(e, other)
                if bias is not None:
                    out[op.result] = Joined(plain[conv], bias if op.name == "add" else -bias)
    return out


def padded(e: Emitter, block: Block) -> dict[Value, Op]:
    """Pads of spatial axes that only a convolution or a pool reads, which pads so by itself, by their results."""
    readers, pads = block.readers(), {op.result: op for op in block.ops if op.name == "pad"}
    out: dict[Value, Op] = {}
    for op in block.ops:
        pad = pads.get(op.operands[0]) if op.name == "composite" and op.operands else None
        if pad is None or readers[pad.result] != 1 or pad.result.type.dtype not in _EXACT:
            continue
        low, high, between = (pad.attrs[key] for key in ("low", "high", "interior"))
        known = [size.const for size in (*low, *high)]
        plain = all(size.const == 0 for size in (*low[:2], *high[:2], *between))
        if plain and all(size is not None and size >= 0 for size in known) and _pads_so(e, op, pad):
            out[pad.result] = pad
    return out


def _pads_so(e: Emitter, op: Op, pad: Op) -> bool:
    """Whether a composite pads by the number of a pad, and may pad by so much more."""
    name, own = op.attrs["name"], _attributes(op)
    if own.get("auto_pad", "NOTSET") != "NOTSET" or own.get("ceil_mode", 0) or len(op.results) != 1:
        return False
    if name == "onnx.Conv":
        return is_zero(e, pad.operands[1])
    if name != "onnx.AveragePool" or e.scope.opset < COUNTS_PADS or not is_zero(e, pad.operands[1]):
        return False
    if any(own.get("pads", ())) and not own.get("count_include_pad", 0):
        return False
    sizes = pad.operands[0].type.dims[1:]  # ONNX Runtime pools no empty images
    if not all(e.scope.bounds.decide(Relation("<=", const(1), size)) is True for size in sizes):
        return False
    pads = next(value for key, _, value in _with_pads(op, pad) if key == "pads")
    return all(more < side for more, side in zip(pads, own["kernel_shape"] * 2, strict=True))


def _with_pads(op: Op, pad: Op) -> Attributes:
    """The attributes of a convolution or a pool that pads by what a pad does, too."""
    attributes, own = dict(op.attrs["attrs"])["attributes"], _attributes(op)
    more = [size.const or 0 for size in (*pad.attrs["low"][2:], *pad.attrs["high"][2:])]
    sums = [one + two for one, two in zip(own.get("pads", [0] * len(more)), more, strict=True)]
    counted: Attributes = (("count_include_pad", "i", 1),) if op.attrs["name"] == "onnx.AveragePool" else ()
    return (*_without(attributes, "pads", "count_include_pad"), *counted, ("pads", "ints", sums))


def _without(attributes: Attributes, *names: str) -> Attributes:
    return tuple(each for each in attributes if each[0] not in names)


def _attributes(op: Op) -> dict[str, Any]:
    """The attributes of a composite's node by name."""
    return {name: value for name, _, value in dict(op.attrs["attrs"])["attributes"]}


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
