"""Fourier transforms as products with matrices of cosines and sines, and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import Dim, const, floordiv
from egshape.facts import Relation
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.computed import by_axis
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.movement import transposed
from egshape.frontends.onnx.ops.sampling import compared, number
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of, equal
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.graph import Value
from egshape.ir.types import is_float, numpy_dtype

_STORED = 1 << 20
"""Matrices of so many elements are constants; larger ones are computed where they are read."""


@onnx_op("DFT", since=20, composite=True)
def dft(s: Scope, node: Node, x: Value, length: Value | None = None, axis: Value | None = None) -> Value:
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary parts."""
    found = (-2,) if axis is None else s.numbers(axis)
    if found:
        return _transform(s, node, x, length, found[0])
    assert axis is not None
    if x.type.rank < 2:
        raise node.error(f"of {x.type}")
    return by_axis(
        s, node, axis, x.type.rank, range(x.type.rank - 1), lambda inner, at: _transform(inner, node, x, length, at)
    )


@onnx_op("DFT", since=17, composite=True)
def dft_17(s: Scope, node: Node, x: Value, length: Value | None = None) -> Value:
    """The same, with the axis as an attribute."""
    return _transform(s, node, x, length, node.int("axis", 1))


def _transform(s: Scope, node: Node, x: Value, length: Value | None, named: int) -> Value:
    axis, rank = axis_of(node, named, x.type.rank), x.type.rank
    if axis == rank - 1:
        raise node.error("transforms the axis of real and imaginary parts")
    inverse, onesided = node.flag("inverse", False), node.flag("onesided", False)
    size = x.type.dims[axis]
    if length is not None:
        size = size_of(s, length, f"{node.outputs[0]}.length")
    elif inverse and onesided:
        size = 2 * size - 2
    return fourier(s, x, axis, size, inverse, onesided)


def size_of(s: Scope, scalar: Value, label: str) -> Dim:
    """A tensor of one element as a size."""
    (found,) = s.sizes(reshape(s, scalar, (const(1),)), label)
    return found


def fourier(s: Scope, x: Value, axis: int, size: Dim, inverse: bool, onesided: bool) -> Value:
    """The transform of ``size`` elements of an axis, which is cut or filled with zeros; summed in f64, as sums of
    products lose more than a fast transform does."""
    if not is_float(x.type.dtype):
        raise NoLowering(f"elements of {x.type.dtype}")
    rank, dtype = x.type.rank, x.type.dtype
    halves = floordiv(size, 2) + 1
    rows = halves if inverse and onesided else size
    columns = halves if onesided and not inverse else size
    x = _filled(s, convert(s, x, "f64"), axis, rows)
    real = x.type.dims[-1].const == 1
    x = x if real else _filled(s, x, rank - 1, const(2))
    parts = [
        reshape(s, window(s, x, rank - 1, const(k), const(k + 1)), x.type.dims[:-1]) for k in range(1 if real else 2)
    ]
    cosines, sines = (
        _matrix(s, way, rows, columns, size, inverse and onesided, x.type.dtype) for way in ("cosine", "sine")
    )
    sign = "add" if inverse else "subtract"
    even, odd = ([_product(s, part, axis, matrix) for part in parts] for matrix in (cosines, sines))
    one = even[0] if real else s.one("subtract" if inverse else "add", (even[0], odd[1]))
    wide = (*one.type.dims, const(1))
    found = [reshape(s, one, wide)]
    if not (inverse and onesided):
        zero = s.full(0, one) if real else even[1]
        found.append(reshape(s, s.one(sign, (zero, odd[0])), wide))
    out = found[0] if len(found) == 1 else s.one("concatenate", found, dim=rank - 1)
    if inverse:
        out = s.one("divide", (out, number(s, size, out)))
    return convert(s, out, dtype)


def _filled(s: Scope, x: Value, axis: int, size: Dim) -> Value:
    """An axis cut, or filled with zeros, to a size."""
    if x.type.dims[axis] is size:
        return x
    none, high = (const(0),) * x.type.rank, [const(0)] * x.type.rank
    high[axis] = size - x.type.dims[axis]
    return s.one("pad", (x, s.scalar(0, x.type.dtype)), low=none, high=tuple(high), interior=none)


def _product(s: Scope, x: Value, axis: int, matrix: Value) -> Value:
    """x times a matrix along an axis, which stays where it is."""
    out = s.one(
        "dot_general",
        (x, matrix),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contract=(axis,),
        rhs_contract=(0,),
        dtype=x.type.dtype,
    )
    last = x.type.rank - 1
    return transposed(s, out, [*range(axis), last, *range(axis, last)])


def _matrix(s: Scope, way: str, rows: Dim, columns: Dim, size: Dim, doubled: bool, dtype: str) -> Value:
    """The cosines or sines of 2 pi j k / size; ``doubled``: each row also stands for the one that mirrors it."""
    if (
        rows.const is not None
        and columns.const is not None
        and size.const is not None
        and rows.const * columns.const <= _STORED
    ):
        return s.constant(_numbers(way, rows.const, columns.const, size.const, doubled).astype(numpy_dtype(dtype)))
    shape = (rows, columns)
    row, column = (s.one("iota", dtype="i64", dim=axis, shape=shape) for axis in range(2))
    whole = s.spread(s.vector([size], "i64", ()), shape)
    turns = s.one("remainder", (s.one("multiply", (row, column)), s.one("maximum", (whole, s.full(1, whole)))))
    turns = s.one("divide", (convert(s, turns, "f64"), convert(s, whole, "f64")))
    found = s.one(way, (s.one("multiply", (turns, s.full(2 * np.pi, turns))),))
    if doubled:
        twice = s.one("add", (row, row))
        alone = s.one("or", (_same(s, row, s.full(0, row)), _same(s, twice, whole)))
        found = s.one("select", (alone, found, s.one("add", (found, found))))
    return convert(s, found, dtype)


def _same(s: Scope, one: Value, two: Value) -> Value:
    return s.one("compare", (one, two), direction="EQ", kind="SIGNED")


def _numbers(way: str, rows: int, columns: int, size: int, doubled: bool) -> np.ndarray:
    row, column = np.ogrid[:rows, :columns]
    angles = 2 * np.pi * (row * column % max(size, 1)) / max(size, 1)
    found: np.ndarray = np.cos(angles) if way == "cosine" else np.sin(angles)
    if doubled:
        found = np.where((row == 0) | (2 * row == size), found, 2 * found)
    return found


@onnx_op("STFT", composite=True)
def stft(
    s: Scope, node: Node, x: Value, step: Value, weights: Value | None = None, length: Value | None = None
) -> Value:
    """Fourier transforms of weighted frames, each a step behind the one before."""
    signal = x.type.dims[1]
    if length is not None:
        size = size_of(s, length, f"{node.outputs[0]}.frame")
    else:
        size = signal if weights is None else weights.type.dims[0]
    if weights is not None:
        equal(s, node, size, weights.type.dims[0], "has frames of {0} and a window of {1}")
    stride = size_of(s, step, f"{node.outputs[0]}.step")
    s.needs += [Relation("<=", const(1), stride, "STFT's frame_step"), Relation("<=", size, signal, "a frame of STFT")]
    frames = floordiv(signal - size, stride) + 1
    shape = (frames, size)
    first, inner = (s.one("iota", dtype="i64", dim=axis, shape=shape) for axis in range(2))
    places = s.one("add", (s.one("multiply", (first, s.spread(s.vector([stride], "i64", ()), shape))), inner))
    out = taken(s, x, 1, places)
    if weights is not None:
        out = s.one("multiply", (out, s.one("broadcast_in_dim", (weights,), dims=(2,), shape=out.type.dims)))
    return fourier(s, out, 2, size, False, node.flag("onesided", True))


@onnx_op("MelWeightMatrix", composite=True)
def mel_weights(s: Scope, node: Node, bins: Value, length: Value, rate: Value, low: Value, high: Value) -> Value:
    """Triangles over the frequencies of a transform, of equal width in mel."""
    count, size = (size_of(s, each, f"{node.outputs[0]}.{name}") for each, name in ((bins, "bins"), (length, "length")))
    ends = [
        s.one(
            "multiply",
            (
                s.one("log_plus_one", (s.one("divide", (edge, s.scalar(700, "f64"))),)),
                s.scalar(2595 / np.log(10), "f64"),
            ),
        )
        for edge in (convert(s, reshape(s, each, ()), "f64") for each in (low, high))
    ]
    line = s.one("iota", dtype="f64", dim=0, shape=(count + 2,))
    width = s.one("divide", (s.one("subtract", (ends[1], ends[0])), number(s, count + 2, ends[0])))
    mel = s.one("add", (s.one("multiply", (line, s.spread(width, line.type.dims))), s.spread(ends[0], line.type.dims)))
    hertz = s.one(
        "multiply",
        (s.one("exponential_minus_one", (s.one("multiply", (mel, s.full(np.log(10) / 2595, mel))),)), s.full(700, mel)),
    )
    per = convert(s, reshape(s, rate, ()), "f64")
    edges = s.one(
        "floor",
        (s.one("divide", (s.one("multiply", (hertz, number(s, size + 1, hertz))), s.spread(per, hertz.type.dims))),),
    )
    shape = (floordiv(size, 2) + 1, count)
    return convert(s, _triangles(s, edges, shape), dtype_of(node.int("output_datatype", 1), str(node.location)))


def _triangles(s: Scope, edges: Value, shape: Sequence[Dim]) -> Value:
    """In column i a triangle between the edges i and i + 2 with its top, 1, at edge i + 1."""
    row = s.one("iota", dtype="f64", dim=0, shape=tuple(shape))
    left, top, right = (
        s.one("broadcast_in_dim", (window(s, edges, 0, const(k), shape[1] + k),), dims=(1,), shape=tuple(shape))
        for k in range(3)
    )
    one, zero = s.full(1, row), s.full(0, row)
    rise = s.one("divide", (s.one("subtract", (row, left)), s.one("maximum", (s.one("subtract", (top, left)), one))))
    flat = compared(s, top, "EQ", left)
    rise = s.one("select", (flat, one, rise))
    fall = s.one("divide", (s.one("subtract", (right, row)), s.one("maximum", (s.one("subtract", (right, top)), one))))
    rises = s.one("and", (compared(s, row, "GE", left), compared(s, row, "LE", top)))
    falls = s.one("and", (compared(s, row, "GE", top), compared(s, row, "LT", right)))
    return s.one("select", (falls, fall, s.one("select", (rises, rise, zero))))
