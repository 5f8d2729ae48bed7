"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, const, product
from egshape.frontends.onnx.broadcast import expand
from egshape.frontends.onnx.checks import some
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.computed import count_of, joined_up, named, sizes_where, squeezed
from egshape.frontends.onnx.ops.elementwise import convert, in_f32
from egshape.frontends.onnx.ops.movement import not_empty
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axes_of
from egshape.frontends.shaping import start_of
from egshape.ir.graph import Value
from egshape.ir.types import is_integer
from egshape.ops.kinds import comparison

Finish = Callable[[Scope, Value, Dim], Value]


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
    exact = node.op in ("ReduceMax", "ReduceMin")
    return composite(s, node, (x,) if axes is None else (x, axes), handler if exact else in_f32(handler))[0]


def _of_sizes(s: Scope, node: Node, x: Value) -> Value | None:
    """The sum or product of a vector of sizes, which is a size."""
    sizes = s.dims(x) if x.type.rank == 1 and node.op in ("ReduceProd", "ReduceSum") else None
    if not sizes or all(size.const is not None for size in sizes):
        return None
    total = product(sizes) if node.op == "ReduceProd" else sum(sizes, const(0))
    return s.vector([total], x.type.dtype, (1,) if node.flag("keepdims", True) else ())


def _reduce(s: Scope, node: Node, x: Value, given: Value | None = None) -> Value:
    axes = axes_of(s, node, given, x.type.rank)
    if not axes:
        if node.flag("noop_with_empty_axes", False):
            axes = ()
        else:
            axes = tuple(range(x.type.rank))
    count = product([x.type.dims[axis] for axis in axes])
    if node.op == "ReduceLogSumExp":
        out = _log_sum_exp(s, x, axes)
    else:
        before, ours, after = _REDUCTIONS[node.op]
        inner = before(s, x)
        out = after(s, fold(s, ours, inner, axes) if axes else inner, count)
    return kept(s, out, x.type.dims, axes) if node.flag("keepdims", True) else out


def _reduce_data(s: Scope, node: Node, x: Value, axes: Value) -> Value:
    """The same for axes that only running tells: axis by axis, all elements of a folded one are its fold, and one of
    them is kept. Means divide by the product of the folded sizes."""
    length = axes.type.dims[0].const if axes.type.rank == 1 else None
    keep = node.flag("keepdims", True)
    rank = s.known_rank(node.outputs[0]) if length is None else x.type.rank - length
    if node.op == "ReduceLogSumExp" or (rank is None and not keep):
        raise NoLowering("axes are data")
    before, ours, after = _REDUCTIONS[node.op]
    flags = named(s, node, axes, x.type.rank, not node.flag("noop_with_empty_axes", False))
    out = before(s, x)
    out = not_empty(s, out, range(x.type.rank), start_of(ours, out.type.dtype))
    for axis, flag in enumerate(flags):
        folded = kept(s, fold(s, ours, out, (axis,)), out.type.dims, (axis,))
        out = s.one("select", (s.spread(flag, out.type.dims), expand(s, folded, out.type.dims), out))
    count = count_of(s, sizes_where(s, flags, x.type.dims, True))
    (total,) = s.sizes(reshape(s, count, (const(1),)), f"{node.outputs[0]}.count")
    kept_sizes = joined_up(s, sizes_where(s, flags, x.type.dims, False))
    limits = s.sizes(kept_sizes, f"{node.outputs[0]}.kept")
    out = s.one("slice", (out,), starts=(const(0),) * len(limits), limits=limits, strides=(const(1),) * len(limits))
    out = after(s, out, total)
    return out if keep else squeezed(s, node, out, flags, rank or 0)


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
    """The place of the largest or smallest element, of several the first (or the last); NaN is both, as in numpy."""
    axis = node.int("axis", 0)
    axis = axis + x.type.rank if axis < 0 else axis
    some(s, x.type.dims[axis], product(size for at, size in enumerate(x.type.dims) if at != axis), node.op)
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    largest, last = node.op == "ArgMax", node.flag("select_last_index", False)
    kind = comparison(x.type.dtype)

    def body(inner: Scope, best: Value, at: Value, new: Value, place: Value) -> Sequence[Value]:
        stays = inner.one("compare", (best, new), direction="GT" if largest else "LT", kind=kind)
        if kind == "FLOAT":
            stays = inner.one("or", (stays, inner.one("compare", (best, best), direction="NE", kind=kind)))
        same = inner.one("compare", (best, new), direction="EQ", kind=kind)
        sooner = inner.one("compare", (at, place), direction="GT" if last else "LT", kind="SIGNED")
        held = inner.one("or", (stays, inner.one("and", (same, sooner))))
        return inner.one("select", (stays, best, new)), inner.one("select", (held, at, place))

    region = s.region([(x.type.dtype, ()), ("i64", ())] * 2, body)
    start = s.constant(start_of("maximum" if largest else "minimum", x.type.dtype))
    first = s.scalar(-1 if last else 2**62, "i64")
    found = s.add("reduce", (x, places, start, first), {"dims": (axis,)}, regions=(region,))[1]
    return kept(s, found, x.type.dims, (axis,)) if node.flag("keepdims", True) else found
