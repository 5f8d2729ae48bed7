"""The condition of a branch is a fact there: it proves checks in the branch, says why, and leaves it nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.api import Result
from egshape.decide.context import Context
from egshape.dims import const, symbol
from egshape.egraph.obligations import Walk
from egshape.egraph.stages import branch_conditions
from egshape.facts import Facts, Relation
from egshape.frontends.stablehlo import read
from egshape.ir.graph import Block, Op, Value
from egshape.ir.interpret import interpret
from egshape.ops import REGISTRY
from egshape.reasons.explain import replayed
from tests.behaviours.programs import Program, checks, solved
from tests.fuzz import differential

N, M = symbol("n"), symbol("m")
Arm = Callable[[Program], Value]


def arm(program: Program, make: Arm) -> Block:
    """A branch with the sum of what it makes."""
    child = program.child()
    child.__class__ = Program
    assert isinstance(child, Program)
    return child.finish([child.reduce("add", make(child), 0.0, 0)])


def plain(x: Value) -> Arm:
    """A branch that asks nothing of sizes."""
    return lambda inner: inner.one("negate", (x,))


def reshaped(x: Value, size: int) -> Arm:
    """A branch that is right only where the size of x is a number."""
    return lambda inner: inner.reshape(x, size)


def chosen(program: Program, condition: Value, *arms: Arm, op: str = "if") -> Value:
    return program.one(op, (condition,), regions=[arm(program, each) for each in arms])


def checked(program: Program, *results: Value, sizes: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> Result:
    """The optimized graph; it runs, and rejects, as the original does at each size of n (and of m, one more)."""
    graph = program.graph(*results)
    result = egshape.optimize(graph, validate=False)
    for n in sizes:
        env = {"n": n, "m": n + 1}
        arrays = [
            differential.data(value.type.dtype, [dim.evaluate(env) for dim in value.type.dims])
            for value in graph.inputs
        ]
        assert not differential.compare(graph, result.graph, arrays), f"at {env}"
    return result


def test_the_branch_where_it_holds() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    result = checked(program, chosen(program, same, reshaped(x, 3), plain(x)))
    assert checks(result) == []


def test_the_branch_where_it_does_not_hold_still_rejects() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    result = checked(program, chosen(program, same, plain(x), reshaped(x, 3)))
    assert len(checks(result)) == 1


def test_nothing_leaks_out_of_the_branch() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    either = chosen(program, same, reshaped(x, 3), plain(x))
    result = checked(program, either, program.reshape(x, 3))
    assert len(checks(result)) == 1
    assert result.explain("n", "3").status == "proved"
    assert "branch" not in {step.rule for step in result.explain("n", "3").why}


def test_nothing_leaks_into_the_other_branch_or_behind() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    result = checked(program, chosen(program, same, reshaped(x, 3), plain(x)), program.one("negate", (x,)))
    assert result.explain("n", "3").status == "refuted"
    assert result.report.symbols[0].ranges == ((0, None),)


@pytest.mark.parametrize(("direction", "then"), [("LT", False), ("GE", True)])
def test_orders_and_their_opposites(direction: str, then: bool) -> None:
    """A slice of two is right where n >= 2, which the other branch of n < 2 has too."""
    program = Program()
    x = program.input("x", ["n"])
    small = program.compare(direction, program.size(x, 0), program.number(2))

    def window(inner: Program) -> Value:
        return inner.slice(x, [0], [2])

    arms = (window, plain(x)) if then else (plain(x), window)
    assert checks(checked(program, chosen(program, small, *arms))) == []


def test_equal_sizes_of_two_inputs() -> None:
    program = Program()
    x, y = program.input("x", ["n"]), program.input("y", ["m"])
    same = program.compare("EQ", program.size(x, 0), program.size(y, 0))
    result = checked(program, chosen(program, same, lambda inner: inner.one("add", (x, y)), plain(x)))
    assert checks(result) == []


def test_a_condition_that_may_have_no_value_says_nothing() -> None:
    """m <= n follows from n//m == 1 where m is not 0, and from nothing else."""
    found = [
        branch_conditions(
            op, op.regions[0], Walk(context, elements={op.operands[0]: np.array(relation, object)}), REGISTRY
        )
        for relation in [Relation("==", N // M, const(1))]
        for context in (Context(), Context(Facts.parse("m >= 1")))
        for op in [either()]
    ]
    assert found[0] == []
    assert [str(relation) for relation, _ in found[1]] == ["n//m == 1"]


def either() -> Op:
    """An `if` on sizes."""
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    (op,) = (op for op in program.graph(chosen(program, same, plain(x), plain(x))).body.ops if op.name == "if")
    return op


def test_the_last_branch_of_a_case_is_run_at_all_other_indices() -> None:
    program = Program()
    x = program.input("x", ["n"])

    def first(inner: Program) -> Value:
        return inner.slice(x, [0], [1])

    result = checked(program, chosen(program, program.size(x, 0), plain(x), reshaped(x, 1), first, op="case"))
    assert checks(result) == []
    result = checked(program, chosen(program, program.size(x, 0), plain(x), first, reshaped(x, 2), op="case"))
    assert len(checks(result)) == 1


def test_a_branch_inside_of_a_branch() -> None:
    program = Program()
    x = program.input("x", ["n"])
    size = program.size(x, 0)
    above, below = (program.compare(to, size, program.number(k)) for to, k in (("GE", 3), ("LE", 3)))

    def inner(outer: Program) -> Value:
        return outer.reshape(chosen(outer, below, reshaped(x, 3), plain(x)), 1)

    assert checks(checked(program, chosen(program, above, inner, plain(x)))) == []


def test_a_branch_that_never_runs_does_no_harm() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))
    graph = program.graph(chosen(program, same, reshaped(x, 3), reshaped(x, 4)))
    result = egshape.optimize(graph, "n == 4")
    assert result.report.status == "saturated"
    assert [float(each) for each in interpret(result.graph, [np.ones(4, np.float32)])] == [4.0]


def test_the_reason_names_the_branch_and_replays() -> None:
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))

    def twice(inner: Program) -> Value:
        return inner.one("concatenate", (x, x), {"dim": 0})

    graph = program.graph(chosen(program, same, twice, plain(x)))
    result = egshape.optimize(graph, validate=False)
    (op,) = (op for op in graph.body.ops if op.name == "if")
    value = op.regions[0].ops[0].result
    found = replayed(result, result.explain(f"%{value.name}.0", "6"))
    assert found.status == "proved"
    assert [step.rule for step in found.why if step.to == "n == 3"] == ["branch"]
    other = op.regions[1].ops[0].result
    assert result.explain(f"%{other.name}.0", "3").status == "refuted"


def test_sizes_that_rewrites_use_do_not_come_from_branches() -> None:
    """Where sizes become numbers before the program is compiled, a branch that is not run is compiled too: its types
    must fit at every size."""
    program = Program()
    x = program.input("x", ["n"])
    same = program.compare("EQ", program.size(x, 0), program.number(3))

    def twice(inner: Program) -> Value:
        return inner.one("concatenate", (x, x), {"dim": 0})

    result = solved(program.graph(chosen(program, same, twice, plain(x))))
    (op,) = (op for op in result.graph.body.ops if op.name == "if")
    assert op.regions[0].ops[0].result.type.shape == (2 * N,)
    assert const(6) not in op.regions[0].ops[0].result.type.dims


STABLEHLO = """
func.func @main(%x: tensor<?xf32>) -> tensor<f32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<3> : tensor<i32>
  %p = stablehlo.compare EQ, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.if"(%p) ({
    %m = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %q = stablehlo.compare LE, %m, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%q) {
      api_version = 2 : i32, error_message = "too large", has_side_effect = true} : (tensor<i1>) -> ()
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %s : tensor<f32>
  }, {
    stablehlo.return %zero : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %r : tensor<f32>
}
"""


def test_an_assertion_in_a_branch_of_stablehlo() -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    graph = read(STABLEHLO, "branch.mlir")
    result = solved(graph)
    (check,) = [each for each in result.report.checks if each.message == "too large"]
    assert check.status == "proved"
    assert check.why[0].rule == "branch"
    for n in range(5):
        arrays = [np.ones(n, np.float32)]
        assert not differential.compare(graph, result.graph, arrays)


def test_a_reshape_in_a_branch_of_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="reading ONNX needs the extra onnx")
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[] y)
    <int64[1] zero = {0}, int64[1] three = {3}> {
      d = Shape(x)
      s = Squeeze(d, zero)
      t = Squeeze(three, zero)
      p = Equal(s, t)
      y = If(p) <then_branch = a () => (float[] u) { v = Reshape(x, three) u = ReduceSum<keepdims = 0>(v) },
                 else_branch = b () => (float[] w) { w = ReduceSum<keepdims = 0>(x) }>
    }"""
    path = tmp_path / "g.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    result = egshape.optimize(path)
    assert checks(result) == []
    assert result.report.status == "saturated", result.report.notes
