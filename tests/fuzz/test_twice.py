"""Optimizing twice gains nothing: the second run has no fewer and no other ops than the first."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from tests.fuzz.engine import program
from tests.fuzz.units import unit_program

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EGSHAPE_SHARED", ROOT.parent / "shared")) / "models"
MODELS = [*sorted((ROOT / "examples").glob("*.mlir")), *sorted(SHARED.glob("*.mlir"))]

LIMITS = egshape.Limits(seconds=600, nodes=200_000, memory_mb=None)
"""Only nodes stop a run here: whether time is up hangs on what else the machine does."""


def ops(graph: Graph) -> Counter[str]:
    return Counter(op.name for op in graph.body.walk())


def saturated(graph: Graph) -> egshape.Result:
    """The result of a run that met no limit."""
    found = egshape.optimize(graph, validate=False, limits=LIMITS)
    assert found.report.status == "saturated", f"{found.report.notes}\n{graph}"
    return found


def assert_fixed(graph: Graph) -> None:
    try:
        once = saturated(graph)
    except EgshapeError as error:
        assert error.code in ("violated", "contradiction")  # a check of it is false at every size
        return
    twice = saturated(once.graph)
    assert ops(twice.graph) == ops(once.graph), f"{graph}\n{once.graph}\n{twice.graph}"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_optimized_is_a_fixpoint(path: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    assert_fixed(egshape.load(path))


@pytest.mark.parametrize("seed", range(10))
def test_a_random_program_optimized_is_a_fixpoint(seed: int) -> None:
    assert_fixed(program(seed, most=8)[1])
    assert_fixed(unit_program(seed))


@pytest.mark.parametrize("seed", [1019, 1751, 2548])
def test_what_a_later_check_says_of_sizes_is_used_at_once(seed: int) -> None:
    """1019: a size that becomes 0 empties a pad; 1751: checks make the limits of a slice numbers."""
    assert_fixed(program(seed, most=8)[1])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 3000, 50))
def test_many_random_programs_optimized_are_fixpoints(start: int) -> None:
    for seed in range(start, start + 50):
        assert_fixed(program(seed, most=8)[1] if seed % 2 else unit_program(seed))
