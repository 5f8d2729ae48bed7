"""Memory of results: small ones from numpy, large ones from blocks that are used again once no array is on them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from egshape.runtime.abi.call import ALIGN
from egshape.runtime.core.torch_tensors import array_of, is_tensor_type

SMALL = 1 << 16
"""Bytes up to which numpy's own allocation is as fast as a block of ours."""
KEPT = 2
_LIBC = ctypes.CDLL(None)
free = _LIBC.free
free.argtypes = [ctypes.c_void_p]
free.restype = None


def _references(item: object) -> int:
    return sys.getrefcount(item)


def _alone() -> int:
    """What ``_references`` says of a block that nothing else refers to; 0 where counts say nothing."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    blocks = [(np.empty(1, np.uint8), 0)]
    block, _ = blocks.pop()
    return _references(block)


_ALONE = _alone()


class Blocks:
    """Blocks of one output, each with the offset of its first aligned byte. A block is free when only this list refers
    to it, so views and exports keep it taken."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[tuple[np.ndarray, int]] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any], need: int) -> np.ndarray:
        """An array of this shape, its elements undefined; ``need`` is its size in bytes."""
        whole = need + ALIGN
        for _ in range(len(self.blocks)):
            try:
                block, start = self.blocks.pop(0)
            except IndexError:  # another thread was faster
                break
            free_now = _references(block) == _ALONE
            if free_now and whole <= block.nbytes <= 4 * whole:
                return self._on(block, start, shape, dtype)
            if not free_now:
                self.blocks.append((block, start))
        block = np.empty(whole, np.uint8)
        return self._on(block, -block.ctypes.data % ALIGN, shape, dtype)

    def _on(self, block: np.ndarray, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        if len(self.blocks) < KEPT:
            self.blocks.append((block, start))
        return np.ndarray(shape, dtype, block, start)


class _Owner:
    """Memory that native code allocated; freed when the last array on it is gone."""

    __slots__ = ("__array_interface__", "address")

    def __init__(self, address: int, interface: dict[str, Any]) -> None:
        self.address = address
        self.__array_interface__ = interface

    def __del__(self) -> None:
        free(self.address)


def owned(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An array on memory from the C library, which it owns from now on."""
    plain = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    interface = {"data": (address, False), "shape": shape, "typestr": plain.str, "version": 3}
    array = np.asarray(_Owner(address, interface))
    return array if plain is dtype else array.view(dtype)


def as_array(item: Any) -> np.ndarray:
    """Anything with an array interface or DLPack, and torch's tensors, without a copy where numpy can."""
    if is_tensor_type(type(item)):
        return array_of(item)
    if hasattr(item, "__dlpack__") and not hasattr(item, "__array_interface__"):
        item = np.from_dlpack(item)
    return np.asarray(item)
