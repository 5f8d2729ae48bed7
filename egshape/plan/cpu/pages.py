"""Memory of constants, by huge pages where a system has them: tiles of a pack lie in so many pages of 4 KB that finding
these takes a fifth of the time of a product."""

from __future__ import annotations

import mmap
import os
import threading

import numpy as np

LINE = 64
"""Bytes of a line of the cache, where memory begins."""
LEAST = 1 << 16
"""Bytes from which memory is part of a chunk."""
_CHUNK, _HUGE = 16 << 20, 2 << 20


class _Chunks:
    """Cuts memory off chunks; each is freed with the last array in it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new chunk comes next."""
        self.lock = threading.Lock()
        self.left = np.zeros(0, np.uint8)

    def cut(self, count: int) -> np.ndarray:
        """So many zeros."""
        with self.lock:
            if count > len(self.left):
                self.left = _chunk(max(count, _CHUNK))
            found = self.left[:count]
            self.left = self.left[-(-count // LINE) * LINE :]
            return found


def _chunk(count: int) -> np.ndarray:
    whole = -(-count // _HUGE) * _HUGE
    mapped = _mapped(whole + _HUGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(mapped, np.uint8)
    return room[-room.ctypes.data % _HUGE :][:whole]


def _mapped(count: int) -> mmap.mmap:
    """Memory of this process: a forked one gets a copy, as of all other memory."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, count)


_CHUNKS = _Chunks()
if hasattr(os, "register_at_fork"):  # another thread may hold the lock
    os.register_at_fork(after_in_child=_CHUNKS.begin)


def zeros(count: int) -> np.ndarray:
    """So many bytes, 0, that begin where a line of the cache does: a vector that lies in two lines takes two reads."""
    if count >= LEAST:
        return _CHUNKS.cut(count)
    room = np.zeros(count + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + count]
