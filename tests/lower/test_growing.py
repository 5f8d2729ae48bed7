"""Loops that carry what grows: rows are appended where they lie, what cannot be appended is written once a round."""

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.ir.interpret import interpret
from egshape.plan.ir.program import Copy, Extend, Repeat, Swap
from egshape.plan.targets import plan

TEXT = """
func.func @main(%cache: tensor<?x3xf32>, %wide: tensor<2x?xf32>, %row: tensor<1x3xf32>, %times: tensor<i32>)
    -> (tensor<?x3xf32>, tensor<2x?xf32>, tensor<1x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %r:4 = stablehlo.while(%i = %zero, %rows = %cache, %lines = %wide, %x = %row)
      : tensor<i32>, tensor<?x3xf32>, tensor<2x?xf32>, tensor<1x3xf32>
    cond {
      %p = stablehlo.compare LT, %i, %times : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      BODY
      %sum = stablehlo.reduce(%all init: %f) applies stablehlo.add across dimensions = [0]
        : (tensor<?x3xf32>, tensor<f32>) -> tensor<3xf32>
      %line = stablehlo.reshape %sum : (tensor<3xf32>) -> tensor<1x3xf32>
      %y = stablehlo.tanh %line : tensor<1x3xf32>
      stablehlo.return %j, %all, %longer, %y : tensor<i32>, tensor<?x3xf32>, tensor<2x?xf32>, tensor<1x3xf32>
    }
  return %r#1, %r#2, %r#3 : tensor<?x3xf32>, tensor<2x?xf32>, tensor<1x3xf32>
}"""

LATER = "%all = stablehlo.concatenate %rows, %x, dim = 0 : (tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>"
FIRST = "%all = stablehlo.concatenate %x, %rows, dim = 0 : (tensor<1x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>"
BETWEEN = """%twice = stablehlo.add %x, %x : tensor<1x3xf32>
  %all = stablehlo.concatenate %rows, %x, %twice, dim = 0
    : (tensor<?x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>"""
DOUBLE = "%all = stablehlo.concatenate %rows, %rows, dim = 0 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>"
READ = """%some = stablehlo.exponential %rows : tensor<?x3xf32>
  %before = stablehlo.reduce(%some init: %f) applies stablehlo.maximum across dimensions = [0]
    : (tensor<?x3xf32>, tensor<f32>) -> tensor<3xf32>
  %most = stablehlo.reshape %before : (tensor<3xf32>) -> tensor<1x3xf32>
  %all = stablehlo.concatenate %rows, %most, dim = 0 : (tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>"""
COLUMN = """%column = stablehlo.slice %x [0:1, 0:2] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  %turned = stablehlo.reshape %column : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %longer = stablehlo.concatenate %lines, %turned, dim = 1 : (tensor<2x?xf32>, tensor<2x1xf32>) -> tensor<2x?xf32>"""
CROSSED = """%part = stablehlo.reshape %x : (tensor<1x3xf32>) -> tensor<3x1xf32>
  %two = stablehlo.slice %part [0:2, 0:1] : (tensor<3x1xf32>) -> tensor<2x1xf32>
  %longer = stablehlo.concatenate %two, %lines, dim = 1 : (tensor<2x1xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>"""

BODIES = {  # the body, and how many rounds' steps extend, exchange and copy what grows
    "rows behind, columns behind": (f"{LATER} {COLUMN}", 1, 1),
    "rows before, columns before": (f"{FIRST} {CROSSED}", 0, 2),
    "two rows behind": (f"{BETWEEN} {COLUMN}", 1, 1),
    "the rows twice": (f"{DOUBLE} {COLUMN}", 0, 2),
    "the rows are read too": (f"{READ} {COLUMN}", 0, 2),
}


@pytest.mark.parametrize("zones", ["", "1"])
@pytest.mark.parametrize("name", BODIES)
def test_what_grows_is_written_once_a_round(name: str, zones: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EGSHAPE_REDZONES", zones)
    body, extended, exchanged = BODIES[name]
    (tmp_path / "m.mlir").write_text(TEXT.replace("BODY", body))
    graph = egshape.optimize(egshape.load(tmp_path / "m.mlir")).graph
    (loop,) = [step for step in plan(graph).steps if isinstance(step, Repeat)]
    assert sum(isinstance(step, Extend) for step in loop.body) == extended
    assert sum(isinstance(step, Swap) for step in loop.body) == exchanged
    copied = [step.source for step in loop.body if isinstance(step, Copy)]
    assert all(buffer.size.const is not None for buffer in copied), "only what does not grow is copied"
    run = egshape.compile(graph)
    rng = np.random.default_rng(1)
    for rows, times in ((0, 0), (0, 1), (1, 0), (3, 2), (5, 9), (2, 7), (70, 5)):
        arrays = [rng.standard_normal(shape, np.float32) for shape in ((rows, 3), (2, rows + 1), (1, 3))]
        arrays.append(np.int32(times))
        for one, two in zip(run(*arrays), interpret(graph, arrays), strict=True):
            assert one.shape == two.shape
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
