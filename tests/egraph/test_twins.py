"""Sizes that come of the same data are one size; what may differ stays apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape.api import Result
from egshape.frontends.stablehlo import read
from tests.fuzz import differential

COUNT = """%i{0} = stablehlo.convert %m : (tensor<?xi1>) -> tensor<?xi32>
  %c{0} = stablehlo.reduce(%i{0} init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<?xi32>, tensor<i32>) -> tensor<i32>
  %l{0} = stablehlo.reshape %c{0} : (tensor<i32>) -> tensor<1xi32>"""

PLAIN = "%l{0} = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>"

FIRST = """%s{0} = stablehlo.real_dynamic_slice %{1}, %from, %l{0}, %by
    : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>"""


def program(one: str, two: str) -> str:
    """The sum of the first elements of x and y, as many as two texts say, where m tells which of x are greater."""
    return f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %k: tensor<i32>) -> tensor<?xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %from = stablehlo.constant dense<0> : tensor<1xi32>
  %by = stablehlo.constant dense<1> : tensor<1xi32>
  %m = stablehlo.compare GT, %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xi1>
  {one.format(1)}
  {FIRST.format(1, "x")}
  {two.format(2)}
  {FIRST.format(2, "y")}
  %r = stablehlo.add %s1, %s2 : tensor<?xf32>
  return %r : tensor<?xf32>
}}"""


def solved(text: str) -> Result:
    """The optimized program, compared with the original."""
    graph = read(text, "twins.mlir")
    result = egshape.optimize(graph, validate=False, allow_larger=True)
    assert result.report.status == "saturated", result.report.notes
    for n, m, k in product((0, 1, 3), (0, 1, 3), (-1, 0, 1, 2)):
        x, y = np.array([1, -1, 2], np.float32)[:n], np.array([0, 0, 1], np.float32)[:m]
        arrays = [x, y, np.array(k, np.int32)]
        assert not differential.compare(graph, result.graph, arrays), f"at {n}, {m}, {k}"
    return result


def kept(result: Result) -> list[str]:
    """The checks that are not proved."""
    return [row.text for row in result.report.checks if row.status != "proved"]


def test_a_mask_that_is_counted_twice_is_one_size_and_fits() -> None:
    result = solved(program(COUNT, COUNT))
    assert kept(result) == ["arg0.0 == arg1.0"]
    assert [op.name for op in result.graph.ops].count("reduce") == 1


def test_a_size_that_is_packed_otherwise_is_the_same() -> None:
    packed = """%t{0} = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
  %v{0} = stablehlo.concatenate %from, %t{0}, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %l{0} = stablehlo.slice %v{0} [1:2] : (tensor<2xi32>) -> tensor<1xi32>"""
    assert not any(" == " in text and "limits" in text for text in kept(solved(program(PLAIN, packed))))


@pytest.mark.parametrize(
    ("one", "two"), [("maximum %k, %zero", "abs %k"), ("add %k, %k", "abs %k"), ("maximum %k, %zero", "")]
)
def test_integers_that_may_be_negative_are_not_taken_for_sizes(one: str, two: str) -> None:
    """max(k, 0), |k| and k differ where k is negative."""
    ways = [
        f"%c{{0}} = stablehlo.{way} : tensor<i32>\n  " + PLAIN.replace("%k", "%c{0}") if way else PLAIN
        for way in (one, two)
    ]
    assert any(" == " in text and "limits" in text for text in kept(solved(program(*ways))))


CHOSEN = [
    (
        """"stablehlo.if"(%p) ({
    stablehlo.return %five : tensor<i32>
  }, {
    %ten = stablehlo.constant dense<10> : tensor<i32>
    stablehlo.return %ten : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>""",
        ((5, 5), (10, 10)),
    ),
    (
        """"stablehlo.case"(%k) ({
    stablehlo.return %five : tensor<i32>
  }, {
    %a = stablehlo.constant dense<20> : tensor<i32>
    %b = stablehlo.constant dense<40> : tensor<i32>
    %c = stablehlo.select %p, %a, %b : tensor<i1>, tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>""",
        ((5, 5), (20, 20), (40, 40)),
    ),
    ("stablehlo.select %p, %five, %k : tensor<i1>, tensor<i32>", ((0, None),)),
    ("stablehlo.select %p, %five, %less : tensor<i1>, tensor<i32>", ((0, None),)),
]


@pytest.mark.parametrize(("chosen", "ranges"), CHOSEN)
def test_an_integer_that_is_one_of_several_bounds_the_size_that_it_is(
    chosen: str, ranges: tuple[tuple[int, int | None], ...]
) -> None:
    text = f"""func.func @main(%x: tensor<f32>, %p: tensor<i1>, %k: tensor<i32>) -> tensor<2x?xf32> {{
  %five = stablehlo.constant dense<5> : tensor<i32>
  %less = stablehlo.constant dense<-3> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %n = {chosen}
  %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %two, %r, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %d = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<2x?xf32>
  return %d : tensor<2x?xf32>
}}"""
    (size,) = egshape.optimize(read(text, "m")).report.symbols
    assert size.ranges == ranges
