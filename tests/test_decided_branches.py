"""Branches that facts decide: the one that runs stands in place, and its sizes are those of what follows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape import branches
from egshape.branches import without_decided
from egshape.errors import EgshapeError
from egshape.frontends.stablehlo import read
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret

TWO = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<i32>) {
  %c16 = stablehlo.constant dense<16> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %p = stablehlo.compare GE, %n, %c16 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %q = stablehlo.compare EQ, %m, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %0 = "stablehlo.if"(%p) ({
    %1 = "stablehlo.if"(%q) ({
      %c = stablehlo.concatenate %x, %y, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      stablehlo.return %c : tensor<?xf32>
    }, {
      stablehlo.return %y : tensor<?xf32>
    }) : (tensor<i1>) -> tensor<?xf32>
    stablehlo.return %1 : tensor<?xf32>
  }, {
    %a = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    stablehlo.return %a : tensor<?xf32>
  }) : (tensor<i1>) -> tensor<?xf32>
  %t = stablehlo.tanh %0 : tensor<?xf32>
  %s = stablehlo.get_dimension_size %t, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  return %t, %s : tensor<?xf32>, tensor<i32>
}"""

IN_A_LOOP = """func.func @main(%x: tensor<?xf32>, %k: tensor<i32>) -> tensor<?xf32> {
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.remainder %n, %c2 : tensor<i32>
  %r:2 = stablehlo.while(%i = %k, %y = %x) : tensor<i32>, tensor<?xf32>
    cond { %g = stablehlo.compare GT, %i, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %g : tensor<i1> }
    do {
      %j = stablehlo.subtract %i, %c1 : tensor<i32>
      %z = "stablehlo.case"(%m) ({
        %a = stablehlo.tanh %y : tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }, {
        %a = stablehlo.sine %y : tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }) : (tensor<i32>) -> tensor<?xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<?xf32> }
  return %r#1 : tensor<?xf32>
}"""


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.body.walk()]


def optimized(text: str, assume: str) -> egshape.Result:
    result = egshape.optimize(read(text, "branches.mlir"), assume=assume)
    assert result.report.status == "saturated", result.report.notes
    return result


@pytest.mark.parametrize(
    ("assume", "left", "size"),
    [
        ("arg0.0 <= 3", 0, "2*arg0.0"),
        ("arg0.0 >= 20; arg1.0 == 4", 0, "arg0.0 + 4"),
        ("arg0.0 >= 16; arg1.0 >= 5", 0, "arg1.0"),
        ("arg0.0 >= 16", 1, ""),
        ("arg1.0 == 4", 1, ""),
        ("arg0.0 >= 15", 2, ""),
    ],
)
def test_the_branch_that_runs_stays(assume: str, left: int, size: str) -> None:
    result = optimized(TWO, assume)
    assert names(result.graph).count("if") == left
    if size:
        assert result.report.outputs[0].shape == (size,)


def test_the_fact_that_decided_is_checked() -> None:
    result = optimized(TWO, "arg0.0 <= 3")
    x, y = np.ones(3, np.float32), np.ones(5, np.float32)
    assert interpret(result.graph, [x, y])[0].shape == (6,)
    with pytest.raises(EgshapeError, match="assumed fact"):
        interpret(result.graph, [np.ones(16, np.float32), y])
    fn = egshape.compile(result)
    assert fn(x, y)[0].shape == (6,)
    with pytest.raises(EgshapeError, match="assumed fact"):
        fn(np.ones(16, np.float32), y)


@pytest.mark.parametrize(
    ("assume", "kept"), [("arg0.0 % 2 == 0", "tanh"), ("arg0.0 % 2 == 1", "sine"), ("arg0.0 >= 2", "")]
)
def test_a_case_inside_of_a_loop(assume: str, kept: str) -> None:
    found = names(optimized(IN_A_LOOP, assume).graph)
    assert ("case" in found) == (not kept)
    assert {"tanh", "sine"} & set(found) == ({kept} if kept else {"tanh", "sine"})


def test_branches_that_give_other_sizes_have_a_joint_fact(tmp_path: object) -> None:
    """One of 5 and 10, and a multiple of 2; the file states the open type in both branches."""
    text = """func.func @main(%x: tensor<5xf32>, %y: tensor<10xf32>, %p: tensor<i1>, %u: tensor<?xf32>)
        -> (tensor<?xf32>, tensor<?xf32>) {
      %0 = "stablehlo.if"(%p) ({
        %c = stablehlo.convert %x : (tensor<5xf32>) -> tensor<?xf32>
        stablehlo.return %c : tensor<?xf32>
      }, {
        %c = stablehlo.convert %y : (tensor<10xf32>) -> tensor<?xf32>
        stablehlo.return %c : tensor<?xf32>
      }) : (tensor<i1>) -> tensor<?xf32>
      %1 = "stablehlo.if"(%p) ({
        %a = stablehlo.concatenate %u, %u, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }, {
        %a = stablehlo.concatenate %u, %u, %u, %u, dim = 0
          : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }) : (tensor<i1>) -> tensor<?xf32>
      return %0, %1 : tensor<?xf32>, tensor<?xf32>
    }"""
    result = optimized(text, "arg3.0 <= 7")
    rows = {each.name: each for each in result.report.symbols}
    first, second = (rows[each.shape[0]] for each in result.report.outputs if each.shape)
    assert (first.ranges, first.divisor) == (((5, 5), (10, 10)), (5, 0))
    assert (second.ranges, second.divisor) == (((0, 28),), (2, 0))
    path = f"{tmp_path}/joined.mlir"
    egshape.save(result.graph, path)
    again = egshape.load(path)
    for flag, sizes in ((True, (5, 6)), (False, (10, 12))):
        arrays = (np.ones(5, "f"), np.ones(10, "f"), np.array(flag), np.ones(3, "f"))
        assert tuple(each.size for each in interpret(again, arrays)) == sizes


SAME_NAMES = """graph g(%x: f32[n], %p: i32[1]) {
  symbols n = size(%x, 0), u = size(%6, 0), w = size(%12, 0)
  %n: i32[] = dims() {elements=<n>, shape=[], dtype=i32}
  %c4: i32[] = constant() {value=i32[]{4}}
  %q: i1[] = compare(%n, %c4) {direction=EQ, kind=SIGNED}
  %f: f32[] = constant() {value=f32[]{1.0}}
  %6: f32[u] = if(%q) () {
    symbols s = element(%pp, 0)
    %pp: i32[1] = add(%p, %p)
    %b: f32[s] = broadcast_in_dim(%f) {dims=[], shape=<s>}
    return %b
  } () {
    return %x
  }
  %12: f32[w] = if(%q) () {
    symbols s = element(%pq, 0)
    %pq: i32[1] = multiply(%p, %p)
    %10: f32[s] = broadcast_in_dim(%f) {dims=[], shape=<s>}
    return %10
  } () {
    return %x
  }
  return %6 as one, %12 as other
}
"""

RANKED = """graph g(%x: f32[n]) {
  symbols n = size(%x, 0), k = size(%b, 0)
  %n: i32[] = dims() {elements=<n>, shape=[], dtype=i32}
  %c4: i32[] = constant() {value=i32[]{4}}
  %q: i1[] = compare(%n, %c4) {direction=EQ, kind=SIGNED}
  %v: f32[*] = if(%q) () {
    %p: f32[1, n] = reshape(%x) {shape=<1, n>}
    return %p
  } () {
    %p2: f32[*] = host_call(%x) {target="f", call=(python, ""), dtypes=(f32,), ranks=[-1], sizes=[]}
    return %p2
  }
  %a: f32[*], %b: i64[k] = host_call(%v) {target="g", call=(python, ""), dtypes=(f32, i64), ranks=[-1, 1], sizes=<-1>}
  return %a as a, %b as b
}
"""


def test_symbols_of_two_regions_may_have_one_name() -> None:
    graph = egshape.load(SAME_NAMES.encode(), format="egs")
    result = egshape.optimize(graph, assume="n == 4")
    assert result.report.status == "saturated", result.report.notes
    assert "if" not in names(result.graph)
    found = interpret(result.graph, [np.ones(4, np.float32), np.array([3], np.int32)])
    assert [array.shape for array in found] == [(6,), (9,)]


def test_what_follows_keeps_the_sizes_that_it_has() -> None:
    graph = egshape.load(RANKED.encode(), format="egs")
    taken = without_decided(graph, egshape.Facts.parse("n == 4"))
    assert "if" not in names(taken)
    assert {each.name for each in taken.body.symbols} == {"n", "k"}


def test_a_new_symbol_has_a_name_of_its_own() -> None:
    graph = egshape.load(RANKED.encode(), format="egs")
    table = branches._Taken(graph, egshape.Facts())
    assert [table.fresh("n"), table.fresh("n"), table.fresh("new")] == ["n_1", "n_2", "new"]
