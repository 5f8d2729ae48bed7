"""Softmax and the normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import const, product
from egshape.frontends.onnx.broadcast import expand
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert, in_f32
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in


def along(s: Scope, folded: Value, like: Value, axes: Sequence[int]) -> Value:
    """A folded tensor, repeated along the axes that went."""
    others = tuple(axis for axis in range(like.type.rank) if axis not in axes)
    return s.one("broadcast_in_dim", (folded,), dims=others, shape=like.type.dims)


def mean_of(s: Scope, x: Value, axes: Sequence[int]) -> Value:
    """The mean over axes, which go."""
    total = fold(s, "add", x, axes)
    count = convert(s, s.vector([product([x.type.dims[axis] for axis in axes])], "i64", ()), x.type.dtype)
    return s.one("divide", (total, s.spread(count, total.type.dims)))


def centered(s: Scope, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """x - mean, the mean, and the mean square of x - mean."""
    mean = mean_of(s, x, axes)
    rest = s.one("subtract", (x, along(s, mean, x, axes)))
    return rest, mean, mean_of(s, s.one("multiply", (rest, rest)), axes)


def inverse_deviation(s: Scope, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)."""
    shifted = s.one("add", (variance, s.full(epsilon, variance)))
    return s.one("divide", (s.full(1, shifted), s.one("sqrt", (shifted,))))


@onnx_op("Softmax", "LogSoftmax", composite=True)
def softmax(s: Scope, node: Node, x: Value) -> Value:
    """exp(x - max) over its sum, along one axis; opsets before 13: along all axes from ``axis`` on."""
    old = node.opset < 13
    axis = axis_of(node, node.int("axis", 1 if old else -1), x.type.rank)
    axes = tuple(range(axis, x.type.rank)) if old else (axis,)
    if not axes:
        axes = (x.type.rank - 1,)
    dtype, x = x.type.dtype, convert(s, x, summed_in(x.type.dtype))
    shifted = s.one("subtract", (x, along(s, fold(s, "maximum", x, axes), x, axes)))
    powers = s.one("exponential", (shifted,))
    total = fold(s, "add", powers, axes)
    if node.op == "LogSoftmax":
        return convert(s, s.one("subtract", (shifted, along(s, s.one("log", (total,)), x, axes))), dtype)
    return convert(s, s.one("divide", (powers, along(s, total, x, axes))), dtype)


@onnx_op("LayerNormalization", composite=True)
def layer_normalization(s: Scope, node: Node, x: Value, scale: Value, bias: Value | None = None) -> list[Value]:
    """(x - mean) / deviation over the axes from ``axis`` on, scaled and shifted; computed in f32 at least."""
    first = axis_of(node, node.int("axis", -1), x.type.rank)
    axes = tuple(range(first, x.type.rank))
    dtype = x.type.dtype
    wide = convert(s, x, summed_in(dtype))
    rest, mean, variance = centered(s, wide, axes)
    inverse = inverse_deviation(s, variance, node.float("epsilon", 1e-5))
    out = convert(s, s.one("multiply", (rest, along(s, inverse, wide, axes))), dtype)
    out = s.one("multiply", (out, expand(s, scale, out.type.dims)))
    if bias is not None:
        out = s.one("add", (out, expand(s, bias, out.type.dims)))
    shape = [const(1) if axis in axes else size for axis, size in enumerate(x.type.dims)]
    return [out, reshape(s, mean, shape), reshape(s, inverse, shape)]


@onnx_op("BatchNormalization", composite=True)
def batch_normalization(
    s: Scope, node: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Value | list[Value]:
    """(x - mean) / deviation per channel, with the given mean and variance, or in training mode with those of x, and
    then also the given ones moved towards them."""
    running: list[Value] = []
    wide = convert(s, x, summed_in(x.type.dtype))
    if node.int("training_mode", 0):
        axes = tuple(axis for axis in range(x.type.rank) if axis != 1)
        _, center, spread = centered(s, wide, axes)
        running = [_moved(s, node, old, new) for old, new in ((mean, center), (variance, spread))]
        mean, variance = center, spread
    elif sum(map(bool, node.outputs)) > 1:
        raise NoLowering("training before opset 14")

    def channels(value: Value) -> Value:
        axes = (min(1, x.type.rank - 1),)
        return s.one("broadcast_in_dim", (convert(s, value, wide.type.dtype),), dims=axes, shape=x.type.dims)

    rest = s.one("subtract", (wide, channels(mean)))
    deviation = inverse_deviation(s, convert(s, variance, wide.type.dtype), node.float("epsilon", 1e-5))
    factor = s.one("multiply", (convert(s, scale, wide.type.dtype), deviation))
    out = convert(s, s.one("add", (s.one("multiply", (rest, channels(factor))), channels(bias))), x.type.dtype)
    return [out, *running] if running else out


def _moved(s: Scope, node: Node, old: Value, new: Value) -> Value:
    """The old value moved towards the new one."""
    share = node.float("momentum", 0.9)
    kept = s.one("multiply", (old, s.full(share, old)))
    added = s.one("multiply", (new, s.full(1 - share, new)))
    return s.one("add", (kept, convert(s, added, old.type.dtype)))


@onnx_op("InstanceNormalization", composite=True)
@in_f32
def instance_normalization(s: Scope, node: Node, x: Value, scale: Value, bias: Value) -> Value:
    """Each channel of each example by its own mean and deviation."""
    axes = tuple(range(2, x.type.rank))
    rest, _, variance = centered(s, x, axes)
    out = s.one("multiply", (rest, along(s, inverse_deviation(s, variance, node.float("epsilon", 1e-5)), x, axes)))
    scale, bias = (s.one("broadcast_in_dim", (each,), dims=(1,), shape=x.type.dims) for each in (scale, bias))
    return s.one("add", (s.one("multiply", (out, scale)), bias))


@onnx_op("MeanVarianceNormalization", composite=True)
@in_f32
def mean_variance_normalization(s: Scope, node: Node, x: Value) -> Value:
    """(x - mean) / (deviation + 1e-9) over axes; ONNX's own function has constants of f32 whatever x is."""
    axes = tuple(sorted(axis_of(node, axis, x.type.rank) for axis in node.ints("axes", (0, 2, 3))))
    rest, _, variance = centered(s, x, axes)
    deviation = s.one("sqrt", (variance,))
    return s.one("divide", (rest, along(s, s.one("add", (deviation, s.full(1e-9, deviation))), x, axes)))


@onnx_op("LpNormalization", composite=True)
@in_f32
def lp_normalization(s: Scope, node: Node, x: Value) -> Value:
    """x over its norm along an axis; 0 where the norm is 0."""
    axis = axis_of(node, node.int("axis", -1), x.type.rank)
    if node.int("p", 2) == 1:
        norm = fold(s, "add", s.one("abs", (x,)), (axis,))
    else:
        norm = s.one("sqrt", (fold(s, "add", s.one("multiply", (x, x)), (axis,)),))
    wide = along(s, norm, x, (axis,))
    empty = s.one("compare", (wide, s.full(0, wide)), direction="EQ", kind="FLOAT")
    return s.one("select", (empty, s.full(0, x), s.one("divide", (x, wide))))
