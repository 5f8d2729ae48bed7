"""Where the fields of array objects lie, found by looking at known ones.

numpy promises this layout to C extensions (ndarraytypes.h, PyArrayObject_fields); reading it in native code spares the
Python code that would otherwise run for every array of a call. Where a look does not find what it should (another
interpreter, a debug build), arrays are read through Python instead."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def _words(item: object, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(id(item)))


def _look() -> tuple[int, ...] | None:
    """items, type, array, data, rank, dims, descr, flags (lower/objects.py); None if it is not as expected."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    head, items = object.__basicsize__, tuple.__basicsize__
    if head % 8 or items % 8 or np.ndarray.__basicsize__ < head + 56:
        return None
    data, rank, dims, descr, flags = head, head + 8, head + 16, head + 40, head + 48
    for array in (np.zeros((3, 5), np.float32), np.zeros((2, 3, 7), np.int64)[:, ::2], np.zeros((4, 2), np.bool_).T):
        words = _words(array, flags // 8 + 1)
        shape = (ctypes.c_int64 * array.ndim).from_address(words[dims // 8])
        contiguous = bool(words[flags // 8] & 1)
        known = (
            words[head // 8 - 1] == id(np.ndarray)
            and words[data // 8] == array.__array_interface__["data"][0]
            and words[rank // 8] & 0xFFFFFFFF == array.ndim
            and tuple(shape) == array.shape
            and words[descr // 8] == id(array.dtype)
            and contiguous == array.flags.c_contiguous
            and bool(words[flags // 8] & 0x100) == array.flags.aligned
        )
        pair = array, shape
        if not known or _words(pair, items // 8 + 2)[-2:] != [id(array), id(shape)]:
            return None
    return items, head - 8, id(np.ndarray), data, rank, dims, descr, flags


_FOUND = _look()


def layout(dtypes: Sequence[np.dtype[Any]]) -> ctypes.Array[ctypes.c_int64] | None:
    """The layout with the element types of a function's inputs; None where objects cannot be read."""
    if _FOUND is None:
        return None
    words = (*_FOUND, *(id(dtype) for dtype in dtypes))
    return (ctypes.c_int64 * len(words))(*words)


def no_memory_is_shared(array: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether an array overlaps none of the others."""
    return not any(np.may_share_memory(array, other) for other in others)
