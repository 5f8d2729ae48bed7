"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import product
from egshape.facts import Relation
from egshape.frontends.torch.moves import (
    ONE,
    along,
    axes_of,
    axis_of,
    centered,
    compare,
    convert,
    count_of,
    fold,
    kept,
    mean_of,
    reshape,
    running,
    select,
)
from egshape.frontends.torch.ops.elementwise import truth_of
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Scope, integers
from egshape.ir.graph import Value
from egshape.ir.types import is_float
from egshape.ops.contraction import summed_in

Axes = Sequence[int] | int | None


@aten_op("sum.dim_IntList", "sum.default")
def total(s: Scope, x: Value, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    """The sum over axes."""
    axes = axes_of(dim, x.type.rank)
    held = convert(s, truth_of(s, x) if s.dtype == "i1" else x, summed_in(s.dtype))
    return convert(s, fold(s, "add", held, axes, keepdim), s.dtype)


@aten_op("mean.dim", "mean.default", composite=True)
def mean(s: Scope, x: Value, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    """The mean over axes."""
    axes = axes_of(dim, x.type.rank)
    found = mean_of(s, convert(s, x, summed_in(s.dtype)), axes)
    return convert(s, kept(s, found, x, axes) if keepdim else found, s.dtype)


@aten_op("prod.dim_int", "prod.default")
def prod(s: Scope, x: Value, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    """The product over axes."""
    axes = axes_of(dim, x.type.rank)
    return convert(s, fold(s, "multiply", convert(s, x, summed_in(s.dtype)), axes, keepdim), s.dtype)


@aten_op("amax.default", "amin.default")
def extreme(s: Scope, x: Value, dim: Axes = (), keepdim: bool = False) -> Value:
    """The largest or smallest element; an axis without elements has none."""
    axes = axes_of(dim, x.type.rank)
    not_empty(s, x, axes)
    return fold(s, "maximum" if s.call.op.startswith("amax") else "minimum", x, axes, keepdim)


def not_empty(s: Scope, x: Value, axes: Sequence[int]) -> None:
    """Checks that axes have elements. torch wants so of these axes whatever the others are."""
    for axis in axes:
        s.check(Relation("<=", ONE, x.type.dims[axis]), f"{s.call.op}: an axis has no elements")


@aten_op("max.default", "min.default")
def extreme_of_all(s: Scope, x: Value) -> Value:
    """The largest or smallest of all elements."""
    axes = tuple(range(x.type.rank))
    s.check(Relation("<=", ONE, product(x.type.dims)), f"{s.call.op}: there are no elements")
    return fold(s, "maximum" if s.call.op.startswith("max") else "minimum", x, axes)


@aten_op("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_of(s: Scope, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Whether any or all elements are not 0."""
    axes = axes_of(dim, x.type.rank)
    ours = "or" if s.call.op.startswith("any") else "and"
    return convert(s, fold(s, ours, truth_of(s, x), axes, keepdim), s.dtype)


@aten_op("max.dim", "min.dim", composite=True)
def extreme_with_place(s: Scope, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """The largest or smallest element of an axis, and its first place."""
    axis = axis_of(dim, x.type.rank)
    if not x.type.rank:
        return [x, s.scalar(0, "i64")]
    not_empty(s, x, (axis,))
    return [each if not keepdim else kept(s, each, x, (axis,)) for each in _best(s, x, axis, s.call.op[:3])]


@aten_op("argmax.default", "argmin.default", composite=True)
def arg_extreme(s: Scope, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The first place of the largest or smallest element, of an axis or of all."""
    if not x.type.rank:
        return s.scalar(0, "i64")
    whole = x
    if dim is None:
        x = reshape(s, x, (product(x.type.dims),))
    axis = axis_of(dim or 0, x.type.rank)
    not_empty(s, x, (axis,))
    found = _best(s, x, axis, s.call.op[3:6])[1]
    if not keepdim:
        return found
    return kept(s, found, x, (axis,)) if dim is not None else reshape(s, found, (ONE,) * whole.type.rank)


def _best(s: Scope, x: Value, axis: int, kind: str) -> tuple[Value, Value]:
    """The best element of an axis, NaN before all, and the first place that holds it."""
    ours = "maximum" if kind == "max" else "minimum"
    if x.type.dtype == "i1":
        ours = "or" if kind == "max" else "and"
    best = fold(s, ours, x, (axis,))
    spread = along(s, best, x, (axis,))
    same = compare(s, "EQ", x, spread)
    if is_float(x.type.dtype):
        same = s.one("or", (same, compare(s, "NE", x, x)))
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    return best, fold(s, "minimum", select(s, same, places, s.full(2**62, places)), (axis,))


@aten_op("var.correction", "var_mean.correction", "std.correction", "std_mean.correction", composite=True)
def variance(
    s: Scope, x: Value, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Value | list[Value]:
    """The mean square of x - mean, over so many elements less; its root; beside the mean."""
    axes = axes_of(dim, x.type.rank)
    held = convert(s, x, summed_in(x.type.dtype))
    less = 1 if correction is None else correction
    rest, mean_, _ = centered(s, held, axes)
    square = fold(s, "add", s.one("multiply", (rest, rest)), axes)
    count = count_of(s, x, axes, held.type.dtype)
    count = s.one(
        "maximum", (s.one("subtract", (count, s.scalar(less, count.type.dtype))), s.scalar(0, count.type.dtype))
    )
    found = s.one("divide", (square, s.spread(count, square.type.dims)))
    if s.call.op.startswith("std"):
        found = s.one("sqrt", (found,))
    both = [convert(s, kept(s, each, x, axes) if keepdim else each, s.dtype) for each in (found, mean_)]
    return both if "mean" in s.call.op else both[0]


@aten_op("cumsum.default", "cumprod.default")
def cumulative(s: Scope, x: Value, dim: int, dtype: str | None = None) -> Value:
    """Sums or products of the elements up to each place of an axis."""
    if not x.type.rank:
        return convert(s, x, s.dtype)
    ours = "add" if s.call.op.startswith("cumsum") else "multiply"
    found = running(s, ours, convert(s, x, summed_in(s.dtype)), axis_of(dim, x.type.rank))
    return convert(s, found, s.dtype)


@aten_op("count_nonzero.dim_IntList", "count_nonzero.default", composite=True)
def count_nonzero(s: Scope, x: Value, dim: Any = None) -> Value:
    """How many elements are not 0."""
    return fold(s, "add", convert(s, truth_of(s, x), "i64"), axes_of(dim, x.type.rank))


@aten_op("logsumexp.default", composite=True)
def log_sum_exp(s: Scope, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """log(sum(exp(x))), by the largest element where that is finite."""
    if not x.type.rank or integers(x.type.dtype):
        raise NoLowering("a number, or integers")
    axes = axes_of(dim, x.type.rank)
    held = convert(s, x, summed_in(x.type.dtype))
    most = fold(s, "maximum", held, axes)
    most = select(s, s.one("is_finite", (most,)), most, s.full(0, most))
    powers = s.one("exponential", (s.one("subtract", (held, along(s, most, held, axes))),))
    found = s.one("add", (s.one("log", (fold(s, "add", powers, axes),)), most))
    return convert(s, kept(s, found, x, axes) if keepdim else found, x.type.dtype)


@aten_op("linalg_vector_norm.default", composite=True)
def norm(
    s: Scope, x: Value, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
) -> Value:
    """The sum of magnitudes, or the root of the sum of squares."""
    if ord not in (1, 2) or x.type.dtype.startswith("c"):
        raise NoLowering("another order, or complex numbers")
    held, axes = convert(s, x, summed_in(s.dtype)), axes_of(dim, x.type.rank)
    parts = s.one("abs", (held,)) if ord == 1 else s.one("multiply", (held, held))
    found = fold(s, "add", parts, axes, keepdim)
    return convert(s, found if ord == 1 else s.one("sqrt", (found,)), s.dtype)
