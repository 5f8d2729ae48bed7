"""(a) Public functions of jax.numpy, jax.lax, jax.nn, jax.scipy and jax.random, and gradients of them: exported with a
symbolic size, optimized, saved as StableHLO, and held against the export itself, both compiled by XLA.

jax_programs.txt lists them; ``python -m benchmarks.robustness.jax_found`` finds them anew."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import egshape
from benchmarks.robustness import jax_exports, xla_process
from benchmarks.robustness.agree import difference
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import Ended, Point, Trial
from benchmarks.robustness.xla_process import ENDED, UNUSABLE, Ran
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

LIST = Path(__file__).with_name("jax_programs.txt")
SERVED = 60
SIZES = (2, 0, 1, 5)


def programs() -> list[str]:
    """The programs, in an order in which neighbours are of different families, so that any beginning is a sample."""
    found = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    step = 61  # no divisor in common with any length that is not a multiple of it
    return [found[number] for first in range(step) for number in range(first, len(found), step)]


def run(program: str, say: Callable[[str], None]) -> Row:
    """Export, optimize, save, compare."""
    trial = Trial("jax", program, say)
    try:
        with trial.stage("export"):
            exported = jax_exports.export(program)
        cases = list(_cases(program, exported.module_kept_var_idx))
        text = exported.mlir_module()
        with trial.stage("oracle"):
            before = [xla_process.run(text, arrays) for _, arrays in cases]
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.mlir"
            graph, _ = trial.through(lambda: egshape.load(exported), target, runs=any(not error for _, error in before))
            written = target.read_text()
        with trial.stage("compare"):
            both = Both(text, written, graph)
            compared = [both.at(*case, one) for case, one in zip(cases, before, strict=True)]
            points = [point for point in compared if point is not None]
    except Ended as ended:
        return trial.row(ended.outcome, ended.detail)
    return trial.verdict(points)


@dataclass(frozen=True)
class Both:
    """A program and what became of it, both as StableHLO; and the graph as it was read."""

    text: str
    written: str
    graph: Graph

    def at(self, sizes: str, arrays: Sequence[Any], before: Ran) -> Point | None:
        """What both did at these sizes; None where the original says nothing."""
        if before[1] in (UNUSABLE, ENDED):
            return None
        after = xla_process.run(self.written, arrays)
        found = "" if before[1] or after[1] else difference(before[0], after[0])
        if found and not self._steady(arrays, before):
            return None
        if found and self._rounds_as_written(arrays, after):
            found = ""
        return Point(sizes, before[1], after[1], found)

    def _steady(self, arrays: Sequence[Any], once: Ran) -> bool:
        """Whether the original gives the same results again: XLA's CPU compiler makes programs that return memory as
        they find it (jax.scipy.stats.wrapcauchy.pdf of integers, where all folds to a constant but the size)."""
        return not any(difference(once[0], xla_process.run(self.text, arrays)[0]) for _ in range(3))

    def _rounds_as_written(self, arrays: Sequence[Any], after: Ran) -> bool:
        """Whether the original, each op rounded on its own, gives what the result gives: then XLA fused a product and a
        sum in the original, and an integer hangs on their last bit (jax.numpy.histogramdd counts by edges)."""
        try:
            return not difference(interpret(self.graph, arrays), after[0])
        except EgshapeError:
            return False


def _cases(program: str, kept: Sequence[int]) -> list[tuple[str, list[Any]]]:
    """Sizes with their inputs; the last are sizes that clash, where any can."""
    found = [
        (f"b = {size}", jax_exports.arrays_at(program, kept, size, seed=number)) for number, size in enumerate(SIZES)
    ]
    if jax_exports.shared(program, kept):
        found += [
            (f"b = {size} and {other}", jax_exports.arrays_at(program, kept, size, other))
            for size, other in ((2, 3), (1, 2), (3, 1))
        ]
    return found
