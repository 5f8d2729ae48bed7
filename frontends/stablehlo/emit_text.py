"""MLIR text of types, constants and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from egshape.ir.graph import NOWHERE, Location
from egshape.ir.types import (
    TensorType,
    dtype_name,
    is_complex,
    is_float,
    is_narrow,
    is_narrow_integer,
    numpy_dtype,
)

_ELEMENTS = {"c64": "complex<f32>", "c128": "complex<f64>"}
_PLAIN = frozenset(range(32, 127)) - {ord('"'), ord("\\")}
_LISTED = 32
"""Constants of up to so many elements are listed; longer ones are bytes."""

DATA_CHECK = "egshape.check"
"""The composite that stands for a check on data, which XLA has no word for."""

FOREIGN = "tensor<0xi1>"
"""The type that stands for one that is not ours (a token): only ops that are carried through read it."""


def element_type(dtype: str) -> str:
    """MLIR's name of a dtype."""
    return _ELEMENTS.get(dtype, dtype)


def static_type(dtype: str, shape: Iterable[int]) -> str:
    """A tensor type of constant sizes."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element_type(dtype)}>"


_TYPES: dict[TensorType, str] = {}


def type_text(type: TensorType) -> str:
    """A tensor type; sizes that are no constants are ``?``."""
    found = _TYPES.get(type)
    if found is None:
        if type.shape is None:
            found = f"tensor<*x{element_type(type.dtype)}>"
        else:
            sizes = "".join("?x" if dim.const is None else f"{dim.const}x" for dim in type.shape)
            found = f"tensor<{sizes}{element_type(type.dtype)}>"
        _TYPES[type] = found
    return found


def string(text: str) -> str:
    """A quoted string."""
    data = text.encode()
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:02X}" for byte in data) + '"'


def ints(items: Iterable[int]) -> str:
    """``[1, 0]``."""
    return f"[{', '.join(map(str, items))}]"


def i64_array(items: Sequence[int]) -> str:
    """``array<i64: 1, 0>``."""
    return f"array<i64: {', '.join(map(str, items))}>" if items else "array<i64>"


def bool_array(items: Sequence[Any]) -> str:
    """``array<i1: true, false>``."""
    return f"array<i1: {', '.join('true' if item else 'false' for item in items)}>" if items else "array<i1>"


def boolean(value: Any) -> str:
    """``true`` or ``false``."""
    return "true" if value else "false"


def pairs(flat: Sequence[int]) -> str:
    """``dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`` of a flat padding."""
    count = len(flat) // 2
    if not count:
        return "dense<> : tensor<0x2xi64>"
    rows = ", ".join(ints(flat[2 * i : 2 * i + 2]) for i in range(count))
    return f"dense<[{rows}]> : tensor<{count}x2xi64>"


def location(place: Location) -> str:
    """A trailing `` loc(...)``, empty where nothing is known."""
    if place == NOWHERE:
        return ""
    where = f"{string(place.file)}:{place.line}:{place.column}" if place.file else ""
    if place.name:
        return f" loc({string(place.name)}({where}))" if where else f" loc({string(place.name)})"
    return f" loc({where})"


def _float(value: Any, dtype: np.dtype) -> str:
    """An exact literal: decimal for finite numbers, else the bits."""
    number = float(value)
    if not np.isfinite(number):
        return "0x" + np.asarray(value, dtype).tobytes()[::-1].hex().upper()
    short = f"{number:.6e}"
    return short if float(short) == number else f"{number:.16e}"


def _element(value: Any, dtype: np.dtype, name: str) -> str:
    if name == "i1":
        return boolean(value)
    if is_float(name) or (is_narrow(name) and not is_narrow_integer(name)):
        return _float(value, dtype)
    if is_complex(name):
        part = numpy_dtype("f32" if name == "c64" else "f64")
        return f"({_float(value.real, part)}, {_float(value.imag, part)})"
    return str(int(value))


def _listed(array: np.ndarray, dtype: np.dtype, name: str) -> str:
    if array.ndim == 0:
        return _element(array[()], dtype, name)
    return f"[{', '.join(_listed(item, dtype, name) for item in np.asarray(array))}]"


def _alike(flat: np.ndarray) -> bool:
    """Whether all elements have the same bits."""
    return flat[:1].tobytes() * flat.size == flat.tobytes()


def dense(array: np.ndarray) -> str:
    """``dense<...>`` without its type, exact to the bit."""
    name = dtype_name(array.dtype)
    if array.size == 0:
        return "dense<>"
    if array.ndim == 0:
        return f"dense<{_element(array[()], array.dtype, name)}>"
    data = np.ascontiguousarray(array)
    flat = data.reshape(-1)
    if _alike(flat[:_LISTED]) and _alike(flat):
        return f"dense<{_element(flat[0], array.dtype, name)}>"
    if array.size <= _LISTED or name == "i1":
        return f"dense<{_listed(data, array.dtype, name)}>"
    return f'dense<"0x{data.tobytes().hex().upper()}">'
