"""The text form prints and parses back exactly, and says where it does not parse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from egshape.dims import const, parse, symbol
from egshape.errors import ParseError
from egshape.facts import Facts, Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Location, SymbolDef
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.verify import verify


def _loop() -> Graph:
    builder = BlockBuilder()
    x = builder.arg("in/x:0", "f32", (None, 8), ("b", None))
    zero = builder.one("constant", (), {"value": np.array(0, np.int32)})
    cond, body = builder.child(), builder.child()
    at, seen = cond.arg("i", "i32", ()), cond.arg(None, "f32", (symbol("b"), 8))
    size = cond.one("dims", (), {"elements": (symbol("b") * 2,), "shape": (), "dtype": "i32"})
    test = cond.one("compare", (at, size), {"direction": "LT", "kind": "SIGNED"})
    step, state = body.arg("j", "i32", ()), body.arg(None, "f32", (symbol("b"), 8))
    following = body.one("add", (step, step), location=Location("m.py", 3, 4, "more"))
    both = builder.add("while", (zero, x), {}, regions=(cond.finish([test]), body.finish([following, state])))
    del seen
    return Graph(
        "loop it",
        builder.finish([both[1], x]),
        ("out0", "a b"),
        Facts.parse("b % 8 == 0"),
        {"format": "stablehlo", "texts": ("{}", "x y"), "held": {"k": "1 : i32"}},
    )


def test_round_trip_of_regions_symbols_locations_and_facts() -> None:
    graph = _loop()
    text = print_graph(graph, locations=True)
    again = parse_graph(text)
    assert print_graph(again, locations=True) == text
    assert again.facts == graph.facts
    assert again.metadata == graph.metadata
    assert again.inputs[0].name == "in/x:0"
    assert [op.location for op in again.body.walk()] == [op.location for op in graph.body.walk()]
    verify(again)


def test_one_op_a_line() -> None:
    builder = BlockBuilder()
    x, w = builder.arg("x", "f32", (None, 32), ("b", None)), builder.arg("w", "f32", (32, 16))
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    y = builder.one("dot_general", (x, w), attrs)
    text = print_graph(Graph("mlp", builder.finish([y]), ("out0",)))
    assert text.splitlines()[:2] == [
        "graph mlp(%x: f32[b, 32], %w: f32[32, 16]) {",
        "  symbols b = size(%x, 0)",
    ]
    assert "%0: f32[b, 16] = dot_general(%x, %w) {lhs_batch=[]" in text
    assert "return %0 as out0" in text


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, -0.0, np.inf, -np.inf, 1e-45, 0.1], np.float32),
        np.array([np.nan, 1.0], np.float32),
        np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32),
        np.array(1e300),
        np.array([[True, False]]),
        np.array([], np.int64).reshape(0, 3),
        np.array([1.5, 3.0], ml_dtypes.bfloat16),
        np.array([1 + 2j, np.nan], np.complex64),
        np.full((300, 3), 7, np.uint8),
        np.arange(1000, dtype=np.float32),
        np.array([2**64 - 1], np.uint64),
    ],
)
def test_arrays_keep_every_bit(array: np.ndarray) -> None:
    builder = BlockBuilder()
    value = builder.one("constant", (), {"value": array})
    graph = parse_graph(print_graph(Graph("g", builder.finish([value]), ("out0",))))
    found = graph.ops[0].attrs["value"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_attributes_of_every_kind() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", (None,))
    builder.one("broadcast_in_dim", (x,), {"dims": (0,), "shape": (symbol("x.0"), parse("max(x.0, 3)//2"))})
    block = builder.finish([x])
    op = block.ops[0]
    strange = {
        "none": None,
        "flag": True,
        "float": -0.5,
        "big": float("inf"),
        "word": "size",
        "text": 'a\n"b"',
        "one": ("a",),
        "mixed": (1, (2, 3), "b"),
        "dim": const(3) + symbol("n"),
        "nothing": (),
        "true": "true",
    }
    odd = type(op)(
        op.name,
        op.operands,
        {**op.attrs, **strange},
        op.results,
        (),
        op.location,
        (Relation("<=", symbol("x.0"), const(7), "why"), parse_relation("x.0 in [1, 4] or [8, inf]")),
    )
    graph = Graph("g", type(block)(block.args, (odd,), block.results, block.symbols), ("out0",))
    again = parse_graph(print_graph(graph))
    assert again.ops[0].attrs == odd.attrs
    assert again.ops[0].requires == odd.requires
    assert again.ops[0].requires[0].source == "why"


def parse_relation(text: str) -> Relation:
    from egshape.facts import parse_relation as read

    return read(text)


def test_element_symbols() -> None:
    builder = BlockBuilder()
    n = builder.arg("n", "i32", ())
    builder.symbols.append(SymbolDef("count", n, element=0, offset=5))
    text = print_graph(Graph("g", builder.finish([n]), ("out0",)))
    assert "symbols count = element(%n, 0) offset 5" in text
    assert parse_graph(text).body.symbols[0].offset == 5


@pytest.mark.parametrize(
    ("text", "where", "cause"),
    [
        ("graph g(%x: f32[2]) {\n  return %y as out0\n}", "2:10", "not defined"),
        ("graph g(%x: f99[2]) {\n  return\n}", "1:13", "unknown dtype"),
        ("graph g(%x: f32[2]) {\n  %x: f32[2] = abs(%x)\n  return\n}", "2:3", "defined twice"),
        ("graph g(%x: f32[2 +]) {\n  return\n}", "1:20", "expected a size"),
        ("graph g() {\n  return\n} more", "3:3", "expected the end"),
        ("graph g() {\n  abs(", "2:7", "expected a value"),
    ],
)
def test_errors_name_line_and_column(text: str, where: str, cause: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    assert caught.value.where == where
    assert cause in caught.value.message
