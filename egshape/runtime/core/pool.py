"""Thread pools of the process: one for each number of threads, shared by all functions, asleep while nothing runs."""

from __future__ import annotations

import ctypes
import os
import threading

_LOCK = threading.Lock()
_POOLS: dict[tuple[int, int], tuple[int, object]] = {}
"""The address of the pool of each number of threads and layout, and its library: its threads live as long as the
process."""
os.register_at_fork(after_in_child=_POOLS.clear)


def shared(threads: int, version: int, make: int, library: object) -> int:
    """The address of the pool of ``threads`` threads, the caller included; 0, no pool, for one.

    version: of the pool's layout. make: address of ``egshape_pool`` of a ``library`` that has this layout, which is
    kept if it makes the pool."""
    if threads < 2:
        return 0
    with _LOCK:
        if (threads, version) not in _POOLS:
            create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(make)
            _POOLS[threads, version] = create(threads) or 0, library
        return _POOLS[threads, version][0]
