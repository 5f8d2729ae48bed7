"""Run a StableHLO program and its optimized form through XLA at a few sizes and compare the results.

    python examples/demo.py examples/encoder.mlir out/encoder.opt.mlir

Exits 1 if any result differs by more than 1e-5, or if only one of the two rejects sizes that do not fit.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from make_examples import WIDTH, weight_shapes
from rich.console import Console
from rich.table import Table

from egshape.adapters.xla import run_stablehlo
from egshape.errors import CheckFailed

SIZES = [(1, 1), (2, 7), (3, 64), (8, 128)]
TOLERANCE = 1e-5


def inputs(batch: int, length: int, mask_length: int | None = None) -> list[np.ndarray]:
    """Arrays in the order of the exported arguments: x, mask, then the weights by name."""
    rng = np.random.default_rng(batch * 1000 + length)
    x = rng.standard_normal((batch, length, WIDTH), dtype=np.float32)
    mask = (rng.random((batch, mask_length or length)) < 0.9).astype(np.float32)
    shapes = weight_shapes()
    weights = [rng.standard_normal(shapes[name], dtype=np.float32) * 0.2 for name in sorted(shapes)]
    return [x, mask, *weights]


def timed(program: str, arrays: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """The first result, and the seconds that XLA took to compile and run."""
    start = time.perf_counter()
    (result,) = run_stablehlo(program, arrays)
    return result, time.perf_counter() - start


def rejects(program: str, arrays: list[np.ndarray]) -> bool:
    try:
        run_stablehlo(program, arrays)
    except CheckFailed:
        return True
    return False


def main(original: Path, optimized: Path) -> int:
    before, after = original.read_text(), optimized.read_text()
    table = Table("b", "s", "largest difference", "XLA, original", "XLA, optimized", "", box=None)
    good = True
    for batch, length in SIZES:
        arrays = inputs(batch, length)
        (wanted, seconds_before), (got, seconds_after) = timed(before, arrays), timed(after, arrays)
        same_shape = wanted.shape == got.shape
        difference = float(np.abs(wanted - got).max()) if same_shape else float("inf")
        equal = difference <= TOLERANCE
        good &= equal
        times = f"{seconds_before * 1e3:.0f} ms", f"{seconds_after * 1e3:.0f} ms"
        table.add_row(str(batch), str(length), f"{difference:.1e}", *times, "equal" if equal else "DIFFERENT")
    wrong = inputs(2, 7, mask_length=5)
    answers = rejects(before, wrong), rejects(after, wrong)
    good &= answers == (True, True)
    table.add_row("2", "7 and 5", "", *("rejected" if answer else "ACCEPTED" for answer in answers), "")
    Console().print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
