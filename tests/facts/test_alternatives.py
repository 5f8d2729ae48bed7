"""One of several comparisons: products that are 0 are read, written and shown as such."""

from __future__ import annotations

from itertools import product

import pytest

from egshape.dims import broadcast_gap, const, symbol
from egshape.errors import ParseError
from egshape.facts import Relation, parse_facts
from egshape.facts.wording import worded


def relation(text: str) -> Relation:
    (found,) = parse_facts(text)
    assert isinstance(found, Relation)
    return found


SHOWN = {
    "(a - b)*(a - 1)*(b - 1) == 0": "a == b or a == 1 or b == 1",
    "(s - 1)*p*(p + s - 1) == 0": "p == 0 or s == 1 or p + s == 1",
    "a*b == 0": "a == 0 or b == 0",
    "a*b == a*c": "b == c or a == 0",
    "n*n == 0": "n == 0",
    "bcast(a, b)*c == c": "c == 0 or bcast(a, b) == 1",
    "(n//m)*k == 0": "k == 0 or n//m == 0",
    "(max(a, b) - c)*(max(a, b) - 1)*(c - 1) == 0": "max(a, b) == c or c == 1 or max(a, b) == 1",
    "a >= 3 or b == 1": "3 <= a or b == 1",
    "a % 4 == 0 or b == 1": "b == 1 or a%4 == 0",
    "a*b == 6": "a*b == 6",
    "8*a*b == 8*c": "8*a*b == 8*c",
    "a*b <= 0": "a*b <= 0",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_it_is_shown_by_its_factors_and_read_back(text: str, shown: str) -> None:
    given = relation(text)
    assert str(given) == shown
    back = relation(shown)
    names = sorted(given.symbols())
    for sizes in product((0, 1, 2, 3, 4), repeat=len(names)):
        env = dict(zip(names, sizes, strict=True))
        if any(need.one.evaluate(env) == 0 for need in given.conditions() if need.kind == "nonzero"):
            continue
        if any(broadcast_gap(need.one, need.two).evaluate(env) for need in given.conditions() if need.kind == "bcast"):
            continue
        assert given.holds(env) == back.holds(env), env
        assert given.holds(env) == any(each.holds(env) for each in given.alternatives()), env


@pytest.mark.parametrize(
    "text", ["a < b or c == 1", "a != b or c == 0", "a == 1 or a == 3 or a >= 8", "b <= 2 or a > b"]
)
def test_any_comparison_may_stand_beside_or(text: str) -> None:
    given = relation(text)
    parts = [relation(each) for each in text.split(" or ")]
    names = sorted(given.symbols())
    for sizes in product(range(10), repeat=len(names)):
        env = dict(zip(names, sizes, strict=True))
        assert given.holds(env) == any(each.holds(env) for each in parts), env


def test_a_chain_beside_or_says_what_is_wrong() -> None:
    with pytest.raises(ParseError, match="chain of comparisons cannot stand beside 'or'"):
        parse_facts("a <= b <= c or d == 1")


def test_words() -> None:
    assert worded(relation("(a - b)*(a - 1)*(b - 1) == 0")) == "a equals b, or a equals 1, or b equals 1"


def test_what_cancels_is_not_lost() -> None:
    """n//m has no value where m is 0: a form in which it cancels would have one."""
    n, m, k = map(symbol, "nmk")
    whole = Relation("==", k * n + n // m, n // m)
    assert whole.alternatives() == (whole,)
    assert Relation("==", k * n, const(0)).alternatives() != ()


@pytest.mark.parametrize("text", ["(n//m + 1)*k == 0", "(n//m + 1)*(k - 1)*k == 0"])
def test_a_division_stays_though_its_factor_is_never_0(text: str) -> None:
    whole = relation(text)
    assert whole.alternatives() == (whole,)
