"""The trace: what each stage did, in order, and how long it took.

A ``Tracer`` is made for one run and handed down; there is no global one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """One step: in ``stage``, ``rule`` turned ``before`` into ``after`` at ``location``; "" where none."""

    stage: str
    rule: str
    location: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class StageTime:
    """Seconds spent in a stage, its inner stages included."""

    name: str
    seconds: float


@dataclass(slots=True)
class Tracer:
    """Collects the events, stage times and notes of one run.

    Args:
        on_stage: called with a stage's name when it starts (a progress bar listens here).
        keep_events: False drops events as they come, for runs that nobody will explain.
    """

    on_stage: Callable[[str], None] | None = None
    keep_events: bool = True
    events: list[Event] = field(default_factory=list)
    stages: list[StageTime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the body as stage ``name``; the time is kept even if the body raises.

        Stages are listed in the order in which they end; one that runs twice is listed twice.
        """
        if self.on_stage is not None:
            self.on_stage(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages.append(StageTime(name, time.perf_counter() - start))

    def event(self, stage: str, rule: str, location: str = "", before: str = "", after: str = "") -> None:
        """Record one step."""
        if self.keep_events:
            self.events.append(Event(stage, rule, location, before, after))

    def note(self, text: str) -> None:
        """Record something the user should read; a note that repeats is kept once."""
        if text not in self.notes:
            self.notes.append(text)

    def seconds(self, name: str) -> float:
        """Total seconds of all the stages of that name, 0.0 if it did not run."""
        return sum(stage.seconds for stage in self.stages if stage.name == name)
