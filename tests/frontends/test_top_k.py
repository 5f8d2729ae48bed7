"""The k largest where k is a size, as JAX calls it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.api import compile as compile_graph
from egshape.api import optimize
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.interpret import interpret

HALF = """func.func @main(%x: tensor<3x?xf32>) -> (tensor<3x?xf32>, tensor<3x?xi32>) {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x?xf32>) -> tensor<i32>
  %k = stablehlo.divide %n, %two : tensor<i32>
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) {api_version = 2 : i32} :
    (tensor<3x?xf32>, tensor<i32>) -> (tensor<3x?xf32>, tensor<3x?xi32>)
  return %0#0, %0#1 : tensor<3x?xf32>, tensor<3x?xi32> }"""
GIVEN = HALF.replace("%x: tensor<3x?xf32>)", "%x: tensor<3x?xf32>, %k: tensor<i32>)").replace(
    "  %k = stablehlo.divide %n, %two : tensor<i32>\n", ""
)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_of_a_size(size: int) -> None:
    x = np.arange(3 * size, dtype=np.float32).reshape(3, size) % 4
    x[:, 1::3] = np.nan
    result = optimize(read(HALF, "t.mlir"))
    assert "arg0.1//2" in str(result.graph.outputs[0].type) and not result.report.notes
    written = write(result.graph)
    assert "dynamic_top_k" in written and "sort" not in written
    wanted = run_stablehlo(HALF, [x])
    for found in (run_stablehlo(written, [x]), interpret(result.graph, [x]), compile_graph(result, "llvm")(x)):
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, two)


def test_of_an_input() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4) % 4
    graph = optimize(read(GIVEN, "t.mlir")).graph
    native = compile_graph(graph, "llvm")
    for k in (0, 1, 4):
        for found in (interpret(graph, [x, np.array(k, np.int32)]), native(x, np.array(k, np.int32))):
            np.testing.assert_array_equal(found[0], -np.sort(-x)[:, :k])
    for k in (-1, 5):
        for run in (lambda *arrays: interpret(graph, arrays), native):
            with pytest.raises(EgshapeError):
                run(x, np.array(k, np.int32))
