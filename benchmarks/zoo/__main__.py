"""Real ONNX models through egshape and through the optimizers that people use, a table each.

    python -m benchmarks.zoo.fetch                      once: fills the cache
    python -m benchmarks.zoo [FILE.onnx ...] [--only NAME] [--tools egshape,onnxslim] [--json OUT.json]
                             [--no-shapes] [--no-speed] [--threads 1]

What is counted is defined in ``benchmarks/zoo/measures.py``, once for all: nodes, shape-related nodes, size-dependent
small tensors with the distinct values among them, no-ops. A model that a tool wrote is **whole** if onnx.checker takes
it, inputs and outputs kept their names, and ONNX Runtime, with no optimization of its own, gives the original's outputs
within 1e-4 (integers exactly) at every point of the model's plan: sizes that it admits, found by trying, 1 and odd ones
among them. Seconds are from reading the file to having written it, in a process of its own, imports apart; memory is
that process's peak.

Tools that are not installed are skipped with a notice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.tools.machine import measured_on
from benchmarks.zoo import fetch
from benchmarks.zoo import inputs as zoo_inputs
from benchmarks.zoo import measures as zoo_measures
from benchmarks.zoo import shapes as zoo_shapes
from benchmarks.zoo import speed as zoo_speed
from benchmarks.zoo import tools as zoo_tools
from benchmarks.zoo.inputs import Plan, Probe
from benchmarks.zoo.plans import plan_of
from egshape.atomic import write_atomic

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


@dataclass(frozen=True)
class Report:
    """All that was measured: ``rows`` by model and tool, ``shapes`` by inference, ``speed`` by point."""

    rows: list[Row]
    shapes: list[zoo_shapes.Coverage]
    speed: list[zoo_speed.Timing]
    skipped: dict[str, str]


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


def table(rows: Iterable[Row], tools: Sequence[str], title: str, cell: Any) -> str:
    """A Markdown table, a line a model, a column a tool."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.tool] = row
    lines = [f"\n### {title}\n", "| model | " + " | ".join(tools) + " |", "|---" * (len(tools) + 1) + "|"]
    for model, cells in by_model.items():
        texts = [cell(cells[tool]) if tool in cells else "" for tool in tools]
        lines.append(f"| {model} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _unless_broken(text: Any) -> Any:
    """A cell's text, marked where the model is not whole: what was removed wrongly is no gain."""
    return lambda row: f"({text(row)})" if row.fault else str(text(row))


def summary(report: Report, tools: Sequence[str]) -> str:
    """Everything as Markdown."""
    columns = [ORIGINAL, *tools]
    rows = report.rows
    counted = [
        ("Shape-related nodes", lambda r: r.shape_nodes),
        ("Size-dependent small tensors / distinct values", lambda r: f"{r.small}/{r.distinct}"),
        ("Nodes", lambda r: r.nodes),
        ("No-op data movement", lambda r: sum(r.no_ops.values())),
    ]
    parts = ["Figures in parentheses: the model is not whole (the list of faults is below)."]
    parts += [table(rows, columns, title, _unless_broken(cell)) for title, cell in counted]
    parts.append(table(rows, tools, "Seconds", lambda r: f"{r.seconds:.2f}"))
    parts.append(table(rows, tools, "Peak memory, MB", lambda r: f"{r.peak_mb:.0f}"))
    parts.append("\n### Sums\n")
    parts += [_sums(rows, tool) for tool in columns]
    faults = [f"- {row.model}, {row.tool}: {row.fault}" for row in rows if row.fault]
    parts += ["\n### Faults\n", *(faults or ["none"])]
    if report.shapes:
        parts.append(zoo_shapes.summary(report.shapes))
    if report.speed:
        parts.append(zoo_speed.summary(report.speed))
    parts += [f"- skipped: {name}: {why}" for name, why in report.skipped.items()]
    return "\n".join(parts)


def _sums(rows: Iterable[Row], tool: str) -> str:
    own = [row for row in rows if row.tool == tool]
    whole = [row for row in own if not row.fault]
    return (
        f"- {tool}: {len(whole)} of {len(own)} whole, {sum(r.nodes for r in whole)} nodes, "
        f"{sum(r.shape_nodes for r in whole)} shape-related, {sum(r.small for r in whole)} small of "
        f"{sum(r.distinct for r in whole)} distinct, {sum(r.seconds for r in own):.1f} s"
    )


def _chosen(options: argparse.Namespace) -> dict[str, Path]:
    if options.files:
        return {path.stem: path for path in options.files}
    found = {model.name: path for model, path in fetch.models()}
    return {name: path for name, path in found.items() if options.only in name}


def main() -> int:
    """Measure, print the tables."""
    parser = argparse.ArgumentParser(description="Real ONNX models through egshape and its peers.")
    parser.add_argument("files", type=Path, nargs="*", help="models; the fetched zoo if none is named")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--tools", default=",".join(zoo_tools.TOOLS), help="comma-separated")
    parser.add_argument("--json", type=Path, help="where to write every figure")
    parser.add_argument("--threads", type=int, default=1, help="of both sides where run time is measured")
    parser.add_argument("--no-shapes", action="store_true", help="leave shape inference out")
    parser.add_argument("--no-speed", action="store_true", help="leave run time out")
    options = parser.parse_args()
    chosen = _chosen(options)
    if not chosen:
        print(f"skipped: no models in {fetch.cache_folder()} (python -m benchmarks.zoo.fetch brings them)")
        return 0
    asked = [tool for tool in options.tools.split(",") if tool]
    tools = [tool for tool in asked if zoo_tools.installed(tool)]
    report = Report([], [], [], {tool: "not installed" for tool in asked if tool not in tools})
    with tempfile.TemporaryDirectory() as folder:
        for name, path in chosen.items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                report.rows.extend(run_model(name, path, tools, fetch.cache_folder(), Path(folder)))
                plan = plan_of(path, fetch.cache_folder())
                if not options.no_shapes:
                    report.shapes.extend(zoo_shapes.coverages(name, path, plan))
                if not options.no_speed and "egshape" in tools:
                    report.speed.extend(zoo_speed.run(name, path, options.threads))
            except zoo_inputs.NoSizes as error:
                report.skipped[name] = f"no sizes found: {error}"
    print(measured_on(["onnx", "onnxruntime", "onnxslim", "onnxsim", "onnxoptimizer"], options.threads))
    print(summary(report, tools))
    if options.json:
        write_atomic(options.json, json.dumps(asdict(report), indent=1) + "\n")
    return 1 if any(row.fault for row in report.rows if row.tool == "egshape") else 0


if __name__ == "__main__":
    sys.exit(main())
