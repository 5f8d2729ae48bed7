"""Random programs of which some ops stay as they came: nothing relies on what these need of sizes, and all that they
reject is rejected."""

from __future__ import annotations

import random

import pytest

from egshape.ir.graph import Graph
from egshape.limits import Limits
from egshape.pipeline import run_stages
from egshape.trace import Tracer
from tests.fuzz.differential import difference, run, wanted
from tests.fuzz.engine import program
from tests.fuzz.maker import arrays_at, bearable, variations

LIMITS = Limits(seconds=600, nodes=200_000, memory_mb=None)


def without(graph: Graph, seed: int) -> Graph:
    """Optimized, but for some ops."""
    rng = random.Random(seed)
    left = frozenset(op for op in graph.body.walk() if op.name != "check" and op.results and rng.random() < 0.4)
    done = run_stages(graph, graph.facts, (), LIMITS, Tracer(), left=left)
    assert done.outcome.status == "saturated", done.outcome.fault
    return done.graph


@pytest.mark.parametrize("start", [0, 10])
def test_ops_that_are_left_mean_and_reject_the_same(start: int) -> None:
    compared = rejected = 0
    for seed in range(start, start + 10):
        maker, graph = program(seed, most=8)
        result = without(graph, seed)
        for sizes, numbers in variations(maker, seed, 6):
            if not bearable(graph, sizes):
                continue
            arrays = arrays_at(graph, sizes, numbers, seed)
            before = wanted(graph, [array.copy() for array in arrays])
            after = run(result, [array.copy() for array in arrays])
            assert not difference(before, after), f"{sizes}\n{graph}\n{result}"
            assert bool(before.error) == bool(after.error), f"{sizes}: {before.error}, {after.error}\n{graph}\n{result}"
            compared, rejected = compared + 1, rejected + bool(before.error)
    assert compared > 30 and rejected > 0
