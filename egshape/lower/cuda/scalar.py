"""Values as C++ expressions: how each dtype is held and stored, numbers, conversions. f16 and bf16 are held in f32."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from egshape.errors import Unsupported
from egshape.ir.types import integer_range, is_float, is_integer, is_narrow, itemsize, numpy_dtype

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


def bitcast(source: str, target: str, x: str) -> str:
    """The value with the same bits. Raises Unsupported where there are more or fewer of them."""
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
