"""The verifier accepts what the builder builds and names the op that is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Location, Op, SymbolDef, Value
from egshape.ir.text import parse_graph
from egshape.ir.types import TensorType
from egshape.ir.verify import verify


def _graph() -> Graph:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None, 4), ("b", None))
    y = builder.one("abs", (x,), location=Location("m.py", 7))
    z = builder.one("add", (x, y))
    return Graph("g", builder.finish([z]), ("out0",))


def _with(graph: Graph, **changes: Any) -> Graph:
    return dataclasses.replace(graph, body=dataclasses.replace(graph.body, **changes))


def _fails(graph: Graph, *parts: str, **options: Any) -> None:
    with pytest.raises(EgshapeError) as caught:
        verify(graph, **options)
    for part in parts:
        assert part in str(caught.value)


def test_a_built_graph_passes() -> None:
    verify(_graph())


def test_order_of_definitions() -> None:
    graph = _graph()
    _fails(_with(graph, ops=tuple(reversed(graph.ops))), "op 0 (add", "not defined")
    _fails(_with(graph, ops=(graph.ops[0], graph.ops[0], graph.ops[1])), "op 1 (abs at m.py:7)", "defined twice")


def test_values_of_a_region_do_not_leak() -> None:
    text = """graph g(%p: i1[], %x: f32[2]) {
      %r: f32[2] = if(%p) () {
        %inner: f32[2] = abs(%x)
        return %inner
      } () {
        return %x
      }
      %s: f32[2] = abs(%r)
      return %s as out0
    }"""
    graph = parse_graph(text)
    verify(graph)
    inner = graph.ops[0].regions[0].ops[0].result
    wrong = Op("abs", (inner,), {}, graph.ops[1].results)
    _fails(_with(graph, ops=(graph.ops[0], wrong)), "%inner is not defined")


def test_types() -> None:
    graph = _graph()
    other = Value("y", TensorType("f32", (symbol("b"), const(5))))
    wrong = dataclasses.replace(graph.ops[0], results=(other,))
    changed = _with(graph, ops=(wrong,), results=(other,))
    _fails(changed, "op 0 (abs at m.py:7)", "axis 1 of %y is 5, the op gives 4")
    unlike = dataclasses.replace(wrong, results=(Value("y", TensorType("i32", (symbol("b"), const(4)))),))
    _fails(_with(graph, ops=(unlike,), results=unlike.results), "the op gives f32")


def test_sizes_that_are_equal_for_another_reason() -> None:
    graph = _graph()
    other = Value("y", TensorType("f32", (symbol("b") * 2, const(4))))
    changed = _with(graph, ops=(dataclasses.replace(graph.ops[0], results=(other,)),), results=(other,))
    _fails(changed, "the op gives b")
    verify(changed, equal=lambda one, two: {one, two} == {symbol("b"), symbol("b") * 2})


def test_symbols() -> None:
    graph = _graph()
    _fails(_with(graph, symbols=()), "'b'", "not defined")
    twice = (*graph.body.symbols, SymbolDef("b", graph.ops[0].result, axis=0))
    _fails(_with(graph, symbols=twice), "'b' is defined twice")
    _fails(_with(graph, symbols=(SymbolDef("b", graph.inputs[0], axis=2),)), "axis 2")
    stray = SymbolDef("n", Value("q", TensorType("f32", (const(1),))), axis=0)
    _fails(_with(graph, symbols=(*graph.body.symbols, stray)), "does not define")


@pytest.mark.parametrize(
    ("op", "cause"),
    [
        (Op("nonesuch", (), {}, ()), "no op is named"),
        (Op("transpose", (), {"permutation": (0,)}, ()), "takes 1 operands, has 0"),
        (Op("iota", (), {"dtype": "f32", "dim": 0}, ()), "lacks the attribute 'shape'"),
        (Op("iota", (), {"dtype": "f32", "dim": 0, "shape": (3,)}, ()), "'shape' is no sizes"),
        (Op("iota", (), {"dtype": "f32", "dim": 0, "shape": (symbol("q"),)}, ()), "'q'"),
        (Op("constant", (), {"value": np.zeros(3, np.float32)}, ()), "gives 1 results, not 0"),
        (Op("while", (), {}, ()), "has 0 regions, wants 2"),
        (Op("abs", (), {"more": 1}, ()), "has no attribute 'more'"),
    ],
)
def test_ops(op: Op, cause: str) -> None:
    _fails(Graph("g", Block((), (op,), ()), ()), f"op 0 ({op.name})", cause)


def test_outputs() -> None:
    graph = _graph()
    _fails(dataclasses.replace(graph, output_names=()), "1 outputs have 0 names")
    twice = _with(graph, results=(*graph.outputs, *graph.outputs))
    _fails(dataclasses.replace(twice, output_names=("a", "a")), "two outputs are named 'a'")
