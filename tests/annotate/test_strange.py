"""What nobody would say as a rule: sizes that cancel, divide by 0, contradict each other, are 0 or 1, or bind late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.text import parse_graph, print_graph

TEXT = """graph g(%x: f32[x.0, x.1], %y: f32[y.0]) {
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1), y.0 = size(%y, 0)
  %a: f32[x.0, x.1] = tanh(%x)
  %b: f32[x.0*x.1] = reshape(%a) {shape=<x.0*x.1>}
  %c: f32[y.0] = negate(%y)
  return %a as a, %b as b, %c as c
}
"""

RUNS: dict[str, tuple[dict[str, str], dict[tuple[int, int, int], str]]] = {
    "unit and zero": (
        {"x": "f32[1, 0]"},
        {(1, 0, 3): "", (1, 1, 3): "argument x, axis 1: the size is 1, not 0", (0, 0, 1): "the size is 0, not 1"},
    ),
    "one name everywhere": (
        {"x": "f32[n, n]", "y": "f32[n]"},
        {(2, 2, 2): "", (0, 0, 0): "", (2, 3, 2): "the size is 3, not n, where n is 2 by argument x, axis 0"},
    ),
    "bound late": (
        {"x": "f32[n+m, 2*m]", "y": "f32[m]"},
        {(5, 4, 2): "", (2, 4, 2): "", (1, 4, 2): r"n\+m = 1 has no solution", (5, 5, 2): r"2\*m = 5 has no solution"},
    ),
    "bound later": (
        {"x": "f32[a + b, b + c]", "y": "f32[c]"},
        {(5, 4, 3): "", (5, 4, 5): r"b \+ c = 4 has no solution", (0, 4, 3): r"a \+ b = 0 has no solution"},
    ),
    "subtracted": (
        {"x": "f32[10 - n, n]"},
        {(10, 0, 1): "", (0, 10, 1): "", (11, 0, 1): "10 - n = 11 has no solution", (1, 8, 1): "the size is 8, not n"},
    ),
    "larger than it": ({"x": "f32[n - 5, ?]"}, {(7, 3, 1): "", (0, 0, 0): ""}),
    "two multiples": (
        {"x": "f32[2*n, 3*n]"},
        {(4, 6, 1): "", (0, 0, 1): "", (5, 6, 1): r"2\*n = 5 has no solution", (4, 3, 1): r"the size is 3, not 3\*n"},
    ),
    "a product": (
        {"x": "f32[n, m]", "y": "f32[n*m]"},
        {(2, 3, 6): "", (0, 3, 0): "", (0, 3, 1): r"the size is 1, not n\*m, where m is 3 by .*, n is 0 by"},
    ),
    "a square": ({"x": "f32[n, ?]", "y": "f32[n*n]"}, {(3, 1, 9): "", (3, 1, 8): r"the size is 8, not n\*n"}),
    "a divisor": (
        {"x": "f32[n, m]", "y": "f32[n//m]"},
        {(6, 2, 3): "", (6, 0, 0): "n//m is not defined, where m is 0 by argument x, axis 1", (6, 4, 2): "not n//m"},
    ),
    "a remainder": ({"x": "f32[n, m]", "y": "f32[n%m]"}, {(7, 4, 3): "", (7, 0, 7): "n%m is not defined"}),
    "a divisor that goes out": (
        {"x": "f32[n, m]", "y": "f32[n//m - n//m + 2]"}, {(2, 3, 2): "", (2, 0, 2): "is not defined, where m is 0"},
    ),
    "a name behind a divisor": (
        {"x": "f32[n, m]", "y": "f32[k + n//m]"},
        {(4, 2, 3): "", (4, 0, 3): "is not defined", (4, 2, 1): r"k \+ n//m = 1 has no solution"},
    ),
    "a ceiling": ({"x": "f32[n, ?]", "y": "f32[cdiv(n, 4)]"}, {(8, 1, 2): "", (0, 1, 0): "", (9, 1, 2): "not cdiv"}),
    "a broadcast": (
        {"x": "f32[n, m]", "y": "f32[bcast(n, m)]"},
        {(1, 3, 3): "", (2, 2, 2): "", (0, 1, 0): "", (0, 0, 0): "", (3, 0, 3): "is not defined",
         (2, 3, 3): r"bcast\(n, m\) is not defined, where m is 3 by argument x, axis 1, n is", (1, 3, 1): "not bcast"},
    ),
    "the larger one": ({"x": "f32[n, m]", "y": "f32[max(n, m)]"}, {(2, 3, 3): "", (0, 0, 0): "", (2, 3, 2): "not max"}),
    "at most": ({"x": "f32[n, ?]", "y": "f32[min(n, 8)]"}, {(9, 1, 8): "", (3, 1, 3): "", (3, 1, 8): "not min"}),
    "nested": ({"x": "f32[n, (((n//2)//2)//2)]"}, {(17, 2, 1): "", (15, 2, 1): r"not \(\(\(n//2\)//2\)//2\)"}),
    "long": ({"x": f"f32[{'+'.join(['n'] * 60)}, m]"}, {(60, 1, 1): "", (61, 1, 1): "= 61 has no solution"}),
    "times zero": ({"x": "f32[n, ?]", "y": "f32[0*n]"}, {(3, 4, 0): "", (3, 4, 1): r"the size is 1, not 0\*n"}),
    "cancelled": ({"y": "f32[n - n + 3]", "x": "f32[n, ?]"}, {(3, 4, 3): "", (3, 4, 1): "not n - n"}),
    "a huge multiple": ({"y": "f32[4294967296*n]"}, {(3, 4, 0): "", (3, 4, 7): r"4294967296\*n = 7 has no solution"}),
    "a size of the graph": (
        {"y": "f32[`x.0` + `x.1`]"}, {(3, 4, 7): "", (3, 4, 2): r"x.0 is 3 by argument x, axis 0, x.1 is 4 by"},
    ),
    "names of other things": ({"x": "f32[f32, max]", "y": "f32[f32]"}, {(3, 4, 3): "", (3, 4, 2): "not f32"}),
    "a result": ({"b": "f32[6*k]", "x": "f32[?, 3]"}, {(2, 3, 1): "", (0, 3, 1): "", (3, 3, 1): r"result b.*6\*k = 9"}),
    "a result as its input": ({"x": "f32[n, m]", "a": "f32[m, n]"}, {(3, 3, 1): "", (3, 4, 1): "result a, axis 0"}),
    "a value inside": ({"%b": "f32[k*64]"}, {(8, 8, 1): "", (0, 9, 1): "", (8, 9, 1): r"value %b.* k\*64 = 72"}),
    "no dtype": ({"x": "?[n, 2*m]"}, {(3, 4, 1): "", (3, 3, 1): r"2\*m = 3 has no solution"}),
    "no rank": ({"x": "f32[*]", "y": "f32"}, {(3, 4, 1): ""}),
    "nothing": ({"x": "?", "y": "?[?]"}, {(3, 4, 1): "", (0, 0, 0): ""}),
}  # fmt: skip

REFUSED = {
    "an unbound product": ({"y": "f32[n*m]"}, r"nothing tells what m and n is in n\*m"),
    "an unbound square": ({"y": "f32[n*n]"}, r"nothing tells what n is in n\*n"),
    "an unbound name that goes out": ({"x": "f32[n, n//m - n//m + 2]"}, "nothing tells what m is"),
    "below zero": ({"x": "f32[0 - n - 1, n]"}, "false at every admitted size"),
    "two numbers": ({"x": "f32[3, ?]", "%a": "f32[4, ?]"}, "value %a, axis 0: the size is 3, not 4, which is false"),
    "even and odd": ({"x": "f32[2*n, ?]", "%a": "f32[2*m + 1, ?]"}, r"2\*m \+ 1 = x.0 has no solution, which is false"),
    "through zero": ({"x": "f32[n, n//0]"}, "argument x, axis 1: n//0 is not defined"),
    "another dtype": ({"x": "f64[n, m]"}, "argument x: is f32, where f64"),
    "another rank": ({"x": "f32[n]"}, "argument x: is f32.*, of rank 2, where"),
    "another value": ({"zz": "f32[n]"}, "no value 'zz'"),
    "no size": ({"y": "f32[-1]"}, "not -1, which is false"),
    "too large": ({"y": "f32[99999999999999999999]"}, "which is false at every admitted size"),
    "no text": ({"x": ""}, "expected a dtype"),
    "no ASCII": ({"y": "f32[gr\N{LATIN SMALL LETTER O WITH DIAERESIS}]"}, "column 7"),
}


def compiled(types: dict[str, str], target: str) -> Any:
    """Also what is saved as text and loaded again says the same."""
    said = egshape.annotate(parse_graph(TEXT), types)
    text = print_graph(said)
    assert print_graph(parse_graph(text)) == text
    return egshape.compile(egshape.optimize(parse_graph(text)), target)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("target", ["interpret", pytest.param("llvm", marks=pytest.mark.long)])
def test_what_is_said_is_checked(name: str, target: str) -> None:
    types, points = RUNS[name]
    if target == "llvm":
        pytest.importorskip("llvmlite")
    function = compiled(types, target)
    for (rows, columns, length), message in points.items():
        arrays = [np.ones((rows, columns), np.float32), np.ones(length, np.float32)]
        if message:
            with pytest.raises((CheckFailed, EgshapeError), match=message):
                function(*arrays)
        else:
            np.testing.assert_array_equal(function(*arrays)[2], -arrays[1])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_before_a_run(name: str) -> None:
    types, message = REFUSED[name]
    with pytest.raises(EgshapeError, match=message):
        compiled(types, "interpret")
