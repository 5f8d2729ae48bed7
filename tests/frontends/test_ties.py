"""Ties of values to their sizes: IREE's ``flow.tensor.tie_shape``, ``shapex``, and custom calls of these names."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.api import optimize
from egshape.errors import CheckFailed, EgshapeError, Unsupported
from egshape.frontends.stablehlo import read
from egshape.ir.interpret import interpret

X = "tensor<?x4x?xf32>"
FORMS = {
    "flow": f"%t = flow.tensor.tie_shape %x : {X}{{%i, %c2}}",
    "generic": f'%t = "flow.tensor.tie_shape"(%x, %i, %c2) : ({X}, index, index) -> {X}',
    "shapex": f'%t = "shapex.tie_shape"(%x, %i, %c2) : ({X}, index, index) -> {X}',
    "call": f"%two = stablehlo.constant dense<2> : tensor<i64>\n"
    f" %t = stablehlo.custom_call @tie_shape(%x, %n, %two) : ({X}, tensor<i64>, tensor<i64>) -> {X}",
    "vector": f"%v = stablehlo.constant dense<[4, 2]> : tensor<2xi64>\n %n1 = stablehlo.reshape %n : (tensor<i64>) ->"
    f" tensor<1xi64>\n %all = stablehlo.concatenate %n1, %v, dim = 0 : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64>"
    f"\n %t = stablehlo.custom_call @tie_shape(%x, %all) : ({X}, tensor<3xi64>) -> {X}",
}


def tied(form: str) -> str:
    return f"""func.func @main(%x: {X}, %n: tensor<i64>) -> {X} {{
  %e = tensor.extract %n[] : tensor<i64>
  %i = arith.index_cast %e : i64 to index
  %c2 = arith.constant 2 : index
  {FORMS[form]}
  %r = stablehlo.add %t, %t : {X}
  return %r : {X}
}}"""


@pytest.mark.parametrize("form", FORMS)
def test_a_tie_is_a_check_and_a_fact(form: str) -> None:
    graph = optimize(read(tied(form), "t.mlir"), allow_larger=True).graph
    assert "tie_shape(" not in str(graph) and str(graph.outputs[0].type).endswith(", 4, 2]")
    for rows in (0, 1, 3):
        x = np.ones((rows, 4, 2), np.float32)
        np.testing.assert_array_equal(interpret(graph, [x, np.array(rows)])[0], 2 * x)
        with pytest.raises(CheckFailed, match="not equal"):
            interpret(graph, [x, np.array(rows + 1)])
        with pytest.raises(CheckFailed, match="not equal"):
            interpret(graph, [np.ones((rows, 4, 3), np.float32), np.array(rows)])


def test_a_tie_to_its_own_sizes_vanishes() -> None:
    text = f"""func.func @main(%x: {X}) -> {X} {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : {X}
  %s = stablehlo.custom_call @get_shape(%x) : ({X}) -> tensor<3xi32>
  %a = stablehlo.custom_call @tie_shape(%x, %s) : ({X}, tensor<3xi32>) -> {X}
  %c2 = arith.constant 2 : index
  %e = tensor.dim %a, %c2 : {X}
  %b = flow.tensor.tie_shape %a : {X}{{%d, %e}}
  return %b : {X}
}}"""
    result = optimize(read(text, "t.mlir"))
    assert not result.graph.body.ops and not any(each.status == "kept" for each in result.report.checks)


def test_the_shape_of_a_value_is_read() -> None:
    text = f"""func.func @main(%x: {X}) -> tensor<3xi32> {{
  %s = stablehlo.custom_call @get_shape(%x) : ({X}) -> tensor<3xi32>
  return %s : tensor<3xi32>
}}"""
    (found,) = interpret(read(text, "t.mlir"), [np.ones((5, 4, 0), np.float32)])
    assert found.dtype == np.int32 and found.tolist() == [5, 4, 0]


def test_a_tie_to_another_number_of_sizes_is_refused() -> None:
    with pytest.raises(EgshapeError, match="tied to 1 sizes") as caught:
        read(tied("generic").replace("%i, %c2)", "%i)").replace("index, index", "index"), "t.mlir")
    assert caught.value.where == "t.mlir:5:8"


def test_a_foreign_op_in_generic_form_is_refused_by_its_name() -> None:
    with pytest.raises(Unsupported, match=r"op flow\.dispatch is not supported") as caught:
        read(tied("generic").replace("flow.tensor.tie_shape", "flow.dispatch"), "t.mlir")
    assert caught.value.where == "t.mlir:5:8"
