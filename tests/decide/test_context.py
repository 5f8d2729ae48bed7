"""Deciding while walking a program."""

from __future__ import annotations

import pytest

from egshape.decide.reason import INTERVAL, Branch, Check, Given
from egshape.dims import const, parse
from egshape.errors import Contradiction
from egshape.facts import Facts, Relation, parse_facts, parse_relation
from egshape.prove import Context


def _context(*texts: str) -> Context:
    return Context(Facts.parse(*texts))


@pytest.mark.parametrize(
    ("given", "one", "two"),
    [
        ("a + b == 1024", "a + b", "1024"),
        ("a + b == 1024", "2*a + 3*b - b", "2048"),
        ("a == b; b == c", "a*d", "c*d"),
        ("a*b == m; m == p*q*r", "a*b*k", "p*q*r*k"),
        ("n*m == k*h; n == k; n >= 1", "m", "h"),
        ("n*k == m*k; k >= 1", "n", "m"),
        ("h % 8 == 0", "(h//8)*8", "h"),
        ("h % 8 == 0", "(h//8)*4", "h//2"),
        ("h % k == 0; k >= 1", "b*(h//k)*k", "b*h"),
        ("h % k == 0; k >= 1; k == 4", "h//k", "h//4"),
        ("n <= m", "min(n, m)", "n"),
        ("n <= m", "max(n, m) - n", "m - n"),
        ("b >= 1", "(a*b)//b", "a"),
        ("j < n", "(i*n + j)//n", "i"),
        ("j < n", "(i*n + j)%n", "j"),
        ("t <= p + s; p + s <= t", "t", "p + s"),
        ("2*a == 3*b", "4*a", "6*b"),
        ("n in [5,12]; n % 8 == 0", "n", "8"),
        ("n <= 7", "n//8", "0"),
        ("n in [8,15]", "n//8", "1"),
        ("(x + y) % 2 == 0", "2*((x + y)//2)", "x + y"),
        ("a == 1", "bcast(a, b)", "b"),
        ("a == b", "bcast(a, b)", "b"),
        ("q == h//g; h % g == 0; g >= 1", "b*q*g", "b*h"),
        ("max(a, b) <= a", "max(a, b)", "a"),
        ("a//2 == 3", "a//4", "1"),
    ],
)
def test_equal_sizes_have_one_normal_form(given: str, one: str, two: str) -> None:
    context = _context(given)
    left, right = context.normal_form(parse(one)), context.normal_form(parse(two))
    assert left is right
    assert "\x00" not in str(left)
    assert context.normal_form(left) is left


@pytest.mark.parametrize("text", ["a*b + c//2", "max(a, b) + 3", "(h//8)*4 + h%8", "bcast(p, c)"])
def test_orders_leave_sizes_as_they_are(text: str) -> None:
    dim = parse(text)
    assert _context().normal_form(dim) is dim
    assert _context("a >= 1; b >= 2; h >= 8; c <= 100; z == w").normal_form(dim) is dim


def test_the_callers_order_says_which_symbol_stays() -> None:
    relation = parse_relation("a == b")
    keep_a, keep_b = Context(), Context(symbol_order=lambda name: 0 if name == "b" else 1)
    keep_a.assume(relation)
    keep_b.assume(relation)
    assert str(keep_a.normal_form(parse("2*a*b"))) == "2*a*a"
    assert str(keep_b.normal_form(parse("2*a*b"))) == "2*b*b"


@pytest.mark.parametrize(
    ("given", "dim", "bounds"),
    [
        ("", "a", (0, None)),
        ("", "a%8", (0, 7)),
        ("n in [3,9]", "n", (3, 9)),
        ("n in [3,9]", "2*n + 1", (7, 19)),
        ("n in [3,9]", "n//2", (1, 4)),
        ("n in [3,9]; m <= 4", "n*m", (0, 36)),
        ("n <= m; m <= 10", "n", (0, 10)),
        ("n <= m", "m - n", (0, None)),
        ("n <= m", "n - m", (None, 0)),
        ("a + b == 10", "a", (0, 10)),
        ("", "b - c", (None, None)),
        ("n == 4", "n*3", (12, 12)),
        ("n <= 5", "max(n, 3)", (3, 5)),
    ],
)
def test_bounds(given: str, dim: str, bounds: tuple[int | None, int | None]) -> None:
    assert _context(given).bounds(parse(dim)) == bounds


@pytest.mark.parametrize(
    ("given", "k", "dim", "want"),
    [
        ("n % 8 == 0", 4, "n", True),
        ("n % 8 == 0", 16, "n", False),
        ("n % 8 == 0", 16, "2*n*m", True),
        ("", 2, "n*n + n", True),
        ("", 6, "n*(n+1)*(n+2)", True),
        ("", 2, "n", False),
        ("n % 9 == 0; n % 6 == 0", 18, "n", True),
        ("(x + y) % 4 == 0", 2, "x + y", True),
        ("n in {0, 64}", 32, "n", True),
        ("n == 4*k", 4, "n + 8", True),
    ],
)
def test_divides(given: str, k: int, dim: str, want: bool) -> None:
    assert _context(given).divides(k, parse(dim)) is want


@pytest.mark.parametrize(
    ("given", "goal", "want"),
    [
        ("n <= m", "n <= m + 1", "proved"),
        ("n <= m", "m < n", "refuted"),
        ("n <= m", "n == m", "unknown"),
        ("x <= 3; y <= 4", "x*y <= 12", "proved"),
        ("a >= 1", "a != 0", "proved"),
        ("a == b + 1", "a == b", "refuted"),
        ("n % 4 == 1", "n % 2 == 0", "refuted"),
        ("", "n//m == n//m", "unknown"),
        ("m >= 1", "n//m == n//m", "proved"),
        ("", "bcast(a, b) >= 0", "unknown"),
        ("a == b", "bcast(a, b) == a", "proved"),
        ("n in [0,32] or [64,96]", "n in [0,32] or [60,100]", "proved"),
        ("n in [0,32] or [64,96]", "n == 50", "refuted"),
    ],
)
def test_decide(given: str, goal: str, want: str) -> None:
    assert _context(given).decide(parse_relation(goal)) == want


def test_a_quotient_of_a_size_that_may_be_negative_may_be_negative() -> None:
    context = _context("(x - 3) % d == 0; d >= 1")
    assert context.bounds(parse("x")) == (0, None)
    assert context.decide(parse_relation("x >= 3")) == "unknown"


def test_facts_of_a_copy_do_not_leak() -> None:
    outer = _context("n <= m")
    inner = outer.copy()
    inner.assume(parse_relation("m == 3"), Branch())
    assert inner.bounds(parse("n")) == (0, 3)
    assert outer.bounds(parse("n")) == (0, None)
    other = outer.copy()
    other.assume(parse_relation("m == 4"), Branch())
    assert other.normal_form(parse("m")) is const(4)


def test_order_of_assumptions_does_not_matter() -> None:
    relations = list(parse_facts("n*k == m*k; k >= 1; m % 4 == 0; m <= 20"))
    for turn in range(4):
        context = Context()
        for relation in relations[turn:] + relations[:turn]:
            context.assume(relation)  # type: ignore[arg-type]
        assert context.divides(4, parse("n"))
        assert context.bounds(parse("n")) == (0, 20)


def test_a_contradiction_names_the_assumptions() -> None:
    context = _context("a <= b", "c <= 5")
    with pytest.raises(Contradiction) as info:
        context.assume(parse_relation("b < a"), Check(location="loc"))
    assert info.value.facts == ("a <= b", "b < a")


def test_reasons_name_only_what_is_needed() -> None:
    context = _context("a <= b", "c <= 5", "b <= d")
    one, two, step = context.reasons(parse_relation("a <= d"))
    assert (step.reason, str(step.to)) == (INTERVAL, "a <= d")
    assert set(map(str, step.from_)) == {"a <= b", "b <= d"}
    assert {one, two} == {(Given(), (), each) for each in step.from_}
    assert context.reasons(parse_relation("a <= c")) == ()


def test_a_bound_on_a_quotient_says_something_of_the_symbols_in_it() -> None:
    context = _context("a <= c", "c <= 2", "1 <= a - (a + b)//2", "1 <= b")
    assert context.decide(parse_relation("2 <= c")) == "proved"
    assert context.bounds(parse("c")) == (2, 2)


def test_what_is_said_of_a_broadcast_size_is_said_of_sizes_that_broadcast() -> None:
    """A check says no more of bcast(a, b) than its value: that a and b broadcast is another one."""
    sizes, equal = parse("bcast(p + s, t)"), parse("p + s")
    context, goal = _context("(p + s - t)*(p + s - 1)*(t - 1) == 0"), parse_relation("(t - 1)*(t - p - s) == 0")
    context.assume(Relation("==", sizes, equal))
    assert context.decide(goal) == "proved"
    alone = Context()
    alone.assume(Relation("==", sizes, equal))
    assert alone.decide(goal) == "unknown"


def test_a_far_bound_does_not_take_the_place_of_a_near_one() -> None:
    """Each size fits an i32: once c is gone from a <= c <= 1, there are two bounds on a."""
    context = _context("a <= 2147483647", "b <= 2147483647", "a <= c", "c <= 2", "1 <= a - (a + b)//2", "1 <= b")
    assert context.decide(parse_relation("2 <= c")) == "proved"


def test_an_early_unknown_is_asked_again_with_more_effort() -> None:
    goal, context = parse_relation("max(a, max(b, c)) == max(max(a, b), c)"), Context()
    assert context.verdict(goal, 0, 1).answer == "unknown"
    assert context.decide(goal) == "proved"
    assert context.verdict(goal, 0, 1).answer == "proved", "what is proved stays so"
