"""Elementwise ops: those that are one of ours, after promotion and broadcasting, and those that are a few."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.frontends.torch.moves import (
    against,
    binary,
    broadcast,
    compare,
    convert,
    expand,
    joined,
    operand,
    scalar_tensor,
    select,
    tensor,
    with_number,
    wrapping,
)
from egshape.frontends.torch.registry import Handler, NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope, integers
from egshape.ir.graph import Value
from egshape.ir.types import is_float, is_integer, numpy_dtype
from egshape.ops.contraction import summed_in

Operand = Value | Number

_UNARY = {
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sigmoid": "logistic",
    "tanh": "tanh",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erf_inv",
    "lgamma": "lgamma",
}
"""Functions of floats; integers become floats first."""

_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "round_nearest_even"}
_BINARY = {"maximum": "maximum", "minimum": "minimum", "atan2": "atan2"}
_BITS = {"and": "and", "or": "or", "xor": "xor"}
_COMPARED = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def _unary(ours: str) -> Handler:
    return lambda s, x: s.one(ours, (convert(s, x, s.dtype),))


def _rounding(ours: str) -> Handler:
    return lambda s, x: x if integers(x.type.dtype) else s.one(ours, (x,))


def _binary(ours: str) -> Handler:
    return lambda s, x, y: binary(s, ours, operand(s, x, s.dtype), operand(s, y, s.dtype))


def _logical(ours: str) -> Handler:
    return lambda s, x, y: binary(s, ours, truth_of(s, x), truth_of(s, y))


def _compared(direction: str) -> Handler:
    return lambda s, x, y: compare(s, direction, operand(s, x, s.call.promoted), operand(s, y, s.call.promoted))


for _name, _ours in _UNARY.items():
    aten_op(f"{_name}.default")(_unary(_ours))
for _name, _ours in _ROUNDING.items():
    aten_op(f"{_name}.default")(_rounding(_ours))
for _name, _ours in _BINARY.items():
    aten_op(f"{_name}.default")(_binary(_ours))
for _name, _ours in _BITS.items():
    aten_op(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor")(_binary(_ours))
    aten_op(f"logical_{_name}.default")(_logical(_ours))
for _name, _direction in _COMPARED.items():
    aten_op(f"{_name}.Tensor", f"{_name}.Scalar")(_compared(_direction))


def truth_of(s: Scope, x: Value) -> Value:
    """Whether elements are not 0."""
    return x if x.type.dtype == "i1" else against(s, "NE", x, 0)


@aten_op("mul.Tensor", "mul.Scalar")
def multiply(s: Scope, x: Operand, y: Operand) -> Value:
    """x y."""
    return _computed(s, "multiply", x, y, _kind(s, x, y))


def _computed(s: Scope, ours: str, x: Operand, y: Operand, kind: str) -> Value:
    """One of our binary ops in the dtype in which its operands meet; of what are sizes it is done wide, and wraps."""
    kind = "i64" if is_integer(s.dtype) and _is_size(s, x) and _is_size(s, y) else kind
    return wrapping(s, binary(s, ours, operand(s, x, kind), operand(s, y, kind)), s.dtype)


def _is_size(s: Scope, x: Operand) -> bool:
    """Whether elements are known as sizes and numbers."""
    known = s.elements(x) if isinstance(x, Value) and is_integer(x.type.dtype) else None
    return isinstance(x, Dim | int) or (known is not None and None not in known)


def _kind(s: Scope, *operands: Operand) -> str:
    """The dtype in which factors and divisors meet: f32 where a number among them would be rounded to 16 bits."""
    wide = summed_in(s.dtype)
    return s.dtype if wide == s.dtype or all(_fits(x, s.dtype) for x in operands) else wide


def _fits(x: Operand, dtype: str) -> bool:
    """Whether a number, or what stands for one, is the same in a dtype of floats."""
    if isinstance(x, Value):
        return x.type.dtype == dtype or x.type.rank > 0
    if isinstance(x, Dim):
        return False
    with np.errstate(over="ignore"):
        return float(numpy_dtype(dtype).type(float(x))) == x


@aten_op("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def add(s: Scope, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    """x + alpha y, x - alpha y, or y - alpha x."""
    if s.call.op.startswith("rsub"):
        x, y = y, x
    ours = "add" if s.call.op.startswith("add") else "subtract"
    if not isinstance(alpha, Dim) and alpha == 1:
        return _computed(s, ours, x, y, s.dtype)
    one, two = operand(s, x, s.dtype), operand(s, y, s.dtype)
    one, two = (convert(s, each, summed_in(s.dtype)) for each in (one, two))
    two = binary(s, "multiply", two, tensor(s, alpha, two.type.dtype))
    return convert(s, binary(s, ours, one, two), s.dtype)


@aten_op(
    "div.Tensor",
    "div.Scalar",
    "div.Tensor_mode",
    "div.Scalar_mode",
    "true_divide.Tensor",
    "true_divide.Scalar",
    "floor_divide.default",
)
def divide(s: Scope, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    """x / y as it is, rounded down or towards zero; integers are divided as floats where it is not rounded."""
    mode = "floor" if s.call.op.startswith("floor_divide") else rounding_mode
    kind = _kind(s, x, y)
    one, two = broadcast(s, operand(s, x, kind), operand(s, y, kind))
    if mode is None:
        return convert(s, s.one("divide", (one, two)), s.dtype)
    if not is_float(s.dtype):
        _check_divisor(s, y)
        return s.one("divide", (one, two)) if mode == "trunc" else _floor_divide(s, one, two)
    found = truncated(s, s.one("divide", (one, two))) if mode == "trunc" else _floor_divide_floats(s, one, two)
    return convert(s, found, s.dtype)


def _check_divisor(s: Scope, y: Operand) -> None:
    """torch stops at a division of integers by 0."""
    known = s.numbers(y) if isinstance(y, Value) else (y,)
    if known is None or any(isinstance(each, Dim) or each == 0 for each in known):
        raise NoLowering("the divisor may be 0")


def _floor_divide(s: Scope, x: Value, y: Value) -> Value:
    quotient, rest = s.one("divide", (x, y)), s.one("remainder", (x, y))
    wrong = s.one("and", (against(s, "NE", rest, 0), s.one("xor", (against(s, "LT", rest, 0), against(s, "LT", y, 0)))))
    return select(s, wrong, with_number(s, "subtract", quotient, 1), quotient)


def _floor_divide_floats(s: Scope, x: Value, y: Value) -> Value:
    """As c10::div_floor_floating: by the remainder, so that it fits it."""
    rest = s.one("remainder", (x, y))
    quotient = s.one("divide", (s.one("subtract", (x, rest)), y))
    wrong = s.one("and", (against(s, "NE", rest, 0), s.one("xor", (against(s, "LT", rest, 0), against(s, "LT", y, 0)))))
    quotient = select(s, wrong, with_number(s, "subtract", quotient, 1), quotient)
    down = s.one("floor", (quotient,))
    near = against(s, "GT", s.one("subtract", (quotient, down)), 0.5)
    down = select(s, near, with_number(s, "add", down, 1), down)
    plain = s.one("divide", (x, y))
    down = select(s, against(s, "EQ", quotient, 0), with_number(s, "multiply", plain, 0.0), down)
    return select(s, against(s, "EQ", y, 0), plain, down)


@aten_op("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(s: Scope, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of y."""
    one, two = broadcast(s, operand(s, x, s.dtype), operand(s, y, s.dtype))
    if not is_float(s.dtype):
        _check_divisor(s, y)
    rest = s.one("remainder", (one, two))
    wrong = s.one(
        "and", (against(s, "NE", rest, 0), s.one("xor", (against(s, "LT", rest, 0), against(s, "LT", two, 0))))
    )
    return select(s, wrong, s.one("add", (rest, two)), rest)


@aten_op("fmod.Tensor", "fmod.Scalar")
def fmod(s: Scope, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of x."""
    one, two = operand(s, x, s.dtype), operand(s, y, s.dtype)
    if not is_float(s.dtype):
        _check_divisor(s, y)
    return binary(s, "remainder", one, two)


@aten_op("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(s: Scope, x: Operand, y: Operand) -> Value:
    """x to the power y; small whole powers of floats and square roots are exact as torch computes them."""
    one = operand(s, x, s.dtype)
    if isinstance(y, int | float) and not isinstance(y, bool):
        if y == 1:
            return one
        if y == 2:
            return s.one("multiply", (one, one))
        if y == 3 or (is_float(s.dtype) and y in (0.5, -0.5, -1, -2)):
            return convert(s, _by_steps(s, convert(s, one, summed_in(s.dtype)), y), s.dtype)
        if not is_float(s.dtype) and y < 0:
            raise NoLowering("integers to negative powers")
    elif not is_float(s.dtype):
        raise NoLowering("integers to powers that are data")
    return binary(s, "power", one, tensor(s, y, s.dtype))


def _by_steps(s: Scope, x: Value, y: float) -> Value:
    """A power of 3, 0.5, -0.5, -1 or -2."""
    if y == 3:
        return s.one("multiply", (s.one("multiply", (x, x)), x))
    base = s.one("sqrt", (x,)) if abs(y) == 0.5 else x if y == -1 else s.one("multiply", (x, x))
    return base if y > 0 else s.one("divide", (s.full(1, base), base))


@aten_op("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar")
def shift_left(s: Scope, x: Value, y: Operand) -> Value:
    """Bits shifted left."""
    return binary(s, "shift_left", operand(s, x, s.dtype), operand(s, y, s.dtype))


@aten_op("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar")
def shift_right(s: Scope, x: Value, y: Operand) -> Value:
    """Bits shifted right; a signed number keeps its sign."""
    ours = "shift_right_logical" if s.dtype.startswith("ui") else "shift_right_arithmetic"
    return binary(s, ours, operand(s, x, s.dtype), operand(s, y, s.dtype))


# -- one operand ---------------------------------------------------------------------------------------------------


@aten_op("abs.default")
def absolute(s: Scope, x: Value) -> Value:
    """|x|; unsigned numbers and booleans as they are."""
    if x.type.dtype == "i1" or x.type.dtype.startswith("ui"):
        return x
    if x.type.dtype.startswith("c"):
        raise NoLowering("complex numbers")
    return s.one("abs", (x,))


@aten_op("neg.default")
def negate(s: Scope, x: Value) -> Value:
    """-x."""
    return s.one("negate", (x,))


@aten_op("sign.default", "sgn.default")
def sign(s: Scope, x: Value) -> Value:
    """-1, 0 or 1; 0 of NaN."""
    if x.type.dtype == "i1":
        return x
    if not is_float(x.type.dtype):
        return s.one("minimum", (x, s.full(1, x))) if x.type.dtype.startswith("ui") else s.one("sign", (x,))
    one = convert(s, against(s, "GT", x, 0), x.type.dtype)
    return s.one("subtract", (one, convert(s, against(s, "LT", x, 0), x.type.dtype)))


@aten_op("reciprocal.default")
def reciprocal(s: Scope, x: Value) -> Value:
    """1 / x."""
    x = convert(s, x, s.dtype)
    return s.one("divide", (s.full(1, x), x))


@aten_op("log2.default", "log10.default")
def log_to(s: Scope, x: Value) -> Value:
    """The logarithm to the base 2 or 10."""
    logarithm = s.one("log", (convert(s, x, summed_in(s.dtype)),))
    return convert(s, with_number(s, "multiply", logarithm, 1 / math.log(2 if "log2" in s.call.op else 10)), s.dtype)


@aten_op("trunc.default")
def truncate(s: Scope, x: Value) -> Value:
    """x rounded towards zero."""
    return x if integers(x.type.dtype) else truncated(s, x)


def truncated(s: Scope, x: Value) -> Value:
    """A float rounded towards zero."""
    return select(s, against(s, "LT", x, 0), s.one("ceil", (x,)), s.one("floor", (x,)))


@aten_op("logical_not.default")
def logical_not(s: Scope, x: Value) -> Value:
    """Whether elements are 0."""
    return s.one("not", (truth_of(s, x),))


@aten_op("bitwise_not.default")
def bitwise_not(s: Scope, x: Value) -> Value:
    """All bits turned."""
    return s.one("not", (x,))


@aten_op("isnan.default")
def is_nan(s: Scope, x: Value) -> Value:
    """x != x."""
    return compare(s, "NE", x, x)


@aten_op("isinf.default")
def is_inf(s: Scope, x: Value) -> Value:
    """Infinite."""
    return s.one("is_inf", (x,)) if is_float(x.type.dtype) else against(s, "NE", s.full(0, x), 0)


@aten_op("relu.default")
def relu(s: Scope, x: Value) -> Value:
    """max(x, 0)."""
    return with_number(s, "maximum", x, 0)


@aten_op("gelu.default", composite=True)
def gelu(s: Scope, x: Value, approximate: str = "none") -> Value:
    """x Phi(x), by erf or tanh."""
    dtype, x = x.type.dtype, convert(s, x, summed_in(x.type.dtype))
    if approximate == "none":
        inner = s.one("erf", (with_number(s, "multiply", x, math.sqrt(0.5)),))
    else:
        cube = s.one("multiply", (s.one("multiply", (x, x)), x))
        inner = s.one("add", (x, with_number(s, "multiply", cube, 0.044715)))
        inner = s.one("tanh", (with_number(s, "multiply", inner, math.sqrt(2 / math.pi)),))
    half = with_number(s, "multiply", x, 0.5)
    return convert(s, s.one("multiply", (half, with_number(s, "add", inner, 1))), dtype)


@aten_op("silu.default", composite=True)
def silu(s: Scope, x: Value) -> Value:
    """x * sigmoid(x)."""
    dtype, x = x.type.dtype, convert(s, x, summed_in(x.type.dtype))
    return convert(s, s.one("multiply", (x, s.one("logistic", (x,)))), dtype)


@aten_op("digamma.default")
def digamma(s: Scope, x: Value) -> Value:
    """The derivative of log gamma; at 0 and -0 the pole that is approached, where ours says that it is not defined."""
    x = convert(s, x, s.dtype)
    pole = s.one("divide", (s.full(-1, x), x))
    return select(s, against(s, "EQ", x, 0), pole, s.one("digamma", (x,)))


@aten_op("leaky_relu.default")
def leaky_relu(s: Scope, x: Value, negative_slope: float = 0.01) -> Value:
    """x where x > 0, else slope x."""
    dtype, x = x.type.dtype, convert(s, x, summed_in(x.type.dtype))
    return convert(s, select(s, against(s, "GT", x, 0), x, with_number(s, "multiply", x, negative_slope)), dtype)


@aten_op("elu.default", composite=True)
def elu(s: Scope, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale x where x > 0, else scale alpha (e^(input_scale x) - 1)."""
    dtype, x = x.type.dtype, convert(s, x, summed_in(x.type.dtype))
    low = s.one("exponential_minus_one", (with_number(s, "multiply", x, input_scale),))
    low = with_number(s, "multiply", low, alpha * scale)
    return convert(s, select(s, against(s, "GT", x, 0), with_number(s, "multiply", x, scale), low), dtype)


@aten_op("hardtanh.default")
def hardtanh(s: Scope, x: Value, min_val: Number = -1, max_val: Number = 1) -> Value:
    """x, kept between two numbers."""
    return clamp(s, x, min_val, max_val)


# -- choices -------------------------------------------------------------------------------------------------------


@aten_op("clamp.default", "clamp.Tensor")
def clamp(s: Scope, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    """min(max(x, low), high)."""
    x = convert(s, x, s.dtype)
    for ours, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            x = binary(s, ours, x, tensor(s, bound, s.dtype))
    return x


@aten_op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(s: Scope, condition: Value, x: Operand, y: Operand) -> Value:
    """x where the condition holds, else y."""
    return select(s, truth_of(s, condition), scalar_tensor(s, x, s.dtype), scalar_tensor(s, y, s.dtype))


@aten_op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(s: Scope, x: Value, mask: Value, value: Operand) -> Value:
    """A number where the mask holds, else x."""
    fill = tensor(s, value, x.type.dtype)
    return select(s, mask, s.one("reshape", (fill,), shape=()) if fill.type.rank else fill, x)


@aten_op("copy.default")
def copy(s: Scope, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source in the dtype and shape of x."""
    return expand(s, convert(s, source, x.type.dtype), joined(s, [x.type.dims, source.type.dims]))


@aten_op(
    "_to_copy.default",
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "_to_copy.out",
    "prims.convert_element_type.default",
)
def to_copy(s: Scope, x: Value, *_: Any, **__: Any) -> Value:
    """Another dtype; floats to integers are rounded towards zero."""
    if x.type.dtype.startswith("c") and not s.dtype.startswith("c"):
        raise NoLowering("complex numbers to real ones")
    return truth_of(s, x) if s.dtype == "i1" else wrapping(s, x, s.dtype)


@aten_op(
    "clone.default",
    "alias.default",
    "detach.default",
    "contiguous.default",
    "lift_fresh_copy.default",
    "detach_.default",
    "dropout.default",
    "feature_dropout.default",
)
def same(s: Scope, x: Value, p: float = 0.0, train: bool = False) -> Value:
    """x itself: nothing that is observed hangs on where its elements lie."""
    if s.call.op.endswith("dropout.default") and train and p:
        raise NoLowering("dropout in training")
    return x
