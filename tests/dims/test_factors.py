"""Sizes as products of sums."""

from __future__ import annotations

import random

import pytest

from egshape.dims import Dim, const, maximum, symbol
from egshape.dims.factors import linear_factors
from egshape.dims.forms import broadcast_gap, product, total

V, W, X, Y, Z = map(symbol, "vwxyz")


def is_zero(dim: Dim, env: dict[str, int]) -> bool:
    return dim.evaluate(env) == 0


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (X, Y),
        (X + Y, Z),
        (X, const(3) * Y + 2),
        (maximum(X, Y), Z),
        (X * Y, Z),
        (X + Y, V + W),
        (V + X, W + Y + Z),
        (X + Y + 1, V + Z),
        (X + Y, X + Z),
        (X, X + Y),
        (X + 1, X + Y),
        (2 * X + Y, 3 * X + Z),
    ],
)
def test_that_sizes_broadcast_is_a_product(one: Dim, two: Dim) -> None:
    """Also of sums that share a size."""
    gap = broadcast_gap(one, two)
    found = linear_factors(gap)
    assert found is not None and len(found) > 1
    rng = random.Random(0)
    for _ in range(50):
        env = {name: rng.randrange(4) for name in "vwxyz"}
        assert is_zero(gap, env) == any(is_zero(each, env) for each in found)
    assert linear_factors(gap + 1) is None


def test_products_of_random_sums() -> None:
    rng = random.Random(1)
    for _ in range(200):
        sums = [
            total(
                [*(rng.choice((0, 0, 1, 1, -1, 2, 3)) * each for each in (X, Y, Z)), const(rng.choice((0, 1, -1, 5)))]
            )
            for _ in range(rng.choice((2, 3, 3, 4)))
        ]
        wanted = [each for each in sums if not each.is_const]
        whole = product(sums)
        if len(wanted) < 2 or not whole.terms or len(whole.terms) > 40:
            continue
        found = linear_factors(whole)
        assert found is not None and len(found) == len(wanted), sums
        for env in ({"x": 2, "y": 3, "z": 5}, {"x": 1, "y": 1, "z": 0}, {"x": 0, "y": 5, "z": 1}):
            assert is_zero(whole, env) == any(is_zero(each, env) for each in found)


@pytest.mark.parametrize("dim", [const(0), const(7), X, X - Y, X * Y - Z, X * X + Y * Y - 1, X * X - 2, X * Y - V * W])
def test_what_is_no_product(dim: Dim) -> None:
    assert linear_factors(dim) is None
