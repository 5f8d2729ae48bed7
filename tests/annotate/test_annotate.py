"""Types that a person says of values: names bind where they can be solved, the rest is a check that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import egshape
from egshape.annotate import annotate
from egshape.annotation import Size, annotation, named
from egshape.dims import parse
from egshape.errors import CheckFailed, EgshapeError, InvalidInput, ParseError, TypeMismatch
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.text import parse_graph, print_graph

FREE = """graph f(%x: f32[`x.0`, `x.1`], %y: f32[`y.0`]) {
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1), y.0 = size(%y, 0)
  %0: f32[`x.0`, `x.1`] = negate(%x)
  return %0 as out0, %y as out1
}
"""
FIXED = """graph f(%x: f32[8, 15], %y: f32[3]) {
  return %x as out0, %y as out1
}
"""


@pytest.fixture
def graph() -> Graph:
    return parse_graph(FREE)


def rejected(graph: Graph, x: Sequence[int], y: Sequence[int]) -> str:
    """What the graph says of arrays of these shapes, "" if it takes them."""
    try:
        interpret(graph, [np.zeros(x, "f4"), np.zeros(y, "f4")])
    except CheckFailed as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("f32[n, 4*m]", "f32", ["n", "4*m"]),
        ("?[?, d]", None, [None, "d"]),
        ("bf16[]", "bf16", []),
        ("i64[*]", "i64", None),
        ("?", None, None),
        ("f32", "f32", None),
        ("f32[ max(a, 2) , 3, ]", "f32", ["max(a, 2)", "3"]),
    ],
)
def test_a_type_is_read(text: str, dtype: str | None, shape: list[str | None] | None) -> None:
    found = annotation(text)
    wanted = None if shape is None else tuple(None if each is None else Size(parse(each), each) for each in shape)
    assert (found.dtype, found.shape) == (dtype, wanted)


@pytest.mark.parametrize(
    ("text", "name"),
    [("x: f32[n]", "x"), (" f32[n]", ""), ("`a:b` : f32[n]", "a:b"), ("%12: ?", "%12"), ("input.1: f32[2]", "input.1")],
)
def test_a_type_may_have_a_name_before_it(text: str, name: str) -> None:
    assert named(text)[0] == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f33[n]", "'f33' is no dtype"),
        ("f32[n", "expected ']', found the end"),
        ("f32[n] x", "expected the end, found 'x'"),
        ("f32[n,,]", "expected a size"),
        ("f32(n)", "expected the end, found '(n)'"),
        ("", "expected a dtype, or ?"),
    ],
)
def test_what_is_no_type_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ParseError, match="column") as caught:
        annotation(text)
    assert message in str(caught.value), str(caught.value)


TYPES: list[tuple[Mapping[str, str], tuple[int, int], tuple[int], str]] = [
    ({"x": "f32[n, 4*m]"}, (2, 8), (3,), ""),
    ({"x": "f32[n, 4*m]"}, (2, 0), (3,), ""),
    ({"x": "f32[n, 4*m]"}, (8, 15), (3,), "argument x, axis 1: 4*m = 15 has no solution"),
    ({"x": "f32[n, 4*m + 1]"}, (1, 0), (3,), "argument x, axis 1: 4*m + 1 = 0 has no solution"),
    ({"x": "f32[n, 10 - m]"}, (1, 11), (3,), "argument x, axis 1: 10 - m = 11 has no solution"),
    ({"x": "f32[n, 10 - m]", "y": "f32[m]"}, (1, 7), (3,), ""),
    ({"x": "f32[n, n + m]", "y": "f32[m]"}, (2, 5), (3,), ""),
    (
        {"x": "f32[n, n + m]", "y": "f32[m]"},
        (2, 5),
        (4,),
        "argument y, axis 0: the size is 4, not m, where m is 3 by argument x, axis 1",
    ),
    ({"x": "f32[n, n + m]"}, (2, 1), (3,), "argument x, axis 1: n + m = 1 has no solution"),
    ({"x": "f32[n, n]"}, (2, 3), (0,), "argument x, axis 1: the size is 3, not n, where n is 2 by argument x, axis 0"),
    ({"x": "f32[2, ?]"}, (3, 3), (0,), "argument x, axis 0: the size is 3, not 2"),
    ({"x": "f32[y.0, ?]"}, (3, 3), (3,), ""),
    (
        {"x": "f32[y.0, ?]"},
        (3, 3),
        (2,),
        "argument x, axis 0: the size is 3, not y.0, where y.0 is 2 by argument y, axis 0",
    ),
    ({"x": "f32[cdiv(k, 2), ?]", "y": "f32[k]"}, (2, 9), (3,), ""),
    (
        {"x": "f32[cdiv(k, 2), ?]", "y": "f32[k]"},
        (2, 9),
        (5,),
        "argument x, axis 0: the size is 2, not cdiv(k, 2), where k is 5 by argument y, axis 0",
    ),
    ({"x": "f32[a, b]", "y": "f32[a*b]"}, (2, 3), (6,), ""),
    (
        {"x": "f32[a, b]", "y": "f32[a*b]"},
        (2, 3),
        (5,),
        "argument y, axis 0: the size is 5, not a*b, where a is 2 by argument x, axis 0, b is 3 by argument x, axis 1",
    ),
    ({"%0": "f32[?, 8*k]", "out1": "f32[k]"}, (1, 16), (2,), ""),
    ({"%0": "f32[?, 8*k]"}, (1, 12), (2,), "value %0, axis 1: 8*k = 12 has no solution"),
    ({"out1": "f32[5]"}, (1, 12), (2,), "result out1, axis 0: the size is 2, not 5"),
]


@pytest.mark.parametrize(("types", "x", "y", "message"), TYPES)
def test_sizes_are_taken_or_refused_with_argument_axis_and_expression(
    graph: Graph, types: Mapping[str, str], x: Sequence[int], y: Sequence[int], message: str
) -> None:
    said = annotate(graph, types)
    assert rejected(said, x, y) == message
    result = egshape.optimize(said)
    assert result.report.status == "saturated"
    assert rejected(result.graph, x, y) == message


def test_numbers_that_are_not_so_are_refused_at_once() -> None:
    with pytest.raises(CheckFailed, match=r"argument x, axis 1: 4\*m = 15 has no solution"):
        annotate(parse_graph(FIXED), {"x": "f32[8, 4*m]"})
    assert not annotate(parse_graph(FIXED), {"x": "f32[n, 5*m]", "y": "f32[m]"}).ops  # all is known: no check is left


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        ({"z": "f32[n]"}, InvalidInput, "no value 'z'"),
        ({"x": "i32[?, ?]"}, TypeMismatch, r"argument x: is f32, where i32\[\?, \?\] is said"),
        ({"x": "f32[n]"}, TypeMismatch, "rank 2"),
        ({"x": "f32[n*m, ?]"}, InvalidInput, "nothing tells what m and n is"),
        ({"x": "f32[n*n, ?]"}, InvalidInput, "nothing tells what n is"),
        ({"x": "f32[n//2, ?]"}, InvalidInput, "nothing tells what n is"),
    ],
)
def test_what_cannot_be_said_is_refused(
    graph: Graph, types: Mapping[str, str], error: type[EgshapeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        annotate(graph, types)


def test_names_are_shared_by_annotations_that_follow_each_other(graph: Graph) -> None:
    said = graph.annotate("x", "f32[n, 4*m]").annotate("y", "f32[m]")
    assert not rejected(said, (3, 8), (2,))
    assert "not m, where" not in rejected(said, (3, 8), (3,))
    assert "argument y, axis 0: the size is 3, not m" in rejected(said, (3, 8), (3,))
    again = parse_graph(print_graph(said)).annotate("out0", "f32[n, 4*m]")
    kept = [each.message for each in egshape.optimize(again).report.checks if each.status == "kept"]
    assert [message.split(":")[0] for message in kept] == ["argument x, axis 1", "argument y, axis 0"]  # out0 is proved


def test_what_is_said_decides_what_stands_behind_it() -> None:
    """Reshapes that only a multiple of 4 allows lose their own checks."""
    flat = "4*`x.0`*(`x.1`//4)"
    reshape = f"%1: f32[{flat}] = reshape(%0) {{shape=<{flat}>}}"
    graph = parse_graph(FREE.replace("return %0 as", f"{reshape}\n  return %1 as"))
    plain, said = egshape.optimize(graph), egshape.optimize(annotate(graph, {"x": "f32[n, 4*m]"}))
    assert [each.text for each in plain.report.checks if each.status == "kept"] != []
    kept = [each.message for each in said.report.checks if each.status == "kept"]
    assert kept == ["argument x, axis 1: 4*m = {0} has no solution"]


def test_shapes_are_shown_in_the_names_that_were_said(graph: Graph) -> None:
    from egshape.api import shapes_table

    table = shapes_table(annotate(graph, {"x": "f32[n, 4*m]"}))
    assert {row.name: row.shape for row in table.values}["%0"] == ("n", "4*m")
