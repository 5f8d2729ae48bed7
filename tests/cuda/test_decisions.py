"""Checks of data that a device computes: they are read back at once, and a program with nothing else to decide by is
captured like any other."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from tests.cuda.device import compiled
from tests.cuda.streams import Adversary, modes
from tests.fuzz.differential import argument, constant, graph_of, region
from tests.lower.test_updates import loop

N = symbol("n")


@pytest.fixture(params=list(modes()), ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[Adversary]:
    """A device whose streams run when they like."""
    found = Adversary(request.param)
    yield found
    gc.collect()
    found.drain()
    assert not found.faults, found.faults[0]
    assert not found.blocks and not found.pinned


def total(b: BlockBuilder, x: Value, rank: int = 1) -> Value:
    """The sum of all elements."""
    (found,) = b.add(
        "reduce", [x, constant(b, 0, "f32")], {"dims": tuple(range(rank))}, regions=(region(b, "add", "f32"),)
    )
    return found


def below(b: BlockBuilder, value: Value, limit: float, message: str) -> None:
    """A check that shows its value."""
    fine = b.one("compare", [value, constant(b, limit, "f32")], {"direction": "LT", "kind": "FLOAT"})
    b.add("check", [fine, value], {"relation": "value", "message": message})


def guarded() -> Graph:
    """Two checks on the way: of the sum of x, and of that of its squares."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    below(b, total(b, x), 100, "the sum is {0}")
    squares = b.one("reverse", [b.one("multiply", [x, x])], {"dims": (0,)})
    below(b, total(b, squares), 1000, "the squares are {0}")
    return graph_of(b, b.one("reverse", [squares], {"dims": (0,)}), b.one("negate", [total(b, squares)]))


def test_checks_are_read_back_at_once(device: Adversary) -> None:
    function, graph = compiled(guarded(), device), guarded()
    x = np.arange(5, dtype=np.float32)
    given = function(x, device=True)[0]
    for _ in range(4):
        before = device.calls["cuStreamSynchronize"]
        found = function(given)
        assert device.calls["cuStreamSynchronize"] == before + 1, "one wait for both checks"
        for mine, wanted in zip(found, interpret(graph, [interpret(graph, [x])[0]]), strict=True):
            np.testing.assert_allclose(np.asarray(mine), wanted, rtol=1e-5)
        del found, mine
    assert device.calls["cuGraphLaunch"] == 3, "what only checks is captured"


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([1, 2, 3], None),
        ([60, 60, 0], r"the sum is 120\.0"),
        ([60, -60, 5], r"the squares are 7225\.0"),
        ([200, 1, 1], r"the sum is 202\.0"),
        ([], None),
    ],
)
def test_the_first_check_that_fails_is_named(array: list[float], message: str | None, device: Adversary) -> None:
    """At each size kernel by kernel, captured, and as a graph; the next call is right again."""
    function, graph, x = compiled(guarded(), device), guarded(), np.array(array, np.float32)
    for stays in (False, True, False, True, True):
        if message is None:
            found = function(x, device=stays)
            for mine, wanted in zip(found, interpret(graph, [x]), strict=True):
                np.testing.assert_allclose(np.asarray(mine), wanted, rtol=1e-5)
            continue
        with pytest.raises(CheckFailed, match=message):
            function(x, device=stays)
        fine = np.ones_like(x)
        np.testing.assert_allclose(np.asarray(function(fine, device=stays)[0]), fine)


def test_a_size_that_is_wrong_is_told_behind_an_earlier_check(device: Adversary) -> None:
    """The size is read only where the check before it holds."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    found = total(b, x)
    below(b, found, 100, "the sum is {0}")
    number = b.one("convert", [found], {"dtype": "i32"})
    (size,), needs = b.sizes("count", b.one("reshape", [number], {"shape": (const(1),)}), "shape")
    (line,) = b.add("iota", [], {"shape": (size,), "dim": 0, "dtype": "i32"}, requires=needs)
    graph = graph_of(b, line)
    function = compiled(graph, device)
    np.testing.assert_array_equal(function(np.ones(3, np.float32)), np.arange(3))
    for array, message in (([300.0], r"the sum is 300\.0"), ([-2.0], "which is no size")):
        with pytest.raises(EgshapeError, match=message):
            function(np.array(array, np.float32))


def test_checks_in_loops(device: Adversary) -> None:
    """Each round has its own, which is looked at before the next one begins."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 8])

    def step(body: BlockBuilder, i: Value, a: Value) -> Value:
        twice = body.one("add", [a, a])
        below(body, total(body, twice, 2), 100, "the sum is {0}")
        return body.one("reverse", [twice], {"dims": (0,)})

    graph = graph_of(b, loop(b, x, 3, step))
    function = compiled(graph, device)
    one = np.ones((1, 8), np.float32)
    np.testing.assert_array_equal(function(one), interpret(graph, [one])[0])
    with pytest.raises(CheckFailed, match=r"the sum is 128\.0"):
        function(8 * one)


def test_a_loop_of_many_rounds_sends_each_counter(device: Adversary) -> None:
    """What the host computes for the device in a round is not overwritten by later rounds, however late it is read."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, 8])
    u = argument(b, "u", "f32", [1, 8])

    def step(body: BlockBuilder, i: Value, a: Value) -> Value:
        return body.one("negate", [body.one("dynamic_update_slice", [a, u, i, constant(body, 0, "i32")])])

    graph = graph_of(b, loop(b, x, 700, step))
    function = compiled(graph, device)
    x_, u_ = np.zeros((700, 8), np.float32), np.arange(8, dtype=np.float32)[None]
    wanted = interpret(graph, [x_, u_])[0]
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(function(x_, u_, device=True)), wanted)


ROTATED = np.roll(np.eye(8, dtype=np.float32), 1, 1)
"""A product with it moves columns."""


def turned(body: BlockBuilder, a: Value, w: Value) -> Value:
    """Five products."""
    for _ in range(5):
        a = body.one(
            "dot_general",
            [a, w],
            {"lhs_contract": (1,), "rhs_contract": (0,), "lhs_batch": (), "rhs_batch": (), "dtype": "f32"},
        )
    return a


def rounds(count: int) -> Graph:
    """A loop of some rounds of five products."""
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 8]), argument(b, "w", "f32", [8, 8])
    return graph_of(b, loop(b, x, count, lambda body, _, a: turned(body, a, w)))


def test_rounds_of_a_loop_are_a_graph(device: Adversary) -> None:
    """The kernels of a round are captured in the second one, and launched at once from then on: at other sizes anew."""
    graph = rounds(9)
    function = compiled(graph, device)
    for n, least in ((3, 7), (3, 8), (5, 7), (3, 8)):
        x = np.random.default_rng(n).normal(size=(n, 8)).astype(np.float32)
        before = device.calls["cuGraphLaunch"]
        np.testing.assert_array_equal(function(x, ROTATED), interpret(graph, [x, ROTATED])[0])
        assert device.calls["cuGraphLaunch"] - before >= least
    assert len(device._graphs) == device.calls["cuGraphInstantiateWithFlags"] <= 4


def test_a_part_between_decisions_is_a_graph(device: Adversary) -> None:
    """What stands before a size that data tell, and behind it with memory that is new at each call."""
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 8]), argument(b, "w", "f32", [8, 8])
    first = turned(b, x, w)
    number = b.one("convert", [total(b, first, 2)], {"dtype": "i32"})
    (size,), needs = b.sizes("count", b.one("reshape", [number], {"shape": (const(1),)}), "shape")
    (line,) = b.add("iota", [], {"shape": (size,), "dim": 0, "dtype": "f32"}, requires=needs)
    graph = graph_of(b, b.one("negate", [line]), turned(b, first, w))
    function = compiled(graph, device)
    for n in (1, 1, 1, 2, 2, 2, 1, 2):
        x_ = np.ones((n, 8), np.float32)
        for mine, wanted in zip(function(x_, ROTATED), interpret(graph, [x_, ROTATED]), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    assert device.calls["cuGraphLaunch"] >= 5


@pytest.mark.parametrize("name", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_where_a_part_cannot_be_captured_kernels_are_launched(name: str, device: Adversary) -> None:
    graph = rounds(4)
    function = compiled(graph, device)
    for number in (1, 2):
        device.fail(name, number, 901)
    for n in (3, 3, 4):
        x = np.ones((n, 8), np.float32)
        np.testing.assert_array_equal(function(x, ROTATED), interpret(graph, [x, ROTATED])[0])
    assert device.calls[name] == 2 and not device.calls["cuGraphLaunch"]
