"""Ops that order, count or select: TopK, NonZero, Compress, running sums, triangles."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, minimum, product
from egshape.facts import Relation
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold, running
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops import computed
from egshape.frontends.onnx.ops.elementwise import compare, convert, in_f32
from egshape.frontends.onnx.ops.movement import transposed
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.frontends.onnx.types import dtype_of
from egshape.frontends.orders import before
from egshape.ir.graph import Block, Value
from egshape.ir.types import is_float, itemsize
from egshape.ops.kinds import comparison

_ZERO, _ONE = const(0), const(1)


def bounded(s: Scope, value: Operand, axis: int, most: Dim) -> None:
    """Note how large a data-dependent size of a result is at most."""
    size = value.type.dims[axis] if isinstance(value, Value) else _ZERO
    if size.const is None and size is not most and s.builder.parent is None:
        s.program.relations.append(Relation("<=", size, most, f"{s.label} at most"))


def counted(s: Scope, value: Operand, axis: int, mask: Value, what: object) -> None:
    """Note that a size counts what another one counted before: the places of one mask are as many each time."""
    size = value.type.dims[axis] if isinstance(value, Value) else _ZERO
    if size.const is None and s.builder.parent is None:
        first = s.program.counts.setdefault((mask, what), size)
        if first is not size:
            s.program.relations.append(Relation("==", size, first, f"{s.label} counts the same"))
            s.learn(size, first)


def _before(s: Scope, dtypes: Sequence[str], direction: str) -> Block:
    """A comparator by the first of several tensors that are sorted together; NaN counts as the largest."""
    kind = comparison(dtypes[0])
    return s.region(
        [(each, ()) for each in dtypes for _ in range(2)],
        lambda inner, a, b, *rest: before(inner.one, a, b, direction, kind),
    )


@onnx_op("TopK")
def top_k(s: Scope, node: Node, x: Value, k: Value | None = None) -> list[Operand]:
    """The k largest or smallest elements of an axis and their places, of equal ones the first."""
    if k is not None and k.type.rank == 1 and k.type.dims[0].const == 1:
        s.sizes(k, node.outputs[0], "k")  # named out here, so that both results have this size
    found = composite(s, node, (x,) if k is None else (x, k), _top_k)
    axis = axis_of(node, node.int("axis", -1), x.type.rank)
    for value in found:
        bounded(s, value, axis, x.type.dims[axis])
    return found


def _top_k(s: Scope, node: Node, x: Value, k: Value | None = None) -> list[Value]:
    axis = axis_of(node, node.int("axis", -1), x.type.rank)
    (count,) = (const(node.int("k")),) if k is None else s.sizes(reshape(s, k, (_ONE,)), f"{node.outputs[0]}.k")
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    order = _before(s, [x.type.dtype, "i64"], "GT" if node.flag("largest", True) else "LT")
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
    (found,) = composite(s, node, (x,), _non_zero)
    bounded(s, found, 1, product(x.type.dims))
    counted(s, found, 1, x, product(x.type.dims))
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
    (found,) = composite(s, node, (x, condition), _compress)
    axis = axis_of(node, node.int("axis"), x.type.rank) if node.has("axis") else 0
    most = minimum(condition.type.dims[0], x.type.dims[axis] if node.has("axis") else product(x.type.dims))
    bounded(s, found, axis, most)
    counted(s, found, axis, condition, most)
    return found


def _compress(s: Scope, node: Node, x: Value, condition: Value) -> Value:
    if node.has("axis"):
        axis = axis_of(node, node.int("axis"), x.type.rank)
    else:
        x, axis = reshape(s, x, (product(x.type.dims),)), 0
    # What a condition says behind the last slice is left out, as ONNX Runtime does.
    condition = window(s, condition, 0, _ZERO, minimum(condition.type.dims[0], x.type.dims[axis]))
    return taken(s, x, axis, true_places(s, condition, node.outputs[0]), empty=True)


# -- different elements --------------------------------------------------------------------------------------------


@onnx_op("Unique")
def unique(s: Scope, node: Node, x: Value) -> list[Operand]:
    """The different elements, or slices of an axis, in ascending order or that of their first places; these places,
    which of them each element is, and how often each is there."""
    found = composite(s, node, (x,), _unique)
    axis = axis_of(node, node.int("axis"), x.type.rank) if node.has("axis") else None
    most = product(x.type.dims) if axis is None else x.type.dims[axis]
    for place, value in enumerate(found):
        if place != 2:
            bounded(s, value, axis or 0 if place == 0 else 0, most)
            counted(s, value, axis or 0 if place == 0 else 0, x, ("different", axis))
    return found


def _unique(s: Scope, node: Node, x: Value) -> list[Value]:
    axis = axis_of(node, node.int("axis"), x.type.rank) if node.has("axis") else 0
    if not node.has("axis"):
        x = reshape(s, x, (product(x.type.dims),))
    front = (axis, *(place for place in range(x.type.rank) if place != axis))
    rows = transposed(s, x, front)
    count, width = rows.type.dims[0], product(rows.type.dims[1:])
    rows = reshape(s, rows, (count, width))
    order = _sorted_rows(s, rows)
    fresh = _differs(s, taken(s, rows, 0, order, empty=True))
    number = s.one("subtract", (running(s, "add", convert(s, fresh, "i64"), 0), s.full(1, order)))
    starts = true_places(s, fresh, node.outputs[0])
    first, total = taken(s, order, 0, starts, empty=True), starts.type.dims[0]
    many = _put(s, s.spread(s.scalar(0, "i64"), (total,)), number, s.full(1, number), "add")
    if not node.flag("sorted", True):
        places = s.one("iota", dtype="i64", dim=0, shape=first.type.dims)
        first, moved = s.add(
            "sort", (first, places), {"dim": 0, "stable": True}, regions=(_before(s, ["i64", "i64"], "LT"),)
        )
        many = taken(s, many, 0, moved, empty=True)
        number = taken(s, _put(s, s.full(0, moved), moved, places), 0, number, empty=True)
    inverse = _put(s, s.full(0, order), order, number)
    return [taken(s, x, axis, first, empty=True), first, inverse, many]


def _put(s: Scope, x: Value, places: Value, values: Value, ours: str = "") -> Value:
    """A vector with values put at, or by one of our ops combined with those at, places."""
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, old, new: inner.one(ours, (old, new)) if ours else new)
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": (0,),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    return s.add("scatter", (x, places, values), attrs, regions=(body,))[0]


def _sorted_rows(s: Scope, rows: Value) -> Value:
    """The places of rows in lexicographic order: stable sorts by one column after the other, the last one first."""
    count, width = rows.type.dims
    order = s.one("iota", dtype="i64", dim=0, shape=(count,))
    if width.const == 1:
        return _sorted_by(s, reshape(s, rows, (count,)), order)
    types = [("i64", ()), ("i64", (count,))]
    zero = s.scalar(0, "i64")

    def going(inner: Scope, left: Value, order: Value) -> Value:
        return inner.one("compare", (zero, left), direction="LT", kind="SIGNED")

    def body(inner: Scope, left: Value, order: Value) -> Sequence[Value]:
        left = inner.one("subtract", (left, inner.scalar(1, "i64")))
        return left, _sorted_by(inner, taken(inner, rows, 1, left), order)

    carried = (s.vector([width], "i64", ()), order)
    return s.add("while", carried, {}, regions=(s.region(types, going), s.region(types, body)))[1]


def _sorted_by(s: Scope, keys: Value, order: Value) -> Value:
    """An order sorted by the keys of its elements, NaN behind all."""
    keys = taken(s, keys, 0, order, empty=True)

    def before(inner: Scope, one: Value, two: Value, *rest: Value) -> Value:
        less = compare(inner, "LT", one, two)
        if not is_float(one.type.dtype):
            return less
        last = inner.one("and", (compare(inner, "EQ", one, one), compare(inner, "NE", two, two)))
        return inner.one("or", (less, last))

    region = s.region([(each, ()) for each in (keys.type.dtype, "i64") for _ in range(2)], before)
    return s.add("sort", (keys, order), {"dim": 0, "stable": True}, regions=(region,))[1]


def _differs(s: Scope, rows: Value) -> Value:
    """Whether each row is another than the one before; of numbers, NaN is only one."""
    count, width = rows.type.dims
    places = s.one("iota", dtype="i64", dim=0, shape=(count,))
    zero = s.full(0, places)
    before = taken(s, rows, 0, s.one("maximum", (s.one("subtract", (places, s.full(1, places))), zero)), empty=True)
    other = compare(s, "NE", rows, before)
    if is_float(rows.type.dtype) and width.const == 1:
        both = s.one("and", (compare(s, "NE", rows, rows), compare(s, "NE", before, before)))
        other = s.one("and", (other, s.one("not", (both,))))
    return s.one("or", (fold(s, "or", other, (1,)), compare(s, "EQ", places, zero)))


# -- running sums and products -----------------------------------------------------------------------------------


@onnx_op("CumSum", "CumProd", composite=True)
@in_f32
def cumulative(s: Scope, node: Node, x: Value, axis: Value) -> Value:
    """Sums or products of the elements up to each place of an axis: a window that reaches back to the first."""
    known = s.numbers(axis)
    if known is not None:
        return _running(s, node, x, axis_of(node, known[0], x.type.rank))
    rank = x.type.rank
    return computed.by_axis(s, node, axis, rank, range(rank), lambda inner, each: _running(inner, node, x, each))


def _running(s: Scope, node: Node, x: Value, axis: int) -> Value:
    return running(
        s,
        "add" if node.op == "CumSum" else "multiply",
        x,
        axis,
        exclusive=node.flag("exclusive", False),
        backwards=node.flag("reverse", False),
    )


# -- masks -------------------------------------------------------------------------------------------------------


@onnx_op("Trilu", composite=True)
def trilu(s: Scope, node: Node, x: Value, k: Value | None = None) -> Value:
    """The upper or lower triangle of the last two axes, from the k-th diagonal on; zeros elsewhere."""
    if x.type.rank < 2:
        raise node.error(f"of {x.type}")
    rows, columns = (s.one("iota", dtype="i64", dim=x.type.rank - back, shape=x.type.dims) for back in (2, 1))
    shift = s.scalar(0, "i64") if k is None else convert(s, reshape(s, k, ()), "i64")
    moved = s.one("add", (rows, s.spread(shift, x.type.dims)))
    here = compare(s, "GE" if node.flag("upper", True) else "LE", columns, moved)
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


@onnx_op("BitCast", composite=True)
def bit_cast(s: Scope, node: Node, x: Value) -> Value:
    """The same bits as another element type of the same width."""
    dtype = dtype_of(node.int("to"), str(node.location))
    if x.type.dtype == "i1":
        x = s.one("convert", (x,), dtype="ui8")
    if dtype == "i1" or itemsize(dtype) != itemsize(x.type.dtype):
        raise NoLowering(dtype)
    return x if dtype == x.type.dtype else s.one("bitcast_convert", (x,), dtype=dtype)
