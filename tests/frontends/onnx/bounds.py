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
    """Fail what computes longer, waits ten times as long, or wants more address space than the process has already.

    Raises TooSlow, or MemoryError inside of what runs."""

    def late(signum: int, frame: FrameType | None) -> None:
        raise TooSlow(f"not done after {seconds} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + (megabytes << 20)
    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, 10))
    before = [signal.signal(number, late) for number, _, _ in clocks]
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    for _, timer, times in clocks:  # time of this process, which others on the machine do not stretch
        signal.setitimer(timer, seconds * times)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
