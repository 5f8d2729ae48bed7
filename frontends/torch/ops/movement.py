"""Views and moves. What torch does with strides is done with shapes: a view is a reshape, a transpose or a slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum, product
from egshape.dims.theory import divide
from egshape.facts import Relation
from egshape.frontends.torch.moves import (
    ONE,
    ZERO,
    axes_of,
    axis_of,
    convert,
    expand,
    line,
    reshape,
    spread_along,
    taken,
    tensor,
    transposed,
    window,
    with_axis,
    with_number,
    without,
)
from egshape.frontends.torch.ops.indexing import put
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.ir.graph import Value

_FAR = 2**63 - 1
"""What torch writes for the end of an axis."""


@aten_op("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default")
def view(s: Scope, x: Value, shape: Sequence[Number]) -> Value:
    """The same elements in another shape; -1 stands for what is left."""
    if not all(isinstance(size, int | Dim) for size in shape):
        raise NoLowering("a view as another dtype")
    sizes = [size_of(size) for size in shape]
    if any(size.const == -1 for size in sizes):
        place = next(at for at, size in enumerate(sizes) if size.const == -1)
        others = [size for at, size in enumerate(sizes) if at != place]
        s.check(Relation("<=", ONE, product(others)), "what is left is open where the other sizes are {1}")
        sizes[place] = quotient(x.type.dims, others)
    return reshape(s, x, sizes)


def quotient(factors: Sequence[Dim], divisors: Sequence[Dim]) -> Dim:
    """``product(factors) / product(divisors)``; factors that both have go out first."""
    left, right = list(factors), []
    for size in divisors:
        if size in left:
            left.remove(size)
        else:
            right.append(size)
    num, den = product(left), product(right)
    if den.const == 0:
        return floordiv(product(factors), product(divisors))
    whole, rest = divide(num, den)
    return whole if not rest.terms else floordiv(num, den)


@aten_op("expand.default", "expand_copy.default")
def expand_to(s: Scope, x: Value, size: Sequence[Number], implicit: bool = False) -> Value:
    """Axes of size 1 repeated; -1 keeps a size."""
    first = len(size) - x.type.rank
    target = [
        x.type.dims[axis - first] if isinstance(each, int) and each == -1 else size_of(each)
        for axis, each in enumerate(size)
    ]
    return expand(s, x, target)


@aten_op("permute.default", "permute_copy.default")
def permute(s: Scope, x: Value, dims: Sequence[int]) -> Value:
    """Axes in another order."""
    return transposed(s, x, axes_of(dims, x.type.rank))


@aten_op("transpose.int", "t.default", "numpy_T.default")
def transpose(s: Scope, x: Value, dim0: int = 0, dim1: int = -1) -> Value:
    """Two axes exchanged."""
    order = list(range(x.type.rank))
    if order:
        one, two = (axis_of(each, x.type.rank) for each in (dim0, dim1))
        order[one], order[two] = order[two], order[one]
    return transposed(s, x, order)


@aten_op("squeeze.dim", "squeeze.dims")
def squeeze(s: Scope, x: Value, dim: int | Sequence[int]) -> Value:
    """Without these axes where they have size 1; whether an open one is 1, the rank of the result tells."""
    named = axes_of(dim, x.type.rank) if dim not in ([], ()) and x.type.rank else ()
    gone = {axis for axis in named if x.type.dims[axis].const == 1}
    open_axes = [axis for axis in named if x.type.dims[axis].const is None]
    left_out = x.type.rank - len(gone) - s.call.ranks[0]
    if left_out not in (0, len(open_axes)):
        raise NoLowering("which of these axes have size 1 is open")
    for axis in open_axes:
        kind, is_one = ("==", "an axis of size {0} was of size 1") if left_out else ("!=", "an axis of size 1 was not")
        s.check(Relation(kind, x.type.dims[axis], ONE), f"{is_one} to be there when this was exported")
        gone |= {axis} if left_out else set()
    return reshape(s, x, [size for axis, size in enumerate(x.type.dims) if axis not in gone])


@aten_op("unsqueeze.default")
def unsqueeze(s: Scope, x: Value, dim: int) -> Value:
    """A new axis of size 1."""
    return with_axis(s, x, axis_of(dim, x.type.rank + 1))


# -- parts ---------------------------------------------------------------------------------------------------------


def bound(s: Scope, given: Number | None, size: Dim, default: Dim) -> Dim:
    """A start or end of a slice, counted from the front and clamped into the axis."""
    if given is None or (isinstance(given, int) and given >= _FAR):
        return default
    place = from_front(s, size_of(given), size)
    if s.decide("<=", ZERO, place) is not True:
        place = maximum(place, ZERO)
    if s.decide("<=", place, size) is not True:
        place = size if s.decide("<=", size, place) is True else minimum(place, size)
    return place


def from_front(s: Scope, place: Dim, size: Dim) -> Dim:
    """A place that counts from the end of an axis of this size where it is negative, counted from the front."""
    negative = s.decide("<", place, 0)
    if negative is None:
        return place + size * minimum(maximum(-place, ZERO), ONE)
    return place + size if negative else place


def place_in(s: Scope, index: Number, size: Dim) -> Dim:
    """A place within an axis of this size, counted from the front, which is checked."""
    place = from_front(s, size_of(index), size)
    s.check(Relation("<=", ZERO, place), "a place is {1}, before the begin of an axis")
    s.check(Relation("<=", place + 1, size), "a place is outside of an axis of size {1}")
    return place


@aten_op("slice.Tensor", "slice_copy.Tensor")
def slice_of(
    s: Scope, x: Value, dim: int = 0, start: Number | None = None, end: Number | None = None, step: int = 1
) -> Value:
    """Part of an axis."""
    axis = axis_of(dim, x.type.rank)
    size = x.type.dims[axis]
    first, last = bound(s, start, size, ZERO), bound(s, end, size, size)
    if s.decide("<=", first, last) is not True:
        last = first if s.decide("<=", last, first) is True else maximum(first, last)
    return window(s, x, axis, first, last, step)


@aten_op("narrow.default")
def narrow(s: Scope, x: Value, dim: int, start: Number, length: Number) -> Value:
    """A part of an axis, by its start and length."""
    axis = axis_of(dim, x.type.rank)
    first = from_front(s, size_of(start), x.type.dims[axis])
    return window(s, x, axis, first, first + size_of(length))


@aten_op("select.int", "select_copy.int")
def select_at(s: Scope, x: Value, dim: int, index: Number) -> Value:
    """One place of an axis, which goes."""
    axis = axis_of(dim, x.type.rank)
    place = place_in(s, index, x.type.dims[axis])
    return without(s, window(s, x, axis, place, place + 1), axis)


@aten_op("split_with_sizes.default", "split_with_sizes_copy.default")
def split_with_sizes(s: Scope, x: Value, split_sizes: Sequence[Number], dim: int = 0) -> list[Value]:
    """Parts of the given sizes, which fill the axis."""
    axis, parts = axis_of(dim, x.type.rank), [size_of(each) for each in split_sizes]
    total = sum(parts, ZERO)
    s.check(Relation("==", total, x.type.dims[axis]), "parts of {0} do not fill an axis of size {1}")
    return _cut(s, x, axis, parts)


@aten_op("split.Tensor", "chunk.default", "unsafe_split.Tensor")
def split(s: Scope, x: Value, given: Number, dim: int = 0) -> list[Value]:
    """Parts of one size, or so many parts; the last one takes what is left. torch states how many there are."""
    axis, count = axis_of(dim, x.type.rank), len(s.call.dtypes)
    whole, number = x.type.dims[axis], size_of(given)
    part = ceildiv(whole, number) if s.call.op.startswith("chunk") else number
    if s.decide("<=", part * (count - 1), whole) is not True:
        s.check(Relation("<=", part * (count - 1), whole), f"an axis has less than {count} parts: {{0}} > {{1}}")
    if s.decide("<=", whole, part * count) is not True:
        s.check(Relation("<=", whole, part * count), f"an axis has more than {count} parts: {{0}} > {{1}}")
    return _cut(s, x, axis, [part] * (count - 1) + [whole - part * (count - 1)])


def _cut(s: Scope, x: Value, axis: int, parts: Sequence[Dim]) -> list[Value]:
    out, start = [], ZERO
    for place, part in enumerate(parts):
        limit = x.type.dims[axis] if place == len(parts) - 1 else start + part
        out.append(window(s, x, axis, start, limit))
        start = limit
    return out


@aten_op("unbind.int", "unbind_copy.int")
def unbind(s: Scope, x: Value, dim: int = 0) -> list[Value]:
    """All places of an axis, which torch knows the number of."""
    axis, count = axis_of(dim, x.type.rank), len(s.call.dtypes)
    s.check(Relation("==", x.type.dims[axis], const(count)), "an axis has {0} places, there must be {1}")
    return [without(s, window(s, x, axis, const(at), const(at + 1)), axis) for at in range(count)]


@aten_op("diagonal.default", "diagonal_copy.default", composite=True)
def diagonal(s: Scope, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two axes as a last one."""
    one, two = axis_of(dim1, x.type.rank), axis_of(dim2, x.type.rank)
    rest = [axis for axis in range(x.type.rank) if axis not in (one, two)]
    moved = transposed(s, x, (*rest, one, two))
    rows, columns = moved.type.dims[-2:]
    low, high = max(-offset, 0), max(offset, 0)
    count = maximum(minimum(rows - low, columns - high), 0)
    flat = reshape(s, moved, (*moved.type.dims[:-2], rows * columns))
    at = line(s, count)
    step = s.spread(s.scalar(columns + 1, "i64"), (count,))
    first = s.spread(s.scalar(columns * low + high, "i64"), (count,))
    return taken(s, flat, len(rest), s.one("add", (s.one("multiply", (at, step)), first)))


# -- joins and repetitions -----------------------------------------------------------------------------------------


@aten_op("cat.default", "concat.default", "concatenate.default")
def cat(s: Scope, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Joined along an axis; what is a vector of no elements beside others is left out."""
    rank = max(each.type.rank for each in tensors)
    parts = [
        convert(s, each, s.dtype)
        for each in tensors
        if not (each.type.rank == 1 and rank > 1 and each.type.dims[0].const == 0)
    ]
    return parts[0] if len(parts) == 1 else s.one("concatenate", parts, dim=axis_of(dim, rank))


@aten_op("stack.default")
def stack(s: Scope, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Joined along a new axis."""
    axis = axis_of(dim, tensors[0].type.rank + 1)
    return cat(s, [with_axis(s, convert(s, each, s.dtype), axis) for each in tensors], axis)


@aten_op("repeat.default", "tile.default")
def repeat(s: Scope, x: Value, repeats: Sequence[Number]) -> Value:
    """Each axis repeated as a whole: a new axis in front of it, and both merged."""
    times = [size_of(each) for each in repeats]
    times = [ONE] * (x.type.rank - len(times)) + times
    dims = (ONE,) * (len(times) - x.type.rank) + x.type.dims
    x = reshape(s, x, dims)
    if all(each.const == 1 for each in times):
        return x
    split_ = [size for pair in zip(times, dims, strict=True) for size in pair]
    spread = spread_along(s, x, range(1, 2 * len(dims), 2), split_)
    return reshape(s, spread, [count * size for count, size in zip(times, dims, strict=True)])


@aten_op("flip.default")
def flip(s: Scope, x: Value, dims: Sequence[int]) -> Value:
    """Axes turned round."""
    return s.one("reverse", (x,), dims=axes_of(dims, x.type.rank)) if dims and x.type.rank else x


@aten_op("roll.default", composite=True)
def roll(s: Scope, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """Axes moved on, what falls out at the end comes in at the front."""
    moves = [shifts] if not isinstance(shifts, list | tuple) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    shape = x.type.dims
    if not axes:
        x, axes = reshape(s, x, (product(shape),)), [0]
    for shift, each in zip(moves, axes, strict=True):
        axis = axis_of(each, x.type.rank)
        size = x.type.dims[axis]
        at = line(s, size)
        place = s.one("subtract", (at, s.spread(s.scalar(shift, "i64"), (size,))))
        whole = s.spread(s.scalar(size, "i64"), (size,))
        rest = s.one("remainder", (place, whole))
        below = s.one("compare", (rest, s.full(0, rest)), direction="LT", kind="SIGNED")
        x = taken(s, x, axis, s.one("select", (below, s.one("add", (rest, whole)), rest)))
    return reshape(s, x, shape)


@aten_op("constant_pad_nd.default")
def constant_pad(s: Scope, x: Value, pad: Sequence[Number], value: Number = 0) -> Value:
    """Elements of one number around, the last axis first; negative pads cut off."""
    low, high = [ZERO] * x.type.rank, [ZERO] * x.type.rank
    for place in range(len(pad) // 2):
        low[-1 - place], high[-1 - place] = size_of(pad[2 * place]), size_of(pad[2 * place + 1])
    fill = tensor(s, value, x.type.dtype)
    return s.one("pad", (x, fill), low=tuple(low), high=tuple(high), interior=(ZERO,) * x.type.rank)


@aten_op("slice_scatter.default")
def slice_scatter(
    s: Scope, x: Value, src: Value, dim: int = 0, start: Number | None = None, end: Number | None = None, step: int = 1
) -> Value:
    """x with a part of an axis replaced."""
    axis = axis_of(dim, x.type.rank)
    size = x.type.dims[axis]
    first, last = bound(s, start, size, ZERO), bound(s, end, size, size)
    src = convert(s, src, x.type.dtype)
    if step != 1:
        number = line(s, ceildiv(maximum(last - first, 0), step))
        places = with_number(s, "add", with_number(s, "multiply", number, step), first)
        return put(s, x, [axis], [places], src)
    if first.const == 0 and last is size:
        return expand(s, src, x.type.dims)
    s.check(Relation("<=", first, last), "a part starts at {0} and ends before, at {1}")
    middle = expand(s, src, (*x.type.dims[:axis], last - first, *x.type.dims[axis + 1 :]))
    parts = [window(s, x, axis, ZERO, first)] if first.const != 0 else []
    parts += [middle] + ([window(s, x, axis, last, size)] if last is not size else [])
    return s.one("concatenate", parts, dim=axis)


@aten_op("select_scatter.default")
def select_scatter(s: Scope, x: Value, src: Value, dim: int, index: Number) -> Value:
    """x with one place of an axis replaced."""
    axis = axis_of(dim, x.type.rank)
    first: Any = place_in(s, index, x.type.dims[axis])
    return slice_scatter(s, x, with_axis(s, src, axis), axis, first, first + 1)
