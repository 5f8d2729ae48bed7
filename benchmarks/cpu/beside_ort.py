"""ONNX models beside ONNX Runtime: one process, alternating runs, medians; results are compared before anything is
timed. Ratios are ONNX Runtime's time over ours: above 1, egshape is faster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnxruntime as ort

import egshape
from benchmarks.tools.machine import measured_on
from benchmarks.tools.timing import Table, sampled, shown

TOLERANCE = 2e-3


@dataclass(frozen=True)
class Point:
    """Inputs by name, and how a table calls them."""

    name: str
    inputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, and where it is timed."""

    name: str
    build: Callable[[], bytes]
    points: Callable[[], Sequence[Point]]


def session(model: bytes, threads: int) -> Any:
    """ONNX Runtime with all of its optimizations. Its threads stop spinning where a run ends: they would take the other
    side's processors."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, ["CPUExecutionProvider"])


def _agree(where: str, wanted: Sequence[np.ndarray], got: Any) -> None:
    """Raises SystemExit where results differ."""
    for one, two in zip(wanted, got if isinstance(got, tuple) else (got,), strict=True):
        if one.shape != np.shape(two) or not np.allclose(one, two, rtol=TOLERANCE, atol=TOLERANCE):
            raise SystemExit(f"{where}: results differ by {np.abs(one - np.asarray(two)).max():.2g}")


def ratios(case: Case, table: Table, at: str, threads: int, seconds: float) -> list[float]:
    """ONNX Runtime's time over ours at each of a model's points, a row of the table each."""
    model = case.build()
    compiled, other = egshape.compile(model, target="llvm", threads=threads), session(model, threads)
    found: list[float] = []
    for point in case.points():
        if at not in point.name:
            continue
        feeds = dict(point.inputs)
        arrays = [feeds[each.name] for each in other.get_inputs()]
        _agree(f"{case.name} at {point.name}", other.run(None, feeds), compiled(*arrays))
        runs = {"egshape": partial(compiled, *arrays), "onnxruntime": partial(other.run, None, feeds)}
        samples = sampled(runs, 15, seconds)
        found.append(samples.ratio("onnxruntime", "egshape"))
        times = [shown(samples.typical(name)) for name in runs]
        table.row([f"{case.name}, {point.name}", *times, f"{found[-1]:.2f}"])
    table.row([f"{case.name}, geometric mean", "", "", f"{np.exp(np.mean(np.log(found))):.2f}"])
    return found


def run(cases: Sequence[Case], about: str | None) -> None:
    """Print the table that the command line asks for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--at", default="", help="only points whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row, at most")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    print(measured_on(["onnxruntime", "onnx"], args.threads))
    table = Table(["case", "egshape", "ONNX Runtime", "ratio"], markdown=args.markdown)
    chosen = [case for case in cases if args.only in case.name]
    every = [ratio for case in chosen for ratio in ratios(case, table, args.at, args.threads, args.seconds)]
    if every:
        table.row(["all, geometric mean", "", "", f"{np.exp(np.mean(np.log(every))):.2f} (least {min(every):.2f})"])
