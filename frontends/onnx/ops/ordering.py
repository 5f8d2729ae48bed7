"""Ops that order, count or select: TopK, NonZero, Compress, running sums, triangles."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, product
from egshape.facts import Relation
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import compare, convert
from egshape.frontends.onnx.ops.movement import reshape, taken, window
from egshape.frontends.onnx.ops.reduce import fold, start_of
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Operand, Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.graph import Block, Value
from egshape.ir.types import is_float, itemsize

_ZERO, _ONE = const(0), const(1)


def bounded(s: Scope, value: Operand, axis: int, most: Dim) -> None:
    """Note how large a data-dependent size of a result is at most."""
    size = value.type.dims[axis] if isinstance(value, Value) else _ZERO
    if size.const is None and size is not most and s.builder.parent is None:
        s.program.relations.append(Relation("<=", size, most, f"{s.label} at most"))


def _before(s: Scope, dtypes: Sequence[str], direction: str) -> Block:
    """A comparator by the first of several tensors that are sorted together."""
    dtype = dtypes[0]
    kind = "FLOAT" if is_float(dtype) else "UNSIGNED" if dtype.startswith("ui") else "SIGNED"
    return s.region([(each, ()) for each in dtypes for _ in range(2)], lambda inner, a, b, *rest: inner.one(
        "compare", (a, b), direction=direction, kind=kind))


@onnx_op("TopK")
def top_k(s: Scope, node: Node, x: Value, k: Value | None = None) -> list[Operand]:
    """The k largest or smallest elements of an axis and their places, of equal ones the first."""
    if k is not None and k.type.rank == 1 and k.type.dims[0].const == 1:
        s.sizes(k, node.outputs[0], "k")  # named out here, so that both results have this size
    found = s.composite(node, (x,) if k is None else (x, k), _top_k)
    axis = axis_of(node, node.int("axis", -1), x.type.rank)
    for value in found:
        bounded(s, value, axis, x.type.dims[axis])
    return found


def _top_k(s: Scope, node: Node, x: Value, k: Value | None = None) -> list[Value]:
    axis = axis_of(node, node.int("axis", -1), x.type.rank)
    (count,) = (const(node.int("k")),) if k is None else s.sizes(reshape(s, k, (_ONE,)), f"{node.outputs[0]}.k")
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    order = _before(s, [x.type.dtype, "i64"], "GT" if node.int("largest", 1) else "LT")
    both = s.add("sort", (x, places), {"dim": axis, "stable": True}, regions=(order,))
    return [window(s, each, axis, _ZERO, count) for each in both]


def true_places(s: Scope, mask: Value, label: str) -> Value:
    """The places at which a vector of i1 is true, in order; how many there are is a size that data tell."""
    total = fold(s, "add", convert(s, mask, "i64"), (0,))
    (count,) = s.sizes(reshape(s, total, (_ONE,)), label, "count")
    places = s.one("iota", dtype="i64", dim=0, shape=mask.type.dims)
    keys = convert(s, s.one("not", (mask,)), "i64")
    ordered = s.add("sort", (keys, places), {"dim": 0, "stable": True}, regions=(_before(s, ["i64", "i64"], "LT"),))[1]
    return window(s, ordered, 0, _ZERO, count)


@onnx_op("NonZero")
def non_zero(s: Scope, node: Node, x: Value) -> Operand:
    """The places of all elements that are not 0, a column each."""
    (found,) = s.composite(node, (x,), _non_zero)
    bounded(s, found, 1, product(x.type.dims))
    return found


def _non_zero(s: Scope, node: Node, x: Value) -> Value:
    flat = reshape(s, x, (product(x.type.dims),))
    mask = flat if x.type.dtype == "i1" else compare(s, "NE", flat, s.full(0, flat))
    places = true_places(s, mask, node.outputs[0])
    if x.type.rank == 0:
        return s.spread(s.scalar(0, "i64"), (_ZERO, *places.type.dims))
    rows, step = [], _ONE
    for size in reversed(x.type.dims):
        row = places
        if step.const != 1:
            row = s.one("divide", (row, s.spread(s.vector([step], "i64", ()), row.type.dims)))
        row = s.one("remainder", (row, s.spread(s.vector([size], "i64", ()), row.type.dims)))
        rows.append(reshape(s, row, (_ONE, *places.type.dims)))
        step = step * size
    return rows[0] if len(rows) == 1 else s.one("concatenate", tuple(reversed(rows)), dim=0)


@onnx_op("Compress")
def compress(s: Scope, node: Node, x: Value, condition: Value) -> Operand:
    """The slices of an axis (or the elements) at which a condition holds."""
    (found,) = s.composite(node, (x, condition), _compress)
    axis = axis_of(node, node.int("axis"), x.type.rank) if node.has("axis") else 0
    bounded(s, found, axis, condition.type.dims[0])
    return found


def _compress(s: Scope, node: Node, x: Value, condition: Value) -> Value:
    if node.has("axis"):
        axis = axis_of(node, node.int("axis"), x.type.rank)
    else:
        x, axis = reshape(s, x, (product(x.type.dims),)), 0
    return taken(s, x, axis, true_places(s, condition, node.outputs[0]))


# -- running sums and products -----------------------------------------------------------------------------------


@onnx_op("CumSum", "CumProd", composite=True)
def cumulative(s: Scope, node: Node, x: Value, axis: Value) -> Value:
    """Sums or products of the elements up to each place of an axis: a window that reaches back to the first."""
    known = s.numbers(axis)
    if known is not None:
        return _running(s, node, x, axis_of(node, known[0], x.type.rank))
    place, out = reshape(s, axis, ()), x
    for number in range(x.type.rank):
        hits = [s.one("compare", (place, s.scalar(each, place.type.dtype)), direction="EQ", kind="SIGNED")
                for each in (number, number - x.type.rank)]
        here = s.spread(s.one("or", tuple(hits)), x.type.dims)
        out = s.one("select", (here, _running(s, node, x, number), out))
    return out


def _running(s: Scope, node: Node, x: Value, axis: int) -> Value:
    ours, rank, size = "add" if node.op == "CumSum" else "multiply", x.type.rank, x.type.dims[axis]
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    reach = [size, _ZERO - 1] if node.int("exclusive", 0) else [size - 1, _ZERO]
    if node.int("reverse", 0):
        reach.reverse()
    ones = (_ONE,) * rank
    padding = [_ZERO] * (2 * rank)
    padding[2 * axis:2 * axis + 2] = reach
    attrs = {"window": (*ones[:axis], size, *ones[axis + 1:]), "strides": ones, "base_dilation": ones,
             "window_dilation": ones, "padding": tuple(padding)}
    return s.add("reduce_window", (x, s.constant(start_of(ours, x.type.dtype))), attrs, regions=(body,))[0]


# -- masks -------------------------------------------------------------------------------------------------------


@onnx_op("Trilu", composite=True)
def trilu(s: Scope, node: Node, x: Value, k: Value | None = None) -> Value:
    """The upper or lower triangle of the last two axes, from the k-th diagonal on; zeros elsewhere."""
    if x.type.rank < 2:
        raise node.error(f"of {x.type}")
    rows, columns = (s.one("iota", dtype="i64", dim=x.type.rank - back, shape=x.type.dims) for back in (2, 1))
    shift = s.scalar(0, "i64") if k is None else convert(s, reshape(s, k, ()), "i64")
    moved = s.one("add", (rows, s.spread(shift, x.type.dims)))
    here = compare(s, "GE" if node.int("upper", 1) else "LE", columns, moved)
    return s.one("select", (here, x, s.full(0, x)))


@onnx_op("Hardmax", composite=True)
def hardmax(s: Scope, node: Node, x: Value) -> Value:
    """1 at the first largest element of an axis (before opset 13: of all axes from it on), 0 elsewhere."""
    old = node.opset < 13
    axis = axis_of(node, node.int("axis", 1 if old else -1), x.type.rank)
    dims = x.type.dims
    flat = reshape(s, x, (product(dims[:axis]), product(dims[axis:]))) if old else x
    along = 1 if old else axis
    places = s.one("iota", dtype="i64", dim=along, shape=flat.type.dims)
    others = tuple(place for place in range(flat.type.rank) if place != along)

    def spread(folded: Value) -> Value:
        return s.one("broadcast_in_dim", (folded,), dims=others, shape=flat.type.dims)

    largest = compare(s, "EQ", flat, spread(fold(s, "maximum", flat, (along,))))
    held = s.one("select", (largest, places, s.full(2**62, places)))
    first = compare(s, "EQ", places, spread(fold(s, "minimum", held, (along,))))
    return reshape(s, convert(s, first, x.type.dtype), dims)


@onnx_op("BitCast")
def bit_cast(s: Scope, node: Node, x: Value) -> Value:
    """The same bits as another element type of the same width."""
    dtype = dtype_of(node.int("to"), str(node.location))
    if "i1" in (dtype, x.type.dtype) or itemsize(dtype) != itemsize(x.type.dtype):
        raise NoLowering(dtype)
    return x if dtype == x.type.dtype else s.one("bitcast_convert", (x,), dtype=dtype)
