"""Repeated layers go through the rules once, and give what they give apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.decoder import decoder, inputs
from benchmarks.encoder_decoder import encoder_decoder
from egshape.api import optimize
from egshape.dims import const
from egshape.ir.builder import BlockBuilder
from egshape.ir.calls import function_key
from egshape.ir.graph import Block, Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.verify import verify
from egshape.repeats import in_place, outlined

LAYERS = 5


def _calls(block: Block) -> list[int]:
    """The ops of each layer that is a call."""
    return [len(op.regions[0].ops) for op in block.ops if op.name == "call"]


def _chain(odd: int | None = None, ends: bool = False) -> Graph:
    """Layers of 40 ops, a weight each; one of them, ``odd``, multiplies by another number, or takes its operands the
    other way around where ``ends``."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 8], ["n", None])

    def layer(x: Value, number: int) -> Value:
        weight = b.one("constant", (), {"value": np.full((8, 8), number, np.float32) / 8})
        contract = {"lhs_contract": (1,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"}
        y = b.one("dot_general", (x, weight), contract)
        factor = np.array(0.25 if number == odd and not ends else 0.5, np.float32)
        half = b.one("constant", (), {"value": factor})
        spread = b.one("broadcast_in_dim", (half,), {"dims": (), "shape": y.type.dims})
        for _ in range(12):
            y = b.one("transpose", (b.one("transpose", (y,), {"permutation": (1, 0)}),), {"permutation": (1, 0)})
            y = b.one("tanh", (y,))
        pair = (x, b.one("multiply", (y, spread)))
        return b.one("subtract", pair[::-1] if number == odd and ends else pair)

    for number in range(LAYERS):
        x = layer(x, number)
    return Graph("chain", b.finish([x]), ("y",))


def test_layers_that_differ_in_weights_are_one_function() -> None:
    graph = _chain()
    calls = [op for op in outlined(graph.body).ops if op.name == "call"]
    assert len(calls) == LAYERS
    assert len({id(call.regions[0].keep("key", lambda: None)) for call in calls}) == 1


@pytest.mark.parametrize("ends", [False, True], ids=["another number", "another wiring"])
def test_a_layer_that_differs_in_more_stands_apart(ends: bool) -> None:
    sizes = _calls(outlined(_chain(odd=LAYERS - 1, ends=ends).body))
    assert len(sizes) == LAYERS - 1


_FAMILIES = {"d": "tanh", "m": "logistic", "o": "negate"}


def _families(text: str, widths: tuple[int, ...] = (8,), towers: int = 1) -> Graph:
    """A layer of one op or another, of 40 ops, for each letter, with a weight; once for each width, which follow each
    other, in each of the towers, which do not."""
    b = BlockBuilder()
    turn = {"permutation": (1, 0)}
    contract = {"lhs_contract": (1,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"}

    def weight(*shape: int) -> Value:
        values = np.linspace(-0.5, 0.5, shape[0] * shape[1], dtype=np.float32).reshape(shape) + len(b.ops) / 10_000
        return b.one("constant", (), {"value": values})

    def layer(x: Value, width: int, op: str) -> Value:
        y = b.one("dot_general", (x, weight(width, width)), contract)
        for _ in range(12):
            y = b.one("transpose", (b.one(op, (b.one("transpose", (y,), turn),)),), turn)
        return b.one("add", (b.one("negate", (b.one("negate", (y,)),)), x))

    outputs = []
    for tower in range(towers):
        x = b.arg(f"x{tower}", "f32", [None, 8], [f"n{tower}", None])
        for before, width in pairwise((8, *widths)):
            x = b.one("dot_general", (x, weight(before, width)), contract)
            for letter in text:
                x = layer(x, width, _FAMILIES[letter])
        outputs.append(x)
    return Graph("families", b.finish(outputs), tuple(f"y{tower}" for tower in range(towers)))


@pytest.mark.parametrize(
    ("graph", "functions"),
    [
        (lambda: _families("dddmmmm"), [3, 4]),
        (lambda: _families("dmdmdm"), [3]),
        (lambda: _families("ddddmdmddm"), [3, 7]),
        (lambda: _families("dddomdddomdddom"), [3, 9]),
        (lambda: _families("ddd", widths=(8, 16, 32, 8)), [3, 3, 6]),
        (lambda: _families("ddmdd", widths=(8, 16), towers=2), [8, 8]),
        (lambda: _families("ddmd"), []),
        (lambda: _families("dddd", towers=2), [8]),
        (lambda: encoder_decoder(3, 4), [3, 4]),
    ],
    ids=[
        "two parts",
        "in turn",
        "not in turn",
        "some and one",
        "stages",
        "stages of towers",
        "too few in a row",
        "towers",
        "encoder, decoder",
    ],
)
def test_every_layer_that_repeats_is_a_function(graph: Callable[[], Graph], functions: list[int]) -> None:
    source = graph()
    body = outlined(source.body)
    verify(Graph("outlined", body, source.output_names))
    times = Counter(function_key(op) for op in body.ops if op.name == "call")
    assert sorted(times.values()) == functions


@pytest.mark.parametrize(
    "graph",
    [
        lambda: _families("ddddmdmddm"),
        lambda: _families("ddd", widths=(8, 16, 8)),
        lambda: _families("dddd", towers=2),
        lambda: encoder_decoder(3, 3),
    ],
    ids=["not in turn", "stages", "towers", "encoder, decoder"],
)
def test_several_layers_give_the_same_with_as_many_ops(graph: Callable[[], Graph]) -> None:
    source = graph()
    apart, shared = (optimize(source, share_layers=each) for each in (False, True))
    assert shared.report.status == "saturated" and not shared.report.notes
    assert len(shared.graph.ops) == len(apart.graph.ops) < len(source.ops)
    names = [each.name for each in source.body.symbols]
    for size in (0, 1, 2, 5):
        given = inputs(source, {name: size + at for at, name in enumerate(names)})
        for one, two in zip(interpret(source, given), interpret(shared.graph, given), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_program_in_which_nothing_repeats_stays() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    graph = Graph("g", b.finish([b.one("tanh", (x,))]), ("y",))
    assert outlined(graph.body) is graph.body


def test_in_place_they_are_the_program_again() -> None:
    graph = decoder(1_200, layers=4)
    body = outlined(graph.body)
    assert _calls(body)
    again = Graph(graph.name, in_place(body).block, graph.output_names)
    verify(Graph(graph.name, body, graph.output_names))
    verify(again)
    assert sorted(op.name for op in again.ops) == sorted(op.name for op in graph.ops)


@pytest.mark.parametrize("sizes", [{"b": 2, "p": 3}, {"b": 1, "p": 0}, {"b": 0, "p": 1}])
def test_a_decoder_gives_the_same_with_as_many_ops(sizes: dict[str, int]) -> None:
    graph = decoder(1_200, layers=4)
    apart, shared = (optimize(graph, share_layers=each, validate=False) for each in (False, True))
    assert shared.report.status == "saturated"
    assert len(shared.graph.ops) == len(apart.graph.ops) < len(graph.ops)
    given = inputs(graph, sizes)
    for one, two in zip(interpret(graph, given), interpret(shared.graph, given), strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_is_assumed_stays_checked() -> None:
    result = optimize(_chain(), assume="n % 4 == 0", share_layers=True)
    assert [op.attrs["fact"] for op in result.graph.ops if op.name == "check"] == ["n%4 == 0"]
    assert len([check for check in result.report.checks if check.status == "kept"]) == 1


def test_a_layer_whose_sizes_are_others_is_another_function() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    for number in range(6):
        for _ in range(20):
            x = b.one("tanh", (b.one("negate", (x,)),))
        if number == 2:
            x = b.one("concatenate", (x, x), {"dim": 0})
    graph = Graph("g", b.finish([x]), ("y",))
    result = optimize(graph, share_layers=True)
    assert result.graph.outputs[0].type.dims == (const(2) * graph.inputs[0].type.dims[0],)


@pytest.mark.parametrize("refine", [False, True])
def test_where_types_at_their_borders_change_layers_stand_apart(refine: bool) -> None:
    graph = decoder(1_200, layers=4)
    apart, shared = (
        optimize(graph, assume="b == 2", refine_signature=refine, share_layers=each) for each in (False, True)
    )
    assert not _calls(shared.graph.body)
    assert len(shared.graph.ops) == len(apart.graph.ops)
