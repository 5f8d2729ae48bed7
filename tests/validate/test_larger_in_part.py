"""Where a result would be larger than its model, what made it grow stays as it came, and the rest is smaller all the
same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import egshape
from egshape import measure
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Cost
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.limits import LimitReached

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

VECTOR = "tensor<?xf32>"

TURNED = """
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %n = stablehlo.negate %u : tensor<?x4xf32>"""
"""Two statements less, by no check."""

PAYS = """
  %p = stablehlo.add %y, %z : tensor<?xf32>
  %d0 = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %d1 = stablehlo.get_dimension_size %z, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %r0 = stablehlo.reshape %d0 : (tensor<i32>) -> tensor<1xi32>
  %r1 = stablehlo.reshape %d1 : (tensor<i32>) -> tensor<1xi32>
  %b0 = stablehlo.negate %p : tensor<?xf32>
""" + "\n".join(
    f"  %b{k + 1} = stablehlo.dynamic_broadcast_in_dim %b{k}, %r{(k + 1) % 2}, dims = [0] :"
    " (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>"
    for k in range(8)
)
"""Twelve statements less, once it is checked that two sizes are equal."""


def program(adds: int, *parts: str) -> Graph:
    """A chain of adds, each of which implies that two more sizes are equal, and other parts."""
    arguments = [f"%a{k}: {VECTOR}" for k in range(adds + 1)]
    lines = [
        f"  %s{k} = stablehlo.add {f'%s{k - 1}' if k > 1 else '%a0'}, %a{k} : {VECTOR}" for k in range(1, adds + 1)
    ]
    results = [(f"%s{adds}", VECTOR)]
    if TURNED in parts:
        arguments.append("%x: tensor<?x4xf32>")
        results.append(("%n", "tensor<?x4xf32>"))
    if PAYS in parts:
        arguments += [f"%y: {VECTOR}", f"%z: {VECTOR}"]
        results.append(("%b8", VECTOR))
    names, types = (", ".join(each) for each in zip(*results, strict=True))
    body = "\n".join([*lines, *parts])
    text = f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"
    return egshape.load(text.encode(), format="stablehlo")


def arrays(graph: Graph, sizes: Sequence[int]) -> list[np.ndarray]:
    """An array for each input, with these first sizes."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((size, *(dim.const or 0 for dim in value.type.dims[1:]))).astype(np.float32)
        for value, size in zip(graph.inputs, sizes, strict=True)
    ]


def accepts(graph: Graph, sizes: Sequence[int]) -> bool:
    try:
        interpret(graph, arrays(graph, sizes))
    except EgshapeError:
        return False
    return True


def same(one: Graph, other: Graph, sizes: Sequence[int]) -> None:
    inputs = arrays(one, sizes)
    for wanted, found in zip(interpret(one, inputs), interpret(other, inputs), strict=True):
        np.testing.assert_array_equal(wanted, found)


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def named(graph: Graph, name: str) -> bool:
    return name in names(graph)


def test_the_part_that_grew_stays_and_the_other_shrinks() -> None:
    graph = program(13, TURNED)
    result = egshape.optimize(graph)
    assert names(result.graph) == ["add"] * 13 + ["negate"]
    assert any("left as they were: %s1, %s2, %s3 and 10 others" in note for note in result.report.notes)
    assert not any("left as it was" in note for note in result.report.notes)
    same(graph, result.graph, [3] * 14 + [5])


@pytest.mark.parametrize("place", [0, 1, 7, 13])
def test_what_a_part_rejects_that_stays_is_rejected(place: int) -> None:
    graph = program(13, TURNED)
    result = egshape.optimize(graph).graph
    sizes = [3] * 14 + [5]
    sizes[place] = 4
    assert not accepts(graph, sizes) and not accepts(result, sizes)


def test_a_check_that_pays_stays() -> None:
    graph = program(5, TURNED, PAYS)
    result = egshape.optimize(graph)
    assert sorted(names(result.graph)) == sorted(["check", *["add"] * 6, "negate", "negate"])
    (check,) = (op for op in result.graph.ops if op.name == "check")
    assert [str(side) for side in check.attrs["sides"]] == ["arg7.0", "arg8.0"]
    same(graph, result.graph, [3] * 6 + [5, 2, 2])
    assert not accepts(result.graph, [3] * 6 + [5, 2, 3])
    assert not accepts(result.graph, [3, 3, 3, 3, 3, 4, 5, 2, 2])


def test_an_op_whose_size_may_be_negative_stays() -> None:
    """What would be a check that it is not is what the op says by itself."""
    text = f"""func.func @main(%v: {VECTOR}, %x: tensor<?x4xf32>) -> ({VECTOR}, tensor<?x4xf32>) {{
      %d = stablehlo.get_dimension_size %v, dim = 0 : ({VECTOR}) -> tensor<i32>
      %five = stablehlo.constant dense<5> : tensor<i32>
      %less = stablehlo.subtract %d, %five : tensor<i32>
      %shape = stablehlo.reshape %less : (tensor<i32>) -> tensor<1xi32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %o = stablehlo.dynamic_broadcast_in_dim %zero, %shape, dims = [] : (tensor<f32>, tensor<1xi32>) -> {VECTOR}
      %t = stablehlo.transpose %x, dims = [0, 1] : (tensor<?x4xf32>) -> tensor<?x4xf32>
      %n = stablehlo.negate %t : tensor<?x4xf32>
      return %o, %n : {VECTOR}, tensor<?x4xf32>
    }}"""
    graph = egshape.load(text.encode(), format="stablehlo")
    result = egshape.optimize(graph)
    assert not named(result.graph, "transpose") and not named(result.graph, "check")
    assert any("left as they were: %o;" in note for note in result.report.notes)
    for length in (5, 6, 9):
        same(graph, result.graph, [length, 2])
    assert not accepts(graph, [4, 2]) and not accepts(result.graph, [4, 2])


def test_what_is_known_of_sizes_is_known_all_the_same() -> None:
    result = egshape.optimize(program(13, TURNED))
    assert result.explain("arg0.0", "arg13.0").status == "proved"
    assert len({pair[:2] for pair in result.report.equalities}) == 13


def test_a_result_in_part_is_not_made_smaller_again() -> None:
    first = egshape.optimize(program(13, TURNED, PAYS))
    again = egshape.optimize(first.graph)
    assert names(again.graph) == names(first.graph)


def test_what_nobody_reads_is_rejected_all_the_same() -> None:
    """The last add of a part that stays is read for its size only."""
    arguments = f"%a: {VECTOR}, %b: {VECTOR}, %c: {VECTOR}, %x: tensor<?x4xf32>"
    text = f"""func.func @main({arguments}) -> (tensor<i32>, tensor<?x4xf32>) {{
      %s = stablehlo.add %a, %b : {VECTOR}
      %q = stablehlo.multiply %s, %c : {VECTOR}
      %d = stablehlo.get_dimension_size %q, dim = 0 : ({VECTOR}) -> tensor<i32>
      {TURNED}
      return %d, %n : tensor<i32>, tensor<?x4xf32>
    }}"""
    graph = egshape.load(text.encode(), format="stablehlo")
    result = egshape.optimize(graph).graph
    assert names(result).count("transpose") == 0
    assert accepts(result, [2, 2, 2, 3])
    assert not accepts(graph, [2, 2, 1, 3]) and not accepts(result, [2, 2, 1, 3])
    assert not accepts(graph, [2, 1, 2, 3]) and not accepts(result, [2, 1, 2, 3])


def test_compiled_code_checks_what_stayed() -> None:
    pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")
    graph = program(5, TURNED)
    fn = egshape.compile(egshape.optimize(graph))
    for wanted, found in zip(
        interpret(graph, arrays(graph, [3] * 6 + [2])), fn(*arrays(graph, [3] * 6 + [2])), strict=True
    ):
        np.testing.assert_array_equal(wanted, found)
    with pytest.raises(EgshapeError):
        fn(*arrays(graph, [3, 3, 3, 3, 3, 4, 2]))


def test_no_time_to_measure_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(graph: Graph) -> Cost:
        raise LimitReached("seconds")

    monkeypatch.setattr(measure, "cost", late)
    result = egshape.optimize(program(13, TURNED))
    assert "it may be larger than the model: no time was left to measure it" in result.report.notes
    assert not accepts(result.graph, [3] * 13 + [4, 5])


def test_no_time_for_another_run_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_in_part", lambda *_: None)
    result = egshape.optimize(program(13, TURNED))
    assert result.unchanged and any("left as it was" in note for note in result.report.notes)


def test_assumed_facts_are_checked_where_a_part_stays() -> None:
    result = egshape.optimize(program(13, TURNED), "arg14.0 % 8 == 0")
    assert names(result.graph) == ["check"] + ["add"] * 13 + ["negate"]
    assert not accepts(result.graph, [3] * 14 + [5])
