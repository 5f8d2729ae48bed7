"""Ops that move elements: reshapes, transposes, slices, joins, repeats, pads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from egshape.dims import Dim, const, floordiv, maximum, minimum, mod, product, relu
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.frontends.onnx.broadcast import expand, joined
from egshape.frontends.onnx.checks import only_target, relate, require
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops import computed
from egshape.frontends.onnx.ops.elementwise import compare, convert
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import MOST_SIZES, Scope
from egshape.frontends.onnx.sizes import axes_of, axis_of, clamped, equal, exact_quotient, of_length
from egshape.ir.graph import Value
from egshape.ir.types import numpy_dtype

_ONE = const(1)
_NO_SIZE = const(-2)
"""What a size is that a target asks for and cannot have, which is refused as any below 0 is."""
_FAR = 2**40
"""A step beyond any size."""


@onnx_op("Reshape")
def reshape_to(s: Scope, node: Node, x: Value, target: Value | None = None) -> Value:
    """0 copies a size (unless allowzero), -1 is what is left. A size that only running tells is one that the
    computed target holds."""
    if target is None:
        entries: Sequence[Dim | None] = [const(size) for size in node.ints("shape")]
    else:
        target = _shape_operand(s, node, target, 0)
        chosen = only_target(s, node, target)
        found = chosen or s.items(target) or [None] * (target.type.dims[0].const or 0)
        entries = [item if isinstance(item, Dim) else None for item in found]
    shape = _target(s, node, x.type.dims, entries, node.flag("allowzero", False))
    if None in shape:
        assert target is not None
        return reshape(s, x, s.sizes(_resolved(s, node, x, target), node.outputs[0]))
    sizes = [size for size in shape if size is not None]
    if x.type.dims == tuple(sizes):  # no op is left that could rely on it
        needs, s.needs = s.needs, []
        for need in needs:
            relate(s, need, "Reshape takes what is left beside {0} elements", (need.rhs,))
    return reshape(s, x, sizes)


def _shape_operand(s: Scope, node: Node, target: Value, least: int) -> Value:
    """A target shape as a vector of a known length: its own, else the rank that the model states of the result, where
    sizes of 1 stand in front of a target that broadcasts with ``least`` axes."""
    if target.type.rank != 1 or (target.type.dims[0].const or 0) > MOST_SIZES:
        raise node.error(f"has the target {target.type}")
    if target.type.dims[0].const is not None:
        return target
    rank = s.known_rank(node.outputs[0])
    if rank is None:
        raise NoLowering("the rank of the result is data")
    if rank == least:
        own = target.type.dims[0]
        longer = s.one("concatenate", (s.vector([_ONE] * rank, target.type.dtype), target), dim=0)
        return s.one("slice", (longer,), starts=(own,), limits=(own + rank,), strides=(_ONE,))
    return of_length(s, target, rank)


def _target(
    s: Scope, node: Node, dims: Sequence[Dim], entries: Sequence[Dim | None], keep_zero: bool
) -> list[Dim | None]:
    out: list[Dim | None] = []
    for axis, size in enumerate(entries):
        if size is not None and size.const == 0 and not keep_zero:
            if axis >= len(dims):
                raise node.error(f"copies the size of axis {axis} of a tensor of rank {len(dims)}")
            out.append(dims[axis])
        elif size is None or size.const is not None or s.decide("<=", const(0), size) is True:
            out.append(size)
        else:
            out.append(None)
    rest = [axis for axis, size in enumerate(entries) if size is not None and size.const == -1]
    if len(rest) > 1 or any(size is not None and size.const is not None and size.const < -1 for size in entries):
        raise node.error(f"has the target {[str(size) for size in entries]}")
    if rest:
        others = [size for axis, size in enumerate(out) if axis != rest[0]]
        known = [size for size in others if size is not None]
        if len(known) == len(others):
            out[rest[0]] = exact_quotient(dims, known)
            _must_divide(s, product(known))
        else:
            out[rest[0]] = None
    return out


def _must_divide(s: Scope, size: Dim) -> None:
    """What is left cannot be told where the other sizes make 0 elements: ONNX rejects that."""
    if s.decide("<=", const(1), size) is not True:
        s.needs.append(Relation("<=", const(1), size, "Reshape with -1"))


def _resolved(s: Scope, node: Node, x: Value, target: Value) -> Value:
    """The target vector with 0 and -1 replaced, computed when the graph runs: a 0 that copies an axis which is not
    there, and -1 beside another or beside no elements, are no sizes."""
    rank = int(target.type.dims[0].const or 0)
    dtype = target.type.dtype
    out, free = target, _compared(s, "EQ", target, -1)
    if not node.flag("allowzero", False):
        copied = s.vector([*x.type.dims, *[_NO_SIZE] * rank][:rank], dtype)
        out = s.one("select", (_compared(s, "EQ", out, 0), copied, out))
    known = s.one("select", (free, s.full(1, out), out))
    size = s.scalar(1, dtype)
    for place in range(rank):
        size = s.one("multiply", (size, _element(s, known, place)))
    total = s.vector([product(x.type.dims)], dtype, ())
    rest = s.one("divide", (total, s.one("maximum", (size, s.scalar(1, dtype)))))
    told = _compared(s, "GT", size, 0)
    if rank > 1:
        several = fold(s, "add", convert(s, free, dtype), (0,))
        told = s.one("and", (told, _compared(s, "LE", several, 1)))
    rest = s.one("select", (told, rest, s.full(_NO_SIZE.const or 0, rest)))
    return s.one("select", (free, s.spread(rest, out.type.dims), out))


def _compared(s: Scope, direction: str, x: Value, number: int) -> Value:
    return s.one("compare", (x, s.full(number, x)), direction=direction, kind="SIGNED")


def _element(s: Scope, vector: Value, place: int) -> Value:
    cut = s.one("slice", (vector,), starts=(const(place),), limits=(const(place + 1),), strides=(_ONE,))
    return s.one("reshape", (cut,), shape=())


@onnx_op("Flatten")
def flatten(s: Scope, node: Node, x: Value) -> Value:
    """The axes before and from ``axis`` on, each group as one."""
    axis = node.int("axis", 1)
    axis = axis + x.type.rank if axis < 0 else axis
    return reshape(s, x, [product(x.type.dims[:axis]), product(x.type.dims[axis:])])


@onnx_op("Squeeze")
def squeeze(s: Scope, node: Node, x: Value, given: Value | None = None) -> Value:
    """Without axes of size 1; all that are known to be 1 where none are named."""
    if given is not None and s.numbers(given) is None:
        found = composite(s, node, (x, given), computed.squeeze)[0]
        assert isinstance(found, Value)
        return found
    axes = axes_of(s, node, given, x.type.rank)
    if axes is None:
        return computed.squeeze_ones(s, node, x)
    for axis in axes:
        if x.type.dims[axis].const not in (None, 1):
            raise node.error(f"takes axis {axis} of size {x.type.dims[axis]} away")
        equal(s, node, x.type.dims[axis], _ONE, f"axis {axis} has size {{0}}, which Squeeze takes away")
    return reshape(s, x, [size for axis, size in enumerate(x.type.dims) if axis not in axes])


@onnx_op("Unsqueeze")
def unsqueeze(s: Scope, node: Node, x: Value, given: Value | None = None) -> Value:
    """With new axes of size 1, counted in the result."""
    numbers = node.ints("axes", ()) if given is None else s.numbers(given)
    if numbers is None:
        assert given is not None
        found = composite(s, node, (x, given), computed.unsqueeze)[0]
        assert isinstance(found, Value)
        return found
    rank = x.type.rank + len(numbers)
    axes = {axis_of(node, axis, rank) for axis in numbers}
    if len(axes) != len(numbers):
        raise node.error(f"names an axis twice: {list(numbers)}")
    sizes = iter(x.type.dims)
    return reshape(s, x, [_ONE if axis in axes else next(sizes) for axis in range(rank)])


@onnx_op("Transpose")
def transpose(s: Scope, node: Node, x: Value) -> Value:
    """Axes in another order; reversed without ``perm``."""
    return transposed(s, x, node.ints("perm", None) or tuple(reversed(range(x.type.rank))))


def transposed(s: Scope, x: Value, permutation: Sequence[int]) -> Value:
    """A transpose; x itself where the order stays."""
    order = tuple(permutation)
    return x if order == tuple(range(x.type.rank)) else s.one("transpose", (x,), permutation=order)


@onnx_op("Concat")
def concat(s: Scope, node: Node, *values: Value) -> Value:
    """Joined along an axis; the other sizes are then equal."""
    if not values:
        raise node.error("has no inputs")
    return concat_along(s, node, values, axis_of(node, node.int("axis", 1), values[0].type.rank))


def concat_along(s: Scope, node: Node, values: Sequence[Value], axis: int) -> Value:
    """Values joined along an axis, counted from the front."""
    if any(other.type.rank != values[0].type.rank for other in values):
        raise node.error("joins tensors of different ranks")
    out = values[0] if len(values) == 1 else s.one("concatenate", values, dim=axis)
    for other in values[1:]:
        for place, (one, two) in enumerate(zip(values[0].type.dims, other.type.dims, strict=True)):
            if place != axis:
                s.learn(one, two)
    return out


@onnx_op("Expand")
def expand_to(s: Scope, node: Node, x: Value, target: Value) -> Value:
    """Broadcast with a shape, both ways."""
    sizes = s.sizes(_shape_operand(s, node, target, x.type.rank), node.outputs[0])
    shape = joined(s, [x.type.dims, sizes])
    for asked, held, size in zip(reversed(sizes), reversed(x.type.dims), reversed(shape), strict=False):
        if asked.const is None and s.decide("==", asked, size) is not True:  # no op looks at what is asked for
            _require_asked(s, asked, held, size)
    return expand(s, x, shape)


def _require_asked(s: Scope, asked: Dim, held: Dim, size: Dim) -> None:
    """A check that a size broadcasts with that of an axis, to ``size``."""
    message = "Expand asks for a size {0} where there are {1}"
    if asked in s.program.sizes:
        relate(s, Relation("==", (asked - 1) * (asked - size), const(0)), message, (asked, held))
        return
    element, own = (s.vector([each], "i64", ()) for each in (asked, held))  # data may be too large to compute with
    fits = [compare(s, "EQ", element, s.scalar(1, "i64")), compare(s, "EQ", element, own)]
    if held.const is None:
        fits.append(compare(s, "EQ", own, s.scalar(1, "i64")))
    require(s, reduce(lambda one, two: s.one("or", (one, two)), fits), True, message, (asked, held))


@onnx_op("Tile", composite=True)
def tile(s: Scope, node: Node, x: Value, repeats: Value) -> Value:
    """Each axis repeated as a whole: a new axis in front of it, and both merged."""
    times = s.sizes(of_length(s, repeats, x.type.rank), f"{node.outputs[0]}.repeats")
    if len(times) != x.type.rank:
        raise node.error(f"repeats {len(times)} axes of a tensor of rank {x.type.rank}")
    if all(count.const == 1 for count in times):
        return x
    split = [size for pair in zip(times, x.type.dims, strict=True) for size in pair]
    wide = s.one("broadcast_in_dim", (x,), dims=tuple(range(1, 2 * x.type.rank, 2)), shape=tuple(split))
    return reshape(s, wide, [count * size for count, size in zip(times, x.type.dims, strict=True)])


# -- slices ------------------------------------------------------------------------------------------------------


@onnx_op("Slice")
def slice_of(
    s: Scope,
    node: Node,
    x: Value,
    starts: Value | None = None,
    ends: Value | None = None,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Parts of axes, counted from either end, clamped to the axis; a negative step goes backwards."""
    if any(each is not None and s.numbers(each) is None for each in (axes, steps)):
        found = composite(s, node, (x, starts, ends, axes, steps), computed.slices)[0]
        assert isinstance(found, Value)
        return found
    given: list[Sequence[object]]
    if starts is None or ends is None:
        given = [[const(item) for item in node.ints(key)] for key in ("starts", "ends")]
        count = len(given[0])
    else:
        length = starts.type.dims[0].const if starts.type.rank == 1 else None
        if length is None:
            raise NoLowering("how many axes are sliced is data")
        count = length
        given = [s.items(each) or [None] * count for each in (starts, ends)]
    named = node.ints("axes", None) if axes is None else s.numbers(axes)
    stride = (1,) * count if steps is None else s.numbers(steps) or ()
    if 0 in stride:
        raise node.error("has a step of 0")
    stride = tuple(max(-_FAR, min(step, _FAR)) for step in stride)
    places = range(count) if named is None else named
    if len(given[0]) != len(given[1]) or len(places) != count or len(stride) != count:
        raise node.error("has starts, ends, axes and steps of different lengths")
    for place, (axis, step) in enumerate(zip(places, stride, strict=True)):
        at = axis_of(node, axis, x.type.rank)
        bounds = [
            _bound(s, node, x, at, each, side, place, step, given[index][place])
            for index, (each, side) in enumerate(((starts, 0), (ends, 1)))
        ]
        x = _cut(s, x, at, bounds[0], bounds[1], step)
    return x


def _bound(
    s: Scope, node: Node, x: Value, axis: int, vector: Value | None, side: int, place: int, step: int, item: object
) -> Dim:
    """A start or end as a size. Counting backwards, an end of -1 (before the first element) is 0 and all are one up,
    so that no bound is negative."""
    size = x.type.dims[axis]
    known = item if isinstance(item, Dim) else None
    low, high = (0, 0) if step > 0 else (-1, -1)
    found = clamped(s, size, known, low, high)
    if found is None:
        assert vector is not None
        found = _clamped_data(s, node, size, _element(s, vector, place), side, low, high)
    return found


def _clamped_data(s: Scope, node: Node, size: Dim, bound: Value, side: int, low: int, high: int) -> Dim:
    """The same, computed when the graph runs."""
    dtype = bound.type.dtype
    whole = s.vector([size], dtype, ())
    negative = s.one("compare", (bound, s.scalar(0, dtype)), direction="LT", kind="SIGNED")
    least = s.scalar(-(2**31), dtype)
    counted = s.one("select", (negative, s.one("add", (s.one("maximum", (bound, least)), whole)), bound))
    top = s.one("add", (whole, s.scalar(high - low, dtype)))
    shifted = s.one("add", (s.one("minimum", (counted, whole)), s.scalar(-low, dtype))) if low else counted
    inside = s.one("clamp", (s.scalar(0, dtype), shifted, s.one("maximum", (top, s.scalar(0, dtype)))))
    vector = s.one("reshape", (inside,), shape=(_ONE,))
    (found,) = s.sizes(vector, node.outputs[0], "start" if side == 0 else "end")
    return found + low


def _cut(s: Scope, x: Value, axis: int, start: Dim, limit: Dim, step: int) -> Value:
    if step > 0:
        return window(s, x, axis, start, _not_below(s, start, limit), step)
    size = x.type.dims[axis]
    turned = s.one("reverse", (x,), dims=(axis,))
    first, last = size - 1 - start, size - 1 - limit
    if size.const != 0 and s.decide("<=", const(1), size) is not True:
        first = maximum(first, const(0)) if s.decide("<=", const(0), first) is not True else first
    return window(s, turned, axis, first, _not_below(s, first, last), -step)


def _not_below(s: Scope, start: Dim, limit: Dim) -> Dim:
    """The limit of a slice that is empty where the limit is below the start."""
    known = s.decide("<=", start, limit)
    return limit if known is True else start if s.decide("<=", limit, start) is True else maximum(start, limit)


@onnx_op("Split")
def split(s: Scope, node: Node, x: Value, given: Value | None = None) -> Sequence[Operand]:
    """Parts along an axis: of the given sizes, or equal ones (the last one smaller where they do not divide)."""
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    if node.has("num_outputs") and given is None and x.type.dims[axis].const is None:
        return composite(s, node, (x,), _split)  # the sizes of its parts would be computed else
    return _split(s, node, x, given)


def _split(s: Scope, node: Node, x: Value, given: Value | None = None) -> list[Value]:
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    size = x.type.dims[axis]
    parts: Sequence[Dim]
    if given is not None:
        parts = s.sizes(of_length(s, given, len(node.outputs)), f"{node.outputs[0]}.split")
    elif node.has("split"):
        parts = [const(part) for part in node.ints("split")]
    else:
        parts = _equal_parts(s, size, node.int("num_outputs", len(node.outputs)), node.opset)
    out = cut(s, x, axis, parts)
    if len(out) != len(node.outputs):
        raise node.error(f"has {len(node.outputs)} outputs and {len(out)} parts")
    if given is not None or node.has("split"):
        must_fill(s, node, sum(parts, const(0)), size)
    return out


def cut(s: Scope, x: Value, axis: int, parts: Sequence[Dim]) -> list[Value]:
    """Parts of an axis one after the other; the last one goes to its end."""
    out, start = [], const(0)
    for place, part in enumerate(parts):
        limit = x.type.dims[axis] if place == len(parts) - 1 else start + part
        out.append(window(s, x, axis, start, limit))
        start = limit
    return out


def must_fill(s: Scope, node: Node, total: Dim, size: Dim) -> None:
    """A check that parts fill an axis, where that is not known. Raises EgshapeError where they do not."""
    equal(s, node, total, size, "has parts of {0} for an axis of size {1}")


def _equal_parts(s: Scope, size: Dim, count: int, opset: int) -> list[Dim]:
    if count < 1:
        raise EgshapeError("splits into no parts", code="invalid-model")
    each = floordiv(size + (count - 1), count) if opset >= 18 else floordiv(size, count)
    if size.const is None and opset < 18:
        s.add(
            "check",
            (),
            {
                "relation": "==",
                "sides": (each * count, size),
                "args": (size,),
                "message": f"an axis of size {{0}} has no {count} equal parts",
            },
        )
    return [each] * (count - 1) + [size - each * (count - 1)]


@onnx_op("Pad")
def pad(
    s: Scope, node: Node, x: Value, pads: Value | None = None, value: Value | None = None, axes: Value | None = None
) -> Value:
    """Elements around: a number, or (edge, reflect, wrap) elements of x. Negative pads cut off. One op of ours where
    numbers are put around by known amounts, nothing where there are none."""
    amounts = [const(item) for item in node.ints("pads")] if pads is None else s.dims(pads)
    if amounts is not None and all(each.const == 0 for each in amounts):
        return x
    plain = amounts is not None and node.text("mode", "constant") == "constant"
    if plain and all(s.decide("<=", const(0), each) is True for each in amounts or ()):
        return _padded(s, node, x, pads, value, axes)
    found = composite(s, node, (x, pads, value, axes), _padded)[0]
    assert isinstance(found, Value)
    return found


def _padded(s: Scope, node: Node, x: Value, pads: Value | None, value: Value | None, axes: Value | None) -> Value:
    rank = x.type.rank
    named = tuple(range(rank)) if axes is None else s.numbers(axes)
    if named is None:
        assert pads is not None and axes is not None
        named, pads = tuple(range(rank)), computed.pads_by_axis(s, node, rank, pads, axes)
    if pads is None:
        amounts: Sequence[Dim] = [const(item) for item in node.ints("pads")]
    else:
        amounts = s.sizes(of_length(s, pads, 2 * len(named)), node.outputs[0], "pads", signed=True)
    if len(amounts) != 2 * len(named):
        raise node.error(f"has {len(amounts)} pads for {len(named)} axes")
    low, high = [const(0)] * rank, [const(0)] * rank
    for place, axis in enumerate(named):
        at = axis_of(node, axis, rank)
        low[at], high[at] = amounts[place], amounts[place + len(named)]
    mode = node.text("mode", "constant")
    if mode == "constant":
        fill = s.scalar(node.float("value", 0.0), x.type.dtype) if value is None else reshape(s, value, ())
        return s.one("pad", (x, fill), low=tuple(low), high=tuple(high), interior=(const(0),) * rank)
    x = _left(s, x, low, high)
    for axis in range(rank):
        x = _mirrored(s, node, x, axis, maximum(low[axis], 0), maximum(high[axis], 0), mode)
    return x


def _left(s: Scope, x: Value, low: Sequence[Dim], high: Sequence[Dim]) -> Value:
    """What negative pads leave: only that is there to be mirrored."""
    less = [tuple(minimum(each, 0) for each in side) for side in (low, high)]
    if all(each.const == 0 for side in less for each in side):
        return x
    fill = s.constant(np.zeros((), numpy_dtype(x.type.dtype)))
    return s.one("pad", (x, fill), low=less[0], high=less[1], interior=(const(0),) * x.type.rank)


def _mirrored(s: Scope, node: Node, x: Value, axis: int, low: Dim, high: Dim, mode: str) -> Value:
    """An axis padded with its own elements, taken at computed places."""
    size = x.type.dims[axis]
    if low.const == 0 and high.const == 0:
        return x
    if mode not in ("edge", "reflect", "wrap"):
        raise NoLowering(f"mode {mode}")
    total = size + low + high
    some = Relation("<=", minimum(total, 1), size)
    if mode == "reflect":  # once: runtimes refuse to go on at the other end
        most = maximum(low, high)
        some = Relation("<", most, size) if most.const else Relation("<=", most, maximum(size - 1, 0))
    if s.decide(some.kind, some.lhs, some.rhs) is not True:
        relate(s, some, f"{node.op} has no element to pad an axis of size {{0}} with", (size,))
    place = s.one("iota", dtype="i64", dim=0, shape=(total,))
    place = s.one("subtract", (place, s.spread(s.vector([low], "i64", ()), (total,))))
    whole = s.spread(s.vector([size], "i64", ()), (total,))
    last = s.one("subtract", (whole, s.full(1, whole)))
    if mode == "edge":
        at = s.one("minimum", (s.one("maximum", (place, s.full(0, place))), last))
    elif mode == "wrap":
        at = _floor_mod(s, place, whole)
    else:
        at = s.one("abs", (place,))
        at = s.one("minimum", (at, s.one("subtract", (s.one("add", (last, last)), at))))
    return taken(s, x, axis, s.one("minimum", (at, s.one("maximum", (last, s.full(0, last))))), empty=True)


def _floor_mod(s: Scope, x: Value, y: Value) -> Value:
    rest = s.one("remainder", (x, y))
    negative = s.one("compare", (rest, s.full(0, rest)), direction="LT", kind="SIGNED")
    return s.one("select", (negative, s.one("add", (rest, y)), rest))


def not_empty(s: Scope, x: Value, axes: Sequence[int], element: np.ndarray) -> Value:
    """x with one element along each of these axes that is empty."""
    high = [const(0)] * x.type.rank
    for axis in axes:
        if s.decide("<=", const(1), x.type.dims[axis]) is not True:
            high[axis] = relu(1 - x.type.dims[axis])
    if all(size.const == 0 for size in high):
        return x
    none = (const(0),) * x.type.rank
    return s.one("pad", (x, s.constant(element)), low=none, high=tuple(high), interior=none)


def _parts(s: Scope, node: Node, size: Dim, count: int) -> Dim:
    """How many times a number goes into a size, which must be a multiple of it."""
    if count < 1:
        raise node.error(f"has blocks of {count} elements")
    equal(s, node, mod(size, const(count)), const(0), f"an axis whose size leaves {{0}} over is no multiple of {count}")
    return floordiv(size, count)


@onnx_op("DepthToSpace", composite=True)
def depth_to_space(s: Scope, node: Node, x: Value) -> Value:
    """Blocks of the depth axis become spatial ones."""
    block = node.int("blocksize")
    n, c, h, w = x.type.dims
    depth, size = _parts(s, node, c, block * block), const(block)
    if node.text("mode", "DCR") == "DCR":
        split_, order = [n, size, size, depth, h, w], (0, 3, 4, 1, 5, 2)
    else:
        split_, order = [n, depth, size, size, h, w], (0, 1, 4, 2, 5, 3)
    moved = transposed(s, reshape(s, x, split_), order)
    return reshape(s, moved, [n, depth, h * block, w * block])


@onnx_op("SpaceToDepth", composite=True)
def space_to_depth(s: Scope, node: Node, x: Value) -> Value:
    """Blocks of the spatial axes become depth."""
    block = node.int("blocksize")
    n, c, h, w = x.type.dims
    high, wide, size = _parts(s, node, h, block), _parts(s, node, w, block), const(block)
    order = (0, 3, 5, 1, 2, 4) if node.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = transposed(s, reshape(s, x, [n, c, high, size, wide, size]), order)
    return reshape(s, moved, [n, c * (block * block), high, wide])
