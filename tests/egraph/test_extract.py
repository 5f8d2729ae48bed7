"""Choices: acyclic, and cheapest with sharing counted once."""

from __future__ import annotations

from collections import Counter

import numpy as np

from egshape.dims import const, symbol
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Value
from egshape.ir.verify import verify
from egshape.limits import Limits
from egshape.pipeline import run_stages
from egshape.trace import Tracer
from tests.egraph.programs import constant, named, optimized


def test_a_shared_transpose_is_made_once() -> None:
    """Below each function a transpose costs no more than above it; only the sum over all shows that one will do."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None, None], ["a", "b"])
    t = builder.one("transpose", [x], {"permutation": (1, 0)})
    found = optimized(builder, *(builder.one(name, [t]) for name in ("negate", "abs", "exponential", "tanh")))
    assert len(named(found.graph, "transpose")) == 1
    assert len(found.graph.ops) == 5


def test_a_function_is_computed_before_it_is_repeated() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None], ["a"])
    wide = builder.one("broadcast_in_dim", [x], {"dims": (0,), "shape": (symbol("a"), symbol("a"))})
    graph = optimized(builder, builder.one("exponential", [wide])).graph
    assert [op.name for op in graph.ops] == ["exponential", "broadcast_in_dim"]


def test_a_value_and_its_move_are_turned_around_together() -> None:
    """f of a move and the move of that, or f and its move: with a move that seemed to be shared (a comparison reads it,
    which nobody reads) the first was taken, and each of the two by itself costs as much either way."""
    builder = BlockBuilder()
    x = builder.one("tanh", [builder.arg("x", "f32", [1])])
    high = (const(1),) * 3
    two = builder.one("constant", (), {"value": np.full((1, 1, 1), 2.0, np.float32)})
    moved = builder.one("reshape", [x], {"shape": high})
    other = builder.one("iota", (), {"dtype": "f32", "dim": 1, "shape": high})
    builder.one("compare", [other, moved], {"direction": "EQ", "kind": "FLOAT"})
    above = builder.one("multiply", [moved, two])
    below = builder.one("reshape", [above], {"shape": high[:1]})
    assert len(named(optimized(builder, above, below).graph, "reshape")) == 1


def test_of_two_that_cost_the_same_the_one_that_needs_less_is_taken() -> None:
    """The concatenation is there anyway, but the slice need not wait for it."""
    builder = BlockBuilder()
    x, y = (builder.arg(name, "f32", [None], [size]) for name, size in (("x", "a"), ("y", "b")))
    joined = builder.one("concatenate", [x, y], {"dim": 0})
    limit = symbol("a") + symbol("b")
    cut = builder.one("slice", [joined], {"starts": (symbol("a") + 1,), "limits": (limit,), "strides": (const(1),)})
    graph = optimized(builder, joined, cut).graph
    assert [op.operands[0].name for op in named(graph, "slice")] == ["y"]


def test_classes_that_hold_their_own_operands_are_no_cycle() -> None:
    """x + -0.0 = x, -(-x) = x: the class of x has nodes that read itself."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [])
    zero = constant(builder, -0.0)
    y = builder.one("negate", [builder.one("negate", [builder.one("add", [x, zero])])])
    z = builder.one("exponential", [builder.one("add", [y, zero])])
    graph = optimized(builder, z, y).graph
    verify(graph)
    assert [op.name for op in graph.ops] == ["exponential"]
    assert graph.outputs[1] is graph.inputs[0]


def test_every_operand_is_defined_before_it_is_read() -> None:
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [None, None], ["a", "b"])
    y = x
    for _ in range(4):
        y = builder.one("transpose", [builder.one("negate", [y])], {"permutation": (1, 0)})
        y = builder.one("add", [y, y])
    graph = optimized(builder, y).graph
    seen = set(graph.inputs)
    for op in graph.ops:
        assert seen.issuperset(op.operands)
        seen.update(op.results)
    assert not named(graph, "transpose")


def _weights(builder: BlockBuilder, seed: int) -> Value:
    """A constant of 8 kB."""
    return constant(builder, np.random.default_rng(seed).standard_normal(2048))


def test_a_part_whose_constants_would_grow_stays_as_it_was() -> None:
    """Three constants made of one, and one that takes the place of another."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [2048])
    shared, own = _weights(builder, 0), _weights(builder, 1)
    many = [builder.one("add", [x, builder.one(name, [shared])]) for name in ("tanh", "abs", "sine")]
    one = builder.one("multiply", [x, builder.one("exponential", [builder.one("negate", [own])])])
    found = optimized(builder, *many, one)
    assert [op.name for op in found.graph.ops if op.result in found.outcome.computed] == ["tanh", "abs", "sine"]
    assert Counter(op.name for op in found.graph.ops) == {
        **dict.fromkeys(("tanh", "abs", "sine", "multiply"), 1),
        "add": 3,
        "constant": 2,
    }
    again = run_stages(found.graph, Facts(), (), Limits(), Tracer())
    assert [op.name for op in again.graph.ops] == [op.name for op in found.graph.ops]
    assert len(again.outcome.computed) == 3


def test_constants_that_take_no_more_room_are_folded() -> None:
    """One in the place of another, and those that repeat one element."""
    builder = BlockBuilder()
    x = builder.arg("x", "f32", [2048])
    own = builder.one("tanh", [_weights(builder, 0)])
    ones = [constant(builder, np.full(2048, number)) for number in range(4)]
    found = optimized(builder, *(builder.one("add", [x, builder.one("exponential", [each])]) for each in (own, *ones)))
    assert not found.outcome.computed and not named(found.graph, "exponential")
