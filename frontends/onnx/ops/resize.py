"""Resize and Upsample: axis by axis, elements taken at computed places and weighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np

from egshape.dims import Dim, const, floordiv
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.movement import reshape, taken, window
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of, of_length
from egshape.ir.graph import Value
from egshape.ir.types import is_float

_DENOMINATOR = 1024
"""A scale with at most this denominator keeps its meaning as an exact fraction; others round as f32 does."""


@dataclass(frozen=True)
class Axis:
    """How one axis is resized. ``scale`` is a scalar in f64."""

    axis: int
    before: Dim
    after: Dim
    scale: Value


@dataclass(frozen=True)
class Way:
    """What the attributes ask for."""

    mode: str
    places: str
    rounding: str
    cubic: float
    exclude: bool


@onnx_op("Resize", since=11, composite=True)
def resize(s: Scope, node: Node, x: Value, roi: Value | None = None, scales: Value | None = None,
           sizes: Value | None = None) -> Value:
    """Nearest, linear or cubic, by sizes or scales."""
    way = Way(node.text("mode", "nearest"), node.text("coordinate_transformation_mode", "half_pixel"),
              node.text("nearest_mode", "round_prefer_floor"), node.float("cubic_coeff_a", -0.75),
              bool(node.int("exclude_outside", 0)))
    if way.places == "tf_crop_and_resize" or node.int("antialias", 0):
        raise NoLowering("cropping or antialiasing")
    named = node.ints("axes", None) or tuple(range(x.type.rank))
    axes = [axis_of(node, axis, x.type.rank) for axis in named]
    if sizes is not None and sizes.type.dims != (const(0),):
        return _resized(s, x, way, _by_sizes(s, node, x, axes, sizes))
    if scales is None:
        raise node.error("has neither scales nor sizes")
    return _resized(s, x, way, _by_scales(s, node, x, axes, scales))


@onnx_op("Resize", since=10, composite=True)
@onnx_op("Upsample", composite=True)
def upsample(s: Scope, node: Node, x: Value, scales: Value | None = None) -> Value:
    """Nearest or linear by scales; places are x / scale."""
    if scales is None:
        factors = s.constant(np.array(node.floats("scales"), np.float32))
    else:
        factors = scales
    way = Way(node.text("mode", "nearest"), "asymmetric", "floor", -0.75, False)
    return _resized(s, x, way, _by_scales(s, node, x, list(range(x.type.rank)), factors))


def _by_sizes(s: Scope, node: Node, x: Value, axes: Sequence[int], sizes: Value) -> list[Axis]:
    wanted = list(s.sizes(of_length(s, sizes, len(axes)), f"{node.outputs[0]}.sizes"))
    if len(wanted) != len(axes):
        raise node.error(f"has {len(wanted)} sizes for {len(axes)} axes")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        ratios = [Fraction(after.const, x.type.dims[axis].const) if after.const is not None
                  and x.type.dims[axis].const else None for axis, after in zip(axes, wanted, strict=True)]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) < len(ratios):
            raise NoLowering("the aspect ratio is data")
        ratio = min(known) if policy == "not_larger" else max(known)
        wanted = [const(floor(ratio * (x.type.dims[axis].const or 0) + Fraction(1, 2))) for axis in axes]
        return [Axis(axis, x.type.dims[axis], after, s.scalar(float(ratio), "f64"))
                for axis, after in zip(axes, wanted, strict=True)]
    out = []
    for axis, after in zip(axes, wanted, strict=True):
        ends = [convert(s, s.vector([size], "i64", ()), "f64") for size in (after, x.type.dims[axis])]
        out.append(Axis(axis, x.type.dims[axis], after, s.one("divide", tuple(ends))))
    return out


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
        if plain and (held is None or float(held) == 1):
            continue
        x = _axis(s, x, way, axis)
    return x


def _axis(s: Scope, x: Value, way: Way, axis: Axis) -> Value:
    place = _places(s, way.places, axis)
    if way.mode == "nearest":
        return taken(s, x, axis.axis, _clamped(s, _rounded(s, way.rounding, place), axis))
    if way.mode not in ("linear", "cubic") or not is_float(x.type.dtype):
        raise NoLowering(f"mode {way.mode} of {x.type.dtype}")
    low = s.one("floor", (place,))
    part = s.one("subtract", (place, low))
    taps = _linear(s, part) if way.mode == "linear" else _cubic(s, part, way.cubic)
    if way.exclude:
        taps = _inside_only(s, low, taps, axis)
    total: Value | None = None
    for step, weight in taps:
        at = _clamped(s, s.one("add", (low, s.full(step, low))), axis)
        piece = taken(s, x, axis.axis, at)
        wide = s.one("broadcast_in_dim", (convert(s, weight, x.type.dtype),), dims=(axis.axis,), shape=piece.type.dims)
        piece = s.one("multiply", (piece, wide))
        total = piece if total is None else s.one("add", (total, piece))
    assert total is not None
    return total


def _size(s: Scope, size: Dim, like: Value) -> Value:
    return s.spread(convert(s, s.vector([size], "i64", ()), "f64"), like.type.dims)


def _places(s: Scope, way: str, axis: Axis) -> Value:
    """Where the elements of the result lie on the axis of x."""
    line = s.one("iota", dtype="f64", dim=0, shape=(axis.after,))
    scale = s.spread(axis.scale, line.type.dims)
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
    if way == "half_pixel_symmetric":
        shrink = s.one("divide", (after, s.one("multiply", (scale, before))))
        middle = s.one("multiply", (before, half))
        offset = s.one("multiply", (middle, s.one("subtract", (one, shrink))))
        return s.one("add", (offset, centers))
    raise NoLowering(f"coordinate_transformation_mode {way}")


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


def _cubic(s: Scope, part: Value, a: float) -> list[tuple[int, Value]]:
    """Keys' cubic convolution (1981), as the spec writes it."""
    out = []
    for step in (-1, 0, 1, 2):
        distance = s.one("abs", (s.one("subtract", (part, s.full(step, part))),))
        weights = (a, -5 * a, 8 * a, -4 * a) if step in (-1, 2) else (a + 2, -(a + 3), 0.0, 1.0)
        total = s.full(weights[0], part)
        for weight in weights[1:]:
            total = s.one("add", (s.one("multiply", (total, distance)), s.full(weight, part)))
        out.append((step, total))
    return out


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

