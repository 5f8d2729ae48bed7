"""A model as each tool leaves it: what is counted, and whether it is whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.zoo import inputs as zoo_inputs
from benchmarks.zoo import measures as zoo_measures
from benchmarks.zoo import tools as zoo_tools
from benchmarks.zoo.inputs import Plan, Probe
from benchmarks.zoo.plans import plan_of

ORIGINAL = "original"
TOLERANCE = 1e-4
TIMEOUT = 300.0
"""Seconds that a tool has for a model."""


@dataclass(frozen=True)
class Row:
    """A model as one tool left it. ``fault`` is empty for a whole model, else what is wrong with it."""

    model: str
    tool: str
    fault: str
    nodes: int = 0
    shape_nodes: int = 0
    small: int = 0
    distinct: int = 0
    no_ops: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    peak_mb: float = 0.0
    points: int = 0


def outputs_at(path: Path, plan: Plan) -> list[dict[str, Any]]:
    """A model's outputs at every point of its plan."""
    run = zoo_inputs.session(str(path))
    names = [value.name for value in run.get_outputs()]
    return [dict(zip(names, run.run(names, plan.feed(probe)), strict=True)) for probe in plan.probes]


def find_fault(path: Path, original: Path, plan: Plan, wanted: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a tool's model; empty if nothing is."""
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:  # the checker's errors share no base class with the parser's
        return f"checker: {_first_line(error)}"
    before, after = (onnx.load(p, load_external_data=False).graph for p in (original, path))
    if _input_names(before) != _input_names(after):
        return f"inputs became {', '.join(_input_names(after))}"
    if [o.name for o in before.output] != [o.name for o in after.output]:
        return f"outputs became {', '.join(o.name for o in after.output)}"
    del before, after
    try:
        got = outputs_at(path, plan)
    except Exception as error:
        return f"runtime: {_first_line(error)}"
    return next((f for p, a, b in zip(plan.probes, wanted, got, strict=True) if (f := _difference(p, a, b))), "")


def _input_names(graph: onnx.GraphProto) -> list[str]:
    defaults = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in defaults]


def _difference(probe: Probe, wanted: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    for name, array in wanted.items():
        a, b = np.asarray(array), np.asarray(got[name])
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} at {probe}: {b.dtype}{list(b.shape)} for {a.dtype}{list(a.shape)}"
        if a.dtype.kind in "biu":
            same = np.array_equal(a, b)
        else:
            same = a.dtype.kind == "O" or np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if not same:
            most = np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)))
            return f"{name} at {probe}: differs by {most:.2g}"
    return ""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160] if lines else ''}"


def measure(
    name: str,
    path: Path,
    original: Path,
    tool: str,
    plan: Plan,
    outcome: zoo_tools.Outcome,
    wanted: Sequence[Mapping[str, Any]],
) -> Row:
    """The row of a written model."""
    fault = "" if tool == ORIGINAL else find_fault(path, original, plan, wanted)
    row: dict[str, Any] = {"seconds": outcome.seconds, "peak_mb": outcome.peak_mb, "points": len(plan.probes)}
    try:
        bare = zoo_measures.skeleton(path)
        row |= {"nodes": sum(zoo_measures.nodes(bare).values()), "shape_nodes": zoo_measures.shape_nodes(bare)}
        seen = zoo_measures.observe(path, plan)
        small, distinct = zoo_measures.small_tensors(bare, seen)
        row |= {"small": small, "distinct": distinct, "no_ops": zoo_measures.no_ops(bare, seen)}
    except Exception as error:
        fault = fault or f"cannot be measured: {_first_line(error)}"
    return Row(name, tool, fault, **row)


def run_model(name: str, path: Path, tools: Sequence[str], cache: Path, folder: Path) -> list[Row]:
    """The rows of one model: as it is, and as each tool leaves it in ``folder``."""
    plan = plan_of(path, cache)
    wanted = outputs_at(path, plan)
    rows = [measure(name, path, path, ORIGINAL, plan, zoo_tools.Outcome(0, 0, 0, ""), wanted)]
    for tool in tools:
        target = folder / f"{name.replace('/', '-')}.{tool}.onnx"
        outcome = zoo_tools.run_tool(tool, path, target, TIMEOUT)
        if outcome.error:
            rows.append(Row(name, tool, f"fails: {outcome.error}", seconds=outcome.seconds))
        else:
            rows.append(measure(name, target, path, tool, plan, outcome, wanted))
            target.unlink()
    return rows
