"""Operations of StableHLO models before and after ``egshape.optimize``, a row a model.

python -m benchmarks.ops MODELS_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import egshape
from benchmarks.opcount import OpCounts, count_ops
from egshape.frontends.stablehlo.emit import write

_COLUMNS = ("total", "dynamic", "data", "shape", "constants", "assertions", "structure")


def _row(name: str, raw: OpCounts, saved: OpCounts) -> str:
    pairs = (f"{getattr(raw, key):>5}/{getattr(saved, key):<5}" for key in _COLUMNS)
    ratio = saved.shape / saved.distinct_shape_values if saved.distinct_shape_values else 0.0
    return f"{name:<20} {' '.join(pairs)} {saved.distinct_shape_values:>8} {ratio:>9.2f}"


def main(folder: str) -> None:
    """Print the table: raw/saved counts, distinct shape values when saved, shape ops for each of them."""
    columns = " ".join(f"{key:^11}" for key in _COLUMNS)
    print(f"{'raw/saved':<20} {columns} {'distinct':>8} {'shape/each':>9}")
    before, after = OpCounts(), OpCounts()
    for path in sorted(Path(folder).glob("*.mlir")):
        raw = count_ops(path.read_text())
        saved = count_ops(write(egshape.optimize(egshape.load(str(path))).graph))
        print(_row(path.stem, raw, saved))
        before, after = before + raw, after + saved
    print(_row("all", before, after))


if __name__ == "__main__":
    main(sys.argv[1])
