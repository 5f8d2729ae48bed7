"""Branches whose arms demand something of sizes, at sizes that take each arm: the reference, both compiled, XLA, and
ONNX Runtime where the model can be written, say the same, before and after optimizing. An arm that is not taken demands
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.adapters.native import compile_function
from egshape.adapters.xla import run_stablehlo
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from tests.conditions.test_programs import outcome, stablehlo
from tests.lower.checking import call

ort = pytest.importorskip("onnxruntime")
Array = np.ndarray
Run = Callable[[Sequence[Array]], Sequence[Array]]
SIZES = (0, 1, 2, 3, 5)

ARMS = {
    # a sum of what has one size
    "add": "%r = stablehlo.add %a, %b : tensor<?xf32> stablehlo.return %r : tensor<?xf32>",
    # the first three elements
    "slice": """%z = stablehlo.constant dense<0> : tensor<1xi32> %l = stablehlo.constant dense<3> : tensor<1xi32>
        %s = stablehlo.constant dense<1> : tensor<1xi32>
        %r = stablehlo.real_dynamic_slice %b, %z, %l, %s
          : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
        stablehlo.return %r : tensor<?xf32>""",
    # one value over as many elements as the other has, where that is one or as many
    "broadcast": """%n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
        %r = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [0] : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
        stablehlo.return %r : tensor<?xf32>""",
    # all that is there, as two rows
    "reshape": """%t = stablehlo.constant dense<2> : tensor<i32>
        %n = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %h = stablehlo.divide %n, %t : tensor<i32>
        %x = stablehlo.reshape %t : (tensor<i32>) -> tensor<1xi32>
        %y = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>
        %s = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %m = stablehlo.dynamic_reshape %b, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<2x?xf32>
        %c = stablehlo.constant dense<0.0> : tensor<f32>
        %r = stablehlo.reduce(%m init: %c) applies stablehlo.add across dimensions = [0]
          : (tensor<2x?xf32>, tensor<f32>) -> tensor<?xf32>
        stablehlo.return %r : tensor<?xf32>""",
    # an arm inside of the arm, which demands the same
    "nested": """%r = "stablehlo.if"(%q) (
        { %x = stablehlo.add %a, %b : tensor<?xf32> stablehlo.return %x : tensor<?xf32> },
        { %x = stablehlo.negate %b : tensor<?xf32> stablehlo.return %x : tensor<?xf32> })
          : (tensor<i1>) -> tensor<?xf32> stablehlo.return %r : tensor<?xf32>""",
    # an assertion
    "check": """%n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %l = stablehlo.constant dense<2> : tensor<i32>
        %k = stablehlo.compare LE, %n, %l, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.custom_call @shape_assertion(%k) {error_message = "at most two", has_side_effect = true}
          : (tensor<i1>) -> ()
        %r = stablehlo.negate %a : tensor<?xf32> stablehlo.return %r : tensor<?xf32>""",
}
PLAIN = "%r = stablehlo.negate %a : tensor<?xf32> stablehlo.return %r : tensor<?xf32>"
SIGNATURE = "(%p: tensor<i1>, %i: tensor<i32>, %q: tensor<i1>, %a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32>"


def branch(op: str, *arms: str) -> Graph:
    """One of the arms, as p or i says."""
    regions = ", ".join(f"{{ {arm} }}" for arm in arms)
    by = "(%p) ({}) : (tensor<i1>)" if op == "if" else "(%i) ({}) : (tensor<i32>)"
    return stablehlo(
        SIGNATURE, f'%0 = "stablehlo.{op}"{by.format(regions)} -> tensor<?xf32>', "return %0 : tensor<?xf32>"
    )


def inputs(op: str) -> list[tuple[Array, ...]]:
    """Every arm (and, of a case, numbers beyond them), at sizes that fit and that do not."""
    chosen = [(np.array(p), np.array(0, np.int32)) for p in (False, True)]
    if op == "case":
        chosen = [(np.array(False), np.array(i, np.int32)) for i in (-1, 0, 1, 2)]
    return [
        (*each, np.array(q), *(np.arange(size, dtype=np.float32) - 1 for size in pair))
        for each in chosen
        for q in (False, True)
        for pair in product(SIZES, SIZES)
    ]


def roads(graph: Graph, folder: Path) -> Iterator[tuple[str, Run]]:
    """Who runs the graph, and the graph optimized."""
    for name, each in (("", graph), ("optimized, ", egshape.optimize(graph, validate=False, explain=False).graph)):
        yield f"{name}interpreted", lambda arrays, each=each: interpret(each, arrays)
        compiled = compile_function(each)
        yield f"{name}compiled", lambda arrays, compiled=compiled: call(compiled, arrays)
        try:
            egshape.save(each, folder / "m.onnx")
        except Unsupported:
            continue
        session = ort.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
        yield f"{name}in ONNX Runtime", lambda arrays, session=session: _session(session, arrays)


def _session(session: Any, arrays: Sequence[Array]) -> Sequence[Array]:
    feed = {each.name: array for each, array in zip(session.get_inputs(), arrays, strict=True)}
    try:
        found: Sequence[Array] = session.run(None, feed)
    except Exception as error:
        raise EgshapeError(str(error), code="check") from None
    return found


@pytest.mark.long_but("if-*")
@pytest.mark.parametrize("demand", ARMS)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("op", ["if", "case"])
def test_an_arm_demands_where_it_is_taken(op: str, place: int, demand: str, tmp_path: Path) -> None:
    arms = [PLAIN, PLAIN]
    arms[place] = ARMS[demand]
    graph = branch(op, *arms)
    points = [(arrays, outcome(lambda arrays: interpret(graph, arrays), arrays)) for arrays in inputs(op)]
    assert {wanted is None for _, wanted in points} == {True, False}
    for name, run in roads(graph, tmp_path):
        for arrays, wanted in points:
            assert outcome(run, arrays) == wanted, f"{name} at {[each.tolist() for each in arrays]}"


def test_a_program_left_as_it_was_is_checked_as_a_model(tmp_path: Path) -> None:
    """ONNX broadcasts what StableHLO rejects; optimizing keeps the sum as it came, without a check."""
    signature = "(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32>"
    graph = stablehlo(signature, "%r = stablehlo.add %a, %b : tensor<?xf32>", "return %r : tensor<?xf32>")
    for name, run in roads(graph, tmp_path):
        for sizes in product(SIZES, SIZES):
            arrays = tuple(np.ones(size, np.float32) for size in sizes)
            assert (outcome(run, arrays) is None) == (sizes[0] != sizes[1]), f"{name} at {sizes}"


TESTS = {
    "n == m": "%test = stablehlo.compare EQ, %left, %right : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "n != m": "%test = stablehlo.compare NE, %left, %right : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "n == 1": "%test = stablehlo.compare EQ, %left, %unit : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "n == m and q": """%same = stablehlo.compare EQ, %left, %right : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %test = stablehlo.and %same, %q : tensor<i1>""",
    "not n == m": """%same = stablehlo.compare EQ, %left, %right : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %test = stablehlo.not %same : tensor<i1>""",
}


@pytest.mark.long_but("*n == m-broadcast*", "*n != m-add*")
@pytest.mark.parametrize("demand", ARMS)
@pytest.mark.parametrize("test", TESTS)
def test_an_arm_that_sizes_decide(test: str, demand: str, tmp_path: Path) -> None:
    """Sizes that are equal in an arm are one size there, and nowhere else."""
    sizes = """%unit = stablehlo.constant dense<1> : tensor<i32>
        %left = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %right = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>"""
    for arms in ((ARMS[demand], PLAIN), (PLAIN, ARMS[demand])):
        regions = ", ".join(f"{{ {arm} }}" for arm in arms)
        chosen = f'%0 = "stablehlo.if"(%test) ({regions}) : (tensor<i1>) -> tensor<?xf32>'
        graph = stablehlo(SIGNATURE, sizes, TESTS[test], chosen, "return %0 : tensor<?xf32>")
        points = [(arrays, outcome(partial(interpret, graph), arrays)) for arrays in inputs("if")[:50]]
        for name, run in roads(graph, tmp_path):
            for arrays, wanted in points:
                assert outcome(run, arrays) == wanted, f"{name} at {[each.tolist() for each in arrays]}"


@pytest.mark.long
@pytest.mark.parametrize("demand", ARMS)
def test_xla_takes_an_arm_that_fits(demand: str, tmp_path: Path) -> None:
    """XLA makes a program of the sizes, so arms that are not taken must fit too: where it runs it gives the same."""
    graph = branch("if", ARMS[demand], PLAIN)
    agreed = 0
    for each in (graph, egshape.optimize(graph, validate=False, explain=False).graph):
        egshape.save(each, tmp_path / "m.mlir")
        program = (tmp_path / "m.mlir").read_text()
        for arrays in inputs("if")[::4]:
            wanted = outcome(lambda arrays: interpret(graph, arrays), arrays)
            found = outcome(lambda arrays, program=program: run_stablehlo(program, arrays), arrays)
            assert found in (wanted, None), f"{[each.tolist() for each in arrays]}"
            agreed += found is not None
    assert agreed
