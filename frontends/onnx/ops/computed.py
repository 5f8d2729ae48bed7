"""Axes, and bounds and steps by axis, that only running tells: for each axis of the operand, what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from egshape.dims import Dim, const
from egshape.facts import Relation
from egshape.facts.wording import worded
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.registry import Fork, NoLowering
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import of_length
from egshape.ir.graph import Value

_FAR = 2**62
"""No axis is longer, nor a larger step another than this one."""
_WAYS = 8
"""So many sets of axes are tried where a Squeeze names none."""


def hits(s: Scope, axes: Value, axis: int, rank: int) -> Value:
    """Which of the named axes, counted from either end, is this one."""
    either = [
        s.one("compare", (axes, s.full(number, axes)), direction="EQ", kind="SIGNED") for number in (axis, axis - rank)
    ]
    return s.one("or", tuple(either))


def named(s: Scope, node: Node, axes: Value, rank: int, all_of_none: bool = False) -> list[Value]:
    """For each axis whether it is among the named ones, each of which there must be once; ``all_of_none``: no names
    stand for all axes."""
    axes = convert(s, axes, "i64")
    flags = [fold(s, "or", hits(s, axes, axis, rank), (0,)) for axis in range(rank)]
    if axes.type.rank != 1:
        raise node.error(f"has axes of the type {axes.type}")
    count, zero = s.vector(axes.type.dims, "i64", ()), s.scalar(0, "i64")
    found = zero
    for flag in flags:
        found = s.one("add", (found, convert(s, flag, "i64")))
    _require(s, found, count, f"{node.op} names an axis twice, or one that rank {rank} does not have")
    if not all_of_none or axes.type.dims[0].const:
        return flags
    none = _compared(s, count, "EQ", zero)
    return [s.one("or", (flag, none)) for flag in flags]


def _require(s: Scope, one: Value, two: Value, message: str) -> None:
    held = s.numbers(one), s.numbers(two)
    if None in held or held[0] != held[1]:
        s.add("check", (_compared(s, one, "EQ", two),), {"message": message})


def _compared(s: Scope, one: Value, direction: str, two: Value) -> Value:
    return s.one("compare", (one, two), direction=direction, kind="SIGNED")


def sizes_where(s: Scope, flags: Sequence[Value], sizes: Sequence[Dim], wanted: bool) -> list[Value]:
    """As scalars the sizes of the axes whose flag is ``wanted``, 1 for the others."""
    one, out = s.scalar(1, "i64"), []
    for flag, size in zip(flags, sizes, strict=True):
        whole = s.vector([size], "i64", ())
        out.append(s.one("select", (flag, whole, one) if wanted else (flag, one, whole)))
    return out


def joined_up(s: Scope, scalars: Sequence[Value]) -> Value:
    """Scalars as a vector."""
    parts = [reshape(s, each, (const(1),)) for each in scalars]
    return parts[0] if len(parts) == 1 else s.one("concatenate", parts, dim=0)


def squeezed(s: Scope, node: Node, x: Value, flags: Sequence[Value], rank: int) -> Value:
    """Without the flagged axes: the other sizes stand first in a stable sort by the flags."""
    keys = joined_up(s, [convert(s, flag, "i64") for flag in flags])
    region = s.region(
        [("i64", ())] * 4, lambda inner, a, b, c, d: inner.one("compare", (a, b), direction="LT", kind="SIGNED")
    )
    ordered = s.add("sort", (keys, s.vector(x.type.dims)), {"dim": 0, "stable": True}, regions=(region,))[1]
    return reshape(s, x, s.sizes(window(s, ordered, 0, const(0), const(rank)), node.outputs[0]))


def squeeze(s: Scope, node: Node, x: Value, axes: Value) -> Value:
    """Squeeze with computed axes, the number of which, or the rank of the result, is known."""
    length = axes.type.dims[0].const if axes.type.rank == 1 else None
    rank = s.known_rank(node.outputs[0]) if length is None else x.type.rank - length
    if rank is None or not 0 <= rank <= x.type.rank or x.type.rank == 0:
        raise NoLowering("the rank of the result is data")
    flags, gone = named(s, node, axes, x.type.rank), s.scalar(1, "i64")
    for size in sizes_where(s, flags, x.type.dims, True):
        gone = s.one("multiply", (gone, size))
    _require(s, gone, s.scalar(1, "i64"), "Squeeze takes an axis away whose size is not 1")
    return squeezed(s, node, x, flags, rank)


def squeeze_ones(s: Scope, node: Node, x: Value) -> Value:
    """Without the axes of size 1. Where that is data, facts, a rank that is said beside the model, or what follows tell
    which they are, and it is checked; the rank that the model states does not, which no runtime holds it to."""
    dims = x.type.dims
    sure = [size.const != 1 if size.const is not None else s.decide("!=", size, 1) for size in dims]
    open_ = [axis for axis, answer in enumerate(sure) if answer is None]
    stays = [
        s.assumed(Relation("!=", size, const(1))) if answer is None else answer
        for size, answer in zip(dims, sure, strict=True)
    ]
    ones = tuple(axis for axis, answer in enumerate(stays) if answer is False)
    free = [axis for axis, answer in enumerate(stays) if answer is None]
    rank = s.told_rank(node.outputs[0])
    counts = range(len(free) + 1) if rank is None else [len(dims) - len(ones) - rank]
    ways = [(*ones, *more) for count in counts if count >= 0 for more in combinations(free, count)]

    def choose(scope: Scope, way: int) -> None:
        for axis in open_:
            relation = "==" if axis in ways[way] else "!="
            message = f"axis {axis} has size {{0}}, which Squeeze {'takes away' if relation == '==' else 'leaves'} here"
            scope.add(
                "check",
                (),
                {"relation": relation, "sides": (dims[axis], const(1)), "args": (dims[axis],), "message": message},
            )
            if relation == "==":
                scope.learn(dims[axis], const(1))

    def cut_out(scope: Scope, way: tuple[int, ...]) -> list[Value]:
        return [reshape(scope, x, [size for axis, size in enumerate(dims) if axis not in way])]

    if len(ways) == 1:
        choose(s, 0)
        return cut_out(s, ways[0])[0]
    _say_where_stated(s, node, [dims[axis] for axis in free], len(dims) - len(ones))
    if len(ways) > _WAYS or not ways:
        raise NoLowering("which axes have size 1 is data")
    raise Fork([partial(cut_out, way=way) for way in ways], choose)


def _say_where_stated(s: Scope, node: Node, free: Sequence[Dim], most: int) -> None:
    """Note at which sizes a result has the rank that the model states, and forget that rank."""
    stated = s.program.ranks.pop(node.outputs[0], None) if not s.stack else None
    if stated is not None and most - stated == len(free):
        where = " and ".join(worded(Relation.of(size, "==", 1)) for size in free)
        s.program.notes.append(
            f"{node.outputs[0]} has the stated rank, {stated}, where {where}; other sizes are not refused"
        )


def unsqueeze(s: Scope, node: Node, x: Value, axes: Value) -> Value:
    """Unsqueeze with computed axes: each axis of the result is new, or the next one of x."""
    length = axes.type.dims[0].const if axes.type.rank == 1 else None
    rank = s.known_rank(node.outputs[0]) if length is None else x.type.rank + length
    if rank is None or rank < x.type.rank:
        raise NoLowering("the rank of the result is data")
    flags = named(s, node, of_length(s, axes, rank - x.type.rank), rank)
    sizes, at, one = [], s.scalar(0, "i64"), s.scalar(1, "i64")
    held = s.vector((*x.type.dims, const(1)))
    for new in flags:
        sizes.append(s.one("select", (new, one, reshape(s, taken(s, held, 0, at), ()))))
        at = s.one("select", (new, at, s.one("add", (at, one))))
    return reshape(s, x, s.sizes(joined_up(s, sizes), node.outputs[0])) if sizes else x


def slices(
    s: Scope, node: Node, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    """Slice with computed axes or steps: on each axis elements at computed places."""
    if starts.type.rank != 1:
        raise node.error(f"has starts {starts.type}")
    if axes is None:
        axes = s.one("iota", dtype="i64", dim=0, shape=starts.type.dims)
    named(s, node, axes, x.type.rank)
    axes = convert(s, axes, "i64")
    vectors = [
        None if each is None else reshape(s, convert(s, each, "i64"), axes.type.dims) for each in (starts, ends, steps)
    ]
    for axis in range(x.type.rank):
        mine, size = hits(s, axes, axis, x.type.rank), s.vector([x.type.dims[axis]], "i64", ())
        zero, one = s.scalar(0, "i64"), s.scalar(1, "i64")
        start, end, step = (
            default if vector is None else _picked(s, mine, vector, default)
            for vector, default in zip(vectors, (zero, size, one), strict=True)
        )
        s.add("check", (_compared(s, step, "NE", zero),), {"message": "Slice has a step of 0"})
        step = s.one("clamp", (s.scalar(-_FAR, "i64"), step, s.scalar(_FAR, "i64")))
        x = _strided(s, node, x, axis, start, end, step)
    return x


def _picked(s: Scope, mine: Value, vector: Value, default: Value) -> Value:
    """The element of the vector that is this axis's; a default where none is."""
    found = fold(s, "add", s.one("select", (mine, vector, s.full(0, vector))), (0,))
    return s.one("select", (fold(s, "or", mine, (0,)), found, default))


def _strided(s: Scope, node: Node, x: Value, axis: int, start: Value, end: Value, step: Value) -> Value:
    """The elements from start to end on an axis, both counted from either end and clamped."""
    size, zero, one = s.vector([x.type.dims[axis]], "i64", ()), s.scalar(0, "i64"), s.scalar(1, "i64")
    forward = _compared(s, zero, "LT", step)
    low = s.one("select", (forward, zero, s.scalar(-1, "i64")))
    high = s.one("add", (size, low))
    first, last = (
        s.one(
            "clamp", (low, s.one("select", (_compared(s, bound, "LT", zero), s.one("add", (bound, size)), bound)), high)
        )
        for bound in (start, end)
    )
    gap = s.one("subtract", (last, first))
    gap, stride = s.one("select", (forward, gap, s.one("negate", (gap,)))), s.one("abs", (step,))
    wide = s.one("add", (gap, s.one("subtract", (stride, one))))
    count = s.one("maximum", (s.one("divide", (wide, s.one("maximum", (stride, one)))), zero))
    (length,) = s.sizes(reshape(s, count, (const(1),)), f"{node.outputs[0]}.size{axis}")
    line = s.one("iota", dtype="i64", dim=0, shape=(length,))
    places = s.one("add", (s.spread(first, (length,)), s.one("multiply", (s.spread(step, (length,)), line))))
    return taken(s, x, axis, places, empty=True)


def pads_by_axis(s: Scope, node: Node, rank: int, pads: Value, axes: Value) -> Value:
    """Pads of computed axes as those of all axes: all low ones, then all high ones."""
    named(s, node, axes, rank)
    axes = convert(s, axes, "i64")
    if pads.type.rank != 1 or not rank:
        raise NoLowering("how many axes are padded is data")
    both = reshape(s, convert(s, pads, "i64"), (const(2), *axes.type.dims))
    found = []
    for axis in range(rank):
        mine = s.one("broadcast_in_dim", (hits(s, axes, axis, rank),), dims=(1,), shape=both.type.dims)
        found.append(
            reshape(s, fold(s, "add", s.one("select", (mine, both, s.full(0, both))), (1,)), (const(2), const(1)))
        )
    whole = found[0] if rank == 1 else s.one("concatenate", found, dim=1)
    return reshape(s, whole, (const(2 * rank),))


def by_axis(
    s: Scope, node: Node, axis: Value, rank: int, axes: Sequence[int], make: Callable[[Scope, int], Value]
) -> Value:
    """What ``make`` gives for the axis that a computed number names, counted from either end, which must be among
    ``axes``."""
    number = convert(s, reshape(s, axis, ()), "i64")
    zero = s.scalar(0, "i64")
    number = s.one("select", (_compared(s, number, "LT", zero), s.one("add", (number, s.scalar(rank, "i64"))), number))
    known = [_compared(s, number, "EQ", s.scalar(way, "i64")) for way in axes]
    fits = known[0]
    for each in known[1:]:
        fits = s.one("or", (fits, each))
    s.add("check", (fits,), {"message": f"{node.op} names an axis that it cannot take of rank {rank}"})
    regions = []
    for way in axes:
        inner = s.child()
        inner.location, inner.label = s.location, s.label
        regions.append(inner.builder.finish([make(inner, way)]))
    place = s.scalar(0, "i32")
    for order, each in enumerate(known):
        place = s.one("select", (each, s.scalar(order, "i32"), place))
    return s.add("case", (place,), {}, regions=regions)[0]


def count_of(s: Scope, scalars: Sequence[Value]) -> Value:
    """The product of scalars."""
    out = s.scalar(1, "i64")
    for each in scalars:
        out = s.one("multiply", (out, each))
    return out
