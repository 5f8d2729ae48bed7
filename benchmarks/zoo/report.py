"""What the zoo measured as one report, whichever processes or machines measured it, and as tables.

All figures of a model are of one machine. Counts are the same on every one; seconds, memory and run times are not, so
that where several took part the tables of these say which gave each line, and means are of one machine each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.zoo import shapes as zoo_shapes
from benchmarks.zoo import speed as zoo_speed
from benchmarks.zoo.rows import ORIGINAL, Row


@dataclass(frozen=True)
class Report:
    """All that was measured: ``rows`` by model and tool, ``shapes`` by inference, ``speed`` by point. ``machines``: all
    that took part, by name; ``where``: the name of that which measured a model."""

    rows: list[Row] = field(default_factory=list)
    shapes: list[zoo_shapes.Coverage] = field(default_factory=list)
    speed: list[zoo_speed.Timing] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)


def of_json(found: Mapping[str, Any]) -> Report:
    """A report that was made of JSON."""
    return Report(
        [Row(**each) for each in found["rows"]],
        [zoo_shapes.Coverage(**each) for each in found["shapes"]],
        [zoo_speed.Timing(**each) for each in found["speed"]],
        **{key: dict(found[key]) for key in ("skipped", "machines", "where")},
    )


def joined(reports: Iterable[Report]) -> Report:
    """Several as one, in their order."""
    whole = Report()
    for each in reports:
        whole.rows.extend(each.rows)
        whole.shapes.extend(each.shapes)
        whole.speed.extend(each.speed)
        whole.skipped.update(each.skipped)
        whole.machines.update(each.machines)
        whole.where.update(each.where)
    return whole


def table(
    rows: Iterable[Row], tools: Sequence[str], title: str, cell: Any, where: Mapping[str, str] | None = None
) -> str:
    """A Markdown table, a line a model, a column a tool; ``where``: and a column for the machine of each model."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.tool] = row
    heads = ["model", *tools, *(["machine"] if where else [])]
    lines = [f"\n### {title}\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for model, cells in by_model.items():
        texts = [cell(cells[tool]) if tool in cells else "" for tool in tools]
        texts += [where[model]] if where else []
        lines.append(f"| {model} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _unless_broken(text: Any) -> Any:
    """A cell's text, marked where the model is not whole: what was removed wrongly is no gain."""
    return lambda row: f"({text(row)})" if row.fault else str(text(row))


def summary(report: Report, tools: Sequence[str]) -> str:
    """Everything as Markdown, below what it was measured on."""
    columns = [ORIGINAL, *tools]
    rows, where = report.rows, report.where if len(report.machines) > 1 else None
    counted = [
        ("Shape-related nodes", lambda r: r.shape_nodes),
        ("Size-dependent small tensors / distinct values", lambda r: f"{r.small}/{r.distinct}"),
        ("Nodes", lambda r: r.nodes),
        ("No-op data movement", lambda r: sum(r.no_ops.values())),
    ]
    parts = [f"{name}: {about}" for name, about in report.machines.items()] if where else [*report.machines.values()]
    parts += ["Figures in parentheses: the model is not whole (the list of faults is below)."]
    parts += [table(rows, columns, title, _unless_broken(cell)) for title, cell in counted]
    parts.append(table(rows, tools, "Seconds", lambda r: f"{r.seconds:.2f}", where))
    parts.append(table(rows, tools, "Peak memory, MB", lambda r: f"{r.peak_mb:.0f}", where))
    parts.append("\n### Sums\n")
    parts += [_sums(rows, tool) for tool in columns]
    faults = [f"- {row.model}, {row.tool}: {row.fault}" for row in rows if row.fault]
    parts += ["\n### Faults\n", *(faults or ["none"])]
    if report.shapes:
        parts.append(zoo_shapes.summary(report.shapes))
    if report.speed:
        parts.append(zoo_speed.summary(report.speed, where))
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
