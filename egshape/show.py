"""What a person sees on a terminal: chains of reasons, summaries, tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egshape.report import AdviceTable, Report, ShapeTable

_KINDS_SHOWN = 12
"""Rows of the summary of ``optimize``."""


def steps(why: Sequence[dict[str, Any]], checked: Sequence[str] = ()) -> Iterator[str]:
    """The lines that tell a person about a chain; ``checked`` says how each step was checked, where it was."""
    for place, step in enumerate(why):
        source = " and ".join(step["from"])
        location = f"   ({step['location']})" if step.get("location") else ""
        how = f"   [{checked[place]}]" if place < len(checked) else ""
        yield f"  {step['to']}   by {step['rule']}" + (f" from {source}" if source else "") + location + how


def verdict(answer: dict[str, Any]) -> Iterable[str]:
    """The lines that tell a person about a proof or an explanation."""
    yield answer["status"]
    for name, size in answer.get("sizes", {}).items():
        yield f"  {name} is {size}"
    yield from steps(answer["why"], answer.get("checked", ()))
    if answer.get("counterexample"):
        yield "  false at " + ", ".join(f"{name} = {size}" for name, size in answer["counterexample"].items())
    if answer.get("missing"):
        yield f"  would follow from {answer['missing']}"
    if answer.get("clash"):
        yield "  these cannot all hold: " + "; ".join(answer["clash"])


def history(answer: dict[str, Any]) -> Iterator[str]:
    """The lines that tell a person what became of a value."""
    place = f"   ({answer['location']})" if answer["location"] else ""
    yield f"{answer['value']} ({answer['op']}) is {answer['status']}" + place
    yield from steps(answer["why"])
    if answer["stands"] is not None:
        yield f"in the result: {answer['stands']}"


def shape_rows(shapes: ShapeTable) -> list[tuple[str, ...]]:
    """The cells of a table of shapes, its heading first."""
    rows: list[tuple[str, ...]] = [("value", "op", "type", "from", "location")]
    for row in shapes.values:
        type = row.dtype + ("[?]" if row.shape is None else f"[{', '.join(row.shape)}]")
        rows.append((row.name, row.op, type, "; ".join(" ".join(each) or "-" for each in row.from_), row.location))
    return rows


def advice_rows(advice: AdviceTable) -> list[tuple[str, ...]]:
    """The cells of a table of facts that help, its heading first."""
    rows = [(str(each.bytes_saved), str(each.ops_removed), str(each.checks_removed), each.flag)
            for each in advice.advice]
    return [("bytes saved", "ops removed", "checks removed", "option"), *rows]


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Cells in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def summary(report: Report, seconds: float) -> Iterator[str]:
    """What happened, for a person: totals, the kinds of ops whose number changed, checks."""
    before, after = report.ops.before, report.ops.after
    yield f"{report.model}: {before.total} ops -> {after.total} ops ({report.status}, {seconds:.2f} s)"
    changes = [
        (name, before.by_name.get(name, 0), after.by_name.get(name, 0))
        for name in {**before.by_name, **after.by_name}
    ]
    changes = sorted((row for row in changes if row[1] != row[2]), key=lambda row: (row[2] - row[1], row[0]))
    rows = changes if len(changes) <= _KINDS_SHOWN else changes[: _KINDS_SHOWN - 1]
    rest = changes[len(rows) :]
    if rest:
        rows.append((f"{len(rest)} other kinds", sum(row[1] for row in rest), sum(row[2] for row in rest)))
    width = max((len(row[0]) for row in rows), default=0)
    for name, old, new in rows:
        yield f"  {name:<{width}}  {old:>5} -> {new}"
    checks = {status: sum(check.status == status for check in report.checks) for status in ("proved", "kept")}
    yield f"checks: {checks['proved']} proved, {checks['kept']} kept"


def print_table(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table for a terminal, tab-separated lines for anything else."""
    if not sys.stdout.isatty():
        sys.stdout.write("".join("\t".join(row) + "\n" for row in (heading, *rows)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*heading, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
