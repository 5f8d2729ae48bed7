"""Rows as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks.robustness.outcome import FAULTS, OUTCOMES, Row


def table(rows: Sequence[Row]) -> str:
    """Outcomes by corpus, seconds, what stays opaque by op, and every fault."""
    names = list(dict.fromkeys(row.corpus for row in rows))
    held = [outcome for outcome in OUTCOMES if any(row.outcome == outcome for row in rows)]
    grid = [["corpus", "programs", *held, "median s", "worst s", "peak MB"]]
    for name in names:
        own = [row for row in rows if row.corpus == name]
        counts = Counter(row.outcome for row in own)
        # A program that hangs or is killed leaves no time behind.
        seconds = sorted(row.ours for row in own if row.seconds) or [0.0]
        grid.append(
            [
                name,
                str(len(own)),
                *(str(counts[outcome]) for outcome in held),
                f"{median(seconds):.2f}",
                f"{seconds[-1]:.1f}",
                f"{max(row.peak_mb for row in own):.0f}",
            ]
        )
    parts = [_markdown(grid)] if rows else ["nothing was run"]
    parts += [_counted(rows, "opaque", "Ops that are carried through"), _rejections(rows), faults(rows)]
    return "\n\n".join(part for part in parts if part)


def faults(rows: Iterable[Row]) -> str:
    """The programs with a fault of egshape, worst first; "" if there is none."""
    found = sorted((row for row in rows if row.fault), key=lambda row: (FAULTS.index(row.outcome), row.corpus))
    lines = [f"- {row.outcome}: {row.corpus}: `{row.program}`: {row.detail or 'no detail'}" for row in reversed(found)]
    return "\n".join([f"{len(found)} faults:", *lines]) if found else ""


def _counted(rows: Iterable[Row], field: str, title: str) -> str:
    counts = Counter(name for row in rows for name in getattr(row, field))
    if not counts:
        return ""
    return f"{title}, by programs: " + ", ".join(
        f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _rejections(rows: Iterable[Row]) -> str:
    """Clear errors by what they say, the names in them left out."""
    counts = Counter(_kind(row.detail) for row in rows if row.outcome == "rejected-clearly")
    lines = [f"- {count}: {text}" for text, count in counts.most_common(40)]
    return "\n".join(["Rejected, by reason:", *lines]) if lines else ""


def _kind(detail: str) -> str:
    stage, _, rest = detail.partition(": ")
    return f"{stage}: {rest.rpartition('loc(')[0] or rest}"[:110]


def _markdown(grid: Sequence[Sequence[str]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in grid)
    return "\n".join([head, "|" + "---|" * len(grid[0]), *body])
