"""Resize and Upsample: axis by axis, elements taken at computed places and weighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

import numpy as np

from egshape.dims import Dim, const, floordiv, minimum
from egshape.facts import Relation
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.sampling import compared, cubic, keys, polynomial
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of, of_length
from egshape.frontends.onnx.types import nearest_of_old
from egshape.ir.graph import Value
from egshape.ir.types import is_float

_DENOMINATOR = 1024
"""A scale with at most this denominator keeps its meaning as an exact fraction; others round as f32 does."""


@dataclass(frozen=True)
class Axis:
    """How one axis is resized. ``scale`` is a scalar in f64, as are the ends of the part ``crop`` of it."""

    axis: int
    before: Dim
    after: Dim
    scale: Value
    crop: tuple[Value, Value] | None = None


@dataclass(frozen=True)
class Way:
    """What the attributes ask for."""

    mode: str
    places: str
    rounding: str
    cubic: float
    exclude: bool
    smooth: bool = False
    """Antialias: where the result is smaller, an element is the mean of more neighbours."""
    outside: float = 0.0
    """What lies outside of the cropped part."""


@onnx_op("Resize", since=11, composite=True)
def resize(
    s: Scope, node: Node, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None
) -> Value:
    """Nearest, linear or cubic, by sizes or scales."""
    way = Way(
        node.text("mode", "nearest"),
        node.text("coordinate_transformation_mode", "half_pixel"),
        node.text("nearest_mode", "round_prefer_floor"),
        node.float("cubic_coeff_a", -0.75),
        node.flag("exclude_outside", False),
        node.flag("antialias", False),
        node.float("extrapolation_value", 0.0),
    )
    named = node.ints("axes", None) or tuple(range(x.type.rank))
    axes = [axis_of(node, axis, x.type.rank) for axis in named]
    if sizes is not None and sizes.type.dims != (const(0),):
        found = _by_sizes(s, node, x, axes, sizes)
        if way.places == "tf_crop_and_resize":
            found = _cropped(s, node, found, roi)
        return _resized(s, x, way, found)
    if scales is None:
        raise node.error("has neither scales nor sizes")
    if way.places == "tf_crop_and_resize":
        raise NoLowering("crops by scales, where ONNX and its reference differ in the size of the result")
    return _resized(s, x, way, _by_scales(s, node, x, axes, scales))


@onnx_op("Resize", since=10, composite=True)
@onnx_op("Upsample", composite=True)
def upsample(s: Scope, node: Node, x: Value, scales: Value | None = None) -> Value:
    """Nearest or linear by scales; places are x / scale."""
    if scales is None:
        factors = s.constant(np.array(node.floats("scales"), np.float32))
    else:
        factors = scales
    array = s.array(factors)
    unknown = None if node.op == "Resize" else "floor"  # ONNX Runtime takes no Upsample that shrinks
    nearest = unknown if array is None else nearest_of_old(array)
    if nearest is None and node.text("mode", "nearest") == "nearest":
        raise NoLowering("the nearest elements lie on either side")
    way = Way(node.text("mode", "nearest"), "asymmetric", nearest or "floor", -0.75, False)
    return _resized(s, x, way, _by_scales(s, node, x, list(range(x.type.rank)), factors))


def _by_sizes(s: Scope, node: Node, x: Value, axes: Sequence[int], sizes: Value) -> list[Axis]:
    wanted = list(s.sizes(of_length(s, sizes, len(axes)), f"{node.outputs[0]}.sizes"))
    if len(wanted) != len(axes):
        raise node.error(f"has {len(wanted)} sizes for {len(axes)} axes")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        ratios = [
            Fraction(after.const, x.type.dims[axis].const)
            if after.const is not None and x.type.dims[axis].const
            else None
            for axis, after in zip(axes, wanted, strict=True)
        ]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) < len(ratios):
            return _of_one_ratio(s, node, x, axes, wanted, policy == "not_larger")
        ratio = min(known) if policy == "not_larger" else max(known)
        wanted = [const(floor(ratio * (x.type.dims[axis].const or 0) + Fraction(1, 2))) for axis in axes]
        return [
            Axis(axis, x.type.dims[axis], after, s.scalar(float(ratio), "f64"))
            for axis, after in zip(axes, wanted, strict=True)
        ]
    out = []
    for axis, after in zip(axes, wanted, strict=True):
        ends = [convert(s, s.vector([size], "i64", ()), "f64") for size in (after, x.type.dims[axis])]
        out.append(Axis(axis, x.type.dims[axis], after, s.one("divide", tuple(ends))))
    return out


def _of_one_ratio(
    s: Scope, node: Node, x: Value, axes: Sequence[int], wanted: Sequence[Dim], least: bool
) -> list[Axis]:
    """All axes by the least or largest ratio of wanted to given size, as whole numbers, and rounded half up."""
    sizes = [
        tuple(s.vector([size], "i64", ()) for size in pair)
        for pair in zip(wanted, (x.type.dims[axis] for axis in axes), strict=True)
    ]
    above, below = sizes[0]
    for one, two in sizes[1:]:
        sides = s.one("multiply", (one, below)), s.one("multiply", (above, two))
        other = s.one("compare", sides, direction="LT" if least else "GT", kind="SIGNED")
        above, below = s.one("select", (other, one, above)), s.one("select", (other, two, below))
    below = s.one("maximum", (below, s.scalar(1, "i64")))
    ratio = s.one("divide", (convert(s, above, "f64"), convert(s, below, "f64")))
    out, twice = [], s.one("add", (below, below))
    for place, (axis, (_, before)) in enumerate(zip(axes, sizes, strict=True)):
        product = s.one("multiply", (before, above))
        rounded = s.one("divide", (s.one("add", (s.one("add", (product, product)), below)), twice))
        (after,) = s.sizes(reshape(s, rounded, (const(1),)), f"{node.outputs[0]}.size{place}")
        out.append(Axis(axis, x.type.dims[axis], after, ratio))
    return out


def _cropped(s: Scope, node: Node, axes: Sequence[Axis], roi: Value | None) -> list[Axis]:
    """The axes with the parts that a vector of all starts and all ends gives of them."""
    if roi is None:
        raise node.error("crops without a roi")
    ends = convert(s, of_length(s, roi, 2 * len(axes)), "f64")
    if ends.type.rank != 1 or ends.type.dims[0].const != 2 * len(axes):
        raise node.error(f"has the roi {roi.type} for {len(axes)} axes")
    numbers = [reshape(s, window(s, ends, 0, const(k), const(k + 1)), ()) for k in range(2 * len(axes))]
    return [replace(axis, crop=(numbers[k], numbers[k + len(axes)])) for k, axis in enumerate(axes)]


def _by_scales(s: Scope, node: Node, x: Value, axes: Sequence[int], scales: Value) -> list[Axis]:
    scales = of_length(s, scales, len(axes))
    if scales.type.rank != 1 or scales.type.dims[0].const != len(axes):
        raise node.error(f"has scales {scales.type} for {len(axes)} axes")
    held, out = s.array(scales), []
    for place, axis in enumerate(axes):
        before = x.type.dims[axis]
        if held is not None:
            factor = float(held[place])
            if not 0 < factor < 2**31:
                raise node.error(f"has the scale {factor}")
            exact = Fraction(factor)
            scale = s.scalar(factor, "f64")
            if exact.denominator <= _DENOMINATOR:
                after = floordiv(before * exact.numerator, exact.denominator)
                out.append(Axis(axis, before, after, scale))
                continue
        single = reshape(s, window(s, scales, 0, const(place), const(place + 1)), ())
        out.append(Axis(axis, before, _floored(s, node, before, single, place), convert(s, single, "f64")))
    return out


def _floored(s: Scope, node: Node, before: Dim, scale: Value, place: int) -> Dim:
    """floor(size * scale) in f32, computed when the graph runs."""
    wide = convert(s, s.vector([before], "i64", ()), "f32")
    size = convert(s, s.one("floor", (s.one("multiply", (wide, convert(s, scale, "f32"))),)), "i64")
    folded = s.numbers(size)
    if folded is not None:
        return const(folded[0])
    (found,) = s.sizes(reshape(s, size, (const(1),)), f"{node.outputs[0]}.size{place}")
    return found


def _resized(s: Scope, x: Value, way: Way, axes: Sequence[Axis]) -> Value:
    for axis in axes:
        plain = axis.before is axis.after
        held = s.array(axis.scale)
        ends = [s.array(end) for end in axis.crop or ()]
        whole = axis.crop is None or (None not in ends and ends == [0, 1])
        if plain and whole and (held is None or float(held) == 1):
            continue
        x = _axis(s, x, way, axis)
    return x


def _axis(s: Scope, x: Value, way: Way, axis: Axis) -> Value:
    _must_read(s, axis)
    nearest = way.mode == "nearest"
    place = convert(s, _places(s, way.places, axis, "f32" if nearest else "f64"), "f64")
    if nearest:  # which one is nearest hangs on rounding: it is what ONNX Runtime and PyTorch have
        out = taken(s, x, axis.axis, _clamped(s, _rounded(s, way.rounding, place), axis), empty=True)
    elif way.mode not in ("linear", "cubic") or not is_float(x.type.dtype):
        raise NoLowering(f"mode {way.mode} of {x.type.dtype}")
    elif way.smooth:
        out = _smoothed(s, x, way, axis, place)
    else:
        out = _weighted(s, x, way, axis, place)
    if axis.crop is None:
        return out
    zero = s.full(0, place)
    last = s.one("subtract", (_size(s, axis.before, place), s.full(1, place)))
    inside = s.one("and", (compared(s, place, "GE", zero), compared(s, place, "LE", last)))
    wide = s.one("broadcast_in_dim", (inside,), dims=(axis.axis,), shape=out.type.dims)
    return s.one("select", (wide, out, s.full(way.outside, out)))


def _must_read(s: Scope, axis: Axis) -> None:
    """Of an axis without elements nothing can be made but nothing."""
    least = minimum(axis.after, 1)
    if not any(s.decide("<=", one, axis.before) is True for one in (const(1), axis.after, least)):
        s.needs.append(Relation("<=", least, axis.before, f"{s.label}: an axis of no elements cannot grow"))


def _weighted(s: Scope, x: Value, way: Way, axis: Axis, place: Value) -> Value:
    """Two or four neighbours, weighted."""
    low = s.one("floor", (place,))
    part = s.one("subtract", (place, low))
    taps = _linear(s, part) if way.mode == "linear" else cubic(s, part, way.cubic)
    if way.exclude:
        taps = _inside_only(s, low, taps, axis)
    total: Value | None = None
    for step, weight in taps:
        at = _clamped(s, s.one("add", (low, s.full(step, low))), axis)
        piece = taken(s, x, axis.axis, at, empty=True)
        wide = s.one("broadcast_in_dim", (convert(s, weight, x.type.dtype),), dims=(axis.axis,), shape=piece.type.dims)
        piece = s.one("multiply", (piece, wide))
        total = piece if total is None else s.one("add", (total, piece))
    assert total is not None
    return total


def _smoothed(s: Scope, x: Value, way: Way, axis: Axis, place: Value) -> Value:
    """All neighbours that the widened weights reach; where the axis grows these are the usual two or four."""
    reach = 1 if way.mode == "linear" else 2
    scale = s.one("minimum", (axis.scale, s.scalar(1, "f64")))
    steps = convert(s, s.one("ceil", (s.one("divide", (s.scalar(reach, "f64"), scale)),)), "i64")
    known = s.numbers(steps)
    count = const(known[0]) if known else s.sizes(reshape(s, steps, (const(1),)), f"{s.label}.reach{axis.axis}")[0]
    shape = (axis.after, 2 * count)
    center = s.one("broadcast_in_dim", (place,), dims=(0,), shape=shape)
    ahead = s.one("subtract", (s.one("iota", dtype="f64", dim=1, shape=shape), _size(s, count - 1, center)))
    at = s.one("add", (s.one("floor", (center,)), ahead))
    away = s.one("multiply", (s.one("abs", (s.one("subtract", (at, center)),)), s.spread(scale, shape)))
    one, zero = s.full(1, away), s.full(0, away)
    if way.mode == "linear":
        weight = s.one("maximum", (s.one("subtract", (one, away)), zero))
    else:
        near, far = (polynomial(s, away, numbers) for numbers in keys(way.cubic))
        weight = s.one(
            "select",
            (
                compared(s, away, "LE", one),
                near,
                s.one("select", (compared(s, away, "LT", s.full(2, away)), far, zero)),
            ),
        )
    if way.exclude:
        inside = s.one("and", (compared(s, at, "GE", zero), compared(s, at, "LT", _size(s, axis.before, at))))
        weight = s.one("select", (inside, weight, zero))
    total = s.one("broadcast_in_dim", (fold(s, "add", weight, (1,)),), dims=(0,), shape=shape)
    weight = s.one("divide", (weight, total))
    pieces = convert(s, taken(s, x, axis.axis, _clamped(s, at, axis), empty=True), "f64")
    wide = s.one("broadcast_in_dim", (weight,), dims=(axis.axis, axis.axis + 1), shape=pieces.type.dims)
    return convert(s, fold(s, "add", s.one("multiply", (pieces, wide)), (axis.axis + 1,)), x.type.dtype)


def _size(s: Scope, size: Dim, like: Value) -> Value:
    return s.spread(convert(s, s.vector([size], "i64", ()), like.type.dtype), like.type.dims)


def _places(s: Scope, way: str, axis: Axis, dtype: str) -> Value:
    """Where the elements of the result lie on the axis of x, computed in a dtype."""
    line = s.one("iota", dtype=dtype, dim=0, shape=(axis.after,))
    scale = s.spread(convert(s, axis.scale, dtype), line.type.dims)
    half = s.full(0.5, line)
    if way == "asymmetric":
        return s.one("divide", (line, scale))
    centers = s.one("subtract", (s.one("divide", (s.one("add", (line, half)), scale)), half))
    if way == "half_pixel":
        return centers
    after, before = _size(s, axis.after, line), _size(s, axis.before, line)
    one = s.full(1, line)
    single = s.one("compare", (after, one), direction="EQ", kind="FLOAT")
    if way == "pytorch_half_pixel":
        return s.one("select", (single, s.full(0, line), centers))
    if way == "align_corners":
        steps = s.one("subtract", (s.one("multiply", (before, scale)), one))
        ends = s.one("divide", (s.one("multiply", (line, s.one("subtract", (before, one)))), steps))
        return s.one("select", (single, s.full(0, line), ends))
    if axis.crop is not None:
        return _crop_places(s, axis, line, single)
    if way == "half_pixel_symmetric":
        shrink = s.one("divide", (after, s.one("multiply", (scale, before))))
        middle = s.one("multiply", (before, half))
        offset = s.one("multiply", (middle, s.one("subtract", (one, shrink))))
        return s.one("add", (offset, centers))
    raise NoLowering(f"coordinate_transformation_mode {way}")


def _crop_places(s: Scope, axis: Axis, line: Value, single: Value) -> Value:
    """The places from start to end of a part of the axis, both counted from 0 to 1; its middle for a single one."""
    assert axis.crop is not None
    start, end = (s.spread(convert(s, each, line.type.dtype), line.type.dims) for each in axis.crop)
    one = s.full(1, line)
    last, steps = (s.one("subtract", (_size(s, size, line), one)) for size in (axis.before, axis.after))
    span = s.one("multiply", (s.one("subtract", (end, start)), last))
    middle = s.one("multiply", (span, s.full(0.5, line)))
    place = s.one("divide", (s.one("multiply", (line, span)), s.one("maximum", (steps, one))))
    return s.one("add", (s.one("select", (single, middle, place)), s.one("multiply", (start, last))))


def _rounded(s: Scope, way: str, place: Value) -> Value:
    half = s.full(0.5, place)
    if way == "round_prefer_floor":
        return s.one("ceil", (s.one("subtract", (place, half)),))
    if way == "round_prefer_ceil":
        return s.one("floor", (s.one("add", (place, half)),))
    return s.one("ceil" if way == "ceil" else "floor", (place,))


def _clamped(s: Scope, place: Value, axis: Axis) -> Value:
    """Whole places as indices within the axis."""
    last = s.one("subtract", (_size(s, axis.before, place), s.full(1, place)))
    return convert(s, s.one("maximum", (s.one("minimum", (place, last)), s.full(0, place))), "i64")


def _linear(s: Scope, part: Value) -> list[tuple[int, Value]]:
    return [(0, s.one("subtract", (s.full(1, part), part))), (1, part)]


def _inside_only(s: Scope, low: Value, taps: list[tuple[int, Value]], axis: Axis) -> list[tuple[int, Value]]:
    """Weights of places outside are 0, the others grow to a sum of 1."""
    kept, total = [], None
    for step, weight in taps:
        at = s.one("add", (low, s.full(step, low)))
        above = s.one("compare", (at, s.full(0, at)), direction="GE", kind="FLOAT")
        below = s.one("compare", (at, _size(s, axis.before, at)), direction="LT", kind="FLOAT")
        held = s.one("select", (s.one("and", (above, below)), weight, s.full(0, weight)))
        kept.append((step, held))
        total = held if total is None else s.one("add", (total, held))
    assert total is not None
    return [(step, s.one("divide", (weight, total))) for step, weight in kept]
