"""Equal ops on equal data are one op, whatever their own sizes are called."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import parser

import egshape
from egshape.ir.graph import Graph

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def optimized(text: str) -> tuple[Graph, Graph]:
    result = egshape.optimize(parser.parse_model(f"{HEAD} g {text}"))
    return result.source, result.graph


def count(graph: Graph, title: str) -> int:
    return sum(op.attrs.get("name") == f"onnx.{title}" for op in graph.body.ops)


MASK = np.array([True, False, True, True])
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_two_masks_and_what_is_made_of_them() -> None:
    source, graph = optimized(
        "(float[n,2] x, bool[n] m) => (float[o,2] y) { i = NonZero(m) j = NonZero(m) "
        "p = Transpose(i) q = Transpose(j) a = GatherND(x, p) b = GatherND(x, q) y = Add(a, b) }"
    )
    assert (count(source, "NonZero"), count(graph, "NonZero")) == (2, 1)
    assert (count(source, "GatherND"), count(graph, "GatherND")) == (2, 1)
    found = egshape.compile(graph, target="interpret", optimize=False)(X, MASK)
    np.testing.assert_array_equal(found, 2 * X[MASK])


def test_masks_of_other_data_stay() -> None:
    _, graph = optimized(
        "(float[n] x, bool[n] m, bool[n] k) => (int64[1,o] i, int64[1,q] j) { i = NonZero(m) j = NonZero(k) }"
    )
    assert count(graph, "NonZero") == 2


def test_a_second_mask_of_what_the_first_gave() -> None:
    source, graph = optimized(
        "(float[n,2] x, bool[n] m) => (int64[2,o] i, int64[2,q] j) { a = NonZero(m) b = NonZero(m) "
        "p = Transpose(a) q = Transpose(b) c = GatherND(x, p) d = GatherND(x, q) i = NonZero(c) j = NonZero(d) }"
    )
    assert (count(source, "NonZero"), count(graph, "NonZero")) == (4, 2)
    i, j = egshape.compile(graph, target="interpret", optimize=False)(X, MASK)
    np.testing.assert_array_equal(i, j)
    np.testing.assert_array_equal(i, np.array(X[MASK].nonzero()))
