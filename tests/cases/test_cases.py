"""Programs before and after, word for word, and executed. EGSHAPE_BLESS=1 writes what comes out now.

The same words must come out of every engine version."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph

CASES = sorted(Path(__file__).parent.glob("*.txt"))
AFTER = "\n=== after ===\n"
SIZES = (1, 2, 5)


def arrays(graph: Graph, size: int) -> list[np.ndarray]:
    random = np.random.default_rng(size)
    env = {symbol.name: size for symbol in graph.body.symbols}
    shapes = [[dim.evaluate(env) for dim in value.type.dims] for value in graph.inputs]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case(path: Path) -> None:
    before, _, after = path.read_text().partition(AFTER)
    graph = parse_graph(before)
    result = egshape.optimize(graph)
    found = print_graph(result.graph)
    if os.environ.get("EGSHAPE_BLESS"):
        path.write_text(before.rstrip("\n") + "\n" + AFTER + found.rstrip("\n") + "\n")
        return
    assert (result.report.status, found.strip()) == ("saturated", after.strip())
    for size in SIZES:
        inputs = arrays(graph, size)
        pairs = zip(interpret(graph, inputs), interpret(result.graph, inputs), strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in pairs)


def test_there_are_cases() -> None:
    assert len(CASES) >= 5
