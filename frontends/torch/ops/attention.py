"""Attention, as programs call it and as torch's fused kernel for this processor computes it and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

from egshape.dims import Dim, floordiv
from egshape.dims.theory import divide
from egshape.frontends.torch.moves import (
    against,
    along,
    binary,
    compare,
    convert,
    expand,
    fold,
    joined,
    reshape,
    select,
)
from egshape.frontends.torch.ops.contraction import dot
from egshape.frontends.torch.ops.normalization import softmax_along
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Scope
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in


@dataclass(frozen=True)
class _Scored:
    """Queries, keys and values as they are multiplied, in the dtype of sums; what queries are multiplied with, and the
    scores (batch, head, row, column), masked places -inf. ``shared``: rows of all heads that share keys are those of
    one head, in all but the scores."""

    query: Value
    key: Value
    value: Value
    factor: Value
    scores: Value
    shared: bool

    @property
    def whole(self) -> tuple[Dim, ...]:
        return self.scores.type.dims

    def joined(self, s: Scope, x: Value) -> Value:
        """(batch, head, row, any) as rows of shared heads."""
        return reshape(s, x, (*self.query.type.dims[:-1], x.type.dims[-1])) if self.shared else x

    def mixed(self, s: Scope, shares: Value) -> Value:
        """Values weighed by shares: (batch, head, row, width)."""
        rank = shares.type.rank
        if self.shared:
            out = dot(s, self.joined(s, shares), self.value, rank - 2, rank - 1, rank - 2)
            return reshape(s, out, (*self.whole[:-1], self.value.type.dims[-1]))
        value = expand(s, self.value, (*shares.type.dims[:-2], *self.value.type.dims[-2:]))
        return dot(s, shares, value, rank - 2, rank - 1, rank - 2)


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
    x = _scored(s, query, key, value, attn_mask, is_causal, scale, enable_gqa)
    shares = softmax_along(s, x.scores, x.scores.type.rank - 1, safe=attn_mask is not None)
    return convert(s, x.mixed(s, shares), query.type.dtype)


@aten_op("_scaled_dot_product_flash_attention_for_cpu.default", composite=True)
def fused(
    s: Scope,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:
    """Attention, and for its gradient the logarithm of the sum of powers of each row of scores, 0 where all are
    masked. (torch's own decomposition gives the shares of places there, which the gradient cannot use.)"""
    if dropout_p:
        raise NoLowering("dropout")
    shared = query.type.dims[1] is not key.type.dims[1]
    x = _scored(s, query, key, value, attn_mask, is_causal, scale, shared)
    last = (x.scores.type.rank - 1,)
    shares = softmax_along(s, x.scores, last[0], safe=attn_mask is not None)
    most = fold(s, "maximum", x.scores, last)
    most = select(s, against(s, "EQ", most, -math.inf), s.full(0, most), most)
    shifted = s.one("subtract", (x.scores, along(s, most, x.scores, last)))
    sums = fold(s, "add", s.one("exponential", (shifted,)), last)
    total = s.one("add", (most, s.one("log", (sums,))))
    total = select(s, against(s, "EQ", sums, 0), s.full(0, total), total)
    return [convert(s, x.mixed(s, shares), query.type.dtype), total]


@aten_op("_scaled_dot_product_flash_attention_for_cpu_backward.default", composite=True)
def fused_gradient(
    s: Scope,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:
    """The gradients of queries, keys and values. With shares p = exp(scores - logsumexp) and gradients g of the result:
    dv = p^T g, ds = p (g v^T - sum(g out)), dq = ds k scale, dk = ds^T q scale.

    Source: Dao et al., FlashAttention (2022), appendix B.4."""
    if dropout_p:
        raise NoLowering("dropout")
    dtype, shared = query.type.dtype, query.type.dims[1] is not key.type.dims[1]
    x = _scored(s, query, key, value, attn_mask, is_causal, scale, shared)
    last = (x.scores.type.rank - 1,)
    grad, result = (convert(s, each, summed_in(dtype)) for each in (grad_out, out))
    rest = s.one("subtract", (x.scores, along(s, logsumexp, x.scores, last)))
    shares = x.joined(s, s.one("exponential", (rest,)))
    own = x.joined(s, along(s, fold(s, "add", s.one("multiply", (grad, result)), last), x.scores, last))
    grad = x.joined(s, grad)
    change = s.one("subtract", (dot(s, grad, x.value, 2, 3, 3), own))
    change = s.one("multiply", (shares, change))
    grads = (
        s.one("multiply", (dot(s, change, x.key, 2, 3, 2), x.factor)),
        dot(s, change, s.one("multiply", (x.query, x.factor)), 2, 2, 2),
        dot(s, shares, grad, 2, 2, 2),
    )
    shapes = (each.type.dims for each in (query, key, value))
    return [convert(s, reshape(s, each, shape), dtype) for each, shape in zip(grads, shapes, strict=True)]


def _scored(
    s: Scope,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    causal: bool,
    scale: float | None,
    shared: bool,
) -> _Scored:
    """The scores of attention; ``shared``: there may be fewer heads of keys and values than of queries."""
    held = [convert(s, each, summed_in(each.type.dtype)) for each in (query, key, value)]
    query, key, value = _grouped(s, *held) if shared else _batched(s, *held)
    rank = query.type.rank
    factor = _factor(s, query, scale)
    scores = dot(s, s.one("multiply", (query, factor)), key, rank - 2, rank - 1, rank - 1)
    if shared:
        scores = reshape(s, scores, (*query.type.dims[:-3], *held[0].type.dims[-3:-1], key.type.dims[-2]))
    hidden = s.scalar(-math.inf, scores.type.dtype)
    if causal:
        rows, columns = (s.one("iota", dtype="i64", dim=axis, shape=scores.type.dims[-2:]) for axis in (0, 1))
        scores = select(s, compare(s, "LE", columns, rows), scores, hidden)
    if mask is not None and mask.type.dtype == "i1":
        scores = select(s, mask, scores, hidden)
    elif mask is not None:
        scores = binary(s, "add", scores, convert(s, mask, scores.type.dtype))
    return _Scored(query, key, value, factor, scores, shared)


def _factor(s: Scope, query: Value, scale: float | None) -> Value:
    """What queries are multiplied with: 1 / sqrt(width) unless given."""
    width = query.type.dims[-1]
    if scale is not None:
        return s.full(scale, query)
    if width.const is not None:
        return s.full(1 / math.sqrt(width.const) if width.const else 1, query)
    root = s.one("sqrt", (s.scalar(width, query.type.dtype),))
    return s.one("divide", (s.full(1, query), s.spread(root, query.type.dims)))


def _batched(s: Scope, *values: Value) -> list[Value]:
    """Values with one batch shape."""
    batch = joined(s, [each.type.dims[:-2] for each in values])
    return [expand(s, each, (*batch, *each.type.dims[-2:])) for each in values]


def _grouped(s: Scope, query: Value, key: Value, value: Value) -> list[Value]:
    """The rows of all query heads that share keys as those of one head. Raises NoLowering where keys and values have
    other numbers of heads."""
    if s.decide("==", key.type.dims[-3], value.type.dims[-3]) is not True:
        raise NoLowering("keys and values of other numbers of heads")
    batch = joined(s, [each.type.dims[:-3] for each in (query, key, value)])
    query, key, value = (expand(s, each, (*batch, *each.type.dims[-3:])) for each in (query, key, value))
    heads, rows, width = query.type.dims[-3:]
    shared = key.type.dims[-3]
    quotient, rest = divide(heads, shared)
    group = floordiv(heads, shared) if rest.terms else quotient
    return [reshape(s, query, (*batch, shared, group * rows, width)), key, value]
