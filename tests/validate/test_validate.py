"""Validation sees each kind of fault that an optimizer can make, and nothing else."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.estimate import Estimate
from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.points import points_of
from egshape.ir.text import parse_graph
from egshape.limits import LimitReached, holding
from egshape.validate import MAX_COST, MOST_MB, array_difference, compare, validate

A, B, N, M = (symbol(name) for name in "abnm")
NOTHING = Facts()


def graph(body: Callable[[BlockBuilder, Value], Value], *, dtype: str = "f32", check: str = "") -> Graph:
    """A graph of one input ``x`` of the shape [n, 4], with a check ``relation side side`` first."""
    b = BlockBuilder()
    x = b.arg("x", dtype, [None, 4], ["n", None])
    if check:
        relation = Facts.parse(check).statements()[0]
        sides = (relation.lhs, relation.rhs)
        b.add("check", (), {"relation": relation.kind, "sides": sides, "message": "no", "args": ()})
    return Graph("g", b.finish([body(b, x)]), ("out0",))


def same(b: BlockBuilder, x: Value) -> Value:
    return x


def full(b: BlockBuilder, number: float, like: Value) -> Value:
    constant = b.one("constant", (), {"value": np.float32(number)})
    return b.one("broadcast_in_dim", (constant,), {"dims": (), "shape": like.type.dims})


def plus(number: float) -> Callable[[BlockBuilder, Value], Value]:
    return lambda b, x: b.one("add", (x, full(b, number, x)))


def two(check: tuple[str, ...] = ()) -> Graph:
    """x: [a, 2] + y: [b, 2] joined after the given checks; each size is an input's own."""
    b = BlockBuilder()
    x, y = b.arg("x", "f32", [None, 2], ["a", None]), b.arg("y", "f32", [None, 2], ["b", None])
    for text in check:
        relation = Facts.parse(text).statements()[0]
        sides = (relation.lhs, relation.rhs)
        b.add("check", (), {"relation": relation.kind, "sides": sides, "message": text, "args": ()})
    return Graph("g", b.finish([b.one("concatenate", (x, y), {"dim": 0})]), ("out0",))


def test_equal_graphs_have_no_difference() -> None:
    verdict = compare(graph(plus(1.0)), graph(plus(1.0)), NOTHING)
    assert verdict.differences == ()
    assert verdict.accepted >= 5
    assert not verdict.skipped


def test_a_wrong_zero_is_seen() -> None:
    assert validate(graph(plus(-0.0)), graph(same), NOTHING) == []
    (found,) = validate(graph(plus(0.0)), graph(same), NOTHING)
    assert "-0.0" in found
    assert "n = " in found


def test_a_nan_that_gets_lost_is_seen() -> None:
    def times(b: BlockBuilder, x: Value) -> Value:
        return b.one("multiply", (b.one("multiply", (x, x)), full(b, 0.0, x)))

    (found,) = validate(graph(times), graph(lambda b, x: full(b, 0.0, x)), NOTHING)
    assert "nan became 0.0" in found


def test_swapped_axes_and_dtypes_are_seen() -> None:
    def turned(b: BlockBuilder, x: Value) -> Value:
        return b.one("reshape", (b.one("transpose", (x,), {"permutation": (1, 0)}),), {"shape": x.type.dims})

    assert "differs at" in validate(graph(same), graph(turned), NOTHING)[0]
    other = graph(lambda b, x: b.one("convert", (x,), {"dtype": "f64"}))
    assert "was float32" in validate(graph(same), other, NOTHING)[0]


@pytest.mark.parametrize(
    "check", ["a == b", "a <= b", "1 <= a", "a <= 128", "a % 3 == 0", "a == 2*b", "a*b == 12", "a != 5"]
)
def test_a_check_that_was_lost_or_invented_is_seen(check: str) -> None:
    assert validate(two((check,)), two((check,)), NOTHING) == []
    assert "the result runs" in validate(two((check,)), two(), NOTHING)[0]
    assert "the result is rejected" in validate(two(), two((check,)), NOTHING)[0]


def test_a_fit_check_may_be_added() -> None:
    assert validate(two(), two(("a*b <= 2147483647",)), NOTHING) == []


@pytest.mark.parametrize("fact", ["a % 8 == 0", "a in [1, 4] or [9, 12]", "a == b", "a + b == 12"])
def test_an_assumed_fact_must_be_checked(fact: str) -> None:
    facts = Facts.parse(fact, assumed=True)
    assert "does not hold" in validate(two(), two(), facts)[0]
    relation = facts.statements()[0]
    if relation.kind == "==":
        assert validate(two(), two((str(relation),)), facts) == []


def test_facts_may_name_an_axis() -> None:
    assert "does not hold" in validate(two(), two(), Facts.parse("x.0 % 8 == 0", assumed=True))[0]


def test_what_cannot_be_run_is_skipped_with_a_reason() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [3])
    attrs = {"target": "library.call", "types": (("f32", (3,)),)}
    called = Graph("g", b.finish([b.one("custom_call", (x,), attrs)]), ("out0",))
    assert "library.call" in compare(called, called, NOTHING).skipped
    b = BlockBuilder()
    big = Graph("g", b.finish([b.arg("x", "f32", [MAX_COST + 1])]), ("out0",))
    assert "too large" in compare(big, big, NOTHING).skipped


def test_large_sizes_are_left_out() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, None], ["a", "b"])
    shape = (A * A * A * B * B * B,)
    cubed = Graph(
        "g",
        b.finish([b.one("broadcast_in_dim", (full(b, 1.0, x),), {"dims": (1, 2), "shape": (*shape, A, B)})]),
        ("out0",),
    )
    verdict = compare(cubed, cubed, NOTHING)
    assert verdict.accepted
    assert "cost too much" in verdict.skipped


@pytest.mark.parametrize("dtype", ["f32", "i1", "i64", "c64"])
def test_inputs_that_numpy_cannot_hold_are_left_out(dtype: str) -> None:
    builder = BlockBuilder()
    x = builder.arg("x", dtype, (None, 2**63 - 1), ("n", None))
    graph = Graph("g", builder.finish([x]), ("y",))
    assert validate(graph, graph, Facts()) == []


def test_the_time_limit_holds() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    value = x
    for _ in range(3000):
        value = b.one("negate", (value,))
    long = Graph("g", b.finish([value]), ("out0",))
    started = time.monotonic()
    assert "the comparison with the original was stopped" in compare(long, long, NOTHING, seconds=0.1).skipped
    assert time.monotonic() - started < 8  # with a machine that does much else


def test_a_loop_that_does_not_end_says_nothing() -> None:
    b = BlockBuilder()
    x = b.arg("x", "i32", [])
    cond, body = b.child(), b.child()
    cond.arg("i", "i32", ())
    always = cond.finish([cond.one("constant", (), {"value": np.bool_(True)})])
    loop = b.one("while", (x,), {}, regions=(always, body.finish([body.arg("j", "i32", ())])))
    endless = Graph("g", b.finish([loop]), ("out0",))
    verdict = compare(endless, endless, NOTHING, seconds=1.0)
    assert verdict.differences == ()
    assert "200 rounds" in verdict.skipped


def test_points_satisfy_what_is_known_and_violate_it() -> None:
    facts = Facts.parse("a % 16 == 0; b == 2*a + 1; a >= 1")
    points = [point.sizes for point in points_of(two(), two(), facts)]
    good = [p for p in points if p["a"] % 16 == 0 and p["b"] == 2 * p["a"] + 1 and p["a"] >= 1]
    assert points[0] in good
    assert len({p["a"] for p in good}) >= 3
    assert {p["a"] for p in points} >= {0, 1}
    assert any(p["a"] % 16 == 0 and p["b"] != 2 * p["a"] + 1 for p in points)
    assert points == [point.sizes for point in points_of(two(), two(), facts)]


def test_equal_sizes_of_different_inputs_are_put_apart() -> None:
    facts = Facts.parse("a == b")
    points = [point.sizes for point in points_of(two(), two(), facts)]
    assert any(p["a"] != p["b"] for p in points)
    assert any(p["a"] == p["b"] > 1 for p in points)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "float8_e4m3fn"])
def test_bits_are_compared(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    one = np.array([1.0, np.nan, -0.0]).astype(kind)
    assert array_difference(one, one.copy()) == ""
    other = one.copy()
    other[2] = 0.0
    assert "[2]" in array_difference(one, other)
    assert "nan" in array_difference(one, np.array([1.0, 2.0, -0.0]).astype(kind))


def test_scalars_and_empty_arrays_are_compared() -> None:
    assert array_difference(np.array(1.0), np.array(1.0)) == ""
    assert "differs at []" in array_difference(np.array(0.0), np.array(-0.0))
    assert array_difference(np.zeros((0, 2)), np.zeros((0, 2))) == ""
    assert array_difference(np.zeros((0, 2)), np.zeros((0, 3)))


def test_a_broken_result_is_told() -> None:
    right = graph(plus(1.0))
    loose = replace(right.body, results=(Value("nowhere", right.outputs[0].type),))
    assert "broken" in validate(right, replace(right, body=loose), NOTHING)[0]


def test_a_size_of_zero_is_among_the_points() -> None:
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    first = b.one("slice", (x,), {"starts": (const(0),), "limits": (N,), "strides": (const(1),)})
    sizes = [
        point.sizes["n"]
        for point in points_of(
            Graph("g", b.finish([first]), ("out0",)), Graph("g", b.finish([first]), ("out0",)), NOTHING
        )
    ]
    assert {0, 1, 2, 3} <= set(sizes)


POOLED = """graph pooled(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %0: f32[] = constant() {value=f32[]{0.0}}
  %1: f32[SIZES] = reduce_window(%x, %0) {window=<1, WINDOW>, strides=<1, STRIDE>, base_dilation=<1, 1>, window_dilation=<1, 1>, padding=<0, 0, PADDING, PADDING>} (%2: f32[], %3: f32[]) {
    %4: f32[] = maximum(%2, %3)
    return %4
  }
  return %1 as y
}
"""  # noqa: E501


def pooled(sizes: str, window: int, stride: int, padding: int) -> Graph:
    text = POOLED.replace("SIZES", sizes).replace("WINDOW", str(window)).replace("STRIDE", str(stride))
    return parse_graph(text.replace("PADDING", str(padding)))


@pytest.mark.parametrize(
    "wide",
    [
        pytest.param(pooled("n, 5", 9_000_000, 1, 4_500_000), id="many places in the windows of no row"),
        pytest.param(pooled("n, 3", 1, 10**9, 10**9), id="padding that no window reads"),
        pytest.param(pooled("n, 5", 400_000, 1, 200_000), id="as many places as fit the estimate"),
    ],
)
def test_a_run_takes_little_memory_and_time(wide: Graph) -> None:
    before = peak_mb()
    verdict = compare(wide, wide, NOTHING, seconds=0.5)
    assert not verdict.differences and verdict.skipped
    assert peak_mb() < before + 2 * MOST_MB


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def test_a_limit_from_outside_ends_the_comparison() -> None:
    wide = pooled("n, 5", 400_000, 1, 200_000)
    with holding(time.monotonic() + 0.05), pytest.raises(LimitReached):
        compare(wide, wide, NOTHING, seconds=60)


def test_a_window_over_nothing_costs_its_places() -> None:
    assert Estimate(pooled("n, 5", 1000, 1, 500)).work({"n": 0}) >= 1000
