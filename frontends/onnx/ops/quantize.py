"""Quantized ops: integers that stand for ``(q - zero_point) * scale``. Products run in i32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egshape.dims import const
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.contraction import product_of
from egshape.frontends.onnx.ops.elementwise import convert, saturating
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.ops.windows import conv_windows, convolve
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.graph import Value
from egshape.ir.types import integer_range, is_integer, is_narrow, is_narrow_integer

_ONE = const(1)


def spread_along(s: Scope, value: Value, like: Value, axis: int, block: int = 0) -> Value:
    """A scale or zero point in the shape of ``like``: a single one, one a place of an axis, or one a block of it."""
    target = like.type.dims
    if value.type.rank == 0 or value.type.dims == (_ONE,):
        return s.spread(reshape(s, value, ()), target)
    if value.type.rank == 1:
        return s.one("broadcast_in_dim", (value,), dims=(axis,), shape=target)
    if not block:
        raise NoLowering("blocks without a size")
    held = value.type.dims
    wide = (*held[: axis + 1], const(block), *held[axis + 1 :])
    kept = tuple(place for place in range(len(wide)) if place != axis + 1)
    repeated = s.one("broadcast_in_dim", (value,), dims=kept, shape=wide)
    return reshape(s, repeated, (*held[:axis], held[axis] * block, *held[axis + 1 :]))


def saturated(s: Scope, x: Value, dtype: str) -> Value:
    """A whole float as an integer, clamped to its range."""
    low, high = integer_range(dtype)
    return convert(s, s.one("clamp", (s.scalar(low, x.type.dtype), x, s.scalar(high, x.type.dtype))), dtype)


def dequantized(s: Scope, x: Value, scale: Value, zero: Value | None, axis: int, block: int = 0) -> Value:
    """(x - zero) * scale, in the dtype of the scale; the difference is taken in i32."""
    dtype = scale.type.dtype
    wide = convert(s, x, "i32")
    if zero is not None:
        wide = s.one("subtract", (wide, spread_along(s, convert(s, zero, "i32"), wide, axis, block)))
    out = convert(s, wide, dtype)
    return s.one("multiply", (out, spread_along(s, scale, out, axis, block)))


def quantized(s: Scope, x: Value, scale: Value, zero: Value | None, dtype: str, axis: int, block: int = 0) -> Value:
    """round(x / scale) + zero, saturated."""
    whole = s.one("round_nearest_even", (s.one("divide", (x, spread_along(s, scale, x, axis, block))),))
    if zero is not None:
        shift = convert(s, convert(s, zero, "i32"), x.type.dtype)
        whole = s.one("add", (whole, spread_along(s, shift, whole, axis, block)))
    return saturated(s, whole, dtype)


def _axis(node: Node, x: Value, scale: Value) -> int:
    return axis_of(node, node.int("axis", 1), x.type.rank) if scale.type.rank else 0


@onnx_op("DequantizeLinear", composite=True)
@onnx_op("DequantizeLinear", domain="com.microsoft", composite=True)
def dequantize_linear(s: Scope, node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """Integers, or floats of at most 8 bits, to floats; those have no zero point but 0."""
    if not is_integer(x.type.dtype) and not is_narrow(x.type.dtype):
        raise NoLowering(x.type.dtype)
    axis, block = _axis(node, x, scale), node.int("block_size", 0)
    if is_narrow(x.type.dtype) and not is_narrow_integer(x.type.dtype):
        out = convert(s, x, scale.type.dtype)
        out = s.one("multiply", (out, spread_along(s, scale, out, axis, block)))
    else:
        out = dequantized(s, x, scale, zero, axis, block)
    return convert(
        s,
        out,
        dtype_of(node.int("output_dtype"), str(node.location)) if node.int("output_dtype", 0) else out.type.dtype,
    )


@onnx_op("QuantizeLinear", composite=True)
@onnx_op("QuantizeLinear", domain="com.microsoft", composite=True)
def quantize_linear(s: Scope, node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """Floats to integers, or to floats of at most 8 bits."""
    dtype = zero.type.dtype if zero is not None else "ui8"
    if zero is None and node.int("output_dtype", 0):
        dtype = dtype_of(node.int("output_dtype"), str(node.location))
    if not (is_integer(dtype) or is_narrow(dtype)) or is_integer(x.type.dtype) or node.int("precision", 0):
        raise NoLowering(dtype)
    if x.type.dtype != scale.type.dtype:
        x, scale = convert(s, x, "f32"), convert(s, scale, "f32")
    axis, block = _axis(node, x, scale), node.int("block_size", 0)
    if is_narrow(dtype) and not is_narrow_integer(dtype):
        part = s.one("divide", (x, spread_along(s, scale, x, axis, block)))
        return saturating(s, part, dtype) if node.flag("saturate", True) else convert(s, part, dtype)
    return quantized(s, x, scale, zero, dtype, axis, block)


def dynamic_parameters(s: Scope, x: Value) -> tuple[Value, Value]:
    """Scale and zero point (a float) by which ui8 covers all elements of x and 0; the scale is 1 if all are 0."""
    axes = tuple(range(x.type.rank))
    zero = s.scalar(0, x.type.dtype)
    low = s.one("minimum", (fold(s, "minimum", x, axes), zero))
    high = s.one("maximum", (fold(s, "maximum", x, axes), zero))
    step = s.one("divide", (s.one("subtract", (high, low)), s.scalar(255, x.type.dtype)))
    flat = s.one("compare", (high, low), direction="EQ", kind="FLOAT")
    scale = s.one("select", (flat, s.scalar(1, x.type.dtype), step))
    point = s.one("subtract", (zero, s.one("divide", (low, scale))))
    clamped = s.one("clamp", (zero, point, s.scalar(255, x.type.dtype)))
    return scale, s.one("round_nearest_even", (clamped,))


def dynamically(s: Scope, x: Value) -> tuple[Value, Value, Value]:
    """ui8 elements, scale and zero point, which the elements themselves give."""
    scale, point = dynamic_parameters(s, x)
    whole = s.one("round_nearest_even", (s.one("divide", (x, s.spread(scale, x.type.dims))),))
    shifted = s.one("add", (whole, s.spread(point, x.type.dims)))
    return saturated(s, shifted, "ui8"), scale, saturated(s, point, "ui8")


@onnx_op("DynamicQuantizeLinear", composite=True)
def dynamic_quantize_linear(s: Scope, node: Node, x: Value) -> list[Value]:
    """ui8 elements, scale and zero point, which the elements themselves give."""
    return list(dynamically(s, x))


# -- products ----------------------------------------------------------------------------------------------------


def _without(s: Scope, x: Value, zero: Value | None, axis: int) -> Value:
    """x - zero in i32."""
    wide = convert(s, x, "i32")
    if zero is None:
        return wide
    point = convert(s, zero, "i32")
    if point.type.rank > 1:
        if point.type.rank != x.type.rank:
            raise NoLowering("zero points of another rank")
        return s.one(
            "subtract",
            (wide, s.one("broadcast_in_dim", (point,), dims=tuple(range(x.type.rank)), shape=wide.type.dims)),
        )
    return s.one("subtract", (wide, spread_along(s, point, wide, axis)))


def _row(x: Value) -> int:
    return max(x.type.rank - 2, 0)


def _column(x: Value) -> int:
    return x.type.rank - 1


@dataclass(frozen=True)
class Weights:
    """Integers (depth, columns) with their scale and zero point, one or one a column."""

    values: Value
    scale: Value
    zero: Value

    def times(self, s: Scope, x: Value) -> Value:
        """x (..., depth) times the weights; x is quantized to ui8 on the way, all of it with one scale."""
        small, scale, point = dynamically(s, x)
        total = product_of(s, _without(s, small, point, 0), _without(s, self.values, self.zero, 1), "i32")
        out = convert(s, total, x.type.dtype)
        factor = s.one("multiply", (s.spread(scale, self.scale.type.dims), self.scale))
        return s.one("multiply", (out, spread_along(s, factor, out, _column(out))))


@onnx_op("MatMulInteger", composite=True)
def matmul_integer(
    s: Scope, node: Node, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    """The product of the differences, in i32; a zero point a row of A, and a column of B."""
    return product_of(s, _without(s, a, a_zero, _row(a)), _without(s, b, b_zero, _column(b)), "i32")


@onnx_op("ConvInteger", composite=True)
def conv_integer(
    s: Scope, node: Node, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
) -> Value:
    """The convolution of the differences, in i32; a zero point an output channel of W."""
    windows = conv_windows(s, node, x.type.dims[2:], w.type.dims[2:])
    return convolve(s, _without(s, x, x_zero, 0), _without(s, w, w_zero, 0), windows, node.int("group", 1))


@onnx_op("QLinearMatMul", composite=True)
def qlinear_matmul(s: Scope, node: Node, *values: Value) -> Value:
    """a, its scale and zero point; b and its; scale and zero point of the result."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = values
    total = product_of(s, _without(s, a, a_zero, _row(a)), _without(s, b, b_zero, _column(b)), "i32")
    return _requantized(s, total, ((a_scale, _row(total)), (b_scale, _column(total))), scale, zero, _column(total))


def _requantized(
    s: Scope, total: Value, factors: Sequence[tuple[Value, int]], scale: Value, zero: Value, axis: int
) -> Value:
    """Sums in i32 as integers of the scale of the result: scales make one factor first. ``factors`` with the axis that
    each goes along if it is no single one."""
    wide = convert(s, total, "f32")
    one, two, three = (
        spread_along(s, convert(s, each, "f32"), wide, along) for each, along in (*factors, (scale, axis))
    )
    factor = s.one("divide", (s.one("multiply", (one, two)), three))
    wide = s.one("multiply", (wide, factor))
    whole = s.one("round_nearest_even", (wide,))
    shift = convert(s, convert(s, zero, "i32"), "f32")
    return saturated(s, s.one("add", (whole, spread_along(s, shift, whole, axis))), zero.type.dtype)


@onnx_op("QLinearConv", composite=True)
def qlinear_conv(s: Scope, node: Node, *values: Value) -> Value:
    """x and w with scale and zero point each, those of the result, and an i32 bias."""
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, *bias = values
    windows = conv_windows(s, node, x.type.dims[2:], w.type.dims[2:])
    total = convolve(s, _without(s, x, x_zero, 0), _without(s, w, w_zero, 0), windows, node.int("group", 1), *bias)
    return _requantized(s, total, ((x_scale, 1), (w_scale, 1)), scale, zero, 1)
