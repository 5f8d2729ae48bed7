"""One model's share of the zoo, in any process of any machine: a report of it as JSON."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from benchmarks.tools.machine import measured_on
from benchmarks.zoo import fetch
from benchmarks.zoo import inputs as zoo_inputs
from benchmarks.zoo import shapes as zoo_shapes
from benchmarks.zoo import speed as zoo_speed
from benchmarks.zoo import tools as zoo_tools
from benchmarks.zoo.plans import plan_of
from benchmarks.zoo.report import Report
from benchmarks.zoo.rows import run_model
from egshape.commands import record

PACKAGES = ("onnx", "onnxruntime", "onnxslim", "onnxsim", "onnxoptimizer")


def measured(name: str, path: Path, asked: Sequence[str], shapes: bool, speed: bool, threads: int) -> Report:
    """All figures of a model. ``asked``: the tools; ``shapes``, ``speed``: whether inference, run time are measured."""
    tools = [tool for tool in asked if zoo_tools.installed(tool)]
    machine = platform.node()
    report = Report(machines={machine: measured_on(PACKAGES, threads)}, where={name: machine})
    report.skipped.update((tool, "not installed") for tool in asked if tool not in tools)
    try:
        with tempfile.TemporaryDirectory() as folder:
            report.rows.extend(run_model(name, path, tools, fetch.cache_folder(), Path(folder)))
        if shapes:
            report.shapes.extend(zoo_shapes.coverages(name, path, plan_of(path, fetch.cache_folder())))
        if speed and "egshape" in tools:
            report.speed.extend(zoo_speed.run(name, path, threads))
    except zoo_inputs.NoSizes as error:
        report.skipped[name] = f"no sizes found: {error}"
    return report


def share(model: str, *, name: str, asked: Sequence[str], shapes: bool, speed: bool, threads: int) -> None:
    """Print the report of a model as the last line; the exit code is 1 where egshape left it not whole."""
    record.parts(Path(model), None)  # refuses what is no model
    report = measured(name, Path(model), asked, shapes, speed, threads)
    sys.stdout.write(f"{json.dumps(asdict(report))}\n")
    raise typer.Exit(int(any(row.fault for row in report.rows if row.tool == "egshape")))
