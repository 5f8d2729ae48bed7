"""Run time of real models: compiled once by egshape, against ONNX Runtime with all of its optimizations.

Both sides get the same arrays and threads, in one process, in alternating runs; medians and their ratio. Outputs are
compared before anything is timed. Each model has a process of its own, so that a crash is a line and not the end.

    python -m benchmarks.zoo.speed NAME FILE.onnx [--threads 1]        prints a line of JSON a point
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.fetch import cache_folder
from benchmarks.zoo.inputs import Plan, session
from benchmarks.zoo.plans import plan_of

SECONDS = 0.6
"""Of timing for each point and model, both sides together."""

TIMEOUT = 300.0
"""Seconds for a model."""

TOLERANCE = 1e-3
"""The fused kernels add in another order, so that this is wider than where one runtime runs both models."""

DRAWS = 8
"""Of models whose float constants are moved by a unit of the last place, to see what rounding does to a model."""


@dataclass(frozen=True)
class Timing:
    """One model at one point: median milliseconds of both. ``fault`` says why there is no figure; ``note``, that
    results differ, but not more than ONNX Runtime's own if the model's constants move by a unit of the last place."""

    model: str
    point: str
    ours_ms: float
    theirs_ms: float
    fault: str
    host_calls: int = 0
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than ONNX Runtime."""
        return self.theirs_ms / self.ours_ms if self.ours_ms else 0.0


def run(name: str, path: Path, threads: int) -> list[Timing]:
    """The timings of a model, measured in another process."""
    command = [sys.executable, "-m", "benchmarks.zoo.speed", name, str(path), f"--threads={threads}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return [Timing(name, "", 0.0, 0.0, f"not done after {TIMEOUT:.0f} s")]
    found = [Timing(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0:
        return found
    said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
    return [*found, Timing(name, "", 0.0, 0.0, said[-1][:200])]


def timings(name: str, path: Path, plan: Plan, threads: int) -> list[Timing]:
    """The timings of a model at every point of its plan."""
    import egshape
    from egshape.errors import EgshapeError

    try:
        graph = egshape.optimize(egshape.load(path), validate=False).graph
        compiled: Any = egshape.compile(graph, target="llvm", threads=threads, optimize=False)
    except EgshapeError as error:
        return [Timing(name, "", 0.0, 0.0, str(error)[:200])]
    run = session(str(path), threads, optimize=True)
    inputs = [value.name for value in graph.inputs]
    hosts = sum(op.name == "host_call" for op in graph.body.walk())
    found: list[Timing] = []
    moved: list[Any] = []
    for probe in plan.probes:
        feed = plan.feed(probe)
        arrays = [feed[key] for key in inputs]
        try:
            got = compiled(*arrays)
        except EgshapeError as error:
            found.append(Timing(name, str(probe), 0.0, 0.0, str(error)[:200], hosts))
            continue
        wanted, results, note = run.run(None, feed), got if isinstance(got, tuple) else (got,), ""
        fault = _difference(wanted, results)
        if fault:
            moved = moved or _moved(path, threads)
            own = max(_largest(wanted, other.run(None, feed)) for other in moved)
            if _largest(wanted, results) <= 2 * own:
                fault, note = "", f"{fault}; moving constants by a unit in the last place does {own:.2g}"
        ours, theirs = _alternate(lambda a=arrays: compiled(*a), lambda f=feed: run.run(None, f))
        found.append(Timing(name, str(probe), ours * 1e3, theirs * 1e3, fault, hosts, note))
    return found


def _moved(path: Path, threads: int) -> list[Any]:
    """ONNX Runtime sessions of the model with each float constant moved by a unit of the last place, up or down."""
    import onnx

    rng, sessions = np.random.default_rng(0), []
    for _ in range(DRAWS):
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                array = onnx.numpy_helper.to_array(tensor)
                towards = np.where(rng.random(array.shape) < 0.5, np.inf, -np.inf).astype(np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.nextafter(array, towards), tensor.name))
        sessions.append(session(model.SerializeToString(), threads, optimize=True))
    return sessions


def _largest(one: Iterable[Any], two: Iterable[Any]) -> float:
    """The largest difference between results; infinite if shapes differ, or what is not a number."""
    found = 0.0
    for a, b in zip(one, two, strict=True):
        if np.shape(a) != np.shape(b) or not np.array_equal(np.isnan(a), np.isnan(b)):
            return math.inf
        found = max(found, float(np.nanmax(np.abs(np.subtract(a, b, dtype=np.float64)), initial=0.0)))
    return found


def _difference(wanted: Iterable[Any], got: Iterable[Any]) -> str:
    for index, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if np.shape(a) != np.shape(b):
            return f"output {index} has shape {np.shape(b)} for {np.shape(a)}"
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return f"output {index} differs by {np.nanmax(np.abs(np.subtract(a, b, dtype=np.float64))):.2g}"
    return ""


def main() -> None:
    """Time one model, a line of JSON a point."""
    parser = argparse.ArgumentParser(description="Run time of one model against ONNX Runtime.")
    parser.add_argument("name", nargs="?")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.file is None:
        print("skipped: no model is named (python -m benchmarks.zoo runs all of them)")
        return
    for timing in timings(options.name, options.file, plan_of(options.file, cache_folder()), options.threads):
        print(json.dumps(asdict(timing)), flush=True)


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


def summary(found: Iterable[Timing], where: Mapping[str, str] | None = None) -> str:
    """A Markdown table, a line a point, and the geometric mean of the ratios; ``where``: the machine of each model, of
    several, which have a mean each."""
    rows = list(found)
    heads = ["model", "sizes", "egshape ms", "ort ms", "ratio", "", *(["machine"] if where else [])]
    lines = [
        "\n### Run time against ONNX Runtime, same threads\n",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for row in rows:
        figures = f"{row.ours_ms:.3f} | {row.theirs_ms:.3f} | {row.ratio:.2f}" if row.ours_ms else " | | "
        notes = [each for each in (row.fault, row.note) if each]
        notes += [f"{row.host_calls} host calls"] if row.host_calls else []
        machine = f" {where[row.model]} |" if where else ""
        lines.append(f"| {row.model} | {row.point} | {figures} | {'; '.join(notes)} |{machine}")
    for machine in dict.fromkeys(where.values()) if where else [""]:
        sound = [
            math.log(row.ratio)
            for row in rows
            if row.ratio and not row.fault and (where is None or where[row.model] == machine)
        ]
        if sound:
            mean = math.exp(statistics.mean(sound))
            on = f" on {machine}" if where else ""
            lines.append(f"\ngeometric mean over {len(sound)} points without a fault{on}: {mean:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
