"""How far a saturation may go, and what it did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

READ_SECONDS = 25e-6
"""What reading an e-graph, choosing from it and rebuilding cost for each node, about (docs/robustness.md)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one saturation; None is no limit.

    seconds: of wall time from the start; deadline: the same as a `time.monotonic()` value; last: when what follows the
    saturation (reading, extraction, a graph rebuilt) must be done, also such a value;
    nodes: rows of constructors in the e-graph; memory_mb: resident memory of this process and its engine together;
    steps: iterations of single rulesets.
    """

    seconds: float | None = None
    nodes: int | None = None
    memory_mb: float | None = None
    steps: int | None = None
    deadline: float | None = None
    last: float | None = None

    def until(self) -> float:
        """The `time.monotonic()` value at which the time is up."""
        by_seconds = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        return min(by_seconds, float("inf") if self.deadline is None else self.deadline)

    def leaves(self, nodes: int) -> float:
        """The `time.monotonic()` value after which an e-graph of so many nodes would not be read out in time."""
        return float("inf") if self.last is None else self.last - READ_SECONDS * nodes

    def memory(self) -> float:
        """Megabytes that this process and its engine may have."""
        return float("inf") if self.memory_mb is None else self.memory_mb


@dataclass(frozen=True, slots=True)
class StepReport:
    """One iteration of one ruleset; `matches` has an entry for each rule that matched."""

    ruleset: str
    updated: bool
    matches: Mapping[str, int]
    seconds: float
    nodes: int
    """E-nodes after it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A step that changed the e-graph: the number of nodes after it, and the rule that matched most in it."""

    ruleset: str
    nodes: int
    rule: str
    seconds: float
    before: int = 0
    matches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saturation:
    """What a bounded saturation did. `limit` names the limit that stopped it ("" when saturated)."""

    status: str
    limit: str
    steps: int
    seconds: float
    nodes: int
    growth: tuple[Growth, ...]
    matches: Mapping[str, int]
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by ruleset, steps that changed nothing included."""
    stopped_in: str = ""
    """The ruleset whose step was ended at a limit, or by a fault; its changes are taken back."""
    fault: str = ""
    """What the engine said, where it ended by itself in that step."""

    @property
    def stop(self) -> Stop | None:
        """Why it ended before its end, None where it did not."""
        if not self.limit:
            return None
        matches: Counter[str] = Counter()
        for step in self.growth:
            if step.ruleset == self.stopped_in:
                matches = Counter(step.matches)
        busiest = max(matches, key=lambda rule: (matches[rule], rule), default=self.grew_most)
        return Stop(self.limit, self.stopped_in, busiest, self.fault)

    @property
    def grew_most(self) -> str:
        """The rule that matched most in the step that added most nodes, or ""."""
        best, rule, before = 0, "", None
        for step in self.growth:
            if before is not None and step.nodes - before > best:
                best, rule = step.nodes - before, step.rule
            before = step.nodes
        return rule


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a saturation ended before its end: the limit, the ruleset whose step was ended ("" for none), the rule that
    grew most, and what the engine said where it failed."""

    limit: str
    ruleset: str
    rule: str
    fault: str = ""

    def __str__(self) -> str:
        where = f" in a step of {self.ruleset}" if self.ruleset else ""
        grew = f"; the rule that grew most is {self.rule}" if self.rule else ""
        if self.limit == "engine":
            return f"{self.fault or 'the rewrite engine failed'}{where}, whose changes are left out{grew}"
        return f"stopped at the limit of {self.limit}{where}{grew}"


@dataclass(frozen=True, slots=True)
class Phase:
    """A ruleset within a round of saturation: `times` iterations, or until it changes nothing (None)."""

    ruleset: str
    times: int | None = 1
