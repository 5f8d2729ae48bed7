"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from egshape.dims import Dim, const, product, relu
from egshape.frontends.onnx.broadcast import expand
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert, summing_dtype
from egshape.frontends.onnx.ops.movement import reshape, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Operand, Scope
from egshape.frontends.onnx.sizes import axes_of
from egshape.ir.graph import Value
from egshape.ir.types import integer_range, is_integer, numpy_dtype

Finish = Callable[[Scope, Value, Dim], Value]


def start_of(ours: str, dtype: str) -> np.ndarray:
    """The number from which a reduction starts: its neutral element."""
    if ours in ("add", "multiply"):
        number: float = 1 if ours == "multiply" else 0
    elif ours == "or":
        number = 0
    elif dtype == "i1" or is_integer(dtype):
        number = integer_range(dtype)[0 if ours == "maximum" else 1]
    else:
        number = -np.inf if ours == "maximum" else np.inf
    return np.array(number).astype(numpy_dtype(dtype))


def fold(s: Scope, ours: str, x: Value, axes: Sequence[int], start: np.ndarray | None = None) -> Value:
    """x folded over axes by one of our binary ops; the axes go."""
    init = s.constant(start_of(ours, x.type.dtype) if start is None else start)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    return s.add("reduce", (x, init), {"dims": tuple(axes)}, regions=(body,))[0]


def kept(s: Scope, folded: Value, shape: Sequence[Dim], axes: Sequence[int]) -> Value:
    """A folded tensor with axes of size 1 where axes went."""
    return reshape(s, folded, [const(1) if axis in axes else size for axis, size in enumerate(shape)])


def _plain(s: Scope, x: Value, count: Dim) -> Value:
    return x


def _divided(s: Scope, x: Value, count: Dim) -> Value:
    number = convert(s, s.vector([count], "i64", ()), x.type.dtype)
    return s.one("divide", (x, s.spread(number, x.type.dims)))


def _sqrt(s: Scope, x: Value, count: Dim) -> Value:
    if is_integer(x.type.dtype):
        return convert(s, s.one("sqrt", (convert(s, x, "f64"),)), x.type.dtype)
    return s.one("sqrt", (x,))


def _log(s: Scope, x: Value, count: Dim) -> Value:
    if is_integer(x.type.dtype):
        return convert(s, s.one("log", (convert(s, x, "f64"),)), x.type.dtype)
    return s.one("log", (x,))


def _squared(s: Scope, x: Value) -> Value:
    return s.one("multiply", (x, x))


def _absolute(s: Scope, x: Value) -> Value:
    return x if x.type.dtype.startswith("ui") else s.one("abs", (x,))


def _same(s: Scope, x: Value) -> Value:
    return x


_REDUCTIONS: dict[str, tuple[Callable[[Scope, Value], Value], str, Finish]] = {
    "ReduceSum": (_same, "add", _plain),
    "ReduceMean": (_same, "add", _divided),
    "ReduceMax": (_same, "maximum", _plain),
    "ReduceMin": (_same, "minimum", _plain),
    "ReduceProd": (_same, "multiply", _plain),
    "ReduceL1": (_absolute, "add", _plain),
    "ReduceL2": (_squared, "add", _sqrt),
    "ReduceSumSquare": (_squared, "add", _plain),
    "ReduceLogSum": (_same, "add", _log),
}


@onnx_op(*_REDUCTIONS, "ReduceLogSumExp")
def reduce(s: Scope, node: Node, x: Value, axes: Value | None = None) -> Operand:
    """A fold over the named axes; over all where none are named, unless ``noop_with_empty_axes``."""
    found = _of_sizes(s, node, x)
    if found is not None:
        return found
    handler = _reduce if axes is None or s.numbers(axes) is not None else _reduce_data
    return s.composite(node, (x,) if axes is None else (x, axes), handler)[0]


def _of_sizes(s: Scope, node: Node, x: Value) -> Value | None:
    """The sum or product of a vector of sizes, which is a size."""
    sizes = s.dims(x) if x.type.rank == 1 and node.op in ("ReduceProd", "ReduceSum") else None
    if not sizes or all(size.const is not None for size in sizes):
        return None
    total = product(sizes) if node.op == "ReduceProd" else sum(sizes, const(0))
    return s.vector([total], x.type.dtype, (1,) if node.int("keepdims", 1) else ())


def _reduce(s: Scope, node: Node, x: Value, given: Value | None = None) -> Value:
    axes = axes_of(s, node, given, x.type.rank)
    if not axes:
        if node.int("noop_with_empty_axes", 0):
            axes = ()
        else:
            axes = tuple(range(x.type.rank))
    count = product([x.type.dims[axis] for axis in axes])
    if node.op == "ReduceLogSumExp":
        out = _log_sum_exp(s, x, axes)
    else:
        before, ours, after = _REDUCTIONS[node.op]
        inner = before(s, convert(s, x, summing_dtype(x.type.dtype)) if ours == "add" else x)
        out = convert(s, after(s, fold(s, ours, inner, axes) if axes else inner, count), x.type.dtype)
    return kept(s, out, x.type.dims, axes) if node.int("keepdims", 1) else out


def _reduce_data(s: Scope, node: Node, x: Value, axes: Value) -> Value:
    """The same for axes that only running tells: axis by axis, all elements of a folded one are its fold, and one of
    them is kept. Means divide by the product of the folded sizes."""
    length = axes.type.dims[0].const if axes.type.rank == 1 else None
    keep = bool(node.int("keepdims", 1))
    rank = s.program.ranks.get(node.outputs[0]) if length is None else x.type.rank - length
    if node.op == "ReduceLogSumExp" or (rank is None and not keep):
        raise NoLowering("axes are data")
    before, ours, after = _REDUCTIONS[node.op]
    flags = [_folded_axis(s, node, axes, axis, x.type.rank) for axis in range(x.type.rank)]
    out, count = _not_empty(s, before(s, x), ours), s.scalar(1, "i64")
    sizes: list[Value] = []
    for axis, flag in enumerate(flags):
        whole, one = s.vector([x.type.dims[axis]], "i64", ()), s.scalar(1, "i64")
        count = s.one("multiply", (count, s.one("select", (flag, whole, one))))
        sizes.append(reshape(s, s.one("select", (flag, one, whole)), (const(1),)))
        folded = kept(s, fold(s, ours, out, (axis,)), out.type.dims, (axis,))
        out = s.one("select", (s.spread(flag, out.type.dims), expand(s, folded, out.type.dims), out))
    (total,) = s.sizes(reshape(s, count, (const(1),)), f"{node.outputs[0]}.count")
    limits = s.sizes(sizes[0] if len(sizes) == 1 else s.one("concatenate", sizes, dim=0), f"{node.outputs[0]}.kept")
    out = s.one("slice", (out,), starts=(const(0),) * len(limits), limits=limits, strides=(const(1),) * len(limits))
    out = after(s, out, total)
    return out if keep else _squeezed(s, node, out, flags, rank or 0)


def _not_empty(s: Scope, x: Value, ours: str) -> Value:
    """x with one neutral element along each axis that is empty, so that every fold has a place for its result."""
    missing = tuple(const(0) if size.const else relu(1 - size) for size in x.type.dims)
    if all(size.const == 0 for size in missing):
        return x
    none = (const(0),) * x.type.rank
    return s.one("pad", (x, s.constant(start_of(ours, x.type.dtype))), low=none, high=missing, interior=none)


def _folded_axis(s: Scope, node: Node, axes: Value, axis: int, rank: int) -> Value:
    """Whether an axis is among the named ones, counted from either end; with no names, whether all are folded."""
    hits = [s.one("compare", (axes, s.full(number, axes)), direction="EQ", kind="SIGNED")
            for number in (axis, axis - rank)]
    among = fold(s, "or", s.one("or", tuple(hits)), (0,))
    if node.int("noop_with_empty_axes", 0) or axes.type.dims[0].const:
        return among
    none = s.one("compare", (s.vector(axes.type.dims, "i64", ()), s.scalar(0, "i64")), direction="EQ", kind="SIGNED")
    return s.one("or", (among, none))


def _squeezed(s: Scope, node: Node, x: Value, flags: Sequence[Value], rank: int) -> Value:
    """Without the folded axes: the other sizes stand first in a stable sort by whether they were folded."""
    wide = [reshape(s, convert(s, flag, "i64"), (const(1),)) for flag in flags]
    keys = wide[0] if len(wide) == 1 else s.one("concatenate", wide, dim=0)
    sizes = s.vector(x.type.dims)
    region = s.region([("i64", ())] * 4, lambda inner, a, b, c, d: inner.one(
        "compare", (a, b), direction="LT", kind="SIGNED"))
    ordered = s.add("sort", (keys, sizes), {"dim": 0, "stable": True}, regions=(region,))[1]
    return reshape(s, x, s.sizes(window(s, ordered, 0, const(0), const(rank)), node.outputs[0]))


def _log_sum_exp(s: Scope, x: Value, axes: Sequence[int]) -> Value:
    """m + log(sum(exp(x - m))) with m the maximum, 0 where that is infinite."""
    if is_integer(x.type.dtype):
        raise NoLowering("integers")
    top = fold(s, "maximum", x, axes)
    finite = s.one("is_finite", (top,))
    top = s.one("select", (finite, top, s.full(0, top)))
    others = tuple(axis for axis in range(x.type.rank) if axis not in axes)
    wide = s.one("broadcast_in_dim", (top,), dims=others, shape=x.type.dims)
    total = fold(s, "add", s.one("exponential", (s.one("subtract", (x, wide)),)), axes)
    return s.one("add", (s.one("log", (total,)), top))


@onnx_op("ArgMax", "ArgMin", composite=True)
def arg_extreme(s: Scope, node: Node, x: Value) -> Value:
    """The place of the largest or smallest element, of several the first (or the last)."""
    axis = node.int("axis", 0)
    axis = axis + x.type.rank if axis < 0 else axis
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    largest, last = node.op == "ArgMax", bool(node.int("select_last_index", 0))
    kind = "SIGNED" if is_integer(x.type.dtype) else "FLOAT"

    def body(inner: Scope, best: Value, at: Value, new: Value, place: Value) -> Sequence[Value]:
        better = inner.one("compare", (new, best), direction="GT" if largest else "LT", kind=kind)
        same = inner.one("compare", (new, best), direction="EQ", kind=kind)
        sooner = inner.one("compare", (place, at), direction="GT" if last else "LT", kind="SIGNED")
        take = inner.one("or", (better, inner.one("and", (same, sooner))))
        return inner.one("select", (take, new, best)), inner.one("select", (take, place, at))

    region = s.region([(x.type.dtype, ()), ("i64", ())] * 2, body)
    start = s.constant(start_of("maximum" if largest else "minimum", x.type.dtype))
    first = s.scalar(-1 if last else 2**62, "i64")
    found = s.add("reduce", (x, places, start, first), {"dims": (axis,)}, regions=(region,))[1]
    return kept(s, found, x.type.dims, (axis,)) if node.int("keepdims", 1) else found
