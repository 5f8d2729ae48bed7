"""What a person sees on a terminal: chains of reasons, summaries, tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


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


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Cells in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


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
