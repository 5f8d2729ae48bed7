"""Upsampling: axis by axis, elements at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from egshape.dims import Dim, const, floordiv
from egshape.frontends.torch.moves import against, compare, convert, line, reshape, select, spread_along, taken
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.ir.graph import Value
from egshape.ir.types import is_float
from egshape.ops.contraction import summed_in

Numbers = Sequence[Number] | None
DENOMINATOR = 1024
"""Products of a size and a fraction with such a power of two below are exact in f64; others hang on how they round."""

IMAGES = 2
"""Spatial axes of an image."""


def _targets(s: Scope, x: Value, output_size: Numbers, factors: Sequence[float] | None) -> list[Dim]:
    """The spatial sizes: given, or by factors in f64, rounded down."""
    if output_size is not None:
        return [size_of(each) for each in output_size]
    return [
        _times(s, size, factor, f"size{place}")
        for place, (size, factor) in enumerate(zip(x.type.dims[2:], factors or (), strict=True))
    ]


def _times(s: Scope, size: Dim, factor: float, key: str) -> Dim:
    if size.const is not None:
        return const(int(size.const * factor))
    exact = Fraction(factor)
    if exact.denominator <= DENOMINATOR:
        return floordiv(size * exact.numerator, exact.denominator)
    whole = s.one("convert", (s.one("multiply", (s.scalar(size, "f64"), s.scalar(factor, "f64"))),), dtype="i64")
    (found,) = s.sizes(reshape(s, whole, (const(1),)), s.call.label, key)
    return found


def _step(s: Scope, size: Dim, target: Dim, factor: float | None, dtype: str = "f32") -> Value:
    """How far apart in the source neighbours of the result lie, in the dtype in which torch computes it."""
    if factor is not None and factor > 0:
        return s.scalar(1 / factor, dtype)
    return s.one("divide", (s.scalar(size, dtype), s.scalar(target, dtype)))


@aten_op("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", composite=True)
def nearest(s: Scope, x: Value, output_size: Numbers, scale_factors: Sequence[float] | None = None) -> Value:
    """The element at the rounded down place; of two axes, not of one or three, one that keeps its size stays. Where a
    factor that is not quite 2 doubles an axis, torch's own kernels differ."""
    targets = _targets(s, x, output_size, scale_factors)
    stays = scale_factors is None or len(targets) == IMAGES
    for place, target in enumerate(targets):
        axis, factor = place + 2, scale_factors[place] if scale_factors else None
        size = x.type.dims[axis]
        times = int(factor) if factor and float(factor).is_integer() else None
        if target is size and stays:
            continue
        if times and target is size * times and Fraction(float(np.float32(1 / times))) * times >= 1:
            x = _repeated(s, x, axis, times)
            continue
        at = s.one("multiply", (line(s, target, "f32"), s.spread(_step(s, size, target, factor), (target,))))
        at = convert(s, s.one("floor", (at,)), "i64")
        if factor and stays:
            at = _where_equal(s, size, target, line(s, target, "i64"), at)
        x = taken(s, x, axis, s.one("minimum", (at, s.full(size - 1, at))))
    return x


def _where_equal(s: Scope, one: Dim, two: Dim, yes: Value, no: Value) -> Value:
    """``yes`` where two sizes are equal, else ``no``: such an axis torch leaves alone whatever the factor is."""
    if s.decide("==", one, two) is False:
        return no
    return select(s, compare(s, "EQ", s.scalar(one, "i64"), s.scalar(two, "i64")), yes, no)


def _repeated(s: Scope, x: Value, axis: int, times: int) -> Value:
    """Each element of an axis so many times."""
    dims = x.type.dims
    split = (*dims[: axis + 1], const(times), *dims[axis + 1 :])
    others = [place for place in range(len(split)) if place != axis + 1]
    return reshape(s, spread_along(s, x, others, split), (*dims[:axis], dims[axis] * times, *dims[axis + 1 :]))


@aten_op("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", composite=True)
def linear(
    s: Scope,
    x: Value,
    output_size: Numbers,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Value:
    """Elements between the two neighbours of a place."""
    if not is_float(x.type.dtype):
        raise NoLowering("integers, of which torch takes shares in fixed point")
    dtype, targets = x.type.dtype, _targets(s, x, output_size, scale_factors)
    x = convert(s, x, summed_in(dtype))
    for place, target in enumerate(targets):
        x = _between(s, x, place + 2, target, align_corners, scale_factors[place] if scale_factors else None)
    return convert(s, x, dtype)


def _between(s: Scope, x: Value, axis: int, target: Dim, corners: bool, factor: float | None) -> Value:
    size, kind = x.type.dims[axis], x.type.dtype
    at = line(s, target, kind)
    if corners:
        gaps = s.one("maximum", (s.scalar(target - 1, kind), s.scalar(1, kind)))
        step = s.one("divide", (s.scalar(size - 1, kind), gaps))
        step = select(s, against(s, "LE", s.scalar(target, "i64"), 1), s.scalar(0, kind), step)
        source = s.one("multiply", (at, s.spread(step, (target,))))
    else:
        half = s.full(0.5, at)
        step = s.spread(_step(s, size, target, factor, kind), (target,))
        source = s.one("subtract", (s.one("multiply", (s.one("add", (at, half)), step)), half))
        source = s.one("maximum", (source, s.full(0, source)))
        if factor:
            source = _where_equal(s, size, target, at, source)
    below = s.one("floor", (source,))
    share = convert(s, s.one("subtract", (source, below)), kind)
    last = s.spread(s.scalar(size - 1, "i64"), (target,))
    low = s.one("minimum", (convert(s, below, "i64"), last))
    high = s.one("minimum", (s.one("add", (low, s.full(1, low))), last))
    one, two = (taken(s, x, axis, each) for each in (low, high))
    share = spread_along(s, share, (axis,), one.type.dims)
    rest = s.one("subtract", (s.full(1, share), share))
    return s.one("add", (s.one("multiply", (one, rest)), s.one("multiply", (two, share))))
