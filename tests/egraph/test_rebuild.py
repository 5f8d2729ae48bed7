"""From choices back to ops: names, concatenations, constants, regions."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.egraph.rebuild import SPLAT_LIMIT
from egshape.ir.builder import BlockBuilder
from egshape.ir.calls import substitute
from egshape.ir.graph import Value
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph
from tests.egraph.programs import constant, named, optimized


def vectors(builder: BlockBuilder) -> list[Value]:
    return [builder.arg(name, "f32", [None], [name.upper()]) for name in ("p", "q", "r")]


def test_values_keep_their_names() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    y = builder.one("negate", [x], result_names=["minus"])
    z = builder.one("exponential", [y], result_names=["power"])
    graph = optimized(builder, z, y).graph
    assert [value.name for value in graph.outputs] == ["power", "minus"]


def test_no_two_values_have_one_name() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None, None], ["a", "b"])
    y = x
    for name in ("negate", "abs", "exponential"):
        y = builder.one(name, [builder.one("transpose", [y], {"permutation": (1, 0)})])
    graph = optimized(builder, y, builder.one("tanh", [y])).graph
    names = [value.name for op in graph.ops for value in op.results] + [value.name for value in graph.inputs]
    assert len(set(names)) == len(names)


def test_nested_concatenations_become_one() -> None:
    builder = BlockBuilder()
    p, q, r = vectors(builder)
    inner = builder.one("concatenate", [p, q], {"dim": 0})
    (op,) = optimized(builder, builder.one("concatenate", [r, inner, p], {"dim": 0})).graph.ops
    assert [operand.name for operand in op.operands] == ["r", "p", "q", "p"]


def test_a_concatenation_that_is_read_elsewhere_stays_whole() -> None:
    builder = BlockBuilder()
    p, q, r = vectors(builder)
    inner = builder.one("concatenate", [p, q], {"dim": 0})
    graph = optimized(builder, builder.one("concatenate", [inner, r], {"dim": 0}), inner).graph
    assert [len(op.operands) for op in graph.ops] == [2, 2]


def test_concatenations_on_different_axes_stay_apart() -> None:
    builder = BlockBuilder()
    p, q = (builder.arg(name, "f32", [const(2), const(3)]) for name in "pq")
    inner = builder.one("concatenate", [p, q], {"dim": 0})
    graph = optimized(builder, builder.one("concatenate", [inner, inner], {"dim": 1})).graph
    assert [op.attrs["dim"] for op in graph.ops] == [0, 1]


def test_a_small_static_splat_is_a_constant() -> None:
    builder = BlockBuilder()
    scalar = constant(builder, -0.0)
    small = builder.one("broadcast_in_dim", [scalar], {"dims": (), "shape": (const(2), const(3))})
    (op,) = optimized(builder, small).graph.ops
    assert op.name == "constant" and op.attrs["value"].shape == (2, 3) and np.signbit(op.attrs["value"]).all()


def test_large_and_symbolic_splats_stay_broadcasts() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    for shape in ((const(SPLAT_LIMIT + 1),), (symbol("a"),)):
        scalar = constant(builder, 1.5)
        wide = builder.one("broadcast_in_dim", [scalar], {"dims": (), "shape": shape})
        graph = optimized(builder, wide, x).graph
        assert [op.name for op in graph.ops] == ["constant", "broadcast_in_dim"]
        builder = BlockBuilder()
        x = builder.arg("x", "f32", [None], ["a"])


def test_equal_ops_are_built_once() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    graph = optimized(builder, builder.one("negate", [x]), builder.one("negate", [x])).graph
    assert len(named(graph, "negate")) == 1
    assert graph.outputs[0] is graph.outputs[1]


def test_a_copied_region_reads_other_values_and_makes_its_own() -> None:
    builder = BlockBuilder()
    x, y = (builder.arg(name, "f32", []) for name in "xy")
    child = builder.child()
    arg = child.arg("i", "f32", [])
    region = child.finish([child.one("add", [arg, x])])
    copy = substitute(region, {x: y})
    assert copy.captures() == (y,)
    assert copy.args[0] is not arg and copy.results[0] is copy.ops[0].results[0]
    assert copy.results[0] is not region.results[0]


LEAF = """graph g(%x: f32[a, 1], %n: i64[1], %m: i64[1]) {
  symbols a = size(%x, 0), k = element(%p, 0), l = element(%q, 0)
  %p: i64[1] = add(%n, %n)
  %q: i64[1] = add(%m, %m)
  %y: f32[k, l] = broadcast_in_dim(%x) {dims=[0, 1], shape=<k, l>}
  return %y as "y"
}
"""
REGION = """graph g(%x: f32[], %m: i64[1], %c: i1[]) {
  symbols l = element(%q, 0)
  %q: i64[1] = add(%m, %m)
  %y: f32[] = if(%c) () {
    %b: f32[l] = broadcast_in_dim(%x) {dims=[], shape=<l>}
    %e: f32[l] = exponential(%b)
    %z: f32[] = constant() {value=f32[]{0.0}}
    %s: f32[] = reduce(%e, %z) {dims=[0]} (%u: f32[], %v: f32[]) {
      %w: f32[] = add(%u, %v)
      return %w
    }
    return %s
  } () {
    return %x
  }
  return %y as "y"
}
"""


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        (LEAF, [np.ones((4, 1), np.float32), np.array([2]), np.array([3])]),
        (REGION, [np.float32(0), np.array([3]), np.array(True)]),
    ],
    ids=["attribute", "region"],
)
def test_sizes_that_only_an_op_kept_as_it_is_names_are_computed_before_it(text: str, feed: list[np.ndarray]) -> None:
    """A check on data guards the op, or the sizes stand in its region: nothing else reads what defines them."""
    graph = parse_graph(text)
    found = egshape.optimize(graph)
    assert found.report.status == "saturated", found.report.notes
    (wanted,), (got,) = interpret(graph, feed), interpret(found.graph, feed)
    np.testing.assert_array_equal(got, wanted)
