"""Run time of real models: compiled once by egshape, against ONNX Runtime with all of its optimizations.

Both sides get the same arrays and threads, in one process, in alternating runs; medians and their ratio. Outputs are
compared before anything is timed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo_inputs import Plan, session

SECONDS = 0.6
"""Of timing for each point and model, both sides together."""

TOLERANCE = 1e-3
"""The fused kernels add in another order, so that this is wider than where one runtime runs both models."""


@dataclass(frozen=True)
class Timing:
    """One model at one point: median milliseconds of both. ``fault`` says why there is no figure."""

    model: str
    point: str
    ours_ms: float
    theirs_ms: float
    fault: str
    host_calls: int = 0

    @property
    def ratio(self) -> float:
        """How many times faster than ONNX Runtime."""
        return self.theirs_ms / self.ours_ms if self.ours_ms else 0.0


def timings(name: str, path: Path, plan: Plan, threads: int) -> list[Timing]:
    """The timings of a model at every point of its plan."""
    import egshape
    from egshape.errors import EgshapeError

    try:
        graph = egshape.optimize(egshape.load(path), validate=False).graph
        compiled: Any = egshape.compile(graph, target="llvm", threads=threads)
    except EgshapeError as error:
        return [Timing(name, "", 0.0, 0.0, str(error)[:200])]
    run = session(str(path), threads, optimize=True)
    inputs = [value.name for value in graph.inputs]
    hosts = sum(op.name == "host_call" for op in graph.body.walk())
    found = []
    for probe in plan.probes:
        feed = plan.feed(probe)
        arrays = [feed[key] for key in inputs]
        try:
            got = compiled(*arrays)
        except EgshapeError as error:
            found.append(Timing(name, str(probe), 0.0, 0.0, str(error)[:200], hosts))
            continue
        fault = _difference(run.run(None, feed), got if isinstance(got, tuple) else (got,))
        ours, theirs = _alternate(lambda a=arrays: compiled(*a), lambda f=feed: run.run(None, f))
        found.append(Timing(name, str(probe), ours * 1e3, theirs * 1e3, fault, hosts))
    return found


def _difference(wanted: Iterable[Any], got: Iterable[Any]) -> str:
    for index, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if np.shape(a) != np.shape(b):
            return f"output {index} has shape {np.shape(b)} for {np.shape(a)}"
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return f"output {index} differs by {np.nanmax(np.abs(np.subtract(a, b, dtype=np.float64))):.2g}"
    return ""


def _alternate(one: Callable[[], object], two: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of each, run in turns so that both see the same disturbances."""
    taken: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(taken[0]) < 3:
        for work, into in zip((one, two), taken, strict=True):
            started = time.perf_counter()
            work()
            into.append(time.perf_counter() - started)
    return statistics.median(taken[0]), statistics.median(taken[1])


def summary(found: Iterable[Timing]) -> str:
    """A Markdown table, a line a point, and the geometric mean of the ratios."""
    rows = list(found)
    lines = ["\n### Run time against ONNX Runtime, same threads\n", "| model | sizes | egshape ms | ort ms | ratio | |"]
    lines.append("|---" * 6 + "|")
    for row in rows:
        figures = f"{row.ours_ms:.3f} | {row.theirs_ms:.3f} | {row.ratio:.2f}" if row.ours_ms else " | | "
        notes = [row.fault] if row.fault else []
        notes += [f"{row.host_calls} host calls"] if row.host_calls else []
        lines.append(f"| {row.model} | {row.point} | {figures} | {'; '.join(notes)} |")
    sound = [math.log(row.ratio) for row in rows if row.ratio and not row.fault]
    if sound:
        mean = math.exp(statistics.mean(sound))
        lines.append(f"\ngeometric mean over {len(sound)} points without a fault: {mean:.2f}")
    return "\n".join(lines)
