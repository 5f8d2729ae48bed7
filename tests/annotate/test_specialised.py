"""Implementations of one function: the most specific one that admits the arguments runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.adapters.specialised import Specialised
from egshape.errors import CheckFailed, InvalidInput
from egshape.ir.text import parse_graph

NEGATED = """graph {name}(%x: f32[`x.0`, `x.1`]) {{
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1)
  %0: f32[`x.0`, `x.1`] = negate(%x)
  return %0 as out0
}}
"""
TYPES = {"square": "x: f32[n, n]", "fours": "x: f32[?, 4*m]", "twos": "x: f32[?, 2*m]", "any": "x: f32[?, ?]"}


def implementations(*names: str) -> Specialised:
    parts = [parse_graph(NEGATED.format(name=name)) for name in names]
    return egshape.specialised(
        *(egshape.fn(TYPES[name], target="interpret")(part) for name, part in zip(names, parts, strict=True))
    )


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [((3, 3), "square"), ((4, 4), "square"), ((3, 8), "fours"), ((3, 0), "fours"), ((3, 6), "twos"), ((1, 7), "any")],
)
def test_the_first_one_that_admits_the_arguments_runs(shape: tuple[int, int], chosen: str) -> None:
    ways = implementations("square", "fours", "twos", "any")
    x = np.ones(shape, "f4")
    assert ways.chosen(x).name == chosen
    np.testing.assert_array_equal(ways(x), -x)
    np.testing.assert_array_equal(ways(x=x), -x)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("x: f32[?, ?]", "square? fours? twos? any"),
        ("x: f32[k, k]", "square"),
        ("x: f32[?, 8*k]", "square? fours"),
        ("x: f32[?, 4*k + 2]", "square? twos"),
        ("x: f32[?, 2*k + 1]", "square? any"),
        ("x: f32[k, k + 1]", "fours? twos? any"),
        ("x: f32[3, 12]", "fours"),
        ("x: f32[4, 4]", "square"),
        ("x: f32[?, 7]", "square? any"),
    ],
)
def test_what_is_known_of_the_arguments_decides_before_the_call(given: str, left: str) -> None:
    ways = implementations("square", "fours", "twos", "any").given(given)
    assert " ".join(way.program.name + "?" * way.tested for way in ways.ways) == left


def test_what_is_left_at_the_end_checks_for_itself() -> None:
    """One who says something wrong is told, and not believed."""
    ways = implementations("fours", "any").given("x: f32[?, 8*k]")
    with pytest.raises(CheckFailed) as caught:
        ways(np.ones((2, 7), "f4"))
    assert caught.value.message == "argument x, axis 1: 4*m = 7 has no solution"


def test_where_none_admits_the_arguments_each_says_why() -> None:
    with pytest.raises(CheckFailed) as caught:
        implementations("square", "fours")(np.ones((2, 7), "f4"))
    assert str(caught.value) == (
        "no implementation takes these arguments: "
        "square: argument x, axis 1: the size is 7, not n, where n is 2 by argument x, axis 0; "
        "fours: argument x, axis 1: 4*m = 7 has no solution"
    )
    with pytest.raises(CheckFailed) as caught:
        implementations("fours").given("x: f32[?, 2*k + 1]")
    assert str(caught.value) == "no implementation takes arguments of these types: x: f32[?, 2*k + 1]"


def test_dtype_and_rank_choose_too() -> None:
    """A model in a file and graphs are taken alike."""
    lines = egshape.specialised(
        egshape.fn("f32[n]", target="interpret")(parse_graph("graph line(%x: f32[`x.0`]) {\n  return %x as out0\n}")),
        egshape.fn(target="interpret")(parse_graph("graph wide(%x: f64[`x.0`]) {\n  return %x as out0\n}")),
        egshape.fn(target="interpret")(parse_graph(NEGATED.format(name="any"))),
    )
    assert [lines.chosen(x).name for x in (np.ones(3, "f4"), np.ones(3), np.ones((2, 2), "f4"))] == [
        "line",
        "wide",
        "any",
    ]
    with pytest.raises(CheckFailed, match="line: argument x: is i32, where"):
        lines(np.ones(3, "i4"))
    assert len(lines.given("f64[k]").ways) == 1


def test_other_arguments_and_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.egs"
    path.write_text("graph other(%y: f32[`y.0`]) {\n  symbols y.0 = size(%y, 0)\n  return %y as out0\n}")
    one = egshape.fn("f32[?, ?]")(parse_graph(NEGATED.format(name="any")))
    with pytest.raises(InvalidInput, match="other takes y, not x"):
        egshape.specialised(one, egshape.fn()(path))
    with pytest.raises(InvalidInput, match="no implementation is given"):
        egshape.specialised()
    with pytest.raises(InvalidInput, match="nothing says dtype and rank of x"):
        egshape.specialised(one).given("?[n, m]")


@pytest.mark.parametrize("type", ["f32[n, n]", "f32[n, 4*m]", "f32[n, 10 - n]", "f32[n, 12 // n]", "f32[max(n, 3), n]"])
def test_what_admits_is_what_refuses_nothing(type: str) -> None:
    program = egshape.fn(type)(parse_graph(NEGATED.format(name="any")))
    for shape in np.ndindex(6, 13):
        x = np.ones(shape, "f4")
        assert program.admits(x) == (not program.refusal(x)), shape


@egshape.fn("x: f32[n, n]", target="interpret")
def trace_of(x):  # type: ignore[no-untyped-def]
    return x.trace()


@egshape.fn("x: f32[n, 4*m]", target="interpret")
def sum_of_fours(x):  # type: ignore[no-untyped-def]
    return x.sum() * 0 + 4


@egshape.fn("x: f32[n, m]", target="interpret")
def sum_of_all(x):  # type: ignore[no-untyped-def]
    return x.sum() * 0 + 1


@pytest.mark.parametrize(
    ("type", "shape", "value"),
    [
        ("x: f32[k, 16]", (3, 16), 4),
        ("x: f32[k, 15]", (3, 15), 1),
        ("x: f32[k, k]", (3, 3), 3),
        ("x: f32[k, j]", (3, 3), 1),
        ("x: f32[k, 8*j]", (3, 8), 4),
        ("x: f32[5, 5]", (5, 5), 5),
    ],
)
def test_a_trace_chooses_by_what_it_knows_of_shapes(type: str, shape: tuple[int, int], value: int) -> None:
    pytest.importorskip("jax")
    best = egshape.specialised(trace_of, sum_of_fours, sum_of_all)
    assert egshape.fn(type, target="interpret")(lambda x: best(x))(np.ones(shape, "f4")) == value  # noqa: PLW0108 - its argument has a name


def test_a_trace_that_nothing_admits_says_why() -> None:
    pytest.importorskip("jax")
    best = egshape.specialised(trace_of, sum_of_fours)
    with pytest.raises(CheckFailed, match="trace_of: hangs on sizes that are open; sum_of_fours: does not admit them"):
        egshape.fn("x: f32[k, 15]", target="interpret")(lambda x: best(x))(np.ones((15, 15), "f4"))  # noqa: PLW0108
