"""Memory of constants, by huge pages where a system has them: tiles of a pack lie in so many pages of 4 KB that finding
these takes a fifth of the time of a product."""

from __future__ import annotations

import mmap
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
    mapped = mmap.mmap(-1, whole + _HUGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(mapped, np.uint8)
    return room[-room.ctypes.data % _HUGE :][:whole]


_CHUNKS = _Chunks()


def zeros(count: int) -> np.ndarray:
    """So many bytes, 0, that begin where a line of the cache does: a vector that lies in two lines takes two reads."""
    if count >= LEAST:
        return _CHUNKS.cut(count)
    room = np.zeros(count + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + count]
