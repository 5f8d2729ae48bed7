"""Tensors of numbers and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim, ceildiv, const, relu
from egshape.dims.theory import divide
from egshape.facts import Relation
from egshape.frontends.torch.moves import binary, compare, convert, line, operand, scalar_tensor, spread_along, tensor
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope, integers
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.frontends.torch.symbolic import is_size
from egshape.ir.graph import Value


@aten_op("full.default")
def full(s: Scope, size: Sequence[Number], fill_value: Value | Number, **_: Any) -> Value:
    """One number, repeated to a shape."""
    return s.spread(tensor(s, fill_value, s.dtype), [size_of(each) for each in size])


@aten_op("zeros.default", "ones.default")
def zeros(s: Scope, size: Sequence[Number], **_: Any) -> Value:
    """Zeros or ones."""
    return full(s, size, 1 if s.call.op.startswith("ones") else 0)


@aten_op("empty.memory_format", "new_empty.default", "new_zeros.default", "new_ones.default", "empty_permuted.default")
def empty(s: Scope, *args: Any, **_: Any) -> Value:
    """Elements that nobody relies on are zeros."""
    sizes = args[1] if s.call.op.startswith("new") else args[0]
    return full(s, sizes, 1 if s.call.op.startswith("new_ones") else 0)


@aten_op("full_like.default", "zeros_like.default", "ones_like.default", "empty_like.default", "new_full.default")
def full_like(s: Scope, x: Value, *args: Any, **_: Any) -> Value:
    """One number in the shape of another tensor."""
    if s.call.op.startswith("new_full"):
        return full(s, args[0], args[1])
    number = args[0] if s.call.op.startswith("full") else 1 if s.call.op.startswith("ones") else 0
    return s.spread(tensor(s, number, s.dtype), x.type.dims)


@aten_op("fill.Scalar", "fill.Tensor")
def fill(s: Scope, x: Value, value: Value | Number) -> Value:
    """One number in the shape of another tensor."""
    return s.spread(tensor(s, value, x.type.dtype), x.type.dims)


@aten_op("scalar_tensor.default")
def scalar(s: Scope, number: Value | Number, **_: Any) -> Value:
    """A number as a tensor."""
    return scalar_tensor(s, number, s.dtype)


@aten_op("arange.start_step", "arange.start", "arange.default")
def arange(s: Scope, start: Any, end: Any = None, step: Any = 1, **_: Any) -> Value:
    """start, start + step, ... before end."""
    first, last = (0, start) if end is None else (start, end)
    if not all(is_size(each) for each in (first, last, step)):
        return _arange_of_floats(s, first, last, step)
    low, high = size_of(first), size_of(last)
    if not isinstance(step, int):
        return _line(s, _steps(s, high - low, step), low, step)
    span = high - low if step > 0 else low - high
    count = ceildiv(span if s.decide("<=", const(0), span) is True else relu(span), const(abs(step)))
    return _line(s, count, low, const(step))


def _steps(s: Scope, span: Dim, step: Dim) -> Dim:
    """How many steps of a size that is not 0 begin within a span."""
    if s.decide("<=", const(0), step) is not True:
        raise NoLowering("a range may go either way")
    s.check(Relation("<=", const(1), step), "a range has steps of {1}, they must be {0} at least")
    whole, rest = divide(span, step)
    count = ceildiv(span, step) if rest.terms else whole
    return count if s.decide("<=", const(0), span) is True else relu(count)


def _line(s: Scope, count: Dim, start: Number, step: Number) -> Value:
    dtype = s.dtype if integers(s.dtype) or s.dtype in ("f32", "f64") else "f32"
    out = line(s, count, dtype)
    if not (isinstance(step, Dim) and step.const == 1):
        out = binary(s, "multiply", out, operand(s, step, dtype))
    if not (isinstance(start, Dim) and start.const == 0):
        out = binary(s, "add", out, operand(s, start, dtype))
    return convert(s, out, s.dtype)


def _arange_of_floats(s: Scope, start: Any, end: Any, step: Any) -> Value:
    """Of numbers: how many there are is computed as torch does, in f64."""
    import math

    if not all(isinstance(each, int | float) for each in (start, end, step)):
        raise NoLowering("a range of floats that are data")
    return _line(s, const(max(math.ceil((end - start) / step), 0)), start, step)


@aten_op("tril.default", "triu.default", composite=True)
def triangle(s: Scope, x: Value, diagonal: Number = 0) -> Value:
    """The lower or upper triangle of the last two axes, zeros elsewhere."""
    dims, rank = x.type.dims[-2:], x.type.rank
    rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=dims) for axis in (0, 1))
    moved = rows if diagonal == 0 else s.one("add", (rows, s.full(diagonal, rows)))
    here = compare(s, "LE" if s.call.op.startswith("tril") else "GE", columns, moved)
    if rank > 2:
        here = spread_along(s, here, (rank - 2, rank - 1), x.type.dims)
    return s.one("select", (here, x, s.full(0, x)))
