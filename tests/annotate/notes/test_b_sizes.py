"""B: a size that is not as was said names argument, axis and expression, and is heard before any later op."""

from __future__ import annotations

import pytest

import egshape
from tests.annotate.notes.programs import program, refusal, said

MULTIPLE = "argument x, axis 1: 4*m = {} has no solution"
CASES: list[tuple[str, tuple[int, int], str]] = [
    ("f32[n, 4*m]", (8, 16), ""),
    ("f32[n, 4*m]", (8, 0), ""),
    ("f32[n, 4*m]", (8, 15), MULTIPLE.format(15)),
    ("f32[n, 4*m]", (0, 1), MULTIPLE.format(1)),
    ("f32[n, 4*m + 4]", (8, 0), "argument x, axis 1: 4*m + 4 = 0 has no solution"),
    ("f32[n, 4*m + 4]", (8, 4), ""),
    ("f32[n, 12 - 4*m]", (8, 8), ""),
    ("f32[n, 12 - 4*m]", (8, 16), "argument x, axis 1: 12 - 4*m = 16 has no solution"),
    ("f32[n, 12 - 4*m]", (8, 7), "argument x, axis 1: 12 - 4*m = 7 has no solution"),
    ("f32[n, n*n]", (3, 9), ""),
    ("f32[n, n*n]", (3, 8), "argument x, axis 1: the size is 8, not n*n, where n is 3 by argument x, axis 0"),
    ("f32[n, n//2]", (5, 2), ""),
    ("f32[n, n//2]", (5, 3), "argument x, axis 1: the size is 3, not n//2, where n is 5 by argument x, axis 0"),
    ("f32[n, 2*n + 3*m]", (2, 10), ""),
    ("f32[n, 2*n + 3*m]", (2, 9), "argument x, axis 1: 2*n + 3*m = 9 has no solution"),
    (
        "f32[n, max(n, 4)]",
        (2, 3),
        "argument x, axis 1: the size is 3, not max(n, 4), where n is 2 by argument x, axis 0",
    ),
    ("f32[8, 16]", (8, 15), "argument x, axis 1: the size is 15, not 16"),
]


@pytest.mark.parametrize(("type", "shape", "message"), CASES)
def test_b(type: str, shape: tuple[int, int], message: str) -> None:
    """Behind it stands an op that would complain of other things."""
    graph = program("x: f32[?, ?]", lambda b, x: b.reshape(x, "x.0", "x.1//4", 4)).annotate("x", type)
    found = refusal(graph, shape)
    if message:
        assert found == message
        assert refusal(egshape.optimize(graph).graph, shape) == message
    else:
        assert not found or shape[1] % 4


FIXED = [
    ("f32[n, 4*m]", "argument x, axis 1: 4*m = 15 has no solution"),
    ("f32[n, n]", "argument x, axis 1: the size is 15, not n, where n is 8 by argument x, axis 0"),
    ("f32[n, 2*n]", "argument x, axis 1: the size is 15, not 2*n, where n is 8 by argument x, axis 0"),
    ("f32[8, 16 - m]", ""),
]


@pytest.mark.parametrize(("type", "message"), FIXED)
def test_b_of_numbers_is_said_at_once(type: str, message: str) -> None:
    assert said(program("x: f32[8, 15]", lambda b, x: b("negate", x)), {"x": type}) == message
