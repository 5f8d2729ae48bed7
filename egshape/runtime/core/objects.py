"""Where the fields of array objects lie, found by looking at known ones.

numpy promises this layout to C extensions (ndarraytypes.h, PyArrayObject_fields); reading it in native code spares the
Python code that would otherwise run for every array of a call. Where a look does not find what it should (another
interpreter, a debug build), arrays are read through Python instead."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.runtime.core import dlpack
from egshape.runtime.core.torch_tensors import is_lazy, is_tensor_type


def _words(item: object, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(id(item)))


def _look() -> tuple[int, ...] | None:
    """items, type, array, data, rank, dims, descr, flags (abi/call.py, ARRAY_FIELDS); None if it is not as expected."""
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


MOST_TYPES = 8
_LOCK = {"ensure": "PyGILState_Ensure", "release": "PyGILState_Release", "clear": "PyErr_Clear"}


class Reader:
    """What native code must know to read the inputs of one function; ``address`` is 0 where it cannot read objects.

    The types of other arrays come in as they are met: each with its function that reads arrays (DLPack's exchange)."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.tensors: frozenset[type] = frozenset()
        """Types of torch that a call brought."""
        self.address = 0
        self._known: set[type] = set()
        self._lock = threading.Lock()
        if _FOUND is None:
            return
        self._rows = (ctypes.c_int64 * (2 * MOST_TYPES + 1))()
        self._count = 0
        lock = [dlpack.address_of(name) for name in _LOCK.values()]
        ids, kinds = (
            [id(dtype) for dtype in dtypes],
            [dlpack.element_kind(dlpack.dtype_text(dtype)) for dtype in dtypes],
        )
        words = (*_FOUND, ctypes.addressof(self._rows), *lock, *ids, *kinds)
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._words)

    def learn(self, items: Sequence[Any]) -> bool:
        """Read arrays of these types from now on; whether one of them is new and native code can read all of them."""
        new = False
        with self._lock:
            for kind in {type(item) for item in items} - self._known:
                self._known.add(kind)
                if is_tensor_type(kind):
                    self.tensors |= {kind}
                found = dlpack.exchange(kind) if self.address and self._count < MOST_TYPES else None
                if found is not None:
                    at = 2 * self._count
                    self._rows[at + 1], self._rows[at] = found[0], id(kind)
                    self._count += 1
                    new = True
        return new and not any(map(is_lazy, items))


def no_memory_is_shared(array: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether an array overlaps none of the others."""
    return not any(np.may_share_memory(array, other) for other in others)


def is_same_memory(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two contiguous arrays are one array: the same bytes in the same shape."""
    return one.ctypes.data == two.ctypes.data and one.shape == two.shape and one.nbytes == two.nbytes
