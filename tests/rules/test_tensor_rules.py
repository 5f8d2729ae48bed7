"""Both sides of examples of rules over tensors, in numbers."""

from __future__ import annotations

import pytest

from egshape.ops import REGISTRY
from egshape.rulebook.trial.examples import both_sides
from egshape.rulelang.examples import read_example
from egshape.rulelang.loader import Example


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add(x: [a], broadcast_in_dim(const(f32, 0.0), [], [a]))", "x"),
        ("transpose(x: [a, a], [1, 0])", "x"),
        ("convert(convert(x: f32[a], f64), f32)", "negate(negate(abs(x)))"),
    ],
)
def test_the_numbers_see_a_wrong_equation(before: str, after: str) -> None:
    line = read_example(Example(before, after, "", "here"), REGISTRY)
    assert any(both_sides(line, None, seed)[1] for seed in range(4))


@pytest.mark.parametrize(
    ("before", "after", "good"),
    [
        ("multiply(x: [a], multiply(x, x))", "multiply(multiply(x, x), x)", True),
        ("multiply(x: [a], x)", "abs(multiply(x, x))", True),
        ("multiply(x: [a], x)", "x", False),
    ],
)
def test_a_tolerance_forgives_rounding_and_nothing_else(before: str, after: str, good: bool) -> None:
    line = read_example(Example(before, after, "", "here"), REGISTRY)
    assert any(both_sides(line, 1e-6, seed)[1] for seed in range(4)) != good
