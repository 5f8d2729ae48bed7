"""Buckets against every choice of ends, on small distributions."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import egshape
from egshape.buckets import buckets, cheapest
from egshape.errors import InvalidInput
from egshape.facts import Facts
from egshape.observed import Observed

TEXT = b"""func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.abs %x : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}"""


def _spent(weights: dict[int, float], ends: tuple[int, ...], power: int) -> float:
    return sum(weight * min(end for end in ends if end >= size) ** power for size, weight in weights.items())


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 4), st.integers(0, 2)
)
def test_no_choice_of_ends_is_cheaper(weights: dict[int, float], most: int, power: int) -> None:
    ends = cheapest(weights, lambda size: float(size**power), most)
    assert 1 <= len(ends) <= most and list(ends) == sorted(set(ends)) and ends[-1] == max(weights)
    others = [
        (*some, max(weights))
        for count in range(min(most, len(weights)))
        for some in combinations(sorted(weights)[:-1], count)
    ]
    assert _spent(weights, ends, power) == min(_spent(weights, each, power) for each in others)


def test_equal_cost_takes_fewer_buckets() -> None:
    assert cheapest({1: 1.0, 2: 1.0, 3: 1.0}, lambda size: 1.0, 3) == (3,)


@pytest.mark.parametrize(("weights", "most"), [({}, 1), ({3: 1.0}, 0)])
def test_nothing_to_choose(weights: dict[int, float], most: int) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        cheapest(weights, float, most)


def test_likely_ranged_and_seen_sizes_are_a_distribution_and_no_other() -> None:
    graph = egshape.load(TEXT, "stablehlo")
    facts = Facts.parse("likely arg0.0 = 10, 100")
    (found,) = buckets(graph, facts, 1)
    assert found.symbol == "arg0.0" and [(row.first, row.last, row.share) for row in found.rows] == [(10, 100, 1.0)]
    assert found.padding == found.single == pytest.approx(200 / 110 - 1)
    (ranged,) = buckets(graph, Facts.parse("arg0.1 <= 8"), 2)
    assert (ranged.rows[0].first, ranged.rows[-1].last) == (0, 8) and ranged.padding < ranged.single
    (seen,) = buckets(graph, Facts(), 2, Observed({"arg0.0": {0: 3, 7: 1}}))
    assert [(row.last, row.share) for row in seen.rows] == [(0, 0.75), (7, 0.25)] and seen.padding == 0.0
    assert buckets(graph, Facts(), 2) == ()
