"""Limits that hold from outside, whatever runs: of wall time and of resident memory.

Engines are processes that are killed at a limit (`egraph/process.py`). What runs in Python calls `tick` in its loops,
which raises once a limit is met; `holding` says which limits hold for what is called in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

_REPORT_SECONDS = 60e-6
"""What the report costs for each size that it tells of, about; it is made whatever the time."""

_MEMORY_EVERY = 0.05
"""Seconds between two looks at the memory."""

_LOOKED_AT_MB = 16
"""Whoever takes more at once looks whether there is so much."""


@dataclass(frozen=True)
class Limits:
    """Budgets of one optimization; None is no limit. seconds of wall time, e-nodes, megabytes that it may take beyond
    what the process had before; steps: iterations of single rulesets over tensors, for a look at what each does.

    Examples:
        >>> import egshape
        >>> egshape.Limits(seconds=5).memory_mb
        4096
    """

    seconds: float | None = 30.0
    nodes: int | None = 2_000_000
    memory_mb: float | None = 4096
    steps: int | None = None


@dataclass(frozen=True)
class Deadlines:
    """When parts of an optimization must be done, as `time.monotonic()` values, and the memory it may have.

    rules: the last step of rules ends; graph: the result is extracted and verified; end: it is validated and measured,
    at most 1.2 times the seconds of the limits, and 0.8, after the start, so that it is reported within 0.2 more.
    memory_mb: resident, of this process and its engines."""

    rules: float
    graph: float
    end: float
    memory_mb: float

    @staticmethod
    def of(limits: Limits, sizes: int = 0) -> Deadlines:
        """From now on. ``sizes``: how many the report will tell of."""
        now, seconds = time.monotonic(), float("inf") if limits.seconds is None else limits.seconds
        memory = float("inf") if limits.memory_mb is None else limits.memory_mb + resident_mb()
        graph, end = now + 1.1 * seconds + 0.5, now + 1.2 * seconds + 0.8
        return Deadlines(now + seconds, graph, max(graph, end - _REPORT_SECONDS * sizes), memory)

    def half(self, most: float) -> Deadlines:
        """Deadlines of a try of at most so many seconds after which there is time for another one."""
        now = time.monotonic()
        rules, graph = (now + min(most, (end - now) / 2) for end in (self.rules, self.graph))
        return replace(self, rules=rules, graph=max(graph, min(rules + 1.0, now + (self.graph - now) / 2)))


class LimitReached(Exception):
    """A limit was met in the middle of something; ``limit`` names it: seconds, nodes, memory_mb, engine (it failed).

    No EgshapeError, since it says nothing of the program: who holds the limits catches it."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"the limit of {limit} was met")
        self.limit = limit


def resident_mb(pid: int | None = None) -> float:
    """Resident memory of a process, by default of this one, in MiB; 0 of one that is gone."""
    import psutil  # here, since sizes are used where it is not installed

    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


@dataclass(slots=True)
class _Held:
    """until: a `time.monotonic()` value; memory_mb: of this process, whole. due: when there is something to look at."""

    until: float
    memory_mb: float
    due: float = field(default=0.0)

    def look(self, more_mb: float) -> None:
        now = time.monotonic()
        if now >= self.until:
            raise LimitReached("seconds")
        self.due = self.until
        if self.memory_mb != float("inf"):
            self.due = min(self.until, now + _MEMORY_EVERY)
            if resident_mb() + more_mb > self.memory_mb:
                raise LimitReached("memory_mb")


_HELD: ContextVar[_Held | None] = ContextVar("held", default=None)


@contextmanager
def holding(until: float, memory_mb: float = float("inf")) -> Iterator[None]:
    """What is called inside is held to these limits, and to those that held before.

    until: a `time.monotonic()` value. memory_mb: resident memory of this process, whole."""
    outer = _HELD.get()
    if outer is not None:
        until, memory_mb = min(until, outer.until), min(memory_mb, outer.memory_mb)
    token = _HELD.set(_Held(until, memory_mb))
    try:
        yield
    finally:
        _HELD.reset(token)


def held() -> tuple[float, float]:
    """The limits that hold here: until when, and the memory of this process."""
    found = _HELD.get()
    return (float("inf"), float("inf")) if found is None else (found.until, found.memory_mb)


def tick(more_mb: float = 0.0) -> None:
    """Called in loops that may be long, and where ``more_mb`` are to be taken at once. Raises LimitReached once a limit
    that is held is met."""
    held = _HELD.get()
    if held is not None and (more_mb > _LOOKED_AT_MB or time.monotonic() >= held.due):
        held.look(more_mb)
