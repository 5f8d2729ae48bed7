"""Operations of StableHLO models before and after ``egshape.optimize``, a row a model.

python -m benchmarks.ops [MODELS_FOLDER] [--save FOLDER]; the folder is $EGSHAPE_SHARED/models if none is named.

``raw/saved`` are the counts of benchmarks/opcount.py. ``distinct`` are the distinct shape values that data ops
read; ``each`` are the shape ops for each of them, where ops that assertions share are apart, and ``strict`` where
they are counted as shape ops too. ``once`` is the saved total if every op that repeats another one (same name,
operands, attributes and types) were there once: what more sharing could reach, without a new rewrite.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import egshape
from benchmarks.opcount import OpCounts, count_ops
from egshape.frontends.stablehlo.emit import write
from egshape.frontends.stablehlo.parse import libraries

TARGETS = {"total": 1280, "dynamic": 225, "each": 1.15}
"""What the 11 sample models together should reach."""

_COLUMNS = ("total", "dynamic", "data", "shape", "constants", "assertions", "structure")


@dataclass(frozen=True)
class Row:
    """A model: counts before and after, seconds apart. ``checks`` are (proved, kept)."""

    name: str
    raw: OpCounts
    saved: OpCounts
    shared: int
    once: int
    checks: tuple[int, int]

    def __add__(self, other: Row) -> Row:
        checks = (self.checks[0] + other.checks[0], self.checks[1] + other.checks[1])
        return Row(
            "all",
            self.raw + other.raw,
            self.saved + other.saved,
            self.shared + other.shared,
            self.once + other.once,
            checks,
        )

    def each(self, more: int = 0) -> float:
        """Shape ops for each distinct shape value."""
        return (self.saved.shape + more) / max(self.saved.distinct_shape_values, 1)

    def __str__(self) -> str:
        pairs = (f"{getattr(self.raw, key):>5}/{getattr(self.saved, key):<5}" for key in _COLUMNS)
        return (
            f"{self.name:<20} {' '.join(pairs)} {self.saved.distinct_shape_values:>8} {self.each():>5.2f} "
            f"{self.each(self.shared):>6.2f} {self.once:>5} {self.checks[0]:>6}/{self.checks[1]}"
        )


def measure(path: Path, save: Path | None = None) -> Row:
    """The row of a model file; the optimized program goes to the folder ``save``."""
    result = egshape.optimize(egshape.load(path))
    saved = write(result.graph)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / path.name).write_text(saved)
    proved = sum(check.status == "proved" for check in result.report.checks)
    shared, repeated = sharing(saved)
    counts = count_ops(saved)
    return Row(
        path.stem,
        count_ops(path.read_text()),
        counts,
        shared,
        counts.total - repeated,
        (proved, len(result.report.checks) - proved),
    )


def sharing(text: str) -> tuple[int, int]:
    """Of a module: the ops that both a shape operand and an assertion are computed from, and the ops that repeat
    another one that is in sight."""
    hlo = libraries()
    with hlo.make_ir_context() as context, hlo.ir.Location.unknown(context):
        module = hlo.ir.Module.parse(text, context)
        functions = [view.operation for view in module.body.operations]
        return sum(_shared(function) for function in functions), sum(
            _repeated(function.regions[0].blocks[0], {}, {}) for function in functions
        )


def _shared(function: Any) -> int:
    ops = [op for block in function.regions[0].blocks for op in _walk(block)]
    maker = {value: op for op in ops for value in op.results}
    checks = {
        op
        for op in ops
        if "call_target_name" in op.attributes and op.attributes["call_target_name"].value == "shape_assertion"
    }
    checked = _behind([value for op in checks for value in op.operands], maker)
    other = {op for op in ops if op not in checked and op not in checks}
    used = {maker[value] for op in other for value in op.operands if value in maker}
    return sum(op in used and op.name != "stablehlo.constant" for op in checked)


def _behind(values: list[Any], maker: dict[Any, Any]) -> set[Any]:
    found: set[Any] = set()
    while values:
        op = maker.get(values.pop())
        if op is not None and op not in found:
            found.add(op)
            if op.name != "stablehlo.get_dimension_size":
                values.extend(op.operands)
    return found


def _walk(block: Any) -> Iterator[Any]:
    for view in block.operations:
        yield view.operation
        for region in view.operation.regions:
            for inner in region.blocks:
                yield from _walk(inner)


def _repeated(block: Any, names: dict[Any, Any], seen: dict[Any, Any]) -> int:
    """Ops of a block, and of the regions inside, that repeat one before them."""
    count = 0
    seen = dict(seen)
    for view in block.operations:
        op = view.operation
        for region in op.regions:
            count += sum(_repeated(inner, names, seen) for inner in region.blocks)
        if op.regions or not op.results or op.name == "stablehlo.custom_call":
            continue
        operands = tuple(names.get(value, value) for value in op.operands)
        key = (op.name, operands, str(op.attributes), tuple(str(value.type) for value in op.results))
        count += key in seen
        first = seen.setdefault(key, list(op.results))
        names.update(zip(op.results, first, strict=True))
    return count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Operations of StableHLO models before and after egshape.")
    shared = os.environ.get("EGSHAPE_SHARED", Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("models", type=Path, nargs="?", default=Path(shared) / "models")
    parser.add_argument("--save", type=Path, help="folder for the optimized programs")
    options = parser.parse_args()
    models = sorted(options.models.glob("*.mlir"))
    if not models:
        print(f"skipped: no models in {options.models} (EGSHAPE_SHARED names another place)")
        return
    columns = " ".join(f"{key:^11}" for key in _COLUMNS)
    print(f"{'raw/saved':<20} {columns} {'distinct':>8} {'each':>5} {'strict':>6} {'once':>5} proved/kept")
    rows = []
    for path in models:
        rows.append(measure(path, options.save))
        print(rows[-1], flush=True)
    total = sum(rows[1:], start=rows[0])
    print(total)
    print(f"targets: total <= {TARGETS['total']}, dynamic <= {TARGETS['dynamic']}, each <= {TARGETS['each']}")


if __name__ == "__main__":
    main()
