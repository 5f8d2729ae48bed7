"""What the Python API says to a first, wrong try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph

TEXT = """graph f(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %t: f32[n, 4] = negate(%x)
  return %t as y
}"""


@pytest.fixture(scope="module")
def graph() -> egshape.Graph:
    return parse_graph(TEXT)


@pytest.mark.parametrize("call", [egshape.optimize, egshape.compile, lambda each: egshape.save(each, "x.mlir")],
                         ids=["optimize", "compile", "save"])
def test_something_else_than_a_graph_is_named(call: Callable[[Any], object]) -> None:
    with pytest.raises(EgshapeError, match=r"takes .*a Graph.*, got a str.*egshape.load"):
        call("model.mlir")


def test_a_result_is_no_graph(graph: egshape.Graph) -> None:
    result = egshape.optimize(graph)
    with pytest.raises(EgshapeError, match=r"got a Result \(give its .graph\)"):
        egshape.compile(result)  # type: ignore[call-overload]


def test_the_axis_of_an_inner_value(graph: egshape.Graph) -> None:
    result = egshape.optimize(graph)
    with pytest.raises(EgshapeError, match=r"no size 't\.0' \(an axis of a value inside is written %t\.0\)"):
        result.explain("t.0", "n")
    assert result.explain("%t.0", "n").status == "proved"


def test_one_fact_needs_no_list(graph: egshape.Graph) -> None:
    assert egshape.optimize(graph, assume="n % 8 == 0").facts.assumed == ("n % 8 == 0",)
    assert egshape.prove("n % 4 == 0", given="n % 8 == 0").status == "proved"
    with pytest.raises(EgshapeError, match=r"no\.egg"):
        egshape.optimize(graph, rules="no.egg")


def test_types_of_compiled_functions(graph: egshape.Graph, tmp_path: Path) -> None:
    """What a compiled function has beside its call; ``egshape/commands/viz.py`` holds the overloads to it."""
    pytest.importorskip("llvmlite")
    fn = egshape.compile(graph, target="llvm")
    fn.save(tmp_path / "f.egx")
    assert fn.profile(np.ones((2, 4), np.float32)).runs == 10
    assert "f32[n, 4]" in repr(fn)
    assert "f32[n, 4]" in repr(egshape.compile(graph))
    assert "f32[n, 4]" in repr(egshape.runtime.load(tmp_path / "f.egx"))
