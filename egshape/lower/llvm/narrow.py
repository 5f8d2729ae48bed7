"""Floats of at most 8 bits and integers of less as LLVM IR: a value is the byte of its bits, and is only converted."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np

from egshape.errors import Unsupported
from egshape.ir.types import SUBBYTE, is_float, is_narrow, is_narrow_integer, numpy_dtype
from egshape.lower.llvm.writer import Writer

_MANTISSA = 23
"""Bits of an f32's fraction; 127 is the bias of its exponent."""


def bits_of(dtype: str, value: Any) -> str:
    """The byte of a number, as LLVM writes it."""
    return str(int(np.asarray(value).astype(numpy_dtype(dtype)).reshape(1).view(np.uint8)[0]))


def widened(w: Writer, dtype: str, x: str) -> tuple[str, str]:
    """A narrow value as an i32 or f32 that is equal to it: its dtype, and it."""
    if is_narrow_integer(dtype):
        inner = w.value(f"trunc i8 {x} to i{SUBBYTE[dtype]}")
        kind = "zext" if dtype.startswith("u") else "sext"
        return "i32", w.value(f"{kind} i{SUBBYTE[dtype]} {inner} to i32")
    return "f32", _decoded(w, dtype, x)


def narrowed(w: Writer, dtype: str, source: str, x: str) -> str:
    """An i32, or an f32, as a narrow value. Raises Unsupported for powers of two alone."""
    if is_narrow_integer(dtype):
        inner = f"i{SUBBYTE[dtype]}"
        if is_float(source):
            kind = "u" if dtype.startswith("u") else "s"
            found = w.value(f"call {inner} @llvm.fpto{kind}i.sat.{inner}.f32(float {x})")
        else:
            found = w.value(f"trunc i32 {x} to {inner}")
        return w.value(f"zext {inner} {found} to i8")
    return _encoded(w, dtype, x)


class _Format:
    """Where the parts of a narrow float lie, and what its highest codes mean."""

    def __init__(self, dtype: str) -> None:
        info: Any = ml_dtypes.finfo(numpy_dtype(dtype))
        self.bits, self.fraction = int(info.bits), int(info.nmant)
        self.lowest = int(info.minexp)
        """The exponent of the smallest number with a leading 1."""
        codes = np.arange(1 << (self.bits - 1), dtype=np.uint8).view(numpy_dtype(dtype)).astype(np.float32)
        self.largest = int(np.flatnonzero(np.isfinite(codes)).max())
        """The code of the largest number."""
        self.infinite = bool(np.isinf(codes).any())
        self.sign_is_nan = bool(np.isnan(np.array(128, np.uint8).view(numpy_dtype(dtype)).astype(np.float32)))
        """Whether -0 is no number, but NaN."""
        self.nan = 128 if self.sign_is_nan else None if len(codes) == self.largest + 1 else len(codes) - 1


def _float(number: float) -> str:
    return "0x" + struct.pack(">d", number).hex().upper()


def _decoded(w: Writer, dtype: str, x: str) -> str:
    """The parts moved to where an f32 has them, times a power of two, which is exact."""
    wide = w.value(f"zext i8 {x} to i32")
    if dtype == "f8E8M0FNU":
        shifted = w.value(f"shl i32 {wide}, {_MANTISSA}")
        bits = w.value(f"select i1 {w.value(f'icmp eq i32 {wide}, 0')}, i32 {1 << (_MANTISSA - 1)}, i32 {shifted}")
        return _or_nan(w, w.value(f"icmp eq i32 {wide}, 255"), w.value(f"bitcast i32 {bits} to float"))
    held = _Format(dtype)
    place = held.bits - 1
    code = w.value(f"and i32 {wide}, {(1 << place) - 1}")
    moved = w.value(f"shl i32 {code}, {_MANTISSA - held.fraction}")
    scale = 2.0 ** (held.lowest + 126)
    size = w.value(f"fmul float {w.value(f'bitcast i32 {moved} to float')}, {_float(scale)}")
    if held.infinite:
        beyond = w.value(f"icmp ugt i32 {code}, {held.largest}")
        size = w.value(f"select i1 {beyond}, float {_float(float('inf'))}, float {size}")
    sign = w.value(f"shl i32 {w.value(f'and i32 {wide}, {1 << place}')}, {31 - place}")
    bits = w.value(f"or i32 {w.value(f'bitcast float {size} to i32')}, {sign}")
    found = w.value(f"bitcast i32 {bits} to float")
    if held.sign_is_nan:
        return _or_nan(w, w.value(f"icmp eq i32 {wide}, 128"), found)
    if held.nan is None:
        return found
    first = held.largest + (1 if held.infinite else 0)
    return _or_nan(w, w.value(f"icmp ugt i32 {code}, {first}"), found)


def _or_nan(w: Writer, is_nan: str, x: str) -> str:
    return w.value(f"select i1 {is_nan}, float {_float(float('nan'))}, float {x}")


def _encoded(w: Writer, dtype: str, x: str) -> str:
    """Rounded to the nearest, ties to even. Numbers below the smallest with a leading 1 are added to a float whose last
    bit is worth what theirs is; in the others the fraction's lower bits are rounded away."""
    if dtype == "f8E8M0FNU":
        raise Unsupported(f"a conversion to {dtype} is not compiled")
    held = _Format(dtype)
    place, drop = held.bits - 1, _MANTISSA - held.fraction
    bits = w.value(f"bitcast float {x} to i32")
    size = w.value(f"and i32 {bits}, 2147483647")
    small = w.value(f"icmp ult i32 {size}, {(held.lowest + 127) << _MANTISSA}")
    step = 2.0 ** (held.lowest - held.fraction + _MANTISSA)
    summed = w.value(f"fadd float {w.value(f'bitcast i32 {size} to float')}, {_float(step)}")
    below = w.value(
        f"sub i32 {w.value(f'bitcast float {summed} to i32')}, {struct.unpack('<i', struct.pack('<f', step))[0]}"
    )
    odd = w.value(f"and i32 {w.value(f'lshr i32 {size}, {drop}')}, 1")
    up = w.value(f"add i32 {w.value(f'add i32 {size}, {(1 << (drop - 1)) - 1}')}, {odd}")
    above = w.value(f"sub i32 {w.value(f'lshr i32 {up}, {drop}')}, {(held.lowest + 126) << held.fraction}")
    code = w.value(f"select i1 {small}, i32 {below}, i32 {above}")
    too_large = w.value(f"icmp ugt i32 {code}, {held.largest}")
    top = held.largest + 1 if held.infinite else held.largest if held.nan is None else held.nan
    code = w.value(f"select i1 {too_large}, i32 {top}, i32 {code}")
    is_nan = w.value(f"icmp ugt i32 {size}, 2139095040")
    code = w.value(f"select i1 {is_nan}, i32 {held.nan or 0}, i32 {code}")
    sign = w.value(f"lshr i32 {w.value(f'and i32 {bits}, -2147483648')}, {31 - place}")
    if held.sign_is_nan or held.nan is None:
        signed = w.value(f"icmp ne i32 {code}, 0") if held.sign_is_nan else w.value(f"xor i1 {is_nan}, true")
        sign = w.value(f"select i1 {signed}, i32 {sign}, i32 0")
    return w.value(f"trunc i32 {w.value(f'or i32 {code}, {sign}')} to i8")


def convert_narrow(w: Writer, source: str, target: str, x: str, plain: Any) -> str:
    """A conversion from or to a narrow dtype; ``plain`` converts between the others."""
    if is_narrow(source):
        source, x = widened(w, source, x)
    if not is_narrow(target):
        return str(plain(w, source, target, x))
    between = "f32" if is_float(source) or not is_narrow_integer(target) else "i32"
    return narrowed(w, target, between, plain(w, source, between, x))
