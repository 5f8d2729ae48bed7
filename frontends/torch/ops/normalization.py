"""Softmax and the normalizations; sums of 16-bit floats are taken in f32."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, floordiv, product
from egshape.frontends.torch.moves import (
    against,
    along,
    axis_of,
    centered,
    convert,
    expand,
    fold,
    kept,
    mean_of,
    reshape,
    select,
    spread_along,
    with_number,
)
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in


@aten_op(
    "softmax.int",
    "_softmax.default",
    "log_softmax.int",
    "_log_softmax.default",
    "_safe_softmax.default",
    composite=True,
)
def softmax(s: Scope, x: Value, dim: int, dtype: str | bool | None = None) -> Value:
    """exp(x - max) over its sum along an axis, or the logarithm of that."""
    if not x.type.rank:
        return softmax_along(s, reshape(s, x, (const(1),)), 0, s.call.op.startswith(("log", "_log")), shape=())
    held = convert(s, x, summed_in(s.dtype))
    logarithm, safe = "log" in s.call.op, "safe" in s.call.op
    return convert(s, softmax_along(s, held, axis_of(dim, x.type.rank), logarithm, safe=safe), s.dtype)


def softmax_along(
    s: Scope, x: Value, axis: int, logarithm: bool = False, *, safe: bool = False, shape: Sequence[Dim] | None = None
) -> Value:
    """Softmax along an axis. ``safe``: of nothing but -inf it is 0."""
    most = fold(s, "maximum", x, (axis,))
    if safe:
        most = select(s, against(s, "EQ", most, float("-inf")), s.full(0, most), most)
    shifted = s.one("subtract", (x, along(s, most, x, (axis,))))
    powers = s.one("exponential", (shifted,))
    sums = fold(s, "add", powers, (axis,))
    if logarithm:
        out = s.one("subtract", (shifted, along(s, s.one("log", (sums,)), x, (axis,))))
    else:
        if safe:
            sums = select(s, against(s, "EQ", sums, 0), s.full(1, sums), sums)
        out = s.one("divide", (powers, along(s, sums, x, (axis,))))
    return out if shape is None else reshape(s, out, shape)


def inverse_deviation(s: Scope, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)."""
    return s.one("rsqrt", (with_number(s, "add", variance, epsilon),))


@aten_op("layer_norm.default", "native_layer_norm.default", composite=True)
def layer_norm(
    s: Scope,
    x: Value,
    normalized_shape: Sequence[Number],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value | list[Value]:
    """(x - mean) / deviation over the last axes, scaled and shifted."""
    axes = tuple(range(x.type.rank - len(normalized_shape), x.type.rank))
    held = convert(s, x, summed_in(x.type.dtype))
    rest, mean, variance = centered(s, held, axes)
    inverse = inverse_deviation(s, variance, eps)
    out = s.one("multiply", (rest, along(s, inverse, held, axes)))
    out = convert(s, _scaled(s, out, weight, bias, axes), x.type.dtype)
    if s.call.op.startswith("layer_norm"):
        return out
    return [
        out,
        *(
            convert(s, kept(s, each, x, axes), dtype)
            for each, dtype in zip((mean, inverse), s.call.dtypes[1:], strict=True)
        ),
    ]


def _scaled(s: Scope, x: Value, weight: Value | None, bias: Value | None, axes: Sequence[int]) -> Value:
    for ours, each in (("multiply", weight), ("add", bias)):
        if each is not None:
            x = s.one(ours, (x, spread_along(s, convert(s, each, x.type.dtype), axes, x.type.dims)))
    return x


@aten_op("rms_norm.default", composite=True)
def rms_norm(
    s: Scope, x: Value, normalized_shape: Sequence[Number], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x over the root of its mean square over the last axes, scaled."""
    axes = tuple(range(x.type.rank - len(normalized_shape), x.type.rank))
    held = convert(s, x, summed_in(x.type.dtype))
    epsilon = eps if eps is not None else {"f64": 2.0**-52}.get(held.type.dtype, 2.0**-23)
    inverse = inverse_deviation(s, mean_of(s, s.one("multiply", (held, held)), axes), epsilon)
    out = s.one("multiply", (held, along(s, inverse, held, axes)))
    return convert(s, _scaled(s, out, weight, None, axes), s.dtype)


@aten_op("group_norm.default", "native_group_norm.default", composite=True)
def group_norm(s: Scope, x: Value, *args: object) -> Value | list[Value]:
    """Groups of channels by their own mean and deviation, scaled and shifted by channel."""
    native = s.call.op.startswith("native")
    if native:
        weight, bias, _, _, _, groups, eps = args
    else:
        groups, weight, bias, eps = (*args, *(None, None, 1e-5)[len(args) - 1 :])[:4]
    batch, channels = x.type.dims[:2]
    held = convert(s, x, summed_in(x.type.dtype))
    count = size_of(groups)
    inner = (floordiv(channels, count), *x.type.dims[2:])
    split = reshape(s, held, (batch, count, *inner))
    axes = tuple(range(2, split.type.rank))
    rest, mean, variance = centered(s, split, axes)
    inverse = inverse_deviation(s, variance, float(eps))  # type: ignore[arg-type]
    out = reshape(s, s.one("multiply", (rest, along(s, inverse, split, axes))), x.type.dims)
    out = _scaled(s, out, weight, bias, (1,))  # type: ignore[arg-type]
    out = convert(s, out, x.type.dtype)
    if not native:
        return out
    return [out, *(convert(s, each, dtype) for each, dtype in zip((mean, inverse), s.call.dtypes[1:], strict=True))]


def _by_channel(s: Scope, x: Value, mean: Value, inverse: Value, weight: Value | None, bias: Value | None) -> Value:
    held = convert(s, x, summed_in(x.type.dtype))

    def channels(value: Value) -> Value:
        return spread_along(s, convert(s, value, held.type.dtype), (1,), x.type.dims)

    out = s.one("multiply", (s.one("subtract", (held, channels(mean))), channels(inverse)))
    return convert(s, _scaled(s, out, weight, bias, (1,)), x.type.dtype)


@aten_op("_native_batch_norm_legit_no_training.default", composite=True)
def batch_norm(
    s: Scope,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Each channel by a given mean and variance. The two further results are empty."""
    variance = convert(s, running_var, summed_in(running_var.type.dtype))
    factor = inverse_deviation(s, variance, eps)
    out = _by_channel(s, x, running_mean, factor, weight, bias)
    return [out, *(s.spread(s.scalar(0, dtype), (const(0),)) for dtype in s.call.dtypes[1:])]


@aten_op(
    "_native_batch_norm_legit.default",
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_functional.default",
    composite=True,
)
def batch_norm_in_training(s: Scope, x: Value, weight: Value | None, bias: Value | None, *args: object) -> list[Value]:
    """Each channel by its own mean and deviation in the batch; functional: the running ones moved towards them."""
    *held, training, momentum, eps = args
    if not training:
        raise NoLowering("given means")
    axes = tuple(axis for axis in range(x.type.rank) if axis != 1)
    wide_x = convert(s, x, summed_in(x.type.dtype))
    _, mean, variance = centered(s, wide_x, axes)
    inverse = inverse_deviation(s, variance, float(eps))  # type: ignore[arg-type]
    saved = zip((mean, inverse), s.call.dtypes[1:3], strict=True)
    out = [_by_channel(s, x, mean, inverse, weight, bias), *(convert(s, each, dtype) for each, dtype in saved)]
    if "functional" not in s.call.op:
        if held:
            raise NoLowering("running means changed in place")
        return out
    count = s.scalar(product([x.type.dims[axis] for axis in axes]), variance.type.dtype)
    spread = s.spread(count, variance.type.dims)
    fair = s.one("divide", (s.one("multiply", (variance, spread)), with_number(s, "subtract", spread, 1)))
    for old, new in zip(held, (mean, fair), strict=True):
        assert isinstance(old, Value)
        gap = s.one("subtract", (convert(s, new, old.type.dtype), old))
        moved = with_number(s, "multiply", gap, float(momentum))  # type: ignore[arg-type]
        out.append(s.one("add", (old, expand(s, moved, old.type.dims))))
    return out
