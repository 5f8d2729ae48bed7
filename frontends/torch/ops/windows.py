"""Convolutions and pools: windows that slide over the spatial axes, which stand behind batch and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum, product
from egshape.facts import Relation
from egshape.frontends.shaping import start_of
from egshape.frontends.torch.moves import (
    ONE,
    ZERO,
    convert,
    fold,
    kept,
    line,
    mean_of,
    reshape,
    select,
    spread_along,
    taken,
    transposed,
)
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in
from egshape.ops.kinds import comparison

Numbers = Sequence[Number] | Number


@dataclass(frozen=True)
class Windows:
    """Windows over n spatial axes; ``padding`` is flat: low and high of each axis."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[Dim, ...]

    @property
    def extent(self) -> tuple[Dim, ...]:
        """How far a window reaches along each axis."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def _each(numbers: Numbers, count: int) -> tuple[int, ...]:
    """A number for each axis: ATen gives one for all, too."""
    given = list(numbers) if isinstance(numbers, list | tuple) else [numbers]
    given = given * count if len(given) == 1 else given
    if any(not isinstance(each, int) for each in given):
        raise NoLowering("strides and dilations that are data")
    return tuple(given)  # type: ignore[arg-type]


def _fits(s: Scope, sizes: Sequence[Dim], windows: Windows) -> None:
    """torch stops where a window is larger than the padded axis."""
    for axis, (size, reach) in enumerate(zip(sizes, windows.extent, strict=True)):
        whole = size + windows.padding[2 * axis] + windows.padding[2 * axis + 1]
        s.check(Relation("<=", reach, whole), "a window of {0} does not fit into a padded axis of {1}")


@aten_op("convolution.default", composite=True)
def convolution(
    s: Scope,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed_: bool,
    output_padding: Numbers,
    groups: int,
) -> Value:
    """Convolution, or its transpose: x with holes, convolved with the turned kernel."""
    count = weight.type.rank - 2
    if x.type.rank == count + 1:
        raise NoLowering("no batch")
    if x.type.dtype.startswith("c"):
        raise NoLowering("complex numbers")
    strides, pads, dilations = (_each(each, count) for each in (stride, padding, dilation))
    flat = tuple(const(pad) for pad in pads for _ in (0, 1))
    windows = Windows(weight.type.dims[2:], strides, dilations, flat)
    spread = (1,) * count
    if transposed_:
        more = _each(output_padding, count)
        flat = tuple(
            reach - 1 - pads[axis] + (more[axis] if side else 0)
            for axis, reach in enumerate(windows.extent)
            for side in (0, 1)
        )
        weight = _turned(s, weight, groups)
        windows, spread = Windows(windows.kernel, (1,) * count, dilations, flat), strides
    else:
        _fits(s, x.type.dims[2:], windows)
    spatial = tuple(range(2, 2 + count))
    out = s.one(
        "convolution",
        (x, weight),
        numbers=(0, 1, spatial, 1, 0, spatial, 0, 1, spatial),
        strides=windows.strides,
        padding=windows.padding,
        lhs_dilation=spread,
        rhs_dilation=windows.dilations,
        reversal=(0,) * count,
        feature_groups=groups,
        dtype=summed_in(x.type.dtype),
    )
    if bias is not None:
        out = s.one("add", (out, spread_along(s, convert(s, bias, out.type.dtype), (1,), out.type.dims)))
    return convert(s, out, x.type.dtype)


def _turned(s: Scope, w: Value, groups: int) -> Value:
    """A kernel (in, out/groups, ...) turned round and as (out, in/groups, ...)."""
    rank = w.type.rank
    turned = s.one("reverse", (w,), dims=tuple(range(2, rank)))
    inner, outer, *spatial = w.type.dims
    split = reshape(s, turned, (const(groups), floordiv(inner, groups), outer, *spatial))
    moved = transposed(s, split, (0, 2, 1, *range(3, rank + 1)))
    return reshape(s, moved, (outer * groups, floordiv(inner, groups), *spatial))


# -- pools -------------------------------------------------------------------------------------------------------


def _pool(
    s: Scope, x: Value, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool
) -> Windows:
    count = x.type.rank - 2
    sizes = _each(kernel, count)
    steps = _each(stride, count) if stride not in ([], (), None) else sizes
    pads = _each(padding, count)
    flat = tuple(const(pad) for pad in pads for _ in (0, 1))
    out = Windows(tuple(map(const, sizes)), steps, _each(dilation, count), flat)
    spatial = x.type.dims[2:]
    if not ceil_mode:
        _fits(s, spatial, out)
        return out
    for axis, size in enumerate(spatial):
        s.check(Relation("<=", ONE, size + 2 * pads[axis]), "an axis of a pool is empty: {1} < {0}")
    return replace(out, padding=_ceiled(s, spatial, out))


def _ceiled(s: Scope, sizes: Sequence[Dim], out: Windows) -> tuple[Dim, ...]:
    """Padding grown behind so that the last, partial window counts; one that begins in the padding does not."""
    flat = list(out.padding)
    for axis, (size, step, reach) in enumerate(zip(sizes, out.strides, out.extent, strict=True)):
        low, high = flat[2 * axis], flat[2 * axis + 1]
        count = ceildiv(size + low + high - reach, step) + 1
        within = ceildiv(size + low, step)
        if s.decide("<=", count, within) is not True:
            count = within if s.decide("<=", within, count) is True else minimum(count, within)
        flat[2 * axis + 1] = (count - 1) * step + reach - size - low
    return tuple(flat)


def _attributes(windows: Windows) -> dict[str, object]:
    count = len(windows.kernel)
    return {
        "window": (ONE, ONE, *windows.kernel),
        "strides": (ONE, ONE, *map(const, windows.strides)),
        "base_dilation": (ONE,) * (count + 2),
        "window_dilation": (ONE, ONE, *map(const, windows.dilations)),
        "padding": (ZERO,) * 4 + windows.padding,
    }


def _window_fold(s: Scope, ours: str, x: Value, windows: Windows) -> Value:
    init = s.constant(start_of(ours, x.type.dtype))
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    return s.add("reduce_window", (x, init), _attributes(windows), regions=(body,))[0]


def _batched(s: Scope, x: Value, count: int) -> Value:
    return x if x.type.rank == count + 2 else reshape(s, x, (ONE, *x.type.dims))


def _as_given(s: Scope, out: Value, x: Value) -> Value:
    return out if out.type.rank == x.type.rank else reshape(s, out, out.type.dims[1:])


@aten_op("max_pool1d.default", "max_pool2d.default", "max_pool3d.default", composite=True)
def max_pool(
    s: Scope,
    x: Value,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Value:
    """The largest element of each window."""
    held = _batched(s, x, int(s.call.op[8]))
    windows = _pool(s, held, kernel_size, stride, padding, dilation, ceil_mode)
    return _as_given(s, _window_fold(s, "maximum", held, windows), x)


@aten_op("max_pool2d_with_indices.default", "max_pool3d_with_indices.default", composite=True)
def max_pool_with_places(
    s: Scope,
    x: Value,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> list[Value]:
    """The largest element of each window, and its place among the spatial ones; NaN wins. Two folds: places are often
    not asked for, and elements alone are found ten times as fast."""
    held, kind = _batched(s, x, int(s.call.op[8])), comparison(x.type.dtype)
    windows = _pool(s, held, kernel_size, stride, padding, dilation, ceil_mode)
    spatial = held.type.dims[2:]
    flat = reshape(s, line(s, product(spatial)), spatial)
    places = spread_along(s, flat, range(2, held.type.rank), held.type.dims)

    def body(inner: Scope, best: Value, at: Value, new: Value, place: Value) -> Sequence[Value]:
        better = inner.one("compare", (new, best), direction="GT", kind=kind)
        if kind == "FLOAT":
            better = inner.one("or", (better, inner.one("compare", (new, new), direction="NE", kind=kind)))
        first = inner.one("compare", (at, inner.scalar(0, "i64")), direction="LT", kind="SIGNED")
        better = inner.one("or", (better, first))
        return select(inner, better, new, best), select(inner, better, place, at)

    region = s.region([(x.type.dtype, ()), ("i64", ())] * 2, body)
    start = s.constant(start_of("maximum", x.type.dtype))
    both = s.add("reduce_window", (held, places, start, s.scalar(-1, "i64")), _attributes(windows), regions=(region,))
    return [_as_given(s, each, x) for each in (_window_fold(s, "maximum", held, windows), both[1])]


@aten_op("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default", composite=True)
def avg_pool(
    s: Scope,
    x: Value,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window: over its elements, the padded ones too unless told else (what ceil_mode adds are
    none)."""
    held = _batched(s, x, int(s.call.op[8]))
    wide_x = convert(s, held, summed_in(x.type.dtype))
    windows = _pool(s, held, kernel_size, stride, padding, 1, ceil_mode)
    total = _window_fold(s, "add", wide_x, windows)
    plain = tuple(const(pad) for pad in _each(padding, held.type.rank - 2) for _ in (0, 1))
    if divisor_override or (windows.padding == plain and (count_include_pad or not any(pad.const for pad in plain))):
        number = divisor_override or product(windows.kernel).const or 1
        count = s.full(number, total)
    else:
        counted = _counts(s, wide_x, windows, plain if count_include_pad else None)
        count = spread_along(s, counted, range(total.type.rank), total.type.dims)
    return _as_given(s, convert(s, s.one("divide", (total, count)), x.type.dtype), x)


def _counts(s: Scope, x: Value, windows: Windows, padded: tuple[Dim, ...] | None) -> Value:
    """How many elements each window has, those of the given padding among them."""
    one = s.scalar(1, x.type.dtype)
    ones = s.spread(one, (ONE, ONE, *x.type.dims[2:]))
    if padded is None:
        return _window_fold(s, "add", ones, windows)
    low, high = (ZERO, ZERO, *padded[0::2]), (ZERO, ZERO, *padded[1::2])
    ones = s.one("pad", (ones, one), low=low, high=high, interior=(ZERO,) * x.type.rank)
    rest = tuple(more - size for more, size in zip(windows.padding, padded, strict=True))
    return _window_fold(s, "add", ones, replace(windows, padding=rest))


@aten_op(
    "_adaptive_avg_pool2d.default",
    "_adaptive_avg_pool3d.default",
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    composite=True,
)
def adaptive_avg_pool(s: Scope, x: Value, output_size: Numbers) -> Value:
    """So many windows along each spatial axis, that cover it: place j counts for window i where
    floor(i n / o) <= j < ceil((i + 1) n / o)."""
    given = list(output_size) if isinstance(output_size, list | tuple) else [output_size]
    wanted = [size_of(each) for each in given]
    out = convert(s, x, summed_in(x.type.dtype))
    first = x.type.rank - len(wanted)
    if all(size.const == 1 for size in wanted):
        axes = tuple(range(first, x.type.rank))  # torch takes the mean then, of nothing too
        return convert(s, kept(s, mean_of(s, out, axes), x, axes), x.type.dtype)
    for axis, size in enumerate(wanted, first):
        out = _adapted(s, out, axis, size)
    return convert(s, out, x.type.dtype)


def _adapted(s: Scope, x: Value, axis: int, count: Dim) -> Value:
    size = x.type.dims[axis]
    s.check(Relation("<=", ONE, size), "an axis of a pool is empty: {1} < {0}")
    if count is size:
        return x
    shape = (count, ceildiv(size, maximum(count, 1)) + 1)
    number, ahead = (s.one("iota", dtype="i64", dim=dim, shape=shape) for dim in (0, 1))
    whole, parts, one = (s.full(each, number) for each in (size, count, 1))
    start = s.one("divide", (s.one("multiply", (number, whole)), parts))
    above = s.one("multiply", (s.one("add", (number, one)), whole))
    end = s.one("divide", (s.one("add", (above, s.one("subtract", (parts, one)))), parts))
    place = s.one("add", (start, ahead))
    inside = s.one("compare", (place, end), direction="LT", kind="SIGNED")
    places = reshape(s, s.one("minimum", (place, s.full(size - 1, place))), (product(shape),))
    dims = (*x.type.dims[:axis], *shape, *x.type.dims[axis + 1 :])
    read = reshape(s, taken(s, x, axis, places), dims)
    held = select(s, spread_along(s, inside, (axis, axis + 1), dims), read, s.full(0, read))
    total = fold(s, "add", held, (axis + 1,))
    length = fold(s, "add", convert(s, inside, x.type.dtype), (1,))
    return s.one("divide", (total, spread_along(s, length, (axis,), total.type.dims)))
