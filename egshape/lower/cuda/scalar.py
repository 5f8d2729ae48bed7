"""Elementwise ops on scalars as C++ expressions. f16 and bf16 are computed in f32, by functions that are good enough
for what is left of it, and rounded after each op."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from egshape.errors import Unsupported
from egshape.ir.types import integer_range, is_float, is_integer, is_narrow, itemsize, numpy_dtype

_MATH = {
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log": "log",
    "log_plus_one": "log1p",
    "tanh": "tanh",
    "tan": "tan",
    "sine": "sin",
    "cosine": "cos",
    "cbrt": "cbrt",
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erfinv",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "lgamma": "lgamma",
    "power": "pow",
    "atan2": "atan2",
    "remainder": "fmod",
    "next_after": "nextafter",
    "floor": "floor",
    "ceil": "ceil",
    "round_nearest_even": "rint",
    "round_nearest_afz": "round",
    "sqrt": "sqrt",
    "abs": "fabs",
}
"""Functions of the device math library, overloaded for float and double."""

_OWN = frozenset(("maximum", "minimum", "sign", "is_finite", "is_inf", "is_pos_inf", "is_neg_inf", "logistic", "rsqrt"))
_OF_HALVES = {
    "divide": "eg_divide_{}",
    "exponential": "eg_exp_{}",
    "logistic": "eg_logistic_{}",
    "tanh": "eg_tanh_approx",
    "rsqrt": "eg_rsqrt_approx",
}
"""What f16 and bf16 have functions of their own for."""
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_BOOL = {"add": "||", "multiply": "&&", "and": "&&", "or": "||", "xor": "!=", "maximum": "||", "minimum": "&&"}
_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_WRAPPING = frozenset(("add", "subtract", "multiply", "negate", "abs", "sign", "divide", "remainder", "power"))
_SHIFTS = frozenset(("shift_left", "shift_right_logical", "shift_right_arithmetic", "popcnt", "count_leading_zeros"))
_COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_HALF = ("f16", "bf16")


def register(dtype: str) -> str:
    """The C++ type of a value of a dtype. Raises Unsupported for those that are only moved and converted."""
    if is_narrow(dtype):
        raise Unsupported(f"elements of {dtype} are not compiled for the device")
    return "bool" if dtype == "i1" else "f32" if dtype in _HALF else dtype


def memory(dtype: str) -> str:
    """The C++ type of an element in memory. Raises Unsupported as ``register``."""
    if is_narrow(dtype):
        raise Unsupported(f"elements of {dtype} are not compiled for the device")
    return "ui8" if dtype == "i1" else "ui16" if dtype in _HALF else dtype


def is_half(dtype: str) -> bool:
    """Whether elements have 16 bits and are computed in f32."""
    return dtype in _HALF


def load(dtype: str, element: str) -> str:
    """An element as a value."""
    return f"({element} != 0)" if dtype == "i1" else f"eg_load_{dtype}({element})" if dtype in _HALF else element


def store(dtype: str, value: str) -> str:
    """A value as an element."""
    return f"(ui8){value}" if dtype == "i1" else f"eg_store_{dtype}({value})" if dtype in _HALF else value


def bits(dtype: str, value: Any) -> str:
    """A number as an element of f16 or bf16."""
    return f"(ui16){int(numpy_dtype(dtype).type(value).view(np.uint16))}u"


def constant(dtype: str, value: Any) -> str:
    """A number with all its bits."""
    if dtype == "i1":
        return "true" if value else "false"
    if not is_float(dtype):
        low, high = integer_range(dtype)
        number = int(value) & (2 * high + 1 if low < 0 else high)
        return f"({dtype}){number}ull"
    if dtype == "f64":
        return f"__longlong_as_double({struct.unpack('>q', struct.pack('>d', float(value)))[0]}ll)"
    try:
        bits = struct.unpack(">I", struct.pack(">f", float(value)))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    return f"__uint_as_float({bits}u)"


def call(op: str, dtype: str, source: str, args: tuple[str, ...], attrs: dict[str, Any]) -> str:
    """An op on values of dtype ``source`` (of the second operand for select). Raises Unsupported."""
    if op == "select":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op == "clamp":
        return f"eg_minimum(eg_maximum({args[1]}, {args[0]}), {args[2]})"
    if op == "convert":
        return convert(source, dtype, args[0])
    if op == "bitcast_convert":
        return _bitcast(source, dtype, args[0])
    if op == "compare":
        return _compare(source, args, attrs)
    if op == "next_after" and source in _HALF:
        return _listed(f"eg_next_{source}", args)
    if source == "i1":
        found = f"(!{args[0]})" if op == "not" else _infix(_BOOL.get(op), args)
    elif is_float(source):
        quick = _OF_HALVES[op].format(source) if source in _HALF and op in _OF_HALVES else ""
        found = _listed(quick, args) if quick else _float(op, args)
        if found and source in _HALF and is_float(dtype):
            found = f"eg_round_{source}({found})"
    else:
        found = _integer(op, register(source), args)
    if not found:
        raise Unsupported(
            f"{op} of {source} is not compiled for CUDA", where=op, hint="the target 'interpret' runs every op"
        )
    return found


def _infix(sign: str | None, args: tuple[str, ...]) -> str:
    return f"({args[0]} {sign} {args[1]})" if sign else ""


def _listed(name: str, args: tuple[str, ...]) -> str:
    return f"{name}({', '.join(args)})"


def _float(op: str, args: tuple[str, ...]) -> str:
    if op in _SIGNS:
        return _infix(_SIGNS[op], args)
    if op == "negate":
        return f"(-{args[0]})"
    if op == "square":
        return f"({args[0]} * {args[0]})"
    if op in _OWN:
        return _listed(f"eg_{op}", args)
    return _listed(_MATH[op], args) if op in _MATH else ""


def _integer(op: str, type: str, args: tuple[str, ...]) -> str:
    if op in _BITWISE:
        return f"({type})" + _infix(_BITWISE[op], args)
    if op == "not":
        return f"({type})(~{args[0]})"
    if op == "square":
        return f"eg_int_multiply<{type}>({args[0]}, {args[0]})"
    if op in _WRAPPING:
        return _listed(f"eg_int_{op}<{type}>", args)
    if op in _SHIFTS or op in ("maximum", "minimum"):
        return _listed(f"eg_{op}<{type}>", args)
    return ""


def _compare(dtype: str, args: tuple[str, ...], attrs: dict[str, Any]) -> str:
    if is_float(dtype) and attrs["kind"] == "TOTALORDER":
        args = tuple(f"eg_total({arg})" for arg in args)
    return _infix(_COMPARE[attrs["direction"]], args)


def convert(source: str, target: str, x: str) -> str:
    """Floats to integers truncate and saturate, NaN gives 0; integers wrap; to i1: x != 0."""
    if source == target:
        return x
    if target == "i1":
        return f"({x} != 0)"
    if is_float(source) and is_integer(target):
        low, high = integer_range(target)
        bounds = f"{float(low)!r}, {float(high + 1)!r}"
        return f"eg_saturate<{target}>((f64){x}, {bounds}, {constant(target, low)}, {constant(target, high)})"
    found = f"(({register(target)}){x})"
    return f"eg_round_{target}({found})" if target in _HALF else found


def _bitcast(source: str, target: str, x: str) -> str:
    if itemsize(source) != itemsize(target):
        raise Unsupported(
            f"bitcast_convert from {source} to {target} is not compiled for CUDA",
            where="bitcast_convert",
            hint="the target 'interpret' runs every op",
        )
    if source == target:
        return x
    return load(target, same_bits(source, target, store(source, x)))


def same_bits(source: str, target: str, element: str) -> str:
    """An element of one dtype as one of another with the same bits."""
    return f"eg_bits<{memory(source)}, {memory(target)}>({element})"
