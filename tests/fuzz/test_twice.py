"""Optimizing twice gains nothing: the second run has no fewer and no other ops than the first."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import egshape
from benchmarks.zoo import fetch
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


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(path, id=model.name) for model, path in fetch.models()])
def test_a_fetched_model_optimized_is_a_fixpoint(path: Path) -> None:
    pytest.importorskip("onnx", reason="reading ONNX needs the extra onnx")
    assert_fixed(egshape.load(path))


@pytest.mark.parametrize("seed", range(10))
def test_a_random_program_optimized_is_a_fixpoint(seed: int) -> None:
    assert_fixed(program(seed, most=8)[1])
    assert_fixed(unit_program(seed))


ONCE = sorted((Path(__file__).parent / "twice").glob("*.egs"))


@pytest.mark.parametrize("path", ONCE, ids=lambda path: path.stem)
def test_a_program_that_was_none_is_a_fixpoint(path: Path) -> None:
    """Random programs of which a second run once found more."""
    assert_fixed(egshape.load(path))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 4000, 50))
def test_many_random_programs_optimized_are_fixpoints(start: int) -> None:
    for seed in range(start, start + 50):
        assert_fixed(program(seed, most=8)[1] if seed % 2 else unit_program(seed))


COUNTED = """func.func @main(%x: tensor<?xi32>) -> (tensor<?xi32>, tensor<i32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
  %vector = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %places = stablehlo.dynamic_iota %vector, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  %squares = stablehlo.multiply %places, %places : tensor<?xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<?xi32>, tensor<i32>) -> tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %ok = stablehlo.compare EQ, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %n) {error_message = "three, not {0}", has_side_effect = true}
    : (tensor<i1>, tensor<i32>) -> ()
  %more = stablehlo.add %x, %squares : tensor<?xi32>
  return %more, %sum : tensor<?xi32>, tensor<i32>
}"""

TWO_CALLS = """func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %a = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %b = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %c = stablehlo.custom_call @g(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %d = stablehlo.subtract %a, %b : tensor<f32>
  return %a, %a : tensor<f32>, tensor<f32>
}"""


@pytest.mark.parametrize(
    ("text", "left"),
    [(COUNTED, ["check", "constant", "add", "constant"]), (TWO_CALLS, ["host_effect"] * 3)],
    ids=["a check behind the shape code", "effects alike"],
)
def test_strange_programs(text: str, left: list[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = egshape.load(text.encode(), format="stablehlo")
    assert sorted(op.name for op in saturated(graph).graph.ops) == sorted(left)
    assert_fixed(graph)
