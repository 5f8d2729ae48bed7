"""DLPack's structures and capsules, through Python's C API.

Source: the DLPack 1.3 header (DLTensor, DLManagedTensor, DLPackExchangeAPI)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from egshape.runtime.abi import call

CPU, CUDA = call.CPU, call.CUDA
"""Kinds of devices."""
LEGACY, PER_THREAD = call.LEGACY, call.PER_THREAD
"""How DLPack and ``__cuda_array_interface__`` write the default streams of CUDA; the driver's handle 0 is the first."""
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
BFLOAT = 4
NAME, USED = b"dltensor", b"used_dltensor"
_EXCHANGE = b"dlpack_exchange_api"
_MAJOR = 1
_READ, _STREAM = 3, 4
"""Functions of the exchange table that are used, behind its header."""


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


def declared(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of Python's C API, with a prototype of our own."""
    return ctypes.PYFUNCTYPE(result, *arguments)(address_of(name))


def address_of(name: str) -> int:
    """Where a function of Python's C API lies."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = declared("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
pointer = declared("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
pointer_of = declared("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
is_valid = declared("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
rename = declared("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


@functools.cache
def dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype as views write it."""
    return "bf16" if dtype.name == "bfloat16" else np.dtype(dtype).str.lstrip("<|=")


def element_kind(text: str) -> int:
    """An element type, as views write it ("f4", "bf16"), as DLTensor has it: code, bits and one lane in a word; 0 where
    there is none."""
    if text == "bf16":
        return BFLOAT | 16 << 8 | 1 << 16
    if text[:1] not in CODES or not text[1:].isdigit():
        return 0
    return CODES[text[0]] | int(text[1:]) * 8 << 8 | 1 << 16


def exchange(kind: type) -> tuple[int, int] | None:
    """The functions dltensor_from_py_object_no_sync and current_work_stream of a type's arrays; None where it has none.

    A type that only inherits the table may be anything inside (torch has tensors without memory that do), but for
    torch's parameters."""
    capsule = kind.__dict__.get("__dlpack_c_exchange_api__")
    if capsule is None and (kind.__module__, kind.__name__) == ("torch.nn.parameter", "Parameter"):
        capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    try:
        at = pointer(capsule, _EXCHANGE)
    except (TypeError, ValueError, ctypes.ArgumentError):
        return None
    while at:
        head = (ctypes.c_uint32 * 2).from_address(at)
        words = (ctypes.c_uint64 * 7).from_address(at)
        if head[0] == _MAJOR:
            read, stream = int(words[2 + _READ]), int(words[2 + _STREAM])
            return (read, stream) if read and stream else None
        at = int(words[1])
    return None
