"""Elementwise ops: one row each in the tables below. Sources: StableHLO specification, CHLO dialect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.errors import EgshapeError
from egshape.ir.types import (
    DTYPES,
    TEXT,
    TensorType,
    dtype_name,
    is_complex,
    is_float,
    is_integer,
    is_narrow,
    itemsize,
    numpy_dtype,
)
from egshape.ops import numeric as N
from egshape.ops import shapecode
from egshape.ops.base import Loose, fault, op

Sizes = tuple["Dim | None", ...]


def _kind(dtype: str) -> str:
    if dtype == "i1":
        return "b"
    if is_narrow(dtype) or dtype == TEXT:
        return "n" if dtype != TEXT else "t"
    if is_integer(dtype):
        return "u" if dtype.startswith("u") else "s"
    return "f" if is_float(dtype) else "c"


def common_sizes(types: Sequence[TensorType]) -> Sizes | None:
    """The shape of an elementwise result: per axis the first operand's size, or a constant if any has one.
    Raises EgshapeError for unequal ranks and unequal constants. None if no operand is ranked."""
    ranked = [each.shape for each in types if each.shape is not None]
    if not ranked:
        return None
    if any(len(shape) != len(ranked[0]) for shape in ranked):
        raise fault(f"operands have different ranks: {', '.join(map(str, types))}")
    out: list[Dim | None] = []
    for axis, sizes in enumerate(zip(*ranked, strict=True)):
        constants = {size.const: size for size in sizes if size.const is not None}
        if len(constants) > 1:
            raise fault(f"operands differ on axis {axis}: {', '.join(map(str, types))}")
        out.append(next(iter(constants.values()), sizes[0]))
    return tuple(out)


def _same_dtype(types: Sequence[TensorType], allowed: str) -> str:
    dtype = types[0].dtype
    if any(each.dtype != dtype for each in types):
        raise fault(f"operands have different dtypes: {', '.join(map(str, types))}")
    if _kind(dtype) not in allowed:
        raise fault(f"is not defined for {dtype}")
    return dtype


def same_arrays(*arrays: Any) -> None:
    """Raise EgshapeError for arrays of different shapes: numpy would broadcast, StableHLO does not."""
    first = arrays[0]
    for other in arrays[1:]:
        if other.shape != first.shape:
            message = f"operands have the shapes {first.shape} and {other.shape}"
            raise EgshapeError(message, code="shape-mismatch")


def _real_of(dtype: str) -> str:
    return {"c64": "f32", "c128": "f64"}.get(dtype, dtype)


def _complex_of(dtype: str) -> str:
    return {"f32": "c64", "f64": "c128"}[dtype]


def _same(dtype: str) -> str:
    return dtype


def _i1(dtype: str) -> str:
    return "i1"


Row = tuple[str, str, Callable[..., Any], str, Callable[[str], str], str]

# name, frontend names, function, allowed kinds (signed, unsigned, bool, float, complex), result dtype, doc
_UNARY: tuple[Row, ...] = (
    ("abs", "stablehlo", N.half_safe(np.abs), "sfc", _real_of, "Absolute value; the smallest integer stays."),
    ("negate", "stablehlo", N.half_safe(np.negative), "sufc", _same, "Minus x; integers wrap."),
    ("sign", "stablehlo", N.half_safe(N.sign), "sfc", _same, "-1, 0 or 1; zeros and NaN as they are."),
    ("floor", "stablehlo", N.wide(np.floor), "f", _same, "Rounded down."),
    ("ceil", "stablehlo", N.wide(np.ceil), "f", _same, "Rounded up."),
    ("round_nearest_even", "stablehlo", N.wide(np.rint), "f", _same, "Rounded, ties to even."),
    ("round_nearest_afz", "stablehlo", N.wide(N.round_away), "f", _same, "Rounded, ties away from zero."),
    ("exponential", "stablehlo", N.wide(np.exp), "fc", _same, "e to the power x."),
    ("exponential_minus_one", "stablehlo", N.wide(np.expm1), "fc", _same, "e to the power x, minus 1."),
    ("log", "stablehlo", N.wide(np.log), "fc", _same, "Natural logarithm."),
    ("log_plus_one", "stablehlo", N.wide(np.log1p), "fc", _same, "Natural logarithm of 1 + x."),
    ("logistic", "stablehlo", N.wide(N.logistic), "fc", _same, "1 / (1 + exp(-x))."),
    ("tanh", "stablehlo", N.wide(np.tanh), "fc", _same, "Hyperbolic tangent."),
    ("tan", "stablehlo chlo", N.wide(np.tan), "fc", _same, "Tangent."),
    ("sine", "stablehlo", N.wide(np.sin), "fc", _same, "Sine."),
    ("cosine", "stablehlo", N.wide(np.cos), "fc", _same, "Cosine."),
    ("sqrt", "stablehlo", N.wide(np.sqrt), "fc", _same, "Square root."),
    ("rsqrt", "stablehlo", N.wide(lambda x: 1 / np.sqrt(x)), "fc", _same, "1 / square root."),
    ("cbrt", "stablehlo", N.wide(np.cbrt), "f", _same, "Cube root."),
    ("is_finite", "stablehlo", N.half_safe(N.is_finite), "f", _i1, "Neither infinite nor NaN."),
    ("not", "stablehlo", np.invert, "sub", _same, "Bitwise not; of i1: logical not."),
    ("popcnt", "stablehlo", N.popcnt, "su", _same, "Number of one bits."),
    ("count_leading_zeros", "stablehlo", N.count_leading_zeros, "su", _same, "Number of leading zero bits."),
    ("real", "stablehlo", N.real, "fc", _real_of, "Real part."),
    ("imag", "stablehlo", N.imag, "fc", _real_of, "Imaginary part."),
    ("erf", "chlo", N.scalarwise(math.erf), "f", _same, "Error function."),
    ("erfc", "chlo", N.scalarwise(math.erfc), "f", _same, "1 - erf(x)."),
    ("erf_inv", "chlo", N.scalarwise(N.erf_inv), "f", _same, "Inverse error function."),
    ("asin", "chlo", N.wide(np.arcsin), "fc", _same, "Inverse sine."),
    ("acos", "chlo", N.wide(np.arccos), "fc", _same, "Inverse cosine."),
    ("atan", "chlo", N.wide(np.arctan), "fc", _same, "Inverse tangent."),
    ("sinh", "chlo", N.wide(np.sinh), "fc", _same, "Hyperbolic sine."),
    ("cosh", "chlo", N.wide(np.cosh), "fc", _same, "Hyperbolic cosine."),
    ("asinh", "chlo", N.wide(np.arcsinh), "fc", _same, "Inverse hyperbolic sine."),
    ("acosh", "chlo", N.wide(np.arccosh), "fc", _same, "Inverse hyperbolic cosine."),
    ("atanh", "chlo", N.wide(np.arctanh), "fc", _same, "Inverse hyperbolic tangent."),
    ("lgamma", "chlo", N.scalarwise(N.lgamma), "f", _same, "Logarithm of |gamma(x)|."),
    ("digamma", "chlo", N.scalarwise(N.digamma), "f", _same, "Derivative of log gamma."),
    ("square", "chlo", N.half_safe(np.square), "sufc", _same, "x * x; integers wrap."),
    ("conj", "chlo", np.conjugate, "fc", _same, "Complex conjugate."),
    ("is_inf", "chlo", N.half_safe(N.is_inf), "f", _i1, "Infinite."),
    ("is_pos_inf", "chlo", N.half_safe(N.is_pos_inf), "f", _i1, "Positive infinity."),
    ("is_neg_inf", "chlo", N.half_safe(N.is_neg_inf), "f", _i1, "Negative infinity."),
)

_BINARY: tuple[Row, ...] = (
    ("add", "stablehlo", N.add, "subfc", _same, "Sum; integers wrap, i1: or."),
    ("subtract", "stablehlo", N.half_safe(np.subtract), "sufc", _same, "Difference; integers wrap."),
    ("multiply", "stablehlo", N.multiply, "subfc", _same, "Product; integers wrap, i1: and."),
    ("divide", "stablehlo", N.divide, "sufc", _same, "Quotient; integers truncate, x / 0 = -1."),
    ("remainder", "stablehlo", N.remainder, "suf", _same, "x - y * trunc(x / y); integers: x for y = 0."),
    ("maximum", "stablehlo", N.half_safe(N.maximum), "subfc", _same, "The larger; NaN wins; -0.0 < 0.0."),
    ("minimum", "stablehlo", N.half_safe(N.minimum), "subfc", _same, "The smaller; NaN wins; -0.0 < 0.0."),
    ("power", "stablehlo", N.power, "sufc", _same, "x to the power y; integers wrap."),
    ("atan2", "stablehlo", N.wide(np.arctan2), "f", _same, "Angle of the point (y, x)."),
    ("and", "stablehlo", np.bitwise_and, "sub", _same, "Bitwise and; of i1: logical and."),
    ("or", "stablehlo", np.bitwise_or, "sub", _same, "Bitwise or; of i1: logical or."),
    ("xor", "stablehlo", np.bitwise_xor, "sub", _same, "Bitwise exclusive or."),
    ("shift_left", "stablehlo", N.shift_left, "su", _same, "Bits shifted left; 0 from the width on."),
    ("shift_right_arithmetic", "stablehlo", N.shift_right_arithmetic, "su", _same, "Right, sign bits in."),
    ("shift_right_logical", "stablehlo", N.shift_right_logical, "su", _same, "Shifted right, zero bits in."),
    ("complex", "stablehlo", N.make_complex, "f", _complex_of, "The complex number x + iy."),
    ("next_after", "chlo", N.next_after, "f", _same, "The next float after x towards y."),
)


def _finish(found: Any, dtype: str) -> np.ndarray:
    return np.asarray(found).astype(numpy_dtype(dtype), copy=False)


def _declare(row: Row, family: str, operands: tuple[str, ...]) -> None:
    name, frontends, function, kinds, result, doc = row

    class Body:
        def shape(*types: TensorType) -> Loose:
            dtype = _same_dtype(types, kinds)
            if name == "complex" and dtype not in ("f32", "f64"):
                raise fault(f"is not defined for {dtype}")
            return result(dtype), common_sizes(types)

        def reference(*arrays: np.ndarray) -> np.ndarray:
            same_arrays(*arrays)
            with np.errstate(all="ignore"):
                return _finish(function(*arrays), result(dtype_name(arrays[0].dtype)))

    if name in shapecode.ELEMENTS:
        Body.elements = staticmethod(shapecode.ELEMENTS[name])  # type: ignore[attr-defined]
    op(name, family=family, operands=operands, names=dict.fromkeys(frontends.split(), name), doc=doc)(Body)


for _row in _UNARY:
    _declare(_row, "unary", ("x",))
for _row in _BINARY:
    _declare(_row, "binary", ("x", "y"))


@op("convert", family="unary", operands=("x",), attrs={"dtype": "dtype"}, names={"stablehlo": "convert"},
    doc="To another dtype: floats to integers truncate and saturate, integers wrap, to i1: x != 0; "
        "to narrow floats through f32.")
class Convert:
    """StableHLO spec: convert."""

    @staticmethod
    def shape(x: TensorType, *, dtype: str) -> Loose:
        _known_dtype(dtype)
        return dtype, x.shape

    @staticmethod
    def reference(x: np.ndarray, *, dtype: str) -> np.ndarray:
        with np.errstate(all="ignore"):
            return N.convert(x, numpy_dtype(dtype))

    elements = staticmethod(shapecode.convert)


@op("bitcast_convert", family="unary", operands=("x",), attrs={"dtype": "dtype"},
    names={"stablehlo": "bitcast_convert"},
    doc="The same bits as another dtype; a narrower one adds a last axis, a wider one takes it.")
class BitcastConvert:
    """StableHLO spec: bitcast_convert."""

    @staticmethod
    def shape(x: TensorType, *, dtype: str) -> Loose:
        from egshape.dims import const

        _known_dtype(dtype)
        _bit_ratio(x.dtype, dtype)
        wide, narrow = itemsize(x.dtype), itemsize(dtype)
        if x.shape is None or wide == narrow:
            return dtype, x.shape
        if wide > narrow:
            return dtype, (*x.shape, const(wide // narrow))
        if not x.shape or x.shape[-1].const not in (None, narrow // wide):
            raise fault(f"needs a last axis of size {narrow // wide}, got {x}")
        return dtype, x.shape[:-1]

    @staticmethod
    def reference(x: np.ndarray, *, dtype: str) -> np.ndarray:
        target = numpy_dtype(dtype)
        ratio = _bit_ratio(dtype_name(x.dtype), dtype)
        if target.itemsize > x.dtype.itemsize and (x.ndim == 0 or x.shape[-1] != ratio):
            raise EgshapeError(f"needs a last axis of size {ratio}, got {x.shape}", code="shape-mismatch")
        return N.bitcast(x, target)


def _known_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise fault(f"{dtype!r} is no dtype")


def _bit_ratio(source: str, target: str) -> int:
    if source != target and (is_narrow(source) or is_narrow(target)):
        raise fault(f"takes no bits of {source} as {target}")
    if (source != target and "i1" in (source, target)) or is_complex(source) != is_complex(target):
        raise fault(f"cannot take the bits of {source} as {target}")
    sizes = itemsize(source), itemsize(target)
    return max(sizes) // min(sizes)


DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
KINDS = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


@op("compare", family="binary", operands=("x", "y"), attrs={"direction": "text", "kind": "text"},
    names={"stablehlo": "compare"}, doc="x direction y as i1; complex numbers know only EQ and NE.")
class Compare:
    """StableHLO spec: compare."""

    @staticmethod
    def shape(x: TensorType, y: TensorType, *, direction: str, kind: str) -> Loose:
        dtype = _same_dtype((x, y), "subfc")
        if direction not in DIRECTIONS or kind not in KINDS:
            raise fault(f"{direction} {kind} is no comparison")
        if is_complex(dtype) and direction not in ("EQ", "NE"):
            raise fault(f"{dtype} has no order for {direction}")
        return "i1", common_sizes((x, y))

    @staticmethod
    def reference(x: np.ndarray, y: np.ndarray, *, direction: str, kind: str) -> np.ndarray:
        same_arrays(x, y)
        return N.compare(x, y, direction, kind)

    elements = staticmethod(shapecode.compare)


@op("select", family="ternary", operands=("pred", "on_true", "on_false"), names={"stablehlo": "select"},
    doc="on_true where pred holds, else on_false; pred is a scalar or has their shape.")
class Select:
    """StableHLO spec: select."""

    @staticmethod
    def shape(pred: TensorType, on_true: TensorType, on_false: TensorType) -> Loose:
        if pred.dtype != "i1":
            raise fault(f"needs an i1 predicate, got {pred}")
        dtype = _same_dtype((on_true, on_false), "subfcn")
        return dtype, common_sizes(_full((on_true, on_false), pred))

    @staticmethod
    def reference(pred: np.ndarray, on_true: np.ndarray, on_false: np.ndarray) -> np.ndarray:
        same_arrays(on_true, on_false, *([pred] if pred.shape else []))
        return _finish(np.where(pred, on_true, on_false), dtype_name(on_true.dtype))

    elements = staticmethod(shapecode.select)


@op("clamp", family="ternary", operands=("low", "x", "high"), names={"stablehlo": "clamp"},
    doc="minimum(maximum(x, low), high); low and high are scalars or have the shape of x.")
class Clamp:
    """StableHLO spec: clamp."""

    @staticmethod
    def shape(low: TensorType, x: TensorType, high: TensorType) -> Loose:
        dtype = _same_dtype((x, low, high), "subfc")
        return dtype, common_sizes(_full(_full((x,), low), high))

    @staticmethod
    def reference(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
        same_arrays(x, *(bound for bound in (low, high) if bound.shape))
        with np.errstate(all="ignore"):
            least = N.half_safe(N.maximum)(x, np.broadcast_to(low, x.shape))
            found = N.half_safe(N.minimum)(least.astype(x.dtype), np.broadcast_to(high, x.shape))
        return _finish(found, dtype_name(x.dtype))

    elements = staticmethod(shapecode.clamp)


def _full(types: tuple[TensorType, ...], other: TensorType) -> tuple[TensorType, ...]:
    """``types`` with ``other`` unless that is a scalar."""
    return types if other.shape == () else (*types, other)
