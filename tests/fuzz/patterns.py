"""For each rule over tensors: its left side as a piece of a program, and now and then a near miss.

A near miss breaks one condition of the rule, so that a rule that has lost its guard gives a wrong program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Value
from egshape.ir.types import is_float, is_integer
from tests.fuzz.maker import Maker

Pattern = Callable[[Maker], Value]
PATTERNS: dict[str, Pattern] = {}
"""By rule name; for a ruleset's name, several of its rules."""

UNARY = {
    "f": ("negate", "abs", "floor", "sign", "sqrt", "exponential", "tanh", "is_finite"),
    "i": ("negate", "not", "popcnt"),
    "b": ("not",),
}
BINARY = {
    "f": ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"),
    "i": ("add", "subtract", "multiply", "divide", "maximum", "and", "xor", "remainder"),
    "b": ("and", "or", "xor", "add"),
}


def pattern(*rules: str) -> Callable[[Pattern], Pattern]:
    """Register a pattern for rules."""

    def register(make: Pattern) -> Pattern:
        for rule in rules:
            PATTERNS[rule] = make
        return make

    return register


def kind(x: Value) -> str:
    """f, i or b."""
    if is_float(x.type.dtype):
        return "f"
    return "i" if is_integer(x.type.dtype) else "b"


def unary(m: Maker, x: Value) -> Value:
    """Any elementwise op of one operand."""
    if m.chance(5):
        return m.convert(x, m.choice(("f32", "i32", "i8", "f16", "i1")))
    return m.one(m.choice(UNARY[kind(x)]), (x,))


def binary(m: Maker, x: Value, y: Value) -> Value:
    """Any elementwise op of two operands."""
    if m.chance(6):
        sign = {"f": "FLOAT", "i": "UNSIGNED" if x.type.dtype.startswith("u") else "SIGNED", "b": "UNSIGNED"}
        return m.one("compare", (x, y), direction=m.choice(("EQ", "LT", "GE")), kind=sign[kind(x)])
    return m.one(m.choice(BINARY[kind(x)]), (x, y))


def splatted(m: Maker, x: Value, like: Value, *, right: bool, vectors: int = 6) -> Value:
    """An op of x and a scalar in every element, or, as a near miss, a vector, about one in ``vectors`` times."""
    scalar = m.any_scalar(x.type.dtype)
    other = m.splat(scalar, like.type.dims)
    if m.chance(vectors) and like.type.rank:
        axis = m.chooser.randint(0, like.type.rank - 1)
        vector = m.input(x.type.dtype, (like.type.dims[axis],))
        other = m.one("broadcast_in_dim", (vector,), dims=(axis,), shape=like.type.dims)
    return binary(m, *((x, other) if right else (other, x)))


# -- reshape -------------------------------------------------------------------------------------------------------


@pattern("tensor.reshape/reshape-reshape")
def reshape_reshape(m: Maker) -> Value:
    return m.reshaped(m.reshaped(m.value(low=1)))


def with_units(m: Maker, dims: Sequence[Dim], count: int) -> list[Dim]:
    """These sizes with so many axes of size 1 between them."""
    found = list(dims)
    for _ in range(count):
        found.insert(m.chooser.randint(0, len(found)), const(1))
    return found


@pattern("tensor.reshape/insert-axes")
def insert_axes(m: Maker) -> Value:
    x = m.value()
    dims = with_units(m, x.type.dims, m.chooser.randint(1, 2))
    if m.chance(2):
        other = m.input(x.type.dtype, x.type.dims[::-1])
        m.one("reshape", (other,), shape=tuple(dims))
    return m.one("reshape", (x,), shape=tuple(dims))


@pattern("tensor.reshape/of-splat")
def reshape_of_splat(m: Maker) -> Value:
    x = m.value(low=1)
    scalar = m.any_scalar("f32")
    if m.chance(4):
        return m.reshaped(m.spread(m.value(1))[0])
    return m.reshaped(m.splat(scalar, x.type.dims))


@pattern("tensor.reshape/below-unary")
def reshape_below_unary(m: Maker) -> Value:
    return m.reshaped(unary(m, m.reshaped(m.value(low=1))))


def pair(m: Maker, move: Callable[[Value, int], Value]) -> Value:
    """An op of two values that were moved alike; as a near miss, not quite alike."""
    x = m.value(low=1)
    y = m.like(x)
    first, second = move(x, 0), move(y, 1 if m.chance(4) else 0)
    if m.shape_at(first.type.dims) != m.shape_at(second.type.dims) or first.type.rank != second.type.rank:
        second = m.input(first.type.dtype, first.type.dims)
    return binary(m, first, second)


@pattern("tensor.reshape/below-binary")
def reshape_below_binary(m: Maker) -> Value:
    x = m.value(2)
    y = m.like(x)
    if m.chance(3):
        y = m.input(x.type.dtype, x.type.dims[::-1])
    flat = (x.type.dims[0] * x.type.dims[1],)
    out = binary(m, m.one("reshape", (x,), shape=flat), m.one("reshape", (y,), shape=flat))
    return m.one("reshape", (out,), shape=x.type.dims)


@pattern("tensor.reshape/below-binary-splat-right")
def reshape_splat_right(m: Maker) -> Value:
    moved = m.reshaped(m.value(low=1))
    return m.reshaped(splatted(m, moved, moved, right=True))


@pattern("tensor.reshape/below-binary-splat-left")
def reshape_splat_left(m: Maker) -> Value:
    moved = m.reshaped(m.value(low=1))
    return m.reshaped(splatted(m, moved, moved, right=False))


# -- transpose -----------------------------------------------------------------------------------------------------


def square(m: Maker, rank: int, dtype: str = "f32") -> Value:
    """A value whose axes all have one size: no shape shows a wrong order."""
    return m.input(dtype, (m.dims(1)[0],) * rank) if m.chance(2) else m.value(rank, dtype)


@pattern("tensor.transpose/transpose-transpose")
def transpose_transpose(m: Maker) -> Value:
    return m.transposed(m.transposed(square(m, 3)))


@pattern("tensor.transpose/transpose-identity")
def transpose_identity(m: Maker) -> Value:
    x = square(m, m.choice((1, 2, 3)))
    return m.transposed(x, None if m.chance(2) else range(x.type.rank))


@pattern("tensor.transpose/as-reshape")
def transpose_of_unit_axes(m: Maker) -> Value:
    dims = m.dims(m.choice((1, 2)))
    return m.transposed(m.input("f32", with_units(m, dims, m.choice((1, 1, 2)))))


@pattern("tensor.transpose/of-broadcast")
def transpose_of_broadcast(m: Maker) -> Value:
    return m.transposed(m.spread(m.value(m.choice((1, 2))), increasing=m.chance(2))[0])


@pattern("tensor.transpose/into-broadcast")
def transpose_into_broadcast(m: Maker) -> Value:
    return m.spread(m.transposed(square(m, m.choice((2, 3)))), increasing=m.chance(2))[0]


@pattern("tensor.transpose/below-unary")
def transpose_below_unary(m: Maker) -> Value:
    return m.transposed(unary(m, m.transposed(m.value(low=2))))


@pattern("tensor.transpose/below-binary")
def transpose_below_binary(m: Maker) -> Value:
    orders = [m.permutation(2), m.permutation(2)]
    x, y = square(m, 2), None
    y = m.like(x)
    first = m.transposed(x, orders[0])
    second = m.transposed(y, orders[1] if m.chance(4) else orders[0])
    if m.shape_at(first.type.dims) != m.shape_at(second.type.dims):
        second = m.transposed(y, orders[0])
    return m.transposed(binary(m, first, second))


@pattern("tensor.transpose/below-binary-broadcast-right")
def transpose_broadcast_right(m: Maker) -> Value:
    moved = m.transposed(m.value(low=2))
    return m.transposed(splatted(m, moved, moved, right=True, vectors=2))


@pattern("tensor.transpose/below-binary-broadcast-left")
def transpose_broadcast_left(m: Maker) -> Value:
    moved = m.transposed(m.value(low=2))
    return m.transposed(splatted(m, moved, moved, right=False, vectors=2))


def dot(m: Maker, *, turn_left: bool) -> Value:
    """A product of two tensors of which one is transposed."""
    size, free = m.dims(1)[0], m.dims(1)[0]
    rank = m.choice((2, 2, 3))
    axes: list[Dim] = [size, *(free,) * (rank - 1)]
    x = m.input("f32", axes)
    y = m.input("f32", (m.equal(size), m.dim()))
    order = m.permutation(rank)
    turned = m.transposed(x, order)
    batch = rank == 3 and m.chance(2)
    contract = order.index(0)
    other = next(axis for axis in range(rank) if axis != contract)
    left_batch = (other,) if batch else ()
    if batch:
        y = m.input("f32", (m.equal(free), m.equal(size), m.dim()))
    if turn_left:
        return m.one(
            "dot_general",
            (turned, y),
            lhs_batch=left_batch,
            rhs_batch=(0,) if batch else (),
            lhs_contract=(contract,),
            rhs_contract=(1,) if batch else (0,),
            dtype="f32",
        )
    return m.one(
        "dot_general",
        (y, turned),
        lhs_batch=(0,) if batch else (),
        rhs_batch=left_batch,
        lhs_contract=(1,) if batch else (0,),
        rhs_contract=(contract,),
        dtype="f32",
    )


@pattern("tensor.transpose/into-dot-left")
def into_dot_left(m: Maker) -> Value:
    return dot(m, turn_left=True)


@pattern("tensor.transpose/into-dot-right")
def into_dot_right(m: Maker) -> Value:
    return dot(m, turn_left=False)


# -- broadcast -----------------------------------------------------------------------------------------------------


@pattern("tensor.broadcast/broadcast-broadcast")
def broadcast_broadcast(m: Maker) -> Value:
    return m.spread(m.spread(m.value(m.choice((1, 2))), increasing=m.chance(2))[0], increasing=m.chance(2))[0]


@pattern("tensor.broadcast/broadcast-identity")
def broadcast_identity(m: Maker) -> Value:
    x = square(m, m.choice((1, 2)))
    shape = list(m.similar(x.type.dims))
    if m.chance(3):
        shape = [m.dim() if m.at(size) == 1 else size for size in shape]
        shape = shape if m.fits(shape) else list(x.type.dims)
    axes = m.permutation(x.type.rank) if m.chance(3) else tuple(range(x.type.rank))
    if any(m.at(x.type.dims[k]) not in (1, m.at(shape[axis])) for k, axis in enumerate(axes)):
        axes = tuple(range(x.type.rank))
    return m.one("broadcast_in_dim", (x,), dims=axes, shape=tuple(shape))


@pattern("tensor.broadcast/as-reshape")
def broadcast_as_reshape(m: Maker) -> Value:
    x = m.value(low=1)
    shape: list[Dim] = list(x.type.dims)
    axes = list(range(x.type.rank))
    for _ in range(m.chooser.randint(1, 2)):
        place = m.chooser.randint(0, len(shape))
        shape.insert(place, const(1) if not m.chance(3) else m.dim())
        axes = [axis + (axis >= place) for axis in axes]
    if not m.fits(shape):
        shape = [size if k in axes else const(1) for k, size in enumerate(shape)]
    if m.chance(3):
        turn = m.permutation(len(shape))
        shape, axes = [shape[k] for k in turn], [turn.index(axis) for axis in axes]
    return m.one("broadcast_in_dim", (x,), dims=tuple(axes), shape=tuple(shape))


@pattern("tensor.broadcast/as-transpose")
def broadcast_as_transpose(m: Maker) -> Value:
    x = square(m, 2) if m.chance(2) else m.input("f32", (m.dim(), m.dim()))
    if m.chance(3):
        x = m.input("f32", (const(1), x.type.dims[1]))
    rows, columns = x.type.dims
    if m.at(rows) == 1 and m.chance(2):
        rows = m.dims(1)[0]
    return m.one("broadcast_in_dim", (x,), dims=(1, 0), shape=(columns, rows))


@pattern("tensor.broadcast/below-unary")
def broadcast_below_unary(m: Maker) -> Value:
    return unary(m, m.spread(m.value(1))[0])


@pattern("tensor.broadcast/below-binary")
def broadcast_below_binary(m: Maker) -> Value:
    x = m.value(1)
    wide, axes = m.spread(x)
    y = m.like(x)
    if m.chance(3):
        y = m.input(x.type.dtype, (const(1),))
    return binary(m, wide, m.one("broadcast_in_dim", (y,), dims=axes, shape=wide.type.dims))


@pattern("tensor.broadcast/below-binary-splat-right")
def broadcast_splat_right(m: Maker) -> Value:
    wide, _ = m.spread(m.value(1))
    return splatted(m, wide, wide, right=True)


@pattern("tensor.broadcast/below-binary-splat-left")
def broadcast_splat_left(m: Maker) -> Value:
    wide, _ = m.spread(m.value(1))
    return splatted(m, wide, wide, right=False)


@pattern("tensor.broadcast/below-select")
def broadcast_below_select(m: Maker) -> Value:
    x = m.value(1, m.choice(("f32", "i32")))
    wide, axes = m.spread(x)
    y = m.like(x) if not m.chance(4) else m.input(x.type.dtype, (const(1),))
    p = m.input("i1", x.type.dims if not m.chance(4) else (const(1),))
    q, other = (m.one("broadcast_in_dim", (each,), dims=axes, shape=wide.type.dims) for each in (p, y))
    return m.one("select", (q, wide, other))


@pattern("tensor.broadcast/of-iota")
def broadcast_of_iota(m: Maker) -> Value:
    dims = m.dims(m.choice((1, 2)))
    if m.chance(3):
        dims = (const(1), *dims[1:])
    x = m.one("iota", dtype=m.choice(("i32", "f32")), dim=m.chooser.randint(0, len(dims) - 1), shape=dims)
    return m.spread(x, increasing=m.chance(2))[0]


def select_of(m: Maker, predicate: Value) -> Value:
    """A select between two scalars in every element, or, as a near miss, two vectors."""
    dtype, dims = m.choice(("f32", "i32")), predicate.type.dims
    arms = [m.splat(m.any_scalar(dtype), dims) if not m.chance(4) else m.input(dtype, dims) for _ in range(2)]
    return m.one("select", (predicate, *arms))


@pattern("tensor.broadcast/below-select-splats")
def broadcast_below_select_splats(m: Maker) -> Value:
    return select_of(m, m.spread(m.value(1, "i1"))[0])


@pattern("tensor.reshape/below-select-splats")
def reshape_below_select_splats(m: Maker) -> Value:
    return m.reshaped(select_of(m, m.reshaped(m.value(2, "i1"))))


# -- slice, pad, concatenate, gather -------------------------------------------------------------------------------


@pattern("tensor.slice/slice-full")
def slice_full(m: Maker) -> Value:
    x = m.value(low=1)
    limits = [m.cut(x, axis) if m.chance(4) else m.equal(size) for axis, size in enumerate(x.type.dims)]
    return m.window(x, [const(0)] * x.type.rank, limits, [m.choice((1, 1, 1, 2)) for _ in limits])


def ends(m: Maker, x: Value) -> tuple[list[Dim], list[Dim]]:
    """Starts and limits that lie within x at the witness."""
    starts, limits = [], []
    for axis in range(x.type.rank):
        one, two = sorted((m.cut(x, axis), m.cut(x, axis)), key=m.at)
        starts.append(one)
        limits.append(two)
    return starts, limits


def part(m: Maker, x: Value) -> Value:
    """Any slice, with unit strides as a rule."""
    return m.window(x, *ends(m, x), [m.choice((1, 1, 1, 2)) for _ in x.type.dims])


@pattern("tensor.slice/slice-slice", "tensor.slice/slice-slice-apart")
def slice_slice(m: Maker) -> Value:
    return part(m, part(m, m.value(low=1)))


@pattern("tensor.broadcast/of-nothing")
def slice_of_nothing(m: Maker) -> Value:
    x = unary(m, m.value(low=1))
    starts = [const(0)] * x.type.rank
    limits = [*x.type.dims]
    axis = m.chooser.randint(0, x.type.rank - 1)
    cut = m.cut(x, axis)
    starts[axis], limits[axis] = sorted((cut, m.cut(x, axis) if m.chance(5) else cut), key=m.at)
    return m.window(x, starts, limits)


@pattern("tensor.slice/reverse-reverse", "tensor.slice/reverse-another")
def reverse_reverse(m: Maker) -> Value:
    x = square(m, m.choice((1, 2, 3)))
    dims = m.subset(x.type.rank, m.chooser.randint(1, x.type.rank))
    again = m.subset(x.type.rank, len(dims)) if m.chance(3) else dims
    return m.one("reverse", (m.one("reverse", (x,), dims=dims),), dims=again)


@pattern("tensor.slice/of-splat")
def slice_of_splat(m: Maker) -> Value:
    if m.chance(3):
        return part(m, m.spread(m.value(1))[0])
    return part(m, m.splat(m.any_scalar("f32"), m.dims(m.choice((1, 2)))))


def joined(m: Maker) -> tuple[Value, Value, Value, int]:
    """A concatenation of two, and its axis."""
    x = m.value(low=1)
    axis = m.chooser.randint(0, x.type.rank - 1)
    dims = list(m.similar(x.type.dims))
    dims[axis] = x.type.dims[axis] if m.chance(3) else m.choice((const(0), const(1), m.dims(1)[0]))
    y = m.input(x.type.dtype, dims)
    return x, y, m.one("concatenate", (x, y), dim=axis), axis


@pattern("tensor.slice/of-concatenate-first")
def slice_of_first(m: Maker) -> Value:
    x, y, both, axis = joined(m)
    starts, limits = [const(0)] * x.type.rank, list(both.type.dims)
    end = y if m.chance(4) else x
    limits[axis] = end.type.dims[axis]
    return m.window(both, starts, limits, [m.choice((1, 1, 2)) for _ in limits])


@pattern("tensor.slice/of-concatenate-second")
def slice_of_second(m: Maker) -> Value:
    x, y, both, axis = joined(m)
    starts: list[Dim] = [const(0)] * x.type.rank
    limits = list(both.type.dims)
    starts[axis] = (y if m.chance(4) else x).type.dims[axis]
    return m.window(both, starts, limits, [m.choice((1, 1, 1, 2)) for _ in limits])


@pattern("tensor.slice/within-concatenate-first")
def slice_within_first(m: Maker) -> Value:
    _, _, both, axis = joined(m)
    limits = list(both.type.dims)
    limits[axis] = const(m.choice((0, 0, 0, min(1, m.at(limits[axis])))))
    return m.window(both, [const(0)] * len(limits), limits, [m.choice((1, 1, 2)) for _ in limits])


@pattern("tensor.slice/within-concatenate-second")
def slice_within_second(m: Maker) -> Value:
    x, y, both, axis = joined(m)
    starts: list[Dim] = [const(0)] * x.type.rank
    starts[axis] = x.type.dims[axis] + 1 if m.at(y.type.dims[axis]) >= 1 else x.type.dims[axis]
    return m.window(both, starts, list(both.type.dims), [m.choice((1, 1, 2)) for _ in starts])


@pattern("tensor.slice/across-concatenate")
def slice_across(m: Maker) -> Value:
    x, y, both, axis = joined(m)
    limits = list(both.type.dims)
    limits[axis] = x.type.dims[axis] + 1 if m.at(y.type.dims[axis]) >= 1 else x.type.dims[axis]
    return m.window(both, [const(0)] * len(limits), limits, [m.choice((1, 1, 1, 2)) for _ in limits])


@pattern("tensor.slice/update-all")
def update_of_all(m: Maker) -> Value:
    x = m.value()
    y = m.input(x.type.dtype, x.type.dims if m.chance(2) else [const(0) for _ in x.type.dims])
    starts = [m.input("i32", ()) for _ in x.type.dims]
    return m.one("dynamic_update_slice", (x, y, *starts))


@pattern("tensor.slice/concatenate-slices")
def concatenate_slices(m: Maker) -> Value:
    x = m.value(low=1)
    axis = m.chooser.randint(0, x.type.rank - 1)
    first, middle, other, last = sorted((m.cut(x, axis) for _ in range(4)), key=m.at)
    other = middle if not m.chance(3) else other
    pieces = []
    strides = [2] * x.type.rank if m.chance(8) else None
    for low, high in ((first, middle), (other, last)):
        starts: list[Dim] = [const(0)] * x.type.rank
        limits = list(x.type.dims)
        starts[axis], limits[axis] = low, high
        pieces.append(m.window(x, starts, limits, strides))
    if m.chance(4):
        pieces.reverse()
    return m.one("concatenate", pieces, dim=axis)


def empty_and(m: Maker, *, right: bool) -> Value:
    x = m.value(low=1)
    axis = m.chooser.randint(0, x.type.rank - 1)
    dims = list(x.type.dims)
    dims[axis] = const(0) if not m.chance(4) else const(1)
    empty = m.input(x.type.dtype, dims)
    return m.one("concatenate", (x, empty) if right else (empty, x), dim=axis)


@pattern("tensor.slice/concatenate-empty-right")
def concatenate_empty_right(m: Maker) -> Value:
    return empty_and(m, right=True)


@pattern("tensor.slice/concatenate-empty-left")
def concatenate_empty_left(m: Maker) -> Value:
    return empty_and(m, right=False)


@pattern("tensor.slice/concatenate-splats")
def concatenate_splats(m: Maker) -> Value:
    scalar = m.any_scalar("f32")
    dims = m.dims(m.choice((1, 2)))
    other = (m.dims(1)[0], *dims[1:])
    second = m.any_scalar("f32") if m.chance(3) else scalar
    return m.one("concatenate", (m.splat(scalar, dims), m.splat(second, other)), dim=0)


def padded(m: Maker, x: Value, low: list[int], high: list[int], interior: list[int]) -> Value:
    attrs = {name: tuple(map(const, each)) for name, each in (("low", low), ("high", high), ("interior", interior))}
    return m.one("pad", (x, m.any_scalar(x.type.dtype)), **attrs)


@pattern("tensor.transpose/around-slice")
def transpose_around_slice(m: Maker) -> Value:
    return m.transposed(part(m, m.transposed(m.value(low=2))))


@pattern("tensor.transpose/around-pad")
def transpose_around_pad(m: Maker) -> Value:
    moved = m.transposed(m.value(low=2))
    low, high, between = ([m.choice((0, 1, 2)) for _ in range(moved.type.rank)] for _ in range(3))
    return m.transposed(padded(m, moved, low, high, between))


@pattern("tensor.transpose/below-concatenate")
def transpose_below_concatenate(m: Maker) -> Value:
    x, y, _, axis = joined(m)
    order = m.permutation(x.type.rank)
    first, second = m.transposed(x, order), m.transposed(y, order)
    return m.transposed(m.one("concatenate", (first, second), dim=order.index(axis)))


@pattern("tensor.slice/pad-splat")
def pad_splat(m: Maker) -> Value:
    x = m.value(low=1)
    scalar = m.any_scalar(x.type.dtype)
    other = m.any_scalar(x.type.dtype) if m.chance(4) else scalar
    names = ("low", "high", "interior")
    sizes = {name: tuple(const(m.choice((0, 1, 2))) for _ in range(x.type.rank)) for name in names}
    return m.one("pad", (m.splat(scalar, x.type.dims), other), **sizes)


@pattern("tensor.slice/pad-nothing")
def pad_nothing(m: Maker) -> Value:
    x = m.value(low=1)
    rank = x.type.rank
    return padded(m, x, *([m.choice((0, 0, 0, 0, 1)) for _ in range(rank)] for _ in range(3)))


@pattern("tensor.slice/of-pad")
def slice_of_pad(m: Maker) -> Value:
    x = m.value(low=1)
    rank = x.type.rank
    low = [m.choice((0, 1, 2)) for _ in range(rank)]
    pad = padded(m, x, low, [m.choice((0, 1, 2)) for _ in range(rank)], [m.choice((0, 0, 0, 0, 1))] * rank)
    shift = (
        m.choice((0, 0, 0, 1))
        if all(m.at(p) - m.at(s) > lo for p, s, lo in zip(pad.type.dims, x.type.dims, low, strict=True))
        else 0
    )
    starts = [const(each + shift) for each in low]
    return m.window(pad, starts, [size + start for size, start in zip(x.type.dims, starts, strict=True)])


@pattern("tensor.slice/gather-slice")
def gather_slice(m: Maker) -> Value:
    x = m.value(m.choice((1, 2)), "f32")
    rank = x.type.rank
    if any(size == 0 for size in m.shape_at(x.type.dims)):
        x = m.input("f32", [const(m.choice((1, 2, 5))) for _ in range(rank)])
    mapped = m.subset(rank, m.chooser.randint(1, rank)) if not m.chance(3) else m.permutation(rank)
    count = len(mapped)
    if m.chance(3):
        index = m.one(
            "dims", elements=tuple(m.dim() - m.choice((0, 1)) for _ in range(count)), shape=(count,), dtype="i32"
        )
    else:
        index = m.scalar([m.choice((0, 1, 2, -1, 9)) for _ in range(count)], "i32")
    collapsed = m.subset(rank, m.chooser.randint(0, rank))
    sizes = tuple(const(1) if axis in collapsed or m.chance(2) else x.type.dims[axis] for axis in range(rank))
    kept = rank - len(collapsed)
    return m.one(
        "gather",
        (x, index),
        offset_dims=tuple(range(kept)),
        collapsed=collapsed,
        start_index_map=mapped,
        index_vector_dim=0,
        sizes=sizes,
    )


# -- neutral -------------------------------------------------------------------------------------------------------


def with_constant(m: Maker, x: Value, *, right: bool, spread: bool) -> Value:
    """x with a constant that is neutral for the op, or nearly so."""
    dtype = x.type.dtype
    floats = (
        ("add", -0.0),
        ("multiply", 1.0),
        ("maximum", -np.inf),
        ("minimum", np.inf),
        ("add", 0.0),
        ("subtract", 0.0),
        ("divide", 1.0),
        ("subtract", -0.0),
        ("multiply", -1.0),
        ("power", 1.0),
    )
    ints = (
        ("add", 0),
        ("multiply", 1),
        ("or", 0),
        ("xor", 0),
        ("subtract", 0),
        ("divide", 1),
        ("shift_left", 0),
        ("maximum", 0),
        ("and", 0),
        ("remainder", 1),
    )
    truths = (("and", True), ("or", False), ("xor", False), ("and", False), ("add", True))
    name, number = m.choice({"f": floats, "i": ints, "b": truths}[kind(x)])  # type: ignore[index]
    other = m.scalar(number, dtype)
    other = m.splat(other, x.type.dims) if spread else other
    return m.one(name, (x, other) if right else (other, x))


@pattern("tensor.neutral/right", "tensor.neutral/absorbed-right")
def neutral_right(m: Maker) -> Value:
    return with_constant(m, m.value(low=1), right=True, spread=True)


@pattern("tensor.neutral/left", "tensor.neutral/absorbed-left")
def neutral_left(m: Maker) -> Value:
    return with_constant(m, m.value(low=1), right=False, spread=True)


@pattern("tensor.neutral/right-scalar", "tensor.neutral/absorbed-right-scalar")
def neutral_right_scalar(m: Maker) -> Value:
    return with_constant(m, m.value(0), right=True, spread=False)


@pattern("tensor.neutral/left-scalar", "tensor.neutral/absorbed-left-scalar")
def neutral_left_scalar(m: Maker) -> Value:
    return with_constant(m, m.value(0), right=False, spread=False)


@pattern("tensor.neutral/involution")
def involution(m: Maker) -> Value:
    x = m.value()
    name = m.choice({"f": ("negate", "abs", "sign"), "i": ("negate", "not"), "b": ("not",)}[kind(x)])
    return m.one(name, (m.one(name, (x,)),))


@pattern("tensor.neutral/idempotent")
def idempotent(m: Maker) -> Value:
    x = m.value(dtype="f32")
    name = m.choice(("abs", "sign", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "negate", "sqrt"))
    return m.one(name, (m.one(name, (x,)),))


@pattern("tensor.neutral/same-operands")
def same_operands(m: Maker) -> Value:
    x = m.value()
    names = {
        "f": ("maximum", "minimum", "add", "subtract"),
        "i": ("and", "or", "maximum", "xor", "add"),
        "b": ("and", "or", "xor"),
    }
    return m.one(m.choice(names[kind(x)]), (x, x))


@pattern("tensor.neutral/again-right")
def again_right(m: Maker) -> Value:
    x, y, name = two_that_select(m)
    return m.one(name, (m.one(name, (x, y)), y))


@pattern("tensor.neutral/again-left")
def again_left(m: Maker) -> Value:
    x, y, name = two_that_select(m)
    return m.one(name, (x, m.one(name, (x, y))))


def two_that_select(m: Maker) -> tuple[Value, Value, str]:
    """Two values and an op that gives one of them, or another one."""
    x = m.value()
    names = {"f": ("maximum", "minimum", "add"), "i": ("and", "or", "maximum", "add"), "b": ("and", "or", "xor")}
    return x, m.like(x), m.choice(names[kind(x)])


@pattern("tensor.neutral/convert-same")
def convert_same(m: Maker) -> Value:
    x = m.value()
    return m.convert(x, x.type.dtype if not m.chance(3) else m.choice(("f16", "i8", "f32")))


@pattern("tensor.neutral/convert-back")
def convert_back(m: Maker) -> Value:
    x = m.value()
    wide = {"f": ("f32", "f64", "f16"), "i": ("i64", "f64", "f32", "i8"), "b": ("i32", "f32")}[kind(x)]
    return m.convert(m.convert(x, m.choice(wide)), x.type.dtype)


@pattern(
    "tensor.neutral/select-same",
    "tensor.neutral/select-true",
    "tensor.neutral/select-false",
    "tensor.neutral/select-scalar-true",
    "tensor.neutral/select-scalar-false",
)
def select_known(m: Maker) -> Value:
    x = m.value(low=1)
    y = x if m.chance(3) else m.like(x)
    predicate = m.any_scalar("i1")
    choice = m.chooser.randint(0, 2)
    if choice == 1:
        predicate = m.splat(predicate, x.type.dims)
    elif choice == 2:
        predicate = m.input("i1", x.type.dims)
    return m.one("select", (predicate, x, y))


# -- count ---------------------------------------------------------------------------------------------------------


@pattern("tensor.count/reverse-below-splat-left", "tensor.count/reverse-below-splat-right")
def reverse_of_splatted(m: Maker) -> Value:
    x = m.value(low=1)
    made = splatted(m, x, x, right=m.chance(2))
    return m.one("reverse", (made,), dims=m.subset(made.type.rank, 1))


@pattern("tensor.count/reverse-iota")
def reverse_iota(m: Maker) -> Value:
    dims = m.dims(m.choice((1, 2)))
    axis = m.chooser.randint(0, len(dims) - 1)
    x = m.one("iota", dtype="f32" if m.chance(4) else m.choice(("i32", "i8")), dim=axis, shape=dims)
    return m.one("reverse", (x,), dims=m.subset(len(dims), 1) if m.chance(4) else (axis,))


def minus(m: Maker, x: Value, *, left: bool, scalar: bool) -> Value:
    """x times -1, or now and then 1."""
    number = m.scalar(m.choice((-1, -1, -1, 1)), x.type.dtype)
    other = number if scalar else m.splat(number, x.type.dims)
    return m.one("multiply", (other, x) if left else (x, other))


def counted(m: Maker, rank: int) -> Value:
    return m.input("f32" if m.chance(4) else m.choice(("i32", "i8")), m.dims(rank))


@pattern("tensor.count/negate-left", "tensor.count/negate-right")
def negate_splat(m: Maker) -> Value:
    return minus(m, counted(m, m.choice((1, 2))), left=m.chance(2), scalar=False)


@pattern("tensor.count/negate-left-scalar", "tensor.count/negate-right-scalar")
def negate_scalar(m: Maker) -> Value:
    return minus(m, counted(m, 0), left=m.chance(2), scalar=True)


@pattern("tensor.count/add-negated")
def add_negated(m: Maker) -> Value:
    x = counted(m, m.choice((0, 1, 2)))
    return m.one("add", (m.input(x.type.dtype, x.type.dims), m.one("negate", (x,))))


def difference(m: Maker) -> tuple[Value, Value, Value]:
    x = counted(m, m.choice((0, 1, 2)))
    y = m.input(x.type.dtype, x.type.dims)
    return x, y, m.one("subtract", (x, y))


@pattern("tensor.count/negate-difference")
def negate_difference(m: Maker) -> Value:
    return m.one("negate", difference(m)[2:])


@pattern("tensor.count/add-difference", "tensor.count/difference-add")
def add_difference(m: Maker) -> Value:
    x, y, between = difference(m)
    other = x if m.chance(4) else y
    return m.one("add", (other, between) if m.chance(2) else (between, other))


@pattern("tensor.count/subtract-difference")
def subtract_difference(m: Maker) -> Value:
    x, y, between = difference(m)
    return m.one("subtract", (y if m.chance(4) else x, between))


@pattern("tensor.count/gather-all-i32", "tensor.count/gather-all-i64")
def gather_all(m: Maker) -> Value:
    x = m.value(low=1)
    axis = m.chooser.randint(0, x.type.rank - 1)
    rows = m.cut(x, axis) if m.chance(4) else x.type.dims[axis]
    counted = m.one("iota", dtype=m.choice(("i32", "i64")), dim=0, shape=(rows,))
    index = m.one("broadcast_in_dim", (counted,), dims=(0,), shape=(rows, const(1)))
    others = tuple(each for each in range(x.type.rank) if each != axis)
    sizes = tuple(const(1) if each == axis else size for each, size in enumerate(x.type.dims))
    return m.one(
        "gather",
        (x, index),
        offset_dims=others,
        collapsed=(axis,),
        operand_batch=(),
        indices_batch=(),
        start_index_map=(axis,),
        index_vector_dim=1,
        sizes=sizes,
        sorted=False,
    )
