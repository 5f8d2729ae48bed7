"""Numpy functions behind the elementwise references; where numpy differs from StableHLO it is put right here.

Every function takes arrays of one dtype and equal shapes and returns an array, of that dtype or a wider one
that the caller rounds. Integers wrap."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from egshape.ir.types import (
    dtype_name,
    integer_range,
    is_complex,
    is_float,
    is_integer,
    is_narrow,
    is_narrow_integer,
)

Array = np.ndarray
Function = Callable[..., Array]

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def wide(function: Callable[..., Array]) -> Function:
    """A transcendental function computed in f64 or c128 and rounded once to the dtype of its operands."""

    def run(*xs: Array) -> Array:
        dtype = xs[0].dtype
        inner = np.complex128 if dtype.kind == "c" else np.float64
        return np.asarray(function(*(x.astype(inner) for x in xs)))

    return run


def half_safe(function: Callable[..., Array]) -> Function:
    """Arithmetic in the dtype itself, 16-bit floats in f32 (with its 24 bits rounding twice is harmless)."""

    def run(*xs: Array) -> Array:
        if is_float(dtype_name(xs[0].dtype)) and xs[0].dtype.itemsize == 2:
            return np.asarray(function(*(x.astype(np.float32) for x in xs)))
        return np.asarray(function(*(_in_order(x) if x.dtype.kind == "c" else x for x in xs)))

    return run


def _in_order(x: Array) -> Array:
    """The array with its elements side by side: numpy rounds functions of complex numbers otherwise where they are not,
    and a function of a reversed array must be the reversed result."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def scalarwise(function: Callable[[float], float]) -> Function:
    """A function of one Python float, elementwise."""

    def run(x: Array) -> Array:
        out = np.empty(x.shape, np.float64)
        for index, value in enumerate(x.reshape(-1)):
            out.reshape(-1)[index] = function(float(value))
        return out

    return run


# -- unary -----------------------------------------------------------------------------


def sign(x: Array) -> Array:
    """-1, 0 or 1; zeros and NaN as they are; x / |x| for complex numbers."""
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size))
    if x.dtype.kind in "iu":
        return np.asarray(np.sign(x))
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def round_away(x: Array) -> Array:
    """To the nearest integer, ties away from zero; keeps -0.0."""
    whole = np.trunc(x)
    step = np.where(np.isfinite(x) & (np.abs(x - whole) >= 0.5), 1.0, 0.0)
    return np.asarray(np.copysign(np.abs(whole) + step, x))


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1 / (1 + np.exp(-x)))


def is_finite(x: Array) -> Array:
    """Neither infinite nor NaN."""
    return np.asarray(np.isfinite(x))


def _bit_table(x: Array) -> Array:
    width = x.dtype.itemsize
    big = x.view(_BITS[width]).reshape((*x.shape, 1)).astype(np.dtype(_BITS[width]).newbyteorder(">"))
    return np.unpackbits(big.view(np.uint8), axis=-1)


def popcnt(x: Array) -> Array:
    """How many bits are one."""
    return np.asarray(_bit_table(x).sum(axis=-1))


def count_leading_zeros(x: Array) -> Array:
    """How many bits above the highest one are zero."""
    bits = _bit_table(x)
    return np.asarray(np.where(bits.any(axis=-1), bits.argmax(axis=-1), bits.shape[-1]))


def real(x: Array) -> Array:
    """The real part; a real number as it is."""
    return np.asarray(np.real(x))


def imag(x: Array) -> Array:
    """The imaginary part; 0 for a real number."""
    return np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x)


def is_inf(x: Array) -> Array:
    """Infinite of either sign."""
    return np.asarray(np.isinf(x))


def is_pos_inf(x: Array) -> Array:
    """Positive infinity."""
    return np.asarray(x == np.inf)


def is_neg_inf(x: Array) -> Array:
    """Negative infinity."""
    return np.asarray(x == -np.inf)


def erf_inv(y: float) -> float:
    """The inverse of erf: a rational start refined by Newton steps on erf, or on erfc where erf saturates."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    if y == 0:
        return y
    tail = 1 - abs(y)
    logarithm = math.log(tail * (1 + abs(y)))
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    x = math.sqrt(math.sqrt(middle * middle - logarithm / 0.147) - middle)
    for _ in range(4):
        error = math.erf(x) - abs(y) if tail > 0.5 else tail - math.erfc(x)
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        step = error / slope
        x -= step / (1 + x * step)
    return math.copysign(x, y)


def lgamma(x: float) -> float:
    """log |gamma(x)|; infinite at 0, -1, -2, ..."""
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def digamma(x: float) -> float:
    """The derivative of log gamma; NaN at the poles 0, -1, -2, ..."""
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    if x == math.inf:
        return x
    total = 0.0
    if x < 0:
        total = -math.pi / math.tan(math.pi * (x - math.floor(x)))
        x = 1 - x
    while x < 10:
        total -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return total + math.log(x) - 0.5 / x - series


# -- binary -----------------------------------------------------------------------------


def divide(x: Array, y: Array) -> Array:
    """Integers truncate, x / 0 = -1 and the smallest / -1 = the smallest."""
    if x.dtype.kind not in "iu":
        return half_safe(np.divide)(x, y)
    nonzero = np.where(y == 0, np.ones_like(y), y)
    quotient = np.floor_divide(x, nonzero)
    inexact = (x - quotient * nonzero != 0) & ((x < 0) != (y < 0))
    minus_one = np.array(-1).astype(x.dtype)
    return np.where(y == 0, minus_one, quotient + inexact.astype(x.dtype))


def remainder(x: Array, y: Array) -> Array:
    """x - y * trunc(x / y), with the sign of x; x for integers and y = 0."""
    if x.dtype.kind not in "iu":
        return half_safe(np.fmod)(x, y)
    return np.where(y == 0, x, x - divide(x, y) * y)


def maximum(x: Array, y: Array) -> Array:
    """The larger one; NaN if either is, and -0.0 < 0.0."""
    if x.dtype.kind in "iubc":
        return np.asarray(np.maximum(x, y))
    zeros = (x == 0) & (y == 0)
    return np.asarray(np.where(zeros, x + y, np.maximum(x, y)))


def minimum(x: Array, y: Array) -> Array:
    """The smaller one; NaN if either is, and -0.0 < 0.0."""
    if x.dtype.kind in "iubc":
        return np.asarray(np.minimum(x, y))
    zeros = (x == 0) & (y == 0)
    return np.asarray(np.where(zeros, -(-x + -y), np.minimum(x, y)))


def power(x: Array, y: Array) -> Array:
    """Integers wrap; a negative exponent gives 0 unless |x| = 1."""
    if x.dtype.kind not in "iu":
        return wide(np.power)(x, y)
    result, base, left = np.ones_like(x), x, y
    for _ in range(8 * x.dtype.itemsize):
        result = np.where(left & 1 == 1, result * base, result)
        base, left = base * base, left >> 1
    unit = np.where(x == 1, x, np.where(y & 1 == 1, x, x * x))
    below = np.where(np.abs(x) == 1, unit, np.zeros_like(x)) if x.dtype.kind == "i" else result
    return np.where(y < 0, below, result)


def add(x: Array, y: Array) -> Array:
    """The sum; i1: or."""
    return np.asarray(x | y) if x.dtype.kind == "b" else half_safe(np.add)(x, y)


def multiply(x: Array, y: Array) -> Array:
    """The product; i1: and."""
    return np.asarray(x & y) if x.dtype.kind == "b" else half_safe(np.multiply)(x, y)


def _shift_amount(x: Array, y: Array) -> tuple[Array, Array]:
    amount = y.view(_BITS[y.dtype.itemsize])
    width = 8 * x.dtype.itemsize
    inside = amount < width
    return inside, np.where(inside, amount, np.zeros_like(amount))


def shift_left(x: Array, y: Array) -> Array:
    """Bits shifted out are lost; by the width or more (the amount read as unsigned): 0."""
    inside, amount = _shift_amount(x, y)
    return np.where(inside, x << amount.astype(x.dtype), np.zeros_like(x))


def shift_right_logical(x: Array, y: Array) -> Array:
    """Fills with zero bits; by the width or more: 0."""
    inside, amount = _shift_amount(x, y)
    shifted = (x.view(amount.dtype) >> amount).view(x.dtype)
    return np.where(inside, shifted, np.zeros_like(x))


def shift_right_arithmetic(x: Array, y: Array) -> Array:
    """Fills with the sign bit; by the width or more: all sign bits."""
    inside, amount = _shift_amount(x, y)
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    last = np.full_like(amount, 8 * x.dtype.itemsize - 1)
    shifted: Array = signed >> np.where(inside, amount, last).astype(signed.dtype)
    return shifted.view(x.dtype)


def make_complex(x: Array, y: Array) -> Array:
    """x + iy, keeping the signs of zeros and NaN."""
    out = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real, out.imag = x, y
    return out


def next_after(x: Array, y: Array) -> Array:
    """The next float after x on the way to y."""
    return np.asarray(np.nextafter(x, y))


# -- compare and convert -----------------------------------------------------------------------------

_COMPARE: dict[str, Callable[..., Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _total_order(x: Array) -> Array:
    """Integers in the order -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(signed)
    return np.where(bits < 0, bits ^ np.iinfo(signed).max, bits)


def compare(x: Array, y: Array, direction: str, kind: str) -> Array:
    """An i1 array; TOTALORDER orders floats by their bits."""
    if kind == "TOTALORDER" and is_float(dtype_name(x.dtype)):
        x, y = _total_order(x), _total_order(y)
    return np.asarray(_COMPARE[direction](x, y))


def convert(x: Array, dtype: np.dtype) -> Array:
    """Floats to integers truncate and saturate, NaN gives 0; to i1: whether it is not 0; integers wrap."""
    source, target = dtype_name(x.dtype), dtype_name(dtype)
    if is_narrow(source) and source != target:
        x = x.astype(np.int32 if is_narrow_integer(source) else np.float32)
        source = dtype_name(x.dtype)
    if target == "i1":
        return np.asarray(x != 0)
    if is_complex(source) and not is_complex(target):
        x = x.real
        source = dtype_name(x.dtype)
    if is_float(source) and (is_integer(target) or is_narrow_integer(target)):
        return _saturate(x.astype(np.float64), dtype)
    if is_narrow(target) and source != target:
        return _narrowed(x, dtype)
    return x.astype(dtype)


def _narrowed(x: Array, dtype: np.dtype) -> Array:
    """Integers wrap; floats go through f32, and NaN becomes 0 where the dtype has none."""
    if is_narrow_integer(dtype_name(dtype)):
        low, high = integer_range(dtype_name(dtype))
        return np.asarray(((x.astype(np.int64) - low) % (high - low + 1) + low).astype(dtype))
    single = x.astype(np.float32)
    if not np.isnan(np.array(np.nan, np.float32).astype(dtype).astype(np.float32)):
        single = np.where(np.isnan(single), np.float32(0), single)
    return np.asarray(single.astype(dtype))


def _saturate(x: Array, dtype: np.dtype) -> Array:
    info = ml_dtypes.iinfo(dtype)
    high = float(info.max) + 1 if float(info.max) == info.max else float(info.max)
    inside = (x > float(info.min) - 1) & (x < high) if info.bits < 64 else (x >= float(info.min)) & (x < high)
    out = np.where(inside, x, 0.0).astype(dtype)
    out = np.where(x >= high, np.array(info.max, dtype), out)
    return np.where(~inside & (x < 0), np.array(info.min, dtype), out)


def bitcast(x: Array, dtype: np.dtype) -> Array:
    """The same bytes as another dtype: a narrower one adds a last axis (low bytes first)."""
    packed = np.ascontiguousarray(x).reshape(x.shape)
    ratio = packed.dtype.itemsize - dtype.itemsize
    if ratio == 0:
        return packed.view(dtype)
    if ratio > 0:
        return packed.reshape((*x.shape, 1)).view(dtype)
    return packed.view(dtype).reshape(x.shape[:-1])
