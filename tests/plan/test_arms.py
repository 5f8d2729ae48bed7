"""Sizes that the condition of a branch finds equal are one size in that branch, and two elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape.plan.ir.loops import Load
from egshape.plan.ir.program import Branch, CheckSizes, Run, Step
from egshape.plan.ir.walk import expressions
from egshape.plan.targets import plan

SUM = "{0} = chlo.broadcast_add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"
TEXT = f"""func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>, %q: tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>) {{{{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  {{0}}
  %r = "stablehlo.if"(%p) ({{{{
    {SUM.format("%s")}
    stablehlo.return %s : tensor<?xf32>
  }}}}, {{{{
    {SUM.format("%s")}
    stablehlo.return %s : tensor<?xf32>
  }}}}) : (tensor<i1>) -> tensor<?xf32>
  {SUM.format("%behind")}
  return %r, %behind : tensor<?xf32>, tensor<?xf32>
}}}}"""
COMPARED = "stablehlo.compare {0}, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>"
EQUAL, UNEQUAL = COMPARED.format("EQ"), COMPARED.format("NE")


def _expands(steps: Sequence[Step]) -> bool:
    """Whether a kernel of these reads along an axis that may be 1."""
    kernels = [step.kernel for step in steps if isinstance(step, Run)]
    loads = [each for kernel in kernels for each in expressions(kernel.body) if isinstance(each, Load)]
    return any("min(" in str(each.index) for each in loads)


@pytest.mark.parametrize(
    ("test", "then", "other"),
    [
        (f"%p = {EQUAL}", False, True),
        (f"%p = {UNEQUAL}", True, False),
        (f"%e = {UNEQUAL} %p = stablehlo.not %e : tensor<i1>", False, True),
        (f"%e = {EQUAL} %p = stablehlo.and %e, %q : tensor<i1>", False, True),
        (f"%e = {EQUAL} %p = stablehlo.or %e, %q : tensor<i1>", True, True),
        (f"%e = {UNEQUAL} %p = stablehlo.or %e, %q : tensor<i1>", True, False),
        (f"%p = {COMPARED.format('LE')}", True, True),
        ("%p = stablehlo.not %q : tensor<i1>", True, True),
    ],
)
def test_a_broadcast_between_equal_sizes_is_none(test: str, then: bool, other: bool) -> None:
    graph = egshape.load(TEXT.format(test).encode(), "stablehlo")
    steps = plan(graph).steps
    (branch,) = (step for step in steps if isinstance(step, Branch))
    assert tuple(map(_expands, branch.branches)) == (then, other)
    assert _expands(steps), "behind the branch nothing is known"
    run = egshape.compile(graph, "llvm")
    for sizes in ((0, 0), (1, 1), (1, 4), (4, 1), (4, 4)):
        x, y = (np.arange(size, dtype=np.float32) for size in sizes)
        for found in run(x, y, np.array(True)):
            np.testing.assert_array_equal(found, x + y)


def test_what_is_equal_in_fewer_bits_only_is_refused() -> None:
    """The condition is asked once more of whole sizes: two that differ by 2**32 are equal as i32."""
    graph = egshape.load(TEXT.format(f"%p = {EQUAL}").encode(), "stablehlo")
    (branch,) = (step for step in plan(graph).steps if isinstance(step, Branch))
    first = branch.branches[0][0]
    assert isinstance(first, CheckSizes) and first.relation == "=="
    assert {str(first.lhs), str(first.rhs)} == {"arg0.0", "arg1.0"}


def test_an_arm_that_never_fits_does_no_harm() -> None:
    """Eight elements are no three rows of two; where that arm does not run, the other one gives its result."""
    graph = egshape.load(
        b"""func.func @main(%x: tensor<?xf32>) -> tensor<f32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %four = stablehlo.constant dense<4> : tensor<i32>
      %p = stablehlo.compare EQ, %n, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = "stablehlo.if"(%p) ({
        %s = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
        %xx = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        %m = stablehlo.dynamic_reshape %xx, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<3x2xf32>
        %a = stablehlo.reduce(%m init: %z) applies stablehlo.add across dimensions = [0, 1]
          : (tensor<3x2xf32>, tensor<f32>) -> tensor<f32>
        stablehlo.return %a : tensor<f32>
      }, {
        stablehlo.return %z : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      return %r : tensor<f32>
    }""",
        "stablehlo",
    )
    run = egshape.compile(graph, "llvm", optimize=False)
    assert run(np.ones(6, np.float32)) == 0
    with pytest.raises(egshape.EgshapeError):
        run(np.ones(4, np.float32))
