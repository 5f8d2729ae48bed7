"""One program on its way through egshape: stages with their seconds, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import egshape
from benchmarks.robustness.outcome import Row
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph

LIMITS = egshape.Limits(seconds=20, nodes=500_000, memory_mb=3000)
"""What each optimization may take."""

LATE = 1.2 * 20 + 1
"""Seconds after which an optimization with these limits must have ended."""

OURSELVES = ("internal", "engine", "invalid-graph", "unbound-symbol", "unknown-op")
"""Codes of errors that no program has: they are faults of egshape, said as an EgshapeError."""

DENIALS = ("violated", "contradiction")
"""Codes of errors that say that no sizes are admitted: wrong for a program that runs."""


@dataclass(frozen=True)
class Point:
    """What both versions did at one choice of sizes: the error of each, "" if it ran, and how the results differ."""

    sizes: str
    before: str
    after: str
    difference: str = ""


class Ended(Exception):
    """The program's outcome is known before its end."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail = outcome, detail


class Trial:
    """A program under way. ``say`` is told each stage as it begins, so that who watches knows whose time it is."""

    def __init__(self, corpus: str, program: str, say: Callable[[str], None] = lambda stage: None) -> None:
        self.corpus, self.program, self.say = corpus, program, say
        self.seconds: dict[str, float] = {}
        self.ops = (0, 0)
        self.opaque: tuple[str, ...] = ()
        self.status = ""
        self.notes = ""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        self.say(name)
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - started, 4)

    @contextmanager
    def ours(self, name: str, runs: bool) -> Iterator[None]:
        """A stage of egshape's own, which may end in one clear error. ``runs``: the original is known to run."""
        try:
            with self.stage(name):
                yield
        except EgshapeError as error:
            said = f"{name}, {error.code}: {error}".splitlines()[0][:300]
            if error.code in OURSELVES:
                raise Ended("fallback", said) from error
            raise Ended("wrong" if runs and error.code in DENIALS else "rejected-clearly", said) from error
        except Exception as error:
            place = _place(error)
            raise Ended("fallback", f"{name} raised {type(error).__name__}: {error}"[:300] + place) from error
        if self.seconds[name] > LATE:
            raise Ended("hang", f"{name} ended after {self.seconds[name]:.0f} s, {LATE:.0f} s are allowed")

    def through(
        self, load: Callable[[], Graph], target: Path, *, runs: bool, assume: Sequence[str] = ()
    ) -> tuple[Graph, Graph]:
        """Load, optimize and save to ``target``; the loaded graph and the optimized one. Raises Ended."""
        with self.ours("load", runs):
            graph = load()
        with self.ours("optimize", runs):
            result = egshape.optimize(graph, assume=assume, limits=LIMITS)
        counts = result.report.ops
        self.ops, self.status = (counts.before.total, counts.after.total), result.report.status
        self.notes = "; ".join(result.report.notes)
        self.opaque = opaque_ops(result.graph)
        with self.ours("save", runs):
            egshape.save(result.graph, target)
        return graph, result.graph

    def row(self, outcome: str, detail: str = "", points: Sequence[Point] = ()) -> Row:
        """The row of this program."""
        both = sum(not point.before and not point.after for point in points)
        neither = sum(bool(point.before and point.after) for point in points)
        return Row(
            self.corpus,
            self.program,
            outcome,
            detail,
            self.opaque,
            self.seconds,
            points=both,
            rejected=neither,
            ops=self.ops,
        )

    def verdict(self, points: Sequence[Point]) -> Row:
        """The row of a program that was saved and compared."""
        for point in points:
            if point.before and not point.after:
                return self.row("lost-check", f"at {point.sizes} the original says: {point.before}"[:400], points)
            if point.after and not point.before:
                return self.row("wrong", f"at {point.sizes} the result says: {point.after}"[:400], points)
            if point.difference:
                return self.row("wrong", f"at {point.sizes}: {point.difference}"[:400], points)
        if self.status == "fallback":
            return self.row("fallback", self.notes[:400], points)
        if not any(not point.before for point in points):
            return self.row("no-oracle", "the original ran at none of the sizes tried", points)
        if self.status == "budget":
            return self.row("budget", self.notes[:400], points)
        return self.row("opaque" if self.opaque else "right", "", points)


def opaque_ops(graph: Graph) -> tuple[str, ...]:
    """The ops of a graph that egshape carries through and does not know, by name."""
    return tuple(
        sorted(
            {
                str(op.attrs.get("target", op.name))
                for op in graph.body.walk()
                if op.name in ("host_call", "custom_call", "opaque")
            }
        )
    )


def _place(error: BaseException) -> str:
    """The last place of ours in a traceback."""
    place, frame = "", error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if "egshape" in file or "frontends" in file:
            place = f" ({'/'.join(Path(file).parts[-2:])}:{frame.tb_lineno})"
        frame = frame.tb_next
    return place
