"""What lowerings of many ops are made of: conversions, explicit broadcasts, moves of elements, folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from egshape.dims import Dim, bcast, const, minimum, mod, product
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.frontends import orders, shaping
from egshape.frontends.shaping import joined_by_form, running_window, start_of
from egshape.frontends.torch.scope import Number, Scope
from egshape.ir.graph import Block, Value
from egshape.ir.types import integer_range, is_integer, numpy_dtype
from egshape.ops.kinds import comparison

ZERO, ONE = const(0), const(1)


def convert(s: Scope, x: Value, dtype: str) -> Value:
    """A value in another dtype; itself where it has that."""
    return x if x.type.dtype == dtype else s.one("convert", (x,), dtype=dtype)


def tensor(s: Scope, x: Value | Number, dtype: str) -> Value:
    """A tensor or number as a value of a dtype. As torch has it, a number with which elements are filled must fit."""
    if not isinstance(x, Value):
        _check_fits(s, x, dtype)
    return operand(s, x, dtype)


def scalar_tensor(s: Scope, x: Value | Number, dtype: str) -> Value:
    """The same where torch makes a scalar tensor of a number first: in f16 one that does not fit is an infinity."""
    half = dtype == "f16" and not isinstance(x, Value)
    return convert(s, tensor(s, x, "f32"), dtype) if half else tensor(s, x, dtype)


def _check_fits(s: Scope, x: Number, dtype: str) -> None:
    """A check that a dtype holds a number; a negative integer stands for what it wraps to in an unsigned one."""
    if dtype in ("f16", "f32"):
        high = float(np.finfo(numpy_dtype(dtype)).max)
        low = -high
    elif is_integer(dtype):
        low, high = integer_range(dtype)
        low = -high if low == 0 and not isinstance(x, float) else low
    else:
        return
    if isinstance(x, Dim):
        if not (is_integer(dtype) and _fits(s, x, dtype)) and high < 2**63 - 1:
            s.check(Relation("<=", x, const(int(high))), f"a number is {{0}}, and {dtype} holds {{1}} at most")
            s.check(Relation("<=", const(int(low)), x), f"a number is {{1}}, and {dtype} holds {{0}} at least")
    elif math.isfinite(x) and not low <= x <= high:
        s.check(Relation("==", const(0), const(1)), f"{x} does not fit {dtype}")


def operand(s: Scope, x: Value | Number, dtype: str) -> Value:
    """A tensor or number as an operand of arithmetic in a dtype. As torch has it, a size that does not fit a narrow
    integer wraps."""
    if isinstance(x, Dim):
        return wrapping(s, s.scalar(x, "i64"), dtype)
    return wrapping(s, x, dtype) if isinstance(x, Value) else s.scalar(x, dtype)


def wrapping(s: Scope, x: Value, dtype: str) -> Value:
    """A value in another dtype; of integers that are sizes the low bits where they do not fit it."""
    known = s.elements(x) if is_integer(x.type.dtype) and is_integer(dtype) else None
    if known is None or any(each is None for each in known) or all(_fits(s, each, dtype) for each in known):
        return convert(s, x, dtype)
    low, high = integer_range(dtype)
    wrapped_ = [mod(each - low, high - low + 1) + low for each in known]
    return s.vector(wrapped_, dtype, tuple(size.const or 0 for size in x.type.dims))


_FAR = 2**16
"""Sizes times less than this are taken to fit 32 bits, and checked: places along an axis are computed so."""


def _fits(s: Scope, size: Dim, dtype: str) -> bool:
    low, high = integer_range(dtype)
    if high > 2**31 - 1 - (low == 0):
        return high >= 2**63 - 1 or all(len(mono) <= 1 and abs(factor) < _FAR for mono, factor in size.terms)
    return s.decide("<=", size, high) is True and s.decide("<=", const(low), size) is True


# -- broadcasts --------------------------------------------------------------------------------------------------


def joined_size(s: Scope, one: Dim, two: Dim) -> Dim:
    """The size of a broadcast axis; ``bcast(a, b)`` where that is open. Raises EgshapeError for two numbers that do not
    broadcast."""
    known = joined_by_form(one, two)
    if known is not None:
        return known
    if s.decide("==", one, two) is True:
        return one
    for given, other in ((one, two), (two, one)):
        if s.decide("==", given, 1) is True:
            return other
    return bcast(one, two)


def joined(s: Scope, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape to which all of these broadcast, aligned at the last axis."""
    return shaping.joined(shapes, partial(joined_size, s))


def expand(s: Scope, value: Value, shape: Sequence[Dim]) -> Value:
    """A value brought to a shape to which it broadcasts; itself where its shape has that form."""
    target = tuple(shape)
    if value.type.dims == target:
        return value
    first = len(target) - value.type.rank
    return s.one("broadcast_in_dim", (value,), dims=tuple(range(first, len(target))), shape=target)


def broadcast(s: Scope, *values: Value) -> tuple[Value, ...]:
    """Values of one common shape."""
    shape = joined(s, [value.type.dims for value in values])
    return tuple(expand(s, value, shape) for value in values)


def spread_along(s: Scope, value: Value, axes: Sequence[int], shape: Sequence[Dim]) -> Value:
    """A value whose axes are these ones of a larger shape."""
    return s.one("broadcast_in_dim", (value,), dims=tuple(axes), shape=tuple(shape))


def binary(s: Scope, ours: str, x: Value, y: Value) -> Value:
    """One of our binary ops on operands that broadcast."""
    return s.one(ours, broadcast(s, x, y))


def with_number(s: Scope, ours: str, x: Value, number: Number) -> Value:
    """One of our binary ops with a number."""
    return s.one(ours, (x, s.full(number, x)))


def compare(s: Scope, direction: str, x: Value, y: Value) -> Value:
    """A comparison of operands of one dtype that broadcast."""
    return s.one("compare", broadcast(s, x, y), direction=direction, kind=comparison(x.type.dtype))


def against(s: Scope, direction: str, x: Value, number: Number) -> Value:
    """A comparison with a number."""
    return compare(s, direction, x, s.full(number, x))


def select(s: Scope, condition: Value, x: Value, y: Value) -> Value:
    """x where the condition holds, else y; all three broadcast."""
    return s.one("select", broadcast(s, condition, x, y))


# -- moves -------------------------------------------------------------------------------------------------------


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises EgshapeError for one that the rank does not have."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise EgshapeError(f"names axis {axis} of a tensor of rank {rank}", code="invalid-model")
    return axis % max(rank, 1)


def axes_of(axes: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; all where none are named."""
    if isinstance(axes, int):
        axes = (axes,)
    return tuple(axis_of(axis, rank) for axis in axes) if axes and rank else tuple(range(rank))


def reshape(s: Scope, x: Value, shape: Sequence[Dim]) -> Value:
    """The same elements in another shape; x itself where it has that."""
    return x if x.type.dims == tuple(shape) else s.one("reshape", (x,), shape=tuple(shape))


def transposed(s: Scope, x: Value, permutation: Sequence[int]) -> Value:
    """A transpose; x itself where the order stays."""
    order = tuple(permutation)
    return x if order == tuple(range(x.type.rank)) else s.one("transpose", (x,), permutation=order)


def window(s: Scope, x: Value, axis: int, start: Dim, limit: Dim, stride: int = 1) -> Value:
    """A part of one axis; x itself where it is the whole axis."""
    if start.const == 0 and limit is x.type.dims[axis] and stride == 1:
        return x
    starts = [ZERO] * x.type.rank
    limits, strides = list(x.type.dims), [ONE] * x.type.rank
    starts[axis], limits[axis], strides[axis] = start, limit, const(stride)
    return s.one("slice", (x,), starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))


def without(s: Scope, x: Value, axis: int) -> Value:
    """x without an axis of size 1."""
    return reshape(s, x, [size for place, size in enumerate(x.type.dims) if place != axis])


def with_axis(s: Scope, x: Value, axis: int) -> Value:
    """x with a new axis of size 1."""
    return reshape(s, x, (*x.type.dims[:axis], ONE, *x.type.dims[axis:]))


def taken(s: Scope, x: Value, axis: int, places: Value) -> Value:
    """Elements of one axis at places within it, which may have any rank: their axes stand for that axis. Where the axis
    is empty there must be no places."""
    rank, inner = x.type.rank, places.type.rank
    offset = tuple(place if place < axis else place + inner - 1 for place in range(rank) if place != axis)
    sizes = list(x.type.dims)
    sizes[axis] = single(s, sizes[axis])
    return s.one(
        "gather",
        (x, places),
        offset_dims=offset,
        collapsed=(axis,),
        start_index_map=(axis,),
        index_vector_dim=inner,
        sizes=tuple(sizes),
    )


def row_at(s: Scope, x: Value, at: Value) -> Value:
    """What lies at a place along the first axis, which is not empty where that runs."""
    return s.one(
        "gather",
        (x, reshape(s, at, (ONE,))),
        offset_dims=tuple(range(x.type.rank - 1)),
        collapsed=(0,),
        start_index_map=(0,),
        index_vector_dim=0,
        sizes=(ONE, *x.type.dims[1:]),
    )


def with_row(s: Scope, stack: Value, row: Value, at: Value) -> Value:
    """Rows with another one at a place."""
    zeros = [s.scalar(0, "i64")] * row.type.rank
    return s.one("dynamic_update_slice", (stack, reshape(s, row, (ONE, *row.type.dims)), at, *zeros))


def single(s: Scope, size: Dim) -> Dim:
    """How much of an axis of this size one place takes: an element, or nothing where it has none."""
    return ONE if s.decide("<=", ONE, size) is True else minimum(size, ONE)


def line(s: Scope, size: Dim, dtype: str = "i64") -> Value:
    """0, 1, ... of a length."""
    return s.one("iota", dtype=dtype, dim=0, shape=(size,))


def wrapped(s: Scope, places: Value, size: Dim) -> Value:
    """Places that count from the end where they are negative, counted from the front."""
    found = s.numbers(places)
    if found is not None and all(place >= 0 for place in found):
        return places
    whole = s.spread(s.scalar(size, places.type.dtype), places.type.dims)
    return select(s, against(s, "LT", places, 0), s.one("add", (places, whole)), places)


# -- folds -------------------------------------------------------------------------------------------------------


def fold(s: Scope, ours: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """x folded over axes by one of our binary ops; the axes go, or stay with size 1."""
    if not axes:
        return x
    init = s.constant(start_of(ours, x.type.dtype))
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    found = s.add("reduce", (x, init), {"dims": tuple(axes)}, regions=(body,))[0]
    return kept(s, found, x, axes) if keep else found


def kept(s: Scope, folded: Value, like: Value, axes: Sequence[int]) -> Value:
    """A folded tensor with axes of size 1 where axes went."""
    return reshape(s, folded, [ONE if axis in axes else size for axis, size in enumerate(like.type.dims)])


def along(s: Scope, folded: Value, like: Value, axes: Sequence[int]) -> Value:
    """A folded tensor, repeated along the axes that went."""
    others = tuple(axis for axis in range(like.type.rank) if axis not in axes)
    return spread_along(s, folded, others, like.type.dims)


def count_of(s: Scope, x: Value, axes: Sequence[int], dtype: str) -> Value:
    """How many elements a fold over axes takes, as a scalar."""
    return s.scalar(product([x.type.dims[axis] for axis in axes]), dtype)


def mean_of(s: Scope, x: Value, axes: Sequence[int]) -> Value:
    """The mean over axes, which go."""
    total = fold(s, "add", x, axes)
    return s.one("divide", (total, s.spread(count_of(s, x, axes, x.type.dtype), total.type.dims)))


def centered(s: Scope, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """x - mean, the mean, and the mean square of x - mean."""
    mean = mean_of(s, x, axes)
    rest = s.one("subtract", (x, along(s, mean, x, axes)))
    return rest, mean, mean_of(s, s.one("multiply", (rest, rest)), axes)


def running(s: Scope, ours: str, x: Value, axis: int) -> Value:
    """What one of our binary ops makes of the elements up to each place of an axis."""
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, left, right: inner.one(ours, (left, right)))
    attrs = running_window(x.type.dims, axis, (x.type.dims[axis] - 1, ZERO))
    return s.add("reduce_window", (x, s.constant(start_of(ours, x.type.dtype))), dict(attrs), regions=(body,))[0]


def before(s: Scope, dtypes: Sequence[str], direction: str) -> Block:
    """A comparator by the first of several tensors that are sorted together; NaN counts as the largest."""
    kind = comparison(dtypes[0])
    return s.region(
        [(each, ()) for each in dtypes for _ in range(2)],
        lambda inner, a, b, *rest: orders.before(inner.one, a, b, direction, kind),
    )
