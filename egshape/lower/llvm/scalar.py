"""Elementwise ops on scalars as LLVM IR. f16 and bf16 are computed in f32 and rounded after each op."""

from __future__ import annotations

import math
import struct
from typing import Any

from egshape.errors import Unsupported
from egshape.ir.types import integer_range, is_float, is_integer, is_narrow
from egshape.lower.llvm.functions import INLINE
from egshape.lower.llvm.narrow import bits_of, convert_narrow
from egshape.lower.llvm.writer import Writer

LIBM = {
    "tan": "tan",
    "sine": "sin",
    "cosine": "cos",
    "cbrt": "cbrt",
    "erfc": "erfc",
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
}
"""Functions of the C library, called in f64: exact enough for every narrower dtype. fmod is exact in any dtype."""

_INTRINSICS = {
    "floor": "floor",
    "ceil": "ceil",
    "round_nearest_even": "rint",
    "round_nearest_afz": "round",
    "sqrt": "sqrt",
    "abs": "fabs",
    "maximum": "maximum",
    "minimum": "minimum",
}
_ORDERED = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
FAST = "reassoc nsz contract "


def register(dtype: str) -> str:
    """The LLVM type of a value of a dtype."""
    if dtype == "i1":
        return "i1"
    if is_narrow(dtype):
        return "i8"
    if dtype in ("f32", "f16", "bf16"):
        return "float"
    return "double" if dtype == "f64" else dtype.lstrip("u")


def memory(dtype: str) -> str:
    """The LLVM type of an element in memory."""
    return {"i1": "i8", "f16": "half", "bf16": "i16"}.get(dtype, register(dtype))


def constant(dtype: str, value: Any) -> str:
    """A number as LLVM writes it."""
    if dtype == "i1":
        return "true" if value else "false"
    if is_narrow(dtype):
        return bits_of(dtype, value)
    if not is_float(dtype):
        low, high = integer_range(dtype)
        return str(int(value) if int(value) <= (high >> 1) or low < 0 else int(value) - (high + 1))
    number = float(value)
    if dtype != "f64":
        try:
            number = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            number = float("inf") if number > 0 else float("-inf")
    return "0x" + struct.pack(">d", number).hex().upper()


def load(w: Writer, dtype: str, address: str) -> str:
    """Read an element."""
    raw = w.value(f"load {memory(dtype)}, ptr {address}")
    return unpack(w, dtype, raw)


def unpack(w: Writer, dtype: str, raw: str) -> str:
    """An element as a value."""
    if dtype == "i1":
        return w.value(f"icmp ne i8 {raw}, 0")
    if dtype == "f16":
        return w.value(f"fpext half {raw} to float")
    if dtype == "bf16":
        bits = w.value(f"shl i32 {w.value(f'zext i16 {raw} to i32')}, 16")
        return w.value(f"bitcast i32 {bits} to float")
    return raw


def pack(w: Writer, dtype: str, value: str) -> str:
    """A value as an element."""
    if dtype == "i1":
        return w.value(f"zext i1 {value} to i8")
    if dtype == "f16":
        return w.value(f"fptrunc float {value} to half")
    if dtype == "bf16":
        return w.value(f"trunc i32 {w.value(f'lshr i32 {_round_bits(w, value)}, 16')} to i16")
    return value


def _round_bits(w: Writer, value: str) -> str:
    """The bits of a float rounded to bf16, ties to even; NaN stays NaN."""
    bits = w.value(f"bitcast float {value} to i32")
    odd = w.value(f"and i32 {w.value(f'lshr i32 {bits}, 16')}, 1")
    up = w.value(f"add i32 {w.value(f'add i32 {bits}, 32767')}, {odd}")
    nan = w.value(f"fcmp uno float {value}, {value}")
    quiet = w.value(f"or i32 {bits}, 4194304")
    return w.value(f"and i32 {w.value(f'select i1 {nan}, i32 {quiet}, i32 {up}')}, -65536")


def rounded(w: Writer, dtype: str, value: str) -> str:
    """A float value rounded to f16 or bf16; others as they are."""
    if dtype == "f16":
        return unpack(w, dtype, pack(w, dtype, value))
    if dtype == "bf16":
        return w.value(f"bitcast i32 {_round_bits(w, value)} to float")
    return value


def call(
    w: Writer, op: str, dtype: str, types: tuple[str, ...], args: tuple[str, ...], attrs: dict[str, Any], fast: bool
) -> str:
    """An op on values of ``types``; the value of ``dtype``."""
    source = types[0]
    if op == "select":
        return w.value(f"select i1 {args[0]}, {register(dtype)} {args[1]}, {register(dtype)} {args[2]}")
    if op == "clamp":
        least = call(w, "maximum", dtype, types, (args[1], args[0]), {}, False)
        return call(w, "minimum", dtype, types, (least, args[2]), {}, False)
    if op == "convert":
        return convert(w, source, dtype, args[0])
    if op == "bitcast_convert":
        return _bitcast(w, source, dtype, args[0])
    if op == "compare":
        return _compare(w, source, args, attrs)
    if is_float(source):
        return _float(w, op, dtype, source, args, FAST if fast else "")
    if source == "i1":
        return _bool(w, op, args)
    return _integer(w, op, source, args)


# -- floats -----------------------------------------------------------------------------------------------------------


def _float(w: Writer, op: str, dtype: str, source: str, args: tuple[str, ...], flags: str) -> str:
    type = register(source)
    found = _float_plain(w, op, type, args, flags)
    if found is None:
        found = _float_function(w, op, source, type, args)
    return rounded(w, source, found) if is_float(dtype) else found


def _float_plain(w: Writer, op: str, type: str, args: tuple[str, ...], flags: str) -> str | None:
    x = args[0]
    suffix = "f32" if type == "float" else "f64"
    if op == "fma":
        listed = ", ".join(f"{type} {arg}" for arg in args)
        return w.value(f"call {flags}{type} @llvm.{'fmuladd' if flags else 'fma'}.{suffix}({listed})")
    if op == "exp2":
        scaled = w.value(f"fmul {type} {x}, {constant('f32' if type == 'float' else 'f64', math.log(2))}")
        return _float_function(w, "exponential", "f32" if type == "float" else "f64", type, (scaled,))
    plain = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
    if op in plain:
        return w.value(f"{plain[op]} {flags}{type} {x}, {args[1]}")
    if op in _INTRINSICS:
        sign = "nsz " if flags else ""
        return w.value(f"call {sign}{type} @llvm.{_INTRINSICS[op]}.{suffix}({', '.join(f'{type} {a}' for a in args)})")
    match op:
        case "negate":
            return w.value(f"fneg {type} {x}")
        case "square":
            return w.value(f"fmul {type} {x}, {x}")
        case "rsqrt":
            return w.value(f"fdiv {type} 1.0, {w.value(f'call {type} @llvm.sqrt.{suffix}({type} {x})')}")
        case "sign":
            same = w.value(f"fcmp ueq {type} {x}, 0.0")
            unit = w.value(f"call {type} @llvm.copysign.{suffix}({type} 1.0, {type} {x})")
            return w.value(f"select i1 {same}, {type} {x}, {type} {unit}")
        case "is_finite" | "is_inf" | "is_pos_inf" | "is_neg_inf":
            infinity = constant("f64", float("inf"))
            size = x if op in ("is_pos_inf", "is_neg_inf") else w.value(f"call {type} @llvm.fabs.{suffix}({type} {x})")
            limit = constant("f64", float("-inf")) if op == "is_neg_inf" else infinity
            return w.value(f"fcmp {'one' if op == 'is_finite' else 'oeq'} {type} {size}, {limit}")
    return None


def _float_function(w: Writer, op: str, source: str, type: str, args: tuple[str, ...]) -> str:
    if op == "power" and args[1] == constant("f64", 2.0):
        return w.value(f"fmul {type} {args[0]}, {args[0]}")
    own = INLINE.get((op, "f64" if type == "double" else "f32"))
    if own is not None:
        return w.value(f"call {type} @egs_{own}({', '.join(f'{type} {arg}' for arg in args)})")
    if op == "next_after" and source in ("f32", "f64"):
        return w.value(f"call {type} @nextafter{'f' if source == 'f32' else ''}({type} {args[0]}, {type} {args[1]})")
    if op == "next_after":
        return _next_half(w, source, *args)
    if op not in LIBM:
        raise Unsupported(f"{op} of {source} is not compiled", where=op, hint="the target 'interpret' runs every op")
    wide = args if type == "double" else tuple(w.value(f"fpext float {a} to double") for a in args)
    found = w.value(f"call double @{LIBM[op]}({', '.join(f'double {a}' for a in wide)})")
    return found if type == "double" else w.value(f"fptrunc double {found} to float")


def _next_half(w: Writer, source: str, x: str, y: str) -> str:
    """The next f16 or bf16 from x towards y: a step of its bits; from 0 the least number with the sign of y."""
    memory_type = memory(source)

    def bits(value: str) -> str:
        raw = pack(w, source, value)
        return raw if memory_type == "i16" else w.value(f"bitcast {memory_type} {raw} to i16")

    away = w.value(f"xor i1 {w.value(f'fcmp olt float {x}, {y}')}, {w.value(f'fcmp olt float {x}, 0.0')}")
    step = w.value(f"select i1 {away}, i16 1, i16 -1")
    moved = w.value(f"add i16 {bits(x)}, {step}")
    least = w.value(f"or i16 {w.value(f'and i16 {bits(y)}, -32768')}, 1")
    zero = w.value(f"fcmp oeq float {x}, 0.0")
    raw = w.value(f"select i1 {zero}, i16 {least}, i16 {moved}")
    found = unpack(w, source, raw if memory_type == "i16" else w.value(f"bitcast i16 {raw} to {memory_type}"))
    same = w.value(f"select i1 {w.value(f'fcmp oeq float {x}, {y}')}, float {y}, float {found}")
    nan = w.value(f"fadd float {x}, {y}")
    return w.value(f"select i1 {w.value(f'fcmp uno float {x}, {y}')}, float {nan}, float {same}")


# -- integers ---------------------------------------------------------------------------------------------------------


def _bool(w: Writer, op: str, args: tuple[str, ...]) -> str:
    names = {"add": "or", "multiply": "and", "and": "and", "or": "or", "xor": "xor", "maximum": "or", "minimum": "and"}
    if op == "not":
        return w.value(f"xor i1 {args[0]}, true")
    if op not in names:
        raise Unsupported(f"{op} of i1 is not compiled", where=op, hint="the target 'interpret' runs every op")
    return w.value(f"{names[op]} i1 {args[0]}, {args[1]}")


def _integer(w: Writer, op: str, dtype: str, args: tuple[str, ...]) -> str:
    type, signed = register(dtype), not dtype.startswith("u")
    x, y = args[0], args[-1]
    plain = {"add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor"}
    if op in plain:
        return w.value(f"{plain[op]} {type} {x}, {y}")
    match op:
        case "maximum" | "minimum":
            name = ("s" if signed else "u") + op[:3]
            return w.value(f"call {type} @llvm.{name}.{type}({type} {x}, {type} {y})")
        case "negate":
            return w.value(f"sub {type} 0, {x}")
        case "not":
            return w.value(f"xor {type} {x}, -1")
        case "square":
            return w.value(f"mul {type} {x}, {x}")
        case "abs":
            return w.value(f"call {type} @llvm.abs.{type}({type} {x}, i1 false)")
        case "sign":
            positive = w.value(f"zext i1 {w.value(f'icmp sgt {type} {x}, 0')} to {type}")
            negative = w.value(f"sext i1 {w.value(f'icmp slt {type} {x}, 0')} to {type}")
            return w.value(f"or {type} {positive}, {negative}")
        case "popcnt":
            return w.value(f"call {type} @llvm.ctpop.{type}({type} {x})")
        case "count_leading_zeros":
            return w.value(f"call {type} @llvm.ctlz.{type}({type} {x}, i1 false)")
        case "divide" | "remainder":
            return _divide(w, op, type, signed, x, y)
        case "shift_left" | "shift_right_logical" | "shift_right_arithmetic":
            return _shift(w, op, type, x, y)
        case "power":
            return _power(w, type, signed, x, y)
    raise Unsupported(f"{op} of {dtype} is not compiled", where=op, hint="the target 'interpret' runs every op")


def _divide(w: Writer, op: str, type: str, signed: bool, x: str, y: str) -> str:
    """x / 0 = -1, x % 0 = x, and the smallest divided by -1 is itself."""
    zero = w.value(f"icmp eq {type} {y}, 0")
    odd = zero
    if signed:
        minus = w.value(f"icmp eq {type} {y}, -1")
        odd = w.value(f"or i1 {zero}, {minus}")
    safe = w.value(f"select i1 {odd}, {type} 1, {type} {y}")
    name = ("s" if signed else "u") + ("div" if op == "divide" else "rem")
    found = w.value(f"{name} {type} {x}, {safe}")
    if op == "remainder":
        return w.value(f"select i1 {zero}, {type} {x}, {type} {found}")
    if signed:
        negated = w.value(f"sub {type} 0, {x}")
        found = w.value(f"select i1 {minus}, {type} {negated}, {type} {found}")
    return w.value(f"select i1 {zero}, {type} -1, {type} {found}")


def _shift(w: Writer, op: str, type: str, x: str, y: str) -> str:
    width = int(type[1:])
    inside = w.value(f"icmp ult {type} {y}, {width}")
    beyond = width - 1 if op == "shift_right_arithmetic" else 0
    amount = w.value(f"select i1 {inside}, {type} {y}, {type} {beyond}")
    name = {"shift_left": "shl", "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr"}[op]
    found = w.value(f"{name} {type} {x}, {amount}")
    return found if op == "shift_right_arithmetic" else w.value(f"select i1 {inside}, {type} {found}, {type} 0")


def _power(w: Writer, type: str, signed: bool, x: str, y: str) -> str:
    """By squaring; a negative exponent gives 0 unless |x| = 1."""
    result, base, left = "1", x, y
    for _ in range(int(type[1:])):
        odd = w.value(f"trunc {type} {left} to i1")
        result = w.value(f"select i1 {odd}, {type} {w.value(f'mul {type} {result}, {base}')}, {type} {result}")
        base = w.value(f"mul {type} {base}, {base}")
        left = w.value(f"lshr {type} {left}, 1")
    if not signed:
        return result
    even = w.value(f"select i1 {w.value(f'trunc {type} {y} to i1')}, {type} {x}, {type} 1")
    unit = w.value(f"icmp ult {type} {w.value(f'add {type} {x}, 1')}, 3")
    unit = w.value(f"and i1 {unit}, {w.value(f'icmp ne {type} {x}, 0')}")
    below = w.value(f"select i1 {unit}, {type} {even}, {type} 0")
    return w.value(f"select i1 {w.value(f'icmp slt {type} {y}, 0')}, {type} {below}, {type} {result}")


# -- compare and convert ----------------------------------------------------------------------------------------------


def _compare(w: Writer, dtype: str, args: tuple[str, ...], attrs: dict[str, Any]) -> str:
    direction, type = attrs["direction"], register(dtype)
    x, y = args
    signed = not dtype.startswith("u") and dtype != "i1"
    if is_float(dtype):
        if attrs["kind"] != "TOTALORDER":
            return w.value(f"fcmp {_ORDERED[direction]} {type} {x}, {y}")
        type = "i32" if type == "float" else "i64"
        x, y = (_total(w, register(dtype), type, each) for each in args)
    name = direction.lower() if direction in ("EQ", "NE") else ("s" if signed else "u") + direction.lower()
    return w.value(f"icmp {name} {type} {x}, {y}")


def _total(w: Writer, source: str, type: str, x: str) -> str:
    """Bits that order as the total order of floats does."""
    bits = w.value(f"bitcast {source} {x} to {type}")
    sign = w.value(f"ashr {type} {bits}, {int(type[1:]) - 1}")
    return w.value(f"xor {type} {bits}, {w.value(f'lshr {type} {sign}, 1')}")


def convert(w: Writer, source: str, target: str, x: str) -> str:
    """Floats to integers truncate and saturate, NaN gives 0; integers wrap; to i1: x != 0."""
    if source == target:
        return x
    if is_narrow(source) or is_narrow(target):
        return convert_narrow(w, source, target, x, convert)
    one, two = register(source), register(target)
    if target == "i1":
        return w.value(f"fcmp une {one} {x}, 0.0" if is_float(source) else f"icmp ne {one} {x}, 0")
    unsigned = source.startswith("u") or source == "i1"
    if is_float(source) and is_float(target):
        if one != two:
            x = w.value(f"{'fpext' if two == 'double' else 'fptrunc'} {one} {x} to {two}")
        return rounded(w, target, x)
    if is_float(source) and two in ("i8", "i16"):
        return _saturated(w, one, target, x)
    if is_float(source):
        kind = "u" if target.startswith("u") else "s"
        suffix = "f32" if one == "float" else "f64"
        return w.value(f"call {two} @llvm.fpto{kind}i.sat.{two}.{suffix}({one} {x})")
    if is_float(target):
        return rounded(w, target, w.value(f"{'u' if unsigned else 's'}itofp {one} {x} to {two}"))
    wide, narrow = int(one[1:]), int(two[1:])
    if wide == narrow:
        return x
    name = "trunc" if wide > narrow else "zext" if unsigned else "sext"
    return w.value(f"{name} {one} {x} to {two}")


def _saturated(w: Writer, type: str, target: str, x: str) -> str:
    """A float as an integer of 8 or 16 bits, by way of 32: saturating conversions to fewer bits do not vectorize."""
    low, high = (constant("f64", bound) for bound in integer_range(target))
    number = w.value(f"select i1 {w.value(f'fcmp ord {type} {x}, {x}')}, {type} {x}, {type} 0.0")
    for name, bound in (("olt", low), ("ogt", high)):
        beyond = w.value(f"fcmp {name} {type} {number}, {bound}")
        number = w.value(f"select i1 {beyond}, {type} {bound}, {type} {number}")
    return w.value(f"trunc i32 {w.value(f'fptosi {type} {number} to i32')} to {register(target)}")


def _bitcast(w: Writer, source: str, target: str, x: str) -> str:
    if (is_integer(source) and is_integer(target)) or source == target:
        return x
    raw = pack(w, source, x)
    one, two = memory(source), memory(target)
    return unpack(w, target, raw if one == two else w.value(f"bitcast {one} {raw} to {two}"))
