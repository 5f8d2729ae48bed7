"""Rows of ``benchmarks.cuda`` as tables, and what they say of the goals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cuda.rows import Row

LARGE = 120 << 20
"""Bytes of inputs and outputs from which a kernel is one of memory, not of the cache."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "check": ("right",),
    "bandwidth": (
        "ours",
        "ours facts",
        "ours blind",
        "GB/s",
        "of a copy",
        "eager/ours",
        "compiled/ours",
        "triton/ours",
    ),
    "models": (
        "ours",
        "ours host",
        "replay host",
        "ours device",
        "ours longest",
        "eager/ours",
        "compiled/ours",
        "onnxruntime/ours",
        "compiled again",
    ),
    "attention": ("ours fused", "ours library", "ours cudnn", "TFLOP/s", "eager", "ours/eager"),
    "gemm": ("ours", "ours own", "products", "products/ours", "linear/ours", "eager/ours", "compiled/ours"),
    "host": ("new results", "given results", "own stream", "eager", "new results, done"),
    "streams": (),
    "sanitizer": (),
    "tune": (),
}
"""The values of a group's rows that are printed; the rest is in the files."""


def report(rows: Sequence[Row]) -> str:
    """A table for each group, what went wrong, and what became of the goals."""
    parts = [_table(group, [row for row in rows if row.group == group and row.status == "ok"]) for group in COLUMNS]
    faults = [row for row in rows if row.status != "ok"]
    if faults:
        lines = [f"| {row.group} | {row.case} | {row.sizes} | {row.status} | {row.note[:160]} |" for row in faults[:25]]
        more = [f"and {len(faults) - 25} more"] if len(faults) > 25 else []
        parts.append("\n".join(["| group | case | sizes | status | why |", "|---|---|---|---|---|", *lines, *more]))
    notes = list(
        dict.fromkeys(
            f"{row.case}: {row.note}" for row in rows if row.status == "ok" and row.note and row.group != "tune"
        )
    )
    parts += ["\n".join(each[:200] for each in notes[:10])] if notes else []
    return "\n\n".join(filter(None, [*parts, _goals(rows)]))


def _table(group: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    if group == "tune":
        return "\n".join(["| tune | | us | best |", "|---|---|---|---|", *map(_tuned, rows)])
    names = [name for name in COLUMNS[group] if any(name in row.values for row in rows)]
    if not names:
        return f"{group}: {len(rows)} right"
    lines = [(group, "", *names), tuple("---" for _ in range(2 + len(names)))]
    if group == "check":
        plain = sum("right" not in row.values for row in rows)
        rows = [*(row for row in rows if "right" in row.values), Row(group, "cases", values={"right": plain})]
    lines += [(row.case, row.sizes, *(_cell(name, row.values) for name in names)) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _tuned(row: Row) -> str:
    values = ", ".join(f"{name.removeprefix('ours ')}: {value:.4g}" for name, value in row.values.items())
    return f"| {row.case} | {row.sizes} | {values} | {row.note} |"


def _cell(name: str, values: Mapping[str, float]) -> str:
    value = values.get(name)
    if value is None or math.isnan(value):
        return ""
    if name == "of a copy":
        return f"{value:.0%}"
    return f"{value:.2f}" if "/" in name and name not in ("GB/s", "TFLOP/s") else f"{value:.4g}"


@dataclass(frozen=True)
class Goal:
    """What rows of a group should show: a value that is at least, or at most, a bound."""

    text: str
    group: str
    value: str
    bound: float
    least: bool = True
    chosen: Callable[[Row], bool] = lambda _: True

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.bound if self.least else value <= self.bound


def _numbers(row: Row) -> Iterator[int]:
    for word in row.sizes.split():
        if word.isdigit():
            yield int(word)


def _large(row: Row) -> bool:
    return row.values.get("bytes", 0) >= LARGE


def _divides(row: Row) -> bool:
    return _large(row) and "1023" not in row.case and all(size % 8 == 0 for size in _numbers(row))


def _odd(row: Row) -> bool:
    return _large(row) and not _divides(row)


def _half(row: Row) -> bool:
    return "f32" not in row.case


GOALS = (
    Goal("85 % of a copy's rate, large sizes that divide", "bandwidth", "of a copy", 0.85, chosen=_divides),
    Goal("70 % of a copy's rate, large odd sizes", "bandwidth", "of a copy", 0.70, chosen=_odd),
    Goal("as fast as torch.compile(dynamic=True)", "bandwidth", "compiled/ours", 1.0, chosen=_large),
    Goal("as fast as Triton's kernels", "bandwidth", "triton/ours", 1.0, chosen=_large),
    Goal("90 % of cuBLASLt's time for its products", "gemm", "products/ours", 0.9),
    Goal("attention within 2x of flash attention", "attention", "ours/eager", 2.0, least=False, chosen=_half),
    Goal("models: 1.3x torch eager", "models", "eager/ours", 1.3),
    Goal("models: 1.0x torch.compile(dynamic=True)", "models", "compiled/ours", 1.0),
    Goal("models, host: 20 us a call", "models", "ours host", 20.0, least=False),
    Goal("models, host: 10 us where a graph is launched", "models", "replay host", 10.0, least=False),
    Goal("host: 20 us a call", "host", "new results", 20.0, least=False),
    Goal("host: 10 us where a graph is launched", "host", "given results", 10.0, least=False),
)


def _goals(rows: Sequence[Row]) -> str:
    lines = ["| goal | reached | worst | where |", "|---|---|---|---|"]
    for goal in GOALS:
        found = [
            (row.values[goal.value], row)
            for row in rows
            if row.group == goal.group and row.status == "ok" and goal.value in row.values and goal.chosen(row)
        ]
        if found:
            value, row = (min if goal.least else max)(found, key=lambda each: each[0])
            reached = sum(goal.met(value) for value, _ in found)
            lines.append(f"| {goal.text} | {reached} of {len(found)} | {value:.3g} | {row.case} {row.sizes} |")
        else:
            lines.append(f"| {goal.text} | not measured | | |")
    for group in ("check", "streams", "sanitizer"):
        mine = [row for row in rows if row.group == group and row.status != "skipped"]
        right = sum(int(row.values.get("right", 1)) for row in mine if row.status == "ok")
        wrong = [row for row in mine if row.status != "ok"]
        where = f"{wrong[0].case} {wrong[0].sizes}" if wrong else ""
        lines.append(f"| {group}: all right | {right} of {right + len(wrong)} | | {where} |")
    return "\n".join(lines)
