"""Elementwise ops: one row each in the tables below. Sources: StableHLO specification, CHLO dialect."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from egshape.ir.types import TensorType, dtype_name, numpy_dtype
from egshape.ops import numeric as N
from egshape.ops.base import REGISTRY
from egshape.ops.declare import op
from egshape.ops.traits import NO_TRAITS, Element, Limits, Traits

_DIVISION, _FUNCTION = Traits(effort="division"), Traits(effort="function")

Row = tuple[str, str, Callable[..., Any], str] | tuple[str, str, Callable[..., Any], str, Traits]

# name, frontend names, function, doc, traits
# x + -0.0 keeps -0.0, x + 0.0 does not; x - 0.0 and x * 1 keep every bit. maximum with -inf keeps NaN. The sign
# z / abs(z) of a complex number is rounded.
_UNARY: tuple[Row, ...] = (
    ("abs", "stablehlo", N.half_safe(np.abs), "Absolute value; the smallest integer stays.", Traits(idempotent="all")),
    ("negate", "stablehlo", N.half_safe(np.negative), "Minus x; integers wrap.", Traits(involution=True, wraps=True)),
    ("sign", "stablehlo", N.half_safe(N.sign), "-1, 0 or 1; zeros and NaN as they are.", Traits(idempotent="real")),
    ("floor", "stablehlo", N.wide(np.floor), "Rounded down.", Traits(idempotent="all")),
    ("ceil", "stablehlo", N.wide(np.ceil), "Rounded up.", Traits(idempotent="all")),
    ("round_nearest_even", "stablehlo", N.wide(np.rint), "Rounded, ties to even.", Traits(idempotent="all")),
    ("round_nearest_afz", "stablehlo", N.wide(N.round_away), "Rounded, ties away from zero.", Traits(idempotent="all")),
    ("exponential", "stablehlo", N.wide(np.exp), "e to the power x.", _FUNCTION),
    ("exponential_minus_one", "stablehlo", N.wide(np.expm1), "e to the power x, minus 1.", _FUNCTION),
    ("log", "stablehlo", N.wide(np.log), "Natural logarithm.", _FUNCTION),
    ("log_plus_one", "stablehlo", N.wide(np.log1p), "Natural logarithm of 1 + x.", _FUNCTION),
    ("logistic", "stablehlo", N.wide(N.logistic), "1 / (1 + exp(-x)).", _FUNCTION),
    ("tanh", "stablehlo", N.wide(np.tanh), "Hyperbolic tangent.", _FUNCTION),
    ("tan", "stablehlo chlo", N.wide(np.tan), "Tangent.", _FUNCTION),
    ("sine", "stablehlo", N.wide(np.sin), "Sine.", _FUNCTION),
    ("cosine", "stablehlo", N.wide(np.cos), "Cosine.", _FUNCTION),
    ("sqrt", "stablehlo", N.wide(np.sqrt), "Square root.", _DIVISION),
    ("rsqrt", "stablehlo", N.wide(lambda x: 1 / np.sqrt(x)), "1 / square root.", _DIVISION),
    ("cbrt", "stablehlo", N.wide(np.cbrt), "Cube root.", _FUNCTION),
    ("is_finite", "stablehlo", N.half_safe(N.is_finite), "Neither infinite nor NaN."),
    ("not", "stablehlo", np.invert, "Bitwise not; of i1: logical not.", Traits(involution=True)),
    ("popcnt", "stablehlo", N.popcnt, "Number of one bits."),
    ("count_leading_zeros", "stablehlo", N.count_leading_zeros, "Number of leading zero bits."),
    ("real", "stablehlo", N.real, "Real part."),
    ("imag", "stablehlo", N.imag, "Imaginary part."),
    ("erf", "chlo", N.scalarwise(math.erf), "Error function.", _FUNCTION),
    ("erfc", "chlo", N.scalarwise(math.erfc), "1 - erf(x).", _FUNCTION),
    ("erf_inv", "chlo", N.scalarwise(N.erf_inv), "Inverse error function.", _FUNCTION),
    ("asin", "chlo", N.wide(np.arcsin), "Inverse sine.", _FUNCTION),
    ("acos", "chlo", N.wide(np.arccos), "Inverse cosine.", _FUNCTION),
    ("atan", "chlo", N.wide(np.arctan), "Inverse tangent.", _FUNCTION),
    ("sinh", "chlo", N.wide(np.sinh), "Hyperbolic sine.", _FUNCTION),
    ("cosh", "chlo", N.wide(np.cosh), "Hyperbolic cosine.", _FUNCTION),
    ("asinh", "chlo", N.wide(np.arcsinh), "Inverse hyperbolic sine.", _FUNCTION),
    ("acosh", "chlo", N.wide(np.arccosh), "Inverse hyperbolic cosine.", _FUNCTION),
    ("atanh", "chlo", N.wide(np.arctanh), "Inverse hyperbolic tangent.", _FUNCTION),
    ("lgamma", "chlo", N.scalarwise(N.lgamma), "Logarithm of |gamma(x)|.", _FUNCTION),
    ("digamma", "chlo", N.scalarwise(N.digamma), "Derivative of log gamma.", _FUNCTION),
    ("square", "chlo", N.half_safe(np.square), "x * x; integers wrap."),
    ("conj", "chlo", np.conjugate, "Complex conjugate."),
    ("is_inf", "chlo", N.half_safe(N.is_inf), "Infinite."),
    ("is_pos_inf", "chlo", N.half_safe(N.is_pos_inf), "Positive infinity."),
    ("is_neg_inf", "chlo", N.half_safe(N.is_neg_inf), "Negative infinity."),
)

_BINARY: tuple[Row, ...] = (
    (
        "add",
        "stablehlo",
        N.add,
        "Sum; integers wrap, i1: or.",
        Traits(reduces=True, wraps=True, neutral=Element(-0.0, 0), absorbing=Element(truth=True)),
    ),
    (
        "subtract",
        "stablehlo",
        N.half_safe(np.subtract),
        "Difference; integers wrap.",
        Traits(wraps=True, neutral=Element(0.0, 0, left=False)),
    ),
    (
        "multiply",
        "stablehlo",
        N.multiply,
        "Product; integers wrap, i1: and.",
        Traits(
            reduces=True,
            wraps=True,
            neutral=Element(1.0, 1),
            absorbing=Element(None, 0, False),
            negating=Element(-1.0, "ones"),
        ),
    ),
    (
        "divide",
        "stablehlo",
        N.divide,
        "Quotient; integers truncate, x / 0 = -1.",
        Traits(effort="division", neutral=Element(1.0, 1, left=False)),
    ),
    ("remainder", "stablehlo", N.remainder, "x - y * trunc(x / y); integers: x for y = 0.", _FUNCTION),
    (
        "maximum",
        "stablehlo",
        N.half_safe(N.maximum),
        "The larger; NaN wins; -0.0 < 0.0.",
        Traits(
            selects=True,
            reduces=True,
            neutral=Element(-math.inf, "lowest"),
            absorbing=Element(None, "highest", True),
            limits=Limits(below=(0, 1)),
        ),
    ),
    (
        "minimum",
        "stablehlo",
        N.half_safe(N.minimum),
        "The smaller; NaN wins; -0.0 < 0.0.",
        Traits(
            selects=True,
            reduces=True,
            neutral=Element(math.inf, "highest"),
            absorbing=Element(None, "lowest", False),
            limits=Limits(above=(0, 1)),
        ),
    ),
    ("power", "stablehlo", N.power, "x to the power y; integers wrap.", _FUNCTION),
    ("atan2", "stablehlo", N.wide(np.arctan2), "Angle of the point (y, x).", _FUNCTION),
    (
        "and",
        "stablehlo",
        np.bitwise_and,
        "Bitwise and; of i1: logical and.",
        Traits(selects=True, reduces=True, neutral=Element(None, "ones", True), absorbing=Element(None, 0, False)),
    ),
    (
        "or",
        "stablehlo",
        np.bitwise_or,
        "Bitwise or; of i1: logical or.",
        Traits(selects=True, reduces=True, neutral=Element(None, 0, False), absorbing=Element(None, "ones", True)),
    ),
    (
        "xor",
        "stablehlo",
        np.bitwise_xor,
        "Bitwise exclusive or.",
        Traits(reduces=True, neutral=Element(None, 0, False)),
    ),
    (
        "shift_left",
        "stablehlo",
        N.shift_left,
        "Bits shifted left; 0 from the width on.",
        Traits(neutral=Element(None, 0, left=False)),
    ),
    (
        "shift_right_arithmetic",
        "stablehlo",
        N.shift_right_arithmetic,
        "Right, sign bits in.",
        Traits(neutral=Element(None, 0, left=False)),
    ),
    (
        "shift_right_logical",
        "stablehlo",
        N.shift_right_logical,
        "Shifted right, zero bits in.",
        Traits(neutral=Element(None, 0, left=False)),
    ),
    ("complex", "stablehlo", N.make_complex, "The complex number x + iy."),
    ("next_after", "chlo", N.next_after, "The next float after x towards y."),
)


def _finish(found: Any, dtype: str) -> np.ndarray:
    return np.asarray(found).astype(numpy_dtype(dtype), copy=False)


@lru_cache(maxsize=1024)
def _result_dtype(name: str, dtype: str, operands: int) -> str:
    return str(REGISTRY[name].shape(*[TensorType(dtype, ())] * operands)[0])


def _declare(row: Row, family: str, operands: tuple[str, ...]) -> None:
    name, frontends, function, doc, *traits = row

    class Body:
        def reference(*arrays: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return _finish(function(*arrays), _result_dtype(name, dtype_name(arrays[0].dtype), len(arrays)))

    names = dict.fromkeys(frontends.split(), name)
    op(name, family=family, operands=operands, names=names, traits=traits[0] if traits else NO_TRAITS, doc=doc)(Body)


for _row in _UNARY:
    _declare(_row, "unary", ("x",))
for _row in _BINARY:
    _declare(_row, "binary", ("x", "y"))


@op(
    "convert",
    family="unary",
    operands=("x",),
    attrs={"dtype": "dtype"},
    traits=Traits(converts=True),
    names={"stablehlo": "convert"},
    doc="To another dtype: floats to integers truncate and saturate, integers wrap, to i1: x != 0; "
    "to narrow floats through f32.",
)
class Convert:
    """StableHLO spec: convert."""

    @staticmethod
    def reference(x: np.ndarray, *, dtype: str) -> np.ndarray:
        with np.errstate(all="ignore"):
            return N.convert(x, numpy_dtype(dtype))


@op(
    "bitcast_convert",
    family="unary",
    operands=("x",),
    attrs={"dtype": "dtype"},
    names={"stablehlo": "bitcast_convert"},
    doc="The same bits as another dtype; a narrower one adds a last axis, a wider one takes it.",
)
class BitcastConvert:
    """StableHLO spec: bitcast_convert."""

    @staticmethod
    def reference(x: np.ndarray, *, dtype: str) -> np.ndarray:
        return N.bitcast(x, numpy_dtype(dtype))


@op(
    "compare",
    family="binary",
    operands=("x", "y"),
    attrs={"direction": "text", "kind": "text"},
    names={"stablehlo": "compare"},
    doc="x direction y as i1; complex numbers know only EQ and NE.",
)
class Compare:
    """StableHLO spec: compare."""

    @staticmethod
    def reference(x: np.ndarray, y: np.ndarray, *, direction: str, kind: str) -> np.ndarray:
        return N.compare(x, y, direction, kind)


@op(
    "select",
    family="ternary",
    operands=("pred", "on_true", "on_false"),
    traits=Traits(scalars=(0,), arms=(1, 2)),
    names={"stablehlo": "select"},
    doc="on_true where pred holds, else on_false; pred is a scalar or has their shape.",
)
class Select:
    """StableHLO spec: select."""

    @staticmethod
    def reference(pred: np.ndarray, on_true: np.ndarray, on_false: np.ndarray) -> np.ndarray:
        return _finish(np.where(pred, on_true, on_false), dtype_name(on_true.dtype))


@op(
    "clamp",
    family="ternary",
    operands=("low", "x", "high"),
    traits=Traits(limits=Limits(above=(2,), below=(0,)), scalars=(0, 2)),
    names={"stablehlo": "clamp"},
    doc="minimum(maximum(x, low), high); low and high are scalars or have the shape of x.",
)
class Clamp:
    """StableHLO spec: clamp."""

    @staticmethod
    def reference(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            least = N.half_safe(N.maximum)(x, np.broadcast_to(low, x.shape))
            found = N.half_safe(N.minimum)(least.astype(x.dtype), np.broadcast_to(high, x.shape))
        return _finish(found, dtype_name(x.dtype))
