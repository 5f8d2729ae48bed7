"""Products of matrices, and attention."""

from __future__ import annotations

import math

from egshape.dims import floordiv
from egshape.dims.theory import divide
from egshape.frontends.torch.moves import (
    ONE,
    binary,
    compare,
    convert,
    expand,
    joined,
    reshape,
    select,
    wide,
    with_number,
)
from egshape.frontends.torch.ops.normalization import softmax_along
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.ir.graph import Value


def dot(s: Scope, x: Value, y: Value, batch: int, left: int, right: int) -> Value:
    """A contraction with equal leading batch axes, of one axis of each; sums of 16-bit floats are taken in f32."""
    axes, dtype = tuple(range(batch)), wide(x.type.dtype)
    out = s.one(
        "dot_general", (x, y), lhs_batch=axes, rhs_batch=axes, lhs_contract=(left,), rhs_contract=(right,), dtype=dtype
    )
    return convert(s, out, x.type.dtype)


@aten_op("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(s: Scope, x: Value, y: Value) -> Value:
    """numpy.matmul: one contraction, the batch axes of both brought to one shape."""
    if x.type.dtype.startswith("c") or x.type.dtype != y.type.dtype:
        raise NoLowering("complex numbers")
    xs, ys = x.type.dims, y.type.dims
    if len(ys) <= 2:
        return dot(s, x, y, 0, len(xs) - 1, max(len(ys) - 2, 0))
    if len(xs) == 1:
        return reshape(s, matmul(s, reshape(s, x, (ONE, *xs)), y), (*ys[:-2], ys[-1]))
    batch = joined(s, [xs[:-2], ys[:-2]])
    column = len(ys) > 1
    x, y = (expand(s, value, (*batch, *value.type.dims[-2:])) for value in (x, y))
    return dot(s, x, y, len(batch), len(batch) + 1, len(batch) if column else 0)


@aten_op("linear.default")
def linear(s: Scope, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x times the transpose of the weight, plus a bias."""
    if x.type.dtype.startswith("c"):
        raise NoLowering("complex numbers")
    out = dot(s, x, weight, 0, x.type.rank - 1, weight.type.rank - 1)
    return out if bias is None else binary(s, "add", out, bias)


@aten_op("addmm.default", "baddbmm.default", "addmv.default")
def addmm(s: Scope, bias: Value, x: Value, y: Value, *, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta bias + alpha x y."""
    out = matmul(s, x, y)
    if alpha != 1:
        out = with_number(s, "multiply", out, alpha)
    if beta == 0:
        return out
    bias = bias if beta == 1 else with_number(s, "multiply", bias, beta)
    return s.one("add", (expand(s, bias, out.type.dims), out))


@aten_op("scaled_dot_product_attention.default", composite=True)
def attention(
    s: Scope,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(q k^T scale + mask) v. A mask of booleans keeps places; rows without any are 0. With ``enable_gqa``
    groups of heads share keys and values."""
    if dropout_p or query.type.rank < 3:
        raise NoLowering("dropout, or no batch")
    dtype = query.type.dtype
    held = [convert(s, each, wide(dtype)) for each in (query, key, value)]
    query, key, value = _grouped(s, *held) if enable_gqa else _batched(s, *held)
    rank = query.type.rank
    width = query.type.dims[-1]
    if scale is None:
        root = s.one("sqrt", (s.scalar(width, query.type.dtype),)) if width.const is None else None
        factor = s.full(1 / math.sqrt(width.const), query) if root is None and width.const else s.full(1, query)
        if root is not None:
            factor = s.one("divide", (s.full(1, query), s.spread(root, query.type.dims)))
    else:
        factor = s.full(scale, query)
    scores = dot(s, s.one("multiply", (query, factor)), key, rank - 2, rank - 1, rank - 1)
    whole = (*held[0].type.dims[:-1], key.type.dims[-2]) if enable_gqa else scores.type.dims
    scores = reshape(s, scores, whole)
    if is_causal:
        rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=whole[-2:]) for axis in (0, 1))
        scores = select(s, compare(s, "LE", columns, rows), scores, s.scalar(-math.inf, scores.type.dtype))
    if attn_mask is not None and attn_mask.type.dtype == "i1":
        scores = select(s, attn_mask, scores, s.scalar(-math.inf, scores.type.dtype))
    elif attn_mask is not None:
        scores = binary(s, "add", scores, convert(s, attn_mask, scores.type.dtype))
    shares = softmax_along(s, scores, scores.type.rank - 1, safe=attn_mask is not None)
    if enable_gqa:
        shares = reshape(s, shares, (*query.type.dims[:-1], key.type.dims[-2]))
        out = dot(s, shares, value, rank - 2, rank - 1, rank - 2)
        return convert(s, reshape(s, out, (*held[0].type.dims[:-1], value.type.dims[-1])), dtype)
    value = expand(s, value, (*shares.type.dims[:-2], *value.type.dims[-2:]))
    rank = shares.type.rank
    return convert(s, dot(s, shares, value, rank - 2, rank - 1, rank - 2), dtype)


def _batched(s: Scope, *values: Value) -> list[Value]:
    """Values with one batch shape."""
    batch = joined(s, [each.type.dims[:-2] for each in values])
    return [expand(s, each, (*batch, *each.type.dims[-2:])) for each in values]


def _grouped(s: Scope, query: Value, key: Value, value: Value) -> list[Value]:
    """The rows of all query heads that share keys as those of one head."""
    *batch, heads, rows, width = query.type.dims
    shared = key.type.dims[-3]
    quotient, rest = divide(heads, shared)
    group = floordiv(heads, shared) if rest.terms else quotient
    return [reshape(s, query, (*batch, shared, group * rows, width)), key, value]
