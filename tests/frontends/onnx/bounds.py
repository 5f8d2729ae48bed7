"""Time and memory that reading a hostile file may take."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from types import FrameType

import psutil


class TooSlow(BaseException):
    """No code under test catches this by accident."""


@contextlib.contextmanager
def bounded(seconds: float = 30.0, megabytes: int = 1024) -> Iterator[None]:
    """Fail what runs longer, or wants more address space than the process has already.

    Raises TooSlow, or MemoryError inside of what runs."""

    def late(signum: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not done after {seconds} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + (megabytes << 20)
    before = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)
