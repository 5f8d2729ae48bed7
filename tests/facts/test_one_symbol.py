"""Relations of one symbol by sums and maxima are interval lists: the list is where the relation holds, size by size."""

from __future__ import annotations

import pytest

from egshape.dims import const, relu, symbol
from egshape.facts import Facts
from egshape.facts.absorb import about_symbol, ranges_of_symbol
from egshape.facts.intervals import contains, to_text
from egshape.facts.relation import Relation, parse_facts


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("max(max(n - 2, 0) - 2, 0) == 5", "{9}"),
        ("max(max(max(n-2, 0) - 2, 0) - 2, 0) == 1", "{7}"),
        ("max(n - 2, 0) == 0", "[-inf,2]"),
        ("max(n - 2, 0) <= 3", "[-inf,5]"),
        ("max(4, n) == 4", "[-inf,4]"),
        ("min(n, 8) == 8", "[8,inf]"),
        ("max(n - 4, 0) - max(n + max(n - 4, 0) - max(n, 8), 0) == 0", "[-inf,4] or [8,inf]"),
        ("max(n, 8) - min(n, 4) == 4", "[4,8]"),
        ("max(n, 3) != 3", "[4,inf]"),
        ("max(2*n - 5, 0) == 2", ""),
        ("max(2*n - 5, 0) == 3", "{4}"),
        ("max(5 - 2*n, 0) == 3", "{1}"),
        ("max(n - 3, 0) + max(3 - n, 0) <= 1", "[2,4]"),
    ],
)
def test_where_it_holds(text: str, ranges: str) -> None:
    (relation,) = parse_facts(text)
    assert isinstance(relation, Relation)
    found = ranges_of_symbol(relation)
    assert found is not None and found[0] == "n"
    assert to_text(found[1]) == ranges
    for size in range(-20, 30):
        assert contains(found[1], size) == relation.holds({"n": size}), size


@pytest.mark.parametrize("text", ["max(n - m, 0) == 0", "max(n*n - 2, 0) == 1", "max(n//2 - 1, 0) == 1", "n == 3"])
def test_other_relations_are_left_alone(text: str) -> None:
    (relation,) = parse_facts(text)
    assert isinstance(relation, Relation) and ranges_of_symbol(relation) is None


def test_facts_take_the_list() -> None:
    assert Facts.parse("max(n - 4, 0) == max(n + max(n - 4, 0) - max(n, 8), 0)").symbol("n").ranges == (
        (0, 4),
        (8, None),
    )
    relation = Relation("==", symbol("n") - 3, symbol("n") - symbol("n"))
    assert about_symbol(relation) == ("n", ((3, 3),), (1, 0))


def test_a_size_that_is_long_when_written_out_is_left_alone() -> None:
    size = symbol("n")
    for step in range(40):
        size = relu(size - 2) + relu(2 * size - 9 - step) - size
    assert ranges_of_symbol(Relation("==", size, const(5))) is None
