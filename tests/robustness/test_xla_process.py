"""XLA in a process of its own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra stablehlo")

from benchmarks.robustness.xla_process import ENDED, UNUSABLE, run

PROGRAM = """
func.func @main(%x: tensor<?xf32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %rest = stablehlo.remainder %one, %size : tensor<i32>
  return %rest : tensor<i32>
}"""


def test_what_ends_xla_costs_one_choice_of_sizes() -> None:
    assert run(PROGRAM, [np.zeros(0, "f4")]) == ((), ENDED)
    results, said = run(PROGRAM, [np.zeros(3, "f4")])
    assert said == "" and [array.tolist() for array in results] == [1]


def test_what_xla_says() -> None:
    assert "wants tensor<?xf32>" in run(PROGRAM, [np.zeros(3, "i4")])[1]
    by_data = PROGRAM.replace("tensor<i32> {", "tensor<?xf32> {", 1).replace(
        "return %rest : tensor<i32>",
        "%s = stablehlo.convert %x : (tensor<?xf32>) -> tensor<?xi32>\n  %c = "
        "stablehlo.slice %s [0:1] : (tensor<?xi32>) -> tensor<1xi32>\n  %d = stablehlo.dynamic_iota %c, dim = 0 : "
        "(tensor<1xi32>) -> tensor<?xf32>\n  return %d : tensor<?xf32>",
    )
    assert run(by_data, [np.ones(3, "f4")]) == ((), UNUSABLE)
