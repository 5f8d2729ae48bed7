"""Products of matrices."""

from __future__ import annotations

from egshape.frontends.torch.moves import (
    ONE,
    binary,
    convert,
    expand,
    joined,
    reshape,
    tensor,
)
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in


def sums(s: Scope, x: Value, y: Value, batch: int, left: int, right: int) -> Value:
    """A contraction with equal leading batch axes, of one axis of each; those of 16-bit floats in f32."""
    axes, dtype = tuple(range(batch)), summed_in(x.type.dtype)
    return s.one(
        "dot_general", (x, y), lhs_batch=axes, rhs_batch=axes, lhs_contract=(left,), rhs_contract=(right,), dtype=dtype
    )


def dot(s: Scope, x: Value, y: Value, batch: int, left: int, right: int) -> Value:
    """The same, rounded to the dtype of the operands."""
    return convert(s, sums(s, x, y, batch, left, right), x.type.dtype)


@aten_op("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(s: Scope, x: Value, y: Value) -> Value:
    """numpy.matmul."""
    return convert(s, _product(s, x, y), x.type.dtype)


def _product(s: Scope, x: Value, y: Value) -> Value:
    """The sums of a matmul: one contraction, the batch axes of both brought to one shape."""
    if x.type.dtype.startswith("c") or x.type.dtype != y.type.dtype:
        raise NoLowering("complex numbers")
    xs, ys = x.type.dims, y.type.dims
    if len(ys) <= 2:
        return sums(s, x, y, 0, len(xs) - 1, max(len(ys) - 2, 0))
    if len(xs) == 1:
        return reshape(s, _product(s, reshape(s, x, (ONE, *xs)), y), (*ys[:-2], ys[-1]))
    batch = joined(s, [xs[:-2], ys[:-2]])
    column = len(ys) > 1
    x, y = (expand(s, value, (*batch, *value.type.dims[-2:])) for value in (x, y))
    return sums(s, x, y, len(batch), len(batch) + 1, len(batch) if column else 0)


@aten_op("linear.default")
def linear(s: Scope, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x times the transpose of the weight, plus a bias; rounded once."""
    if x.type.dtype.startswith("c"):
        raise NoLowering("complex numbers")
    out = sums(s, x, weight, 0, x.type.rank - 1, weight.type.rank - 1)
    if bias is not None:
        out = binary(s, "add", out, convert(s, bias, out.type.dtype))
    return convert(s, out, x.type.dtype)


@aten_op("addmm.default", "baddbmm.default", "addmv.default")
def addmm(s: Scope, bias: Value, x: Value, y: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta bias + alpha x y, rounded once."""
    out = _product(s, x, y)
    if alpha != 1:
        out = binary(s, "multiply", out, tensor(s, alpha, out.type.dtype))
    if beta != 0:
        held = convert(s, bias, out.type.dtype)
        held = held if beta == 1 else binary(s, "multiply", held, tensor(s, beta, held.type.dtype))
        out = s.one("add", (expand(s, held, out.type.dims), out))
    return convert(s, out, x.type.dtype)
