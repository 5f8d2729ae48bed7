"""Blocks as rows: what is interned, how constants and concatenations look, what stays opaque."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.egraph.encode import Encoder, Encoding
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Value
from egshape.ops import REGISTRY
from egshape.rulelang.schema import MAX_RANK
from tests.fuzz.differential import argument, graph_of


def encoded(builder: BlockBuilder, *results: Value) -> Encoding:
    return Encoder(REGISTRY).block(builder.finish(results))


def splats(builder: BlockBuilder, *results: Value) -> Encoding:
    encoder = Encoder(REGISTRY)
    out = encoder.block(builder.finish(results))
    for number in range(len(out.constants)):
        encoder.splat(number)
    return out


def test_shapes_axes_lists_and_constants_are_interned() -> None:
    encoder = Encoder(REGISTRY)
    a, b = symbol("a"), symbol("b")
    assert encoder.shape((a, b)) == encoder.shape((a, b)) != encoder.shape((b, a))
    assert encoder.axes((0, 1)) == encoder.axes((0, 1)) != encoder.axes((1, 0))
    assert encoder.operands((3, 4)) == encoder.operands((3, 4)) != encoder.operands((4, 3))
    one = np.float32(0.0).reshape(())
    assert encoder.constant(one, "f32") == encoder.constant(one.copy(), "f32")
    assert len(encoder.out.tables["in_shape2"]) == 2
    assert encoder.out.tables["in_list"][-1][1:] == (4, encoder.operands((3,)))


def test_constants_are_keyed_by_dtype_and_bits() -> None:
    encoder = Encoder(REGISTRY)
    keys = {
        encoder.constant_of(np.array(0.0, np.float32)),
        encoder.constant_of(np.array(-0.0, np.float32)),
        encoder.constant_of(np.array(0, np.int32)),
        encoder.constant_of(np.array([0], np.int32)),
        encoder.constant_of(np.array(0, np.uint32)),
    }
    assert len(keys) == 5


def test_a_constant_of_equal_elements_is_also_a_broadcast_scalar() -> None:
    builder = BlockBuilder()
    same = builder.one("constant", (), {"value": np.full((2, 3), -0.0, np.float32)})
    zeros = builder.one("constant", (), {"value": np.array([0.0, -0.0], np.float32)})
    out = splats(builder, same, zeros)
    (row,) = out.tables["in_splat"]
    assert row[0] == next(number for node, number in out.tables["in_constant"] if node == out.node_of[same])
    scalar = next(number for node, number in out.tables["in_constant"] if node == row[1])
    assert out.constants[scalar].shape == () and np.signbit(out.constants[scalar])


def test_the_scalars_of_splats_are_shared() -> None:
    builder = BlockBuilder()
    values = [builder.one("constant", (), {"value": np.full(shape, 1.0, np.float32)}) for shape in ((2,), (3, 1))]
    rows = splats(builder, *values).tables["in_splat"]
    assert len(rows) == 2 and len({row[1] for row in rows}) == 1


def test_concatenations_are_pairs_with_the_sizes_in_between() -> None:
    builder = BlockBuilder()
    parts = [builder.arg(name, "f32", [None], [name]) for name in "abc"]
    joined = builder.one("concatenate", parts, {"dim": 0})
    out = encoded(builder, joined)
    inner, outer = out.tables["in_concatenate"]
    assert outer[0] == out.node_of[joined]
    assert out.values[inner[0]] is None and out.index_of[inner[0]] == 0
    lists = {number: (head, tail) for number, head, tail in out.tables["in_list"]}
    assert lists[outer[1]][0] == inner[0]
    shape = next(row[2] for row in out.tables["in_type"] if row[0] == inner[0])
    size = next(row[1] for row in out.tables["in_shape1"] if row[0] == shape)
    assert out.dims[size] is symbol("a") + symbol("b")


def test_a_concatenation_of_one_is_its_operand() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    joined = builder.one("concatenate", [x], {"dim": 0})
    out = encoded(builder, joined)
    assert out.tables["in_equal"] == [(out.node_of[joined], out.node_of[x])]
    assert not out.tables["in_concatenate"]


def test_a_bitcast_to_another_width_is_not_elementwise() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    same = builder.one("bitcast_convert", [x], {"dtype": "i32"})
    halves = builder.one("bitcast_convert", [x], {"dtype": "i16"})
    out = encoded(builder, same, halves)
    assert [row[0] for row in out.tables["in_unary"]] == [out.node_of[same]]
    assert [row[0] for row in out.tables["in_call"]] == [out.node_of[halves]]


def test_equal_regions_have_one_key() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None, None], ["a", "b"])
    init = builder.one("constant", (), {"value": np.array(0.0, np.float32)})

    def reduced(op: str) -> Value:
        child = builder.child()
        args = [child.arg(None, "f32", ()) for _ in range(2)]
        body = child.finish([child.one(op, args)])
        return builder.one("reduce", [x, init], {"dims": (0,)}, regions=[body])

    out = encoded(builder, reduced("add"), reduced("add"), reduced("maximum"))
    keys = [row[1] for row in out.tables["in_call"]]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("rank", [MAX_RANK, MAX_RANK + 1, 64, 70])
def test_tensors_of_more_axes_than_rules_speak_of_stay(rank: int) -> None:
    """They have no type in the e-graph, so that no op between them was a choice: the graph was given back."""
    b, n = BlockBuilder(), symbol("n")
    long, first = (n, *[const(1)] * (rank - 1)), {"dims": (0,), "shape": (n, *[const(1)] * (rank - 1))}
    x = argument(b, "x", "f32", list(long))
    flat = b.one("reshape", [b.one("abs", [x])], {"shape": (n,)})
    back = b.one("broadcast_in_dim", [b.one("negate", [b.one("negate", [flat])])], first)
    graph = graph_of(b, b.one("add", [back, x]))
    result = egshape.optimize(graph)
    assert result.report.status == "saturated"
    assert "negate" not in result.report.ops.after.by_name
