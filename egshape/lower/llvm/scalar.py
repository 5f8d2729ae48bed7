"""Values as LLVM IR: how each dtype is held and stored, numbers, conversions. f16 and bf16 are held in f32, rounded."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from egshape.ir.types import integer_range, is_float, is_integer, is_narrow, numpy_dtype
from egshape.lower.llvm.narrow import bits_of, convert_narrow
from egshape.lower.llvm.writer import Writer


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
    with np.errstate(over="ignore"):
        number = float(numpy_dtype(dtype).type(value))
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
        bits = w.value(f"bitcast float {value} to i32")
        return w.value(f"trunc i32 {w.value(f'lshr i32 {bits}, 16')} to i16")
    return value


def rounded(w: Writer, dtype: str, value: str, *, any_nan: bool = True) -> str:
    """A float value rounded to f16 or bf16, ties to even; others as they are. ``any_nan``: whether it may be a NaN
    other than those of bf16, which rounding as numbers leaves NaN."""
    if dtype == "f16":
        return unpack(w, dtype, pack(w, dtype, value))
    if dtype != "bf16":
        return value
    bits = w.value(f"bitcast float {value} to i32")
    odd = w.value(f"and i32 {w.value(f'lshr i32 {bits}, 16')}, 1")
    up = w.value(f"add i32 {w.value(f'add i32 {bits}, 32767')}, {odd}")
    if any_nan:
        nan = w.value(f"fcmp uno float {value}, {value}")
        up = w.value(f"select i1 {nan}, i32 {w.value(f'or i32 {bits}, 4194304')}, i32 {up}")
    return w.value(f"bitcast i32 {w.value(f'and i32 {up}, -65536')} to float")


# -- conversions -------------------------------------------------------------------------------------------------------


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
        number = w.value(f"{'u' if unsigned else 's'}itofp {one} {x} to {two}")
        return rounded(w, target, number, any_nan=False)
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


def bitcast(w: Writer, source: str, target: str, x: str) -> str:
    """The value with the same bits."""
    if (is_integer(source) and is_integer(target)) or source == target:
        return x
    raw = pack(w, source, x)
    one, two = memory(source), memory(target)
    return unpack(w, target, raw if one == two else w.value(f"bitcast {one} {raw} to {two}"))
