"""(c) Random programs from the grammar of all declared ops, with constants of one element and axes of size 1, which
are what broadcasts and folds multiply on: optimized, saved as StableHLO, read back, and interpreted, to the bit; the
saved file in XLA too, at a few sizes."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import egshape
from benchmarks.robustness import agree, xla_process
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import Ended, Point, Trial
from egshape.dims import Dim, const
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo.emit import write
from egshape.ir.graph import Graph, Value
from egshape.ir.types import is_narrow
from egshape.ir.verify import verify
from egshape.ops import REGISTRY
from tests.fuzz.differential import constant, data, difference, wanted
from tests.fuzz.differential import run as interpreted
from tests.fuzz.maker import Maker, arrays_at, bearable, variations
from tests.fuzz.pieces import steps

SERVED = 200
COUNT = 1000
VARIATIONS = 5
IN_XLA = 2
"""At so many sizes the saved file runs in XLA."""
MOST = 8
"""Steps of a program, a few ops each."""

ELEMENTWISE = tuple(
    decl.name for decl in REGISTRY if decl.family in ("unary", "binary") and not decl.attrs and not decl.regions
)


class Grammar(Maker):
    """A maker that likes axes of size 1 and constants."""

    def dim(self) -> Dim:
        """Any size, 1 as often as not."""
        return const(1) if self.chance(2) else super().dim()

    def input(self, dtype: str, dims: Sequence[Dim]) -> Value:
        """An input, or a small constant where the shape allows it."""
        sizes = [dim.const for dim in dims]
        if None in sizes or self.chance(3) or np.prod([size or 0 for size in sizes]) > 16 or is_narrow(dtype):
            return super().input(dtype, dims)
        return self.keep(
            constant(self.b, data(dtype, [size or 0 for size in sizes], self.chooser.randint(0, 99)), dtype)
        )


def _any_op(m: Grammar) -> None:
    """Any op over elements on operands that it takes, now and then of complex numbers."""
    name = m.choice(ELEMENTWISE)
    first = m.value(dtype="c64") if m.chance(6) else m.value()
    for dtype in (first.type.dtype, "f32", "i32", "i1", "c64"):
        x = first if dtype == first.type.dtype else m.value(dtype=dtype)
        xs = [x, *(m.like(x) for _ in REGISTRY[name].operands[1:])]
        try:
            m.one(name, xs)
            return
        except EgshapeError:
            continue


def _bits(m: Grammar) -> None:
    """The bits of a value as another dtype of the same width."""
    pairs = (("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("f16", "ui8"), ("i8", "ui8"))
    source, target = m.choice(pairs)
    m.one("bitcast_convert", (m.value(dtype=source),), dtype=target)


def _barrier(m: Grammar) -> None:
    for value in m.b.add("optimization_barrier", (m.value(), m.value()), {}):
        m.keep(value)


def _step(m: Grammar) -> None:
    kind = m.chooser.randint(0, 9)
    if kind < 3:
        _any_op(m)
    elif kind == 3:
        m.choice((_bits, _barrier))(m)
    else:
        steps(m, 1)


def programs() -> list[str]:
    """A program is the seed that it is made of."""
    return [f"seed {seed}" for seed in range(COUNT)]


def program(seed: int) -> tuple[Maker, Graph]:
    """The maker, which knows sizes at which the program runs, and the program."""
    maker = Grammar(random.Random(seed))
    for _ in range(maker.chooser.randint(1, MOST)):
        with contextlib.suppress(EgshapeError):  # a piece for reals may have met a complex number
            _step(maker)
    graph = maker.graph()
    verify(graph)
    return maker, graph


def run(name: str, say: Callable[[str], None]) -> Row:
    """Make, optimize, save, read back, compare."""
    trial, seed = Trial("grammar", name, say), int(name.split()[1])
    try:
        with trial.stage("export"):
            maker, graph = program(seed)
        with trial.stage("oracle"):
            inputs = [
                (f"{sizes} {numbers}".replace("'", ""), arrays_at(graph, sizes, numbers, seed))
                for sizes, numbers in variations(maker, seed, VARIATIONS)
                if bearable(graph, sizes)
            ]
            before = [wanted(graph, [array.copy() for array in arrays]) for _, arrays in inputs]
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.mlir"
            _, done = trial.through(lambda: graph, target, runs=any(one.error is None for one in before))
            with trial.ours("load", True):
                written, text = egshape.load(target), target.read_text()
        points = []
        with trial.stage("compare"):
            for (sizes, arrays), one in zip(inputs, before, strict=True):
                for what, each in (("optimized", done), ("written", written)):
                    after = interpreted(each, [array.copy() for array in arrays])
                    found = difference(one, after)
                    points.append(_point(f"{sizes}, {what}", str(one.error or ""), str(after.error or ""), found))
            for (sizes, arrays), one in list(zip(inputs, before, strict=True))[:IN_XLA]:
                if one.error is None:
                    points.append(Point(f"{sizes}, XLA", "", "", _in_xla(graph, text, arrays, one.results)))
    except Ended as ended:
        return trial.row(ended.outcome, ended.detail)
    return trial.verdict(points)


def _in_xla(graph: Graph, text: str, arrays: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """How XLA's results of the saved file differ from those of the interpreter, and from its own of the original."""
    results, error = xla_process.run(text, arrays)
    if error in (xla_process.UNUSABLE, xla_process.ENDED) or not (error or agree.difference(wanted, results)):
        return ""
    original, refused = xla_process.run(write(graph), arrays)
    return "" if refused else error or agree.difference(original, results)


def _point(sizes: str, before: str, after: str, found: str) -> Point:
    """``found`` decides: the optimized graph may reject sizes at which shape code would wrap."""
    if not found:
        after = before
    return Point(sizes, before, after, "" if before or after else " ".join(found.split())[:300])
