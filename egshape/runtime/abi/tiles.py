"""The CPU's tile registers (AMX), which Linux lends to a process that asks."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

_ARCH_PRCTL, _ASK_FOR, _TILES = 158, 0x1023, 18
"""The system call, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA."""


@functools.cache
def has_tiles() -> bool:
    """Whether this process may use them: all its threads may from now on. False where there are none."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK_FOR, _TILES) == 0)
