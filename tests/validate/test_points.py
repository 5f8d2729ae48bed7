"""Sizes for comparisons: what facts of every kind admit, and what they exclude."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.drawn import inputs_at
from egshape.ir.graph import Graph, SymbolDef
from egshape.ir.points import LARGEST, admitted_points, points_of
from egshape.validate import violated_fact

KINDS = [
    "a % 8 == 0",
    "a == 1",
    "a == 16000",
    "a >= 5000",
    "a in [1,32] or [64,96]",
    "a in {16, 64}",
    "a % 7 == 3; a % 5 == 2",
    "a in [9000, 9010]; a % 4 == 0",
    "a*b == 1024",
    "a*b*c == 1000",
    "a > 100; b > 100; a*b == 20000",
    "a*b % 24 == 0",
    "a*b in [10, 12]",
    "a < b; b < c; c < d",
    "a == b; b == c",
    "a + b == 1024",
    "a == 2*b + 1; c == a*b",
    "2*a + 3*b == 5*c + 1",
    "a - b == 40",
    "a == b*b",
    "a*a + b*b == c*c",
    "min(a, b) == 3",
    "a // b == 4",
    "a % b == 2; b >= 3",
    "a != b; b != c",
    "bcast(a, b) == 6",
    "cdiv(a, 4)*4 == b",
    "a*b == c*d; a > c",
]


def graph() -> Graph:
    b = BlockBuilder()
    x, _ = b.arg("x", "f32", [None, None, None], ["a", "b", "c"]), b.arg("y", "f32", [None], ["d"])
    return Graph("g", b.finish([b.one("tanh", (x,))]), ("out0",))


@pytest.mark.parametrize("text", KINDS)
def test_facts_of_every_kind_are_met_and_violated(text: str) -> None:
    facts = Facts.parse(text)
    points = list(points_of(graph(), graph(), facts))
    assert violated_fact(facts, points[0].env) is None
    met = {tuple(point.sizes.values()) for point in points if violated_fact(facts, point.env) is None}
    assert len(met) >= 2
    assert any(violated_fact(facts, point.env) is not None for point in points)


@pytest.mark.parametrize(
    "text", ["a % 8 == 0", "a == 1", "a == b; b == c", "a*b == 1024", "a < b; b < c", "a == 2*b + 1"]
)
def test_larger_sizes_are_admitted_too(text: str) -> None:
    facts = Facts.parse(text)
    points = list(admitted_points(graph(), facts, 37, 4))
    assert points and all(violated_fact(facts, point.env) is None for point in points)
    assert max(max(point.sizes.values()) for point in points) >= 37


def test_gaps_between_intervals_are_among_the_points() -> None:
    sizes = {point.sizes["a"] for point in points_of(graph(), graph(), Facts.parse("a in [1,32] or [64,96]"))}
    assert {0, 32, 33, 63, 64, 96, 97} <= sizes


def test_sizes_stay_small_unless_facts_want_more() -> None:
    largest = max(max(point.sizes.values()) for point in points_of(graph(), graph(), Facts()))
    assert largest <= LARGEST


def test_facts_that_nothing_meets_still_give_points() -> None:
    facts = Facts.parse("a*a == 2")
    points = list(points_of(graph(), graph(), facts))
    assert points and all(violated_fact(facts, point.env) is not None for point in points)


def test_sizes_stay_small_where_few_are_admitted() -> None:
    """The checks of the result tell which sizes both admit: no other large ones are tried."""
    from egshape.adapters.onnx_verify import _feeds
    from tests.validate.test_validate import two

    check = "(a - 1)*(a + b - 1)*b == 0"
    relation = Facts.parse(check).statements()[0]
    feeds = list(_feeds((two(), two((check,))), Facts(), 1))
    assert sum(relation.holds(point.sizes) for point, _ in feeds[:6]) >= 4
    large = [point.sizes for point, _ in feeds if max(point.sizes.values()) > LARGEST // 64]
    assert large and all(relation.holds(sizes) for sizes in large)
    assert all(array.nbytes <= 64 << 20 for _, (arrays,) in feeds for array in arrays.values())


def test_data_reaches_the_ends_of_a_dtype() -> None:
    b = BlockBuilder()
    x, y = b.arg("x", "i32", [None, 4], ["n", None]), b.arg("y", "f32", [None, 4], ["n", None])
    drawn = Graph("g", b.finish([x, y]), ("p", "q"))
    whole, floats = [], []
    for number, point in enumerate(points_of(drawn, drawn, Facts())):
        arrays = inputs_at(drawn, point, number)
        assert arrays is not None
        whole += arrays[0].reshape(-1).tolist()
        floats += arrays[1].reshape(-1).tolist()
    assert min(whole) == -(2**31) and max(whole) == 2**31 - 1
    assert any(2**8 < abs(each) < 2**30 for each in whole) and {-1, 0, 1} <= set(whole)
    assert {float("inf"), -float("inf")} <= set(floats) and any(each != each for each in floats)  # noqa: PLR0124
    assert any(0 < abs(each) < 1e-40 for each in floats) and max(abs(each) for each in floats if each < 9e99) > 1e38
    assert any(each == 0 and str(each) == "-0.0" for each in floats)


def test_elements_that_are_sizes_stay_small() -> None:
    b = BlockBuilder()
    size = b.arg("size", "i64", [])
    block = replace(b.finish([size]), symbols=(SymbolDef("n", size, element=0),))
    sized = Graph("g", block, ("y",))
    drawn = [inputs_at(sized, point, number) for number, point in enumerate(points_of(sized, sized, Facts()))]
    assert all(0 <= int(arrays[0]) < 64 for arrays in drawn if arrays is not None)
