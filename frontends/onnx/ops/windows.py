"""Convolutions and pools: windows that slide over the spatial axes, which stand behind batch and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum, mod, product, relu
from egshape.facts import Relation
from egshape.frontends.onnx.checks import some
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert, in_f32
from egshape.frontends.onnx.ops.normalization import mean_of
from egshape.frontends.onnx.ops.reduce import kept
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import of_length
from egshape.frontends.shaping import start_of
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in
from egshape.ops.kinds import comparison

_ZERO, _ONE = const(0), const(1)

NOT_ENFORCED = "an axis of no elements has no transpose"
"""What the lowering of ConvTranspose asks, and ONNX Runtime does not: it gives what is left of a stride."""


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

    def padded(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """Axes of these sizes with their padding."""
        pads = self.padding
        return tuple(size + low + high for size, low, high in zip(sizes, pads[0::2], pads[1::2], strict=True))


def windows_of(s: Scope, node: Node, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """The windows that the attributes of a convolution or pool describe over spatial axes of these sizes."""
    count = len(sizes)
    strides = node.ints("strides", None) or (1,) * count
    dilations = node.ints("dilations", None) or (1,) * count
    pads = node.ints("pads", None) or (0,) * (2 * count)
    if len(kernel) != count or len(strides) != count or len(dilations) != count or len(pads) != 2 * count:
        raise node.error(f"does not describe windows over {count} axes")
    if any(step < 1 for step in (*strides, *dilations)):
        raise node.error("has a stride or dilation below 1")
    mode = node.text("auto_pad", "NOTSET")
    plain = tuple(const(pads[axis + side * count]) for axis in range(count) for side in (0, 1))
    out = Windows(tuple(kernel), strides, dilations, plain)
    if mode == "VALID":
        return Windows(out.kernel, strides, dilations, (_ZERO,) * (2 * count))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        flat: list[Dim] = []
        for size, step, reach in zip(sizes, strides, out.extent, strict=True):
            total = (ceildiv(size, step) - 1) * step + reach - size
            if s.decide("<=", _ZERO, total) is not True:
                total = maximum(total, 0)
            small = floordiv(total, 2)
            flat += [small, total - small] if mode == "SAME_UPPER" else [total - small, small]
        return Windows(out.kernel, strides, dilations, tuple(flat))
    if mode != "NOTSET":
        raise node.error(f"has auto_pad {mode}")
    return out


def conv_windows(s: Scope, node: Node, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> Windows:
    """The windows of a convolution, which runtimes refuse unless one fits into each padded axis."""
    out = windows_of(s, node, sizes, kernel)
    same = node.text("auto_pad", "NOTSET").startswith("SAME")
    for size, padded, reach in zip(sizes, out.padded(sizes), out.extent, strict=True):
        s.need(Relation("<=", _ONE, size, _fits(s)) if same else Relation("<=", reach, padded, _fits(s)))
    return out


def _fits(s: Scope) -> str:
    return f"{s.label}: the window fits"


def _with_room(s: Scope, sizes: Sequence[Dim], windows: Windows) -> Windows:
    """Where the window of a pool is larger than the padded axis, by less than a stride, there is still one window (the
    division of ONNX's size rule truncates), and by less than two there is none: padding behind makes room for what is
    missing of a whole stride. By more is an error, and so is an axis of no elements."""
    flat = list(windows.padding)
    rows = zip(sizes, windows.padded(sizes), windows.extent, windows.strides, strict=True)
    for axis, (size, padded, reach, step) in enumerate(rows):
        if s.decide("<=", reach, padded) is not True:
            s.need(Relation("<=", reach, padded + (2 * step - 1), _fits(s)))
            flat[2 * axis + 1] = flat[2 * axis + 1] + mod(relu(reach - padded), const(step))
        s.need(Relation("<=", _ONE, size, f"{s.label}: an axis of no elements has no windows"))
    return Windows(windows.kernel, windows.strides, windows.dilations, tuple(flat))


def convolve(
    s: Scope,
    x: Value,
    w: Value,
    windows: Windows,
    groups: int,
    bias: Value | None = None,
    *,
    spread: Sequence[int] | None = None,
) -> Value:
    """A convolution in ONNX's layout, and a bias per output channel; ``spread`` is the dilation of x."""
    count = x.type.rank - 2
    spatial = tuple(range(2, 2 + count))
    numbers = (0, 1, spatial, 1, 0, spatial, 0, 1, spatial)
    out = s.one(
        "convolution",
        (x, w),
        numbers=numbers,
        strides=windows.strides,
        padding=windows.padding,
        lhs_dilation=tuple(spread or (1,) * count),
        rhs_dilation=windows.dilations,
        reversal=(0,) * count,
        feature_groups=groups,
        dtype=summed_in(x.type.dtype),
    )
    if bias is not None:
        added = convert(s, bias, out.type.dtype)
        out = s.one("add", (out, s.one("broadcast_in_dim", (added,), dims=(1,), shape=out.type.dims)))
    return convert(s, out, x.type.dtype)


@onnx_op("Conv", composite=True)
def conv(s: Scope, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    """Convolution with groups, strides, dilations, pads, and a bias per output channel."""
    if x.type.rank < 3 or w.type.rank != x.type.rank:
        raise node.error(f"of {x.type} with a kernel {w.type}")
    windows = conv_windows(s, node, x.type.dims[2:], w.type.dims[2:])
    return convolve(s, x, w, windows, node.int("group", 1), bias)


@onnx_op("ConvTranspose", composite=True)
def conv_transpose(s: Scope, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    """The transpose of a convolution: x with holes, convolved with the turned kernel."""
    if x.type.rank < 3 or w.type.rank != x.type.rank:
        raise node.error(f"of {x.type} with a kernel {w.type}")
    count, groups = x.type.rank - 2, node.int("group", 1)
    strides = node.ints("strides", None) or (1,) * count
    dilations = node.ints("dilations", None) or (1,) * count
    if len(strides) != count or len(dilations) != count or len(node.ints("output_padding", (0,) * count)) != count:
        raise node.error(f"has strides, dilations or output_padding that are not {count} numbers")
    extent = [(size - 1) * step + 1 for size, step in zip(w.type.dims[2:], dilations, strict=True)]
    more = node.ints("output_padding", None) or (0,) * count
    pads = _transposed_pads(s, node, x.type.dims[2:], strides, extent, more)
    flat: list[Dim] = []
    for axis in range(count):
        flat += [extent[axis] - 1 - pads[2 * axis], extent[axis] - 1 - pads[2 * axis + 1] + more[axis]]
        size = x.type.dims[2 + axis]
        total = (size - 1) * strides[axis] + more[axis] + extent[axis] - pads[2 * axis] - pads[2 * axis + 1]
        s.need(Relation("<=", _ONE, total, f"{s.label}: the result has elements"))
        if strides[axis] > 1:  # of none, runtimes make what is left of a stride
            s.need(Relation("<=", _ONE, size, f"{s.label}: {NOT_ENFORCED}"))
    kernel = _turned(s, w, groups)
    windows = Windows(w.type.dims[2:], (1,) * count, dilations, tuple(flat))
    return convolve(s, x, kernel, windows, groups, bias, spread=strides)


def _transposed_pads(
    s: Scope, node: Node, sizes: Sequence[Dim], strides: Sequence[int], extent: Sequence[Dim], more: Sequence[int]
) -> list[Dim]:
    """What is cut off the full result at each side: given, or what an asked size or SAME leaves over; what an asked
    size lacks stands behind."""
    count = len(sizes)
    given = node.ints("pads", None) or (0,) * (2 * count)
    wanted = node.ints("output_shape", None)
    mode = node.text("auto_pad", "NOTSET")
    if wanted is None and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return [const(given[axis + side * count]) for axis in range(count) for side in (0, 1)]
    out: list[Dim] = []
    for axis, (size, step, reach) in enumerate(zip(sizes, strides, extent, strict=True)):
        target = size * step if wanted is None else const(wanted[len(wanted) - count + axis])
        total = (size - 1) * step + more[axis] + reach - target
        cut = total if s.decide("<=", _ZERO, total) is True else maximum(total, 0)
        small = floordiv(cut, 2)
        low, high = (small, cut - small) if mode == "SAME_UPPER" else (cut - small, small)
        out += [low, high if wanted is None else high + total - cut]
    return out


def _turned(s: Scope, w: Value, groups: int) -> Value:
    """A kernel (in, out/groups, ...) turned round and as (out, in/groups, ...)."""
    rank = w.type.rank
    turned = s.one("reverse", (w,), dims=tuple(range(2, rank)))
    inner, outer, *spatial = w.type.dims
    split = reshape(s, turned, (const(groups), floordiv(inner, groups), outer, *spatial))
    moved = s.one("transpose", (split,), permutation=(0, 2, 1, *range(3, rank + 1)))
    return reshape(s, moved, (outer * groups, floordiv(inner, groups), *spatial))


# -- pools -------------------------------------------------------------------------------------------------------


def _pool(s: Scope, node: Node, x: Value) -> Windows:
    kernel = [const(size) for size in node.ints("kernel_shape")]
    sizes = x.type.dims[2:]
    out = _with_room(s, sizes, windows_of(s, node, sizes, kernel))
    if node.flag("ceil_mode", False) and node.text("auto_pad", "NOTSET") == "NOTSET":
        return Windows(out.kernel, out.strides, out.dilations, _ceiled(s, sizes, out))
    return out


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


def _window_fold(s: Scope, ours: str, x: Value, windows: Windows, start: np.ndarray | None = None) -> Value:
    count = x.type.rank - 2
    init = s.constant(start_of(ours, x.type.dtype) if start is None else start)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    attrs = {
        "window": (_ONE, _ONE, *windows.kernel),
        "strides": (_ONE, _ONE, *map(const, windows.strides)),
        "base_dilation": (_ONE,) * (count + 2),
        "window_dilation": (_ONE, _ONE, *map(const, windows.dilations)),
        "padding": (_ZERO,) * 4 + windows.padding,
    }
    return s.add("reduce_window", (x, init), attrs, regions=(body,))[0]


@onnx_op("MaxPool", composite=True)
def max_pool(s: Scope, node: Node, x: Value) -> list[Value]:
    """The largest element of each window, and its place in the flat tensor where that is asked for; NaN wins."""
    windows, kind = _pool(s, node, x), comparison(x.type.dtype)
    if not node.wants(1):
        return [_window_fold(s, "maximum", x, windows)]
    count = x.type.rank - 2
    places = reshape(s, s.one("iota", dtype="i64", dim=0, shape=(product(x.type.dims),)), x.type.dims)
    if node.flag("storage_order", False):
        places = _column_major(s, x.type.dims)

    def body(inner: Scope, best: Value, at: Value, new: Value, place: Value) -> Sequence[Value]:
        better = inner.one("compare", (new, best), direction="GT", kind=kind)
        if kind == "FLOAT":
            none = inner.one("compare", (new, new), direction="NE", kind=kind)
            number = inner.one("compare", (best, best), direction="EQ", kind=kind)
            better = inner.one("or", (better, inner.one("and", (none, number))))
        first = inner.one("compare", (at, inner.scalar(0, "i64")), direction="LT", kind="SIGNED")
        better = inner.one("or", (better, first))
        return inner.one("select", (better, new, best)), inner.one("select", (better, place, at))

    region = s.region([(x.type.dtype, ()), ("i64", ())] * 2, body)
    attrs = {
        "window": (_ONE, _ONE, *windows.kernel),
        "strides": (_ONE, _ONE, *map(const, windows.strides)),
        "base_dilation": (_ONE,) * (count + 2),
        "window_dilation": (_ONE, _ONE, *map(const, windows.dilations)),
        "padding": (_ZERO,) * 4 + windows.padding,
    }
    start = s.constant(start_of("maximum", x.type.dtype))
    return list(s.add("reduce_window", (x, places, start, s.scalar(-1, "i64")), attrs, regions=(region,)))


def _column_major(s: Scope, dims: Sequence[Dim]) -> Value:
    """Flat places when the spatial axes are stored with the first one innermost."""
    total, step = None, _ONE
    for axis in (*range(2, len(dims)), 1, 0):
        line = s.one("iota", dtype="i64", dim=axis, shape=tuple(dims))
        line = s.one("multiply", (line, s.spread(s.vector([step], "i64", ()), line.type.dims)))
        total = line if total is None else s.one("add", (total, line))
        step = step * dims[axis]
    assert total is not None
    return total


@onnx_op("AveragePool", composite=True)
@in_f32
def average_pool(s: Scope, node: Node, x: Value) -> Value:
    """The mean of each window: over the elements of x in it, or with ``count_include_pad`` over the padded ones too
    (not over what ceil_mode adds, nor over what a window that does not fit reaches beyond); 0 of none."""
    windows = _pool(s, node, x)
    total = _window_fold(s, "add", x, windows)
    ones = s.spread(s.scalar(1, x.type.dtype), (_ONE, _ONE, *x.type.dims[2:]))
    if node.flag("count_include_pad", False):
        given = windows_of(s, node, x.type.dims[2:], windows.kernel).padding
        ones = s.one(
            "pad",
            (ones, s.scalar(1, x.type.dtype)),
            low=(_ZERO, _ZERO, *given[0::2]),
            high=(_ZERO, _ZERO, *given[1::2]),
            interior=(_ZERO,) * x.type.rank,
        )
        rest = tuple(more - size for more, size in zip(windows.padding, given, strict=True))
        windows = Windows(windows.kernel, windows.strides, windows.dilations, rest)
    count = _window_fold(s, "add", ones, windows)
    if max(windows.dilations, default=1) > 1:  # others meet an element always, since padding is smaller than they are
        count = s.one("maximum", (count, s.full(1, count)))
    others = (0, 1, *range(2, x.type.rank))
    return s.one("divide", (total, s.one("broadcast_in_dim", (count,), dims=others, shape=total.type.dims)))


@onnx_op("LpPool", composite=True)
@in_f32
def lp_pool(s: Scope, node: Node, x: Value) -> Value:
    """The p-norm of each window."""
    return _norm(s, node.int("p", 2), x, lambda powers: _window_fold(s, "add", powers, _pool(s, node, x)))


def _norm(s: Scope, p: int, x: Value, add: object) -> Value:
    assert callable(add)
    size = s.one("abs", (x,))
    if p == 1:
        return add(size)  # type: ignore[no-any-return]
    if p == 2:
        return s.one("sqrt", (add(s.one("multiply", (x, x))),))
    total = add(s.one("power", (size, s.full(p, size))))
    return s.one("power", (total, s.full(1 / p, total)))


@onnx_op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", composite=True)
@in_f32
def global_pool(s: Scope, node: Node, x: Value) -> Value:
    """One element a channel: the mean, largest element or norm over all spatial axes."""
    axes = tuple(range(2, x.type.rank))
    for axis in axes:
        some(s, x.type.dims[axis], x.type.dims[0], node.op)
    if node.op == "GlobalAveragePool":
        out = mean_of(s, x, axes)
    elif node.op == "GlobalMaxPool":
        out = fold(s, "maximum", x, axes)
    else:
        out = _norm(s, node.int("p", 2), x, lambda powers: fold(s, "add", powers, axes))
    return kept(s, out, x.type.dims, axes)


@onnx_op("LRN", composite=True)
@in_f32
def lrn(s: Scope, node: Node, x: Value) -> Value:
    """x over a power of the sum of squares of neighbouring channels."""
    size = node.int("size")
    low = (size - 1) // 2
    rank = x.type.rank
    init = s.constant(start_of("add", x.type.dtype))
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one("add", (one, two)))
    ones = (_ONE,) * rank
    padding = [_ZERO] * (2 * rank)
    padding[2], padding[3] = const(low), const(size - 1 - low)
    attrs = {
        "window": (_ONE, const(size), *ones[2:]),
        "strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": tuple(padding),
    }
    total = s.add("reduce_window", (s.one("multiply", (x, x)), init), attrs, regions=(body,))[0]
    scaled = s.one("multiply", (total, s.full(node.float("alpha", 1e-4) / size, total)))
    shifted = s.one("add", (scaled, s.full(node.float("bias", 1.0), scaled)))
    return s.one("divide", (x, s.one("power", (shifted, s.full(node.float("beta", 0.75), shifted)))))


@onnx_op("MaxUnpool", composite=True)
def max_unpool(s: Scope, node: Node, x: Value, places: Value, shape: Value | None = None) -> Value:
    """Elements put back to the flat places that MaxPool gave; zeros elsewhere, and behind that in a larger shape."""
    count = x.type.rank - 2
    kernel = node.ints("kernel_shape")
    strides = node.ints("strides", None) or (1,) * count
    pads = node.ints("pads", None) or (0,) * (2 * count)
    inferred = (
        *x.type.dims[:2],
        *(
            (size - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + count]
            for axis, size in enumerate(x.type.dims[2:])
        ),
    )
    flat, total = product(x.type.dims), product(inferred)
    zeros = s.spread(s.scalar(0, x.type.dtype), (total,))
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, old, new: new)
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": (0,),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    vectors = reshape(s, places, (flat, _ONE))
    out = s.add("scatter", (zeros, vectors, reshape(s, x, (flat,))), attrs, regions=(body,))[0]
    out = reshape(s, out, inferred)
    if shape is None:
        return out
    target = s.sizes(of_length(s, shape, x.type.rank), f"{node.outputs[0]}.shape")
    high = tuple(size - least for size, least in zip(target, inferred, strict=True))
    for size in high:
        if (size.const or 0) < 0:
            raise node.error(f"has an output_shape that is {-size} too small")
        if size.const is None and s.decide("<=", const(0), size) is not True:
            s.needs.append(Relation("<=", const(0), size, "MaxUnpool's output_shape"))
    none = (const(0),) * x.type.rank
    return s.one("pad", (out, s.scalar(0, x.type.dtype)), low=none, high=high, interior=none)
