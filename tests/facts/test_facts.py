"""The shape-constraint IR: text, JSON, combining, contradictions."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egshape.dims import symbol
from egshape.errors import Contradiction, InvalidInput, ParseError
from egshape.facts import Facts, Likely, Relation, parse_facts, parse_relation
from egshape.facts.intervals import (
    Ranges,
    clip_to_class,
    combine_classes,
    complement,
    contains,
    intersect,
    normalized,
    preimage,
)
from egshape.facts.relation import facts_given

EVERY_KIND = "h % 8 == 0; a + b == 1024; n in [1,32] or [64,96]; m in {16, 64}; likely s = 128, 512; x.0 == y.1"


def test_every_kind_of_text() -> None:
    facts = Facts.parse(EVERY_KIND, assumed=True)
    assert facts.symbol("h").divisor == (8, 0)
    assert facts.symbol("n").ranges == ((1, 32), (64, 96))
    assert facts.symbol("m").ranges == ((16, 16), (64, 64))
    assert facts.symbol("s").likely == (128, 512)
    assert [str(r) for r in facts.relations] == ["a + b == 1024", "x.0 == y.1"]
    assert facts.assumed[0] == "h % 8 == 0" and len(facts.assumed) == 6


def test_json_has_the_documented_form() -> None:
    facts = Facts.parse("h % 8 == 0; h >= 1; a + b == 1024").with_symbol("h", ["arg0.1"], [64])
    assert json.loads(facts.to_json()) == {
        "version": 1,
        "symbols": [{"name": "h", "sources": ["arg0.1"], "ranges": [[8, None]], "divisor": [8, 0], "likely": [64]}],
        "relations": ["a + b == 1024"],
        "assumed": [],
    }


def test_what_json_assumes_is_known() -> None:
    facts = Facts.from_json('{"assumed": ["n % 8 == 0", "likely n = 64"]}')
    assert facts.symbol("n").divisor == (8, 0)
    assert facts.symbol("n").likely == (64,)
    assert facts.assumed == ("n % 8 == 0", "likely n = 64")


def test_json_round_trip() -> None:
    facts = Facts.parse(EVERY_KIND, "n//m == 3", "`input.1`.0 <= 7", assumed=True)
    again = Facts.from_json(facts.to_json())
    assert again == facts
    assert again.to_json() == facts.to_json()


@pytest.mark.parametrize("order", list(permutations(EVERY_KIND.split(";")))[::97])
def test_order_never_matters(order: tuple[str, ...]) -> None:
    assert Facts.parse(*order) == Facts.parse(EVERY_KIND)


@pytest.mark.parametrize(
    ("texts", "ranges", "divisor"),
    [
        (("n >= 3", "n < 10"), ((3, 9),), (1, 0)),
        (("2*n <= 11",), ((0, 5),), (1, 0)),
        (("n % 4 == 0", "n % 6 == 0"), ((0, None),), (12, 0)),
        (("n % 3 == 1", "n % 4 == 2", "n <= 30"), ((10, 22),), (12, 10)),
        (("n in [5,12]", "n % 8 == 0"), ((8, 8),), (8, 0)),
        (("n != 3", "n <= 4"), ((0, 2), (4, 4)), (1, 0)),
        (("0 <= n - 2 <= 5",), ((2, 7),), (1, 0)),
        (("(n+1) % 8 == 0",), ((7, None),), (8, 7)),
        (("n in [0,inf]",), ((0, None),), (1, 0)),
    ],
)
def test_facts_about_one_symbol_combine(texts: tuple[str, ...], ranges: Ranges, divisor: tuple[int, int]) -> None:
    found = Facts.parse(*texts).symbol("n")
    assert (found.ranges, found.divisor) == (ranges, divisor)


@pytest.mark.parametrize(
    ("texts", "clash"),
    [
        (("b >= 7", "a >= 3", "a <= 2"), ("a >= 3", "a <= 2")),
        (("4*m == 15",), ("4*m == 15",)),
        (("n % 4 == 1", "n >= 2", "n % 8 == 2"), ("n % 4 == 1", "n % 8 == 2")),
        (("n in {1, 3}", "n % 2 == 0"), ("n in {1, 3}", "n % 2 == 0")),
        (("1 == 2",), ("1 == 2",)),
        (("n % 8 == 9",), ("n % 8 == 9",)),
    ],
)
def test_a_contradiction_names_the_facts_that_clash(texts: tuple[str, ...], clash: tuple[str, ...]) -> None:
    with pytest.raises(Contradiction) as info:
        Facts.parse(*texts)
    assert info.value.facts == clash
    assert all(repr(text) in str(info.value) for text in clash)


def test_merge_keeps_both_and_finds_contradictions() -> None:
    one = Facts.parse("n <= 10; a == b").with_symbol("n", ["x.0"])
    two = Facts.parse("n % 4 == 0", assumed=True).with_symbol("n", ["y.0"], [8])
    both = one.merge(two)
    assert both.symbol("n").ranges == ((0, 8),)
    assert both.symbol("n").sources == ("x.0", "y.0")
    assert both.assumed == ("n % 4 == 0",)
    with pytest.raises(Contradiction):
        both.merge(Facts.parse("n >= 9"))


def test_relations_turn_around_and_negate() -> None:
    a, b = symbol("a"), symbol("b")
    assert Relation.of(a, ">=", b) == Relation("<=", b, a)
    assert str(Relation.of(a, ">", 3)) == "3 < a"
    assert str(Relation("<=", a, b).negated()) == "b < a"
    assert str(parse_relation("n in [1,4] or {9}").negated()) == "n in [-inf,0] or [5,8] or [10,inf]"
    assert parse_facts("likely s = 1, 2") == (Likely("s", (1, 2)),)


def test_a_statement_has_no_value_where_it_divides_by_zero() -> None:
    relation = parse_relation("n//m - n//m == 0")  # the division is gone from the form, not from the text
    assert relation.needs and relation.holds({"n": 1, "m": 1})
    with pytest.raises(Exception, match="divides by 0"):
        relation.holds({"n": 1, "m": 0})
    with pytest.raises(Exception, match="do not broadcast"):
        parse_relation("bcast(a, b) >= 0").holds({"a": 2, "b": 3})


@pytest.mark.parametrize(
    ("text", "column"),
    [("a", 2), ("a ==", 5), ("a in 3", 6), ("likely a 3", 10), ("a == 1 b", 8), ("likely s = -1", 14)],
)
def test_wrong_text_names_its_column(text: str, column: int) -> None:
    with pytest.raises(ParseError) as info:
        parse_facts(text)
    assert info.value.where == f"column {column}"


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 2}',
        '{"symbols": [{"ranges": []}]}',
        '{"nonsense": 1}',
        '{"symbols": [{"name": "n", "divisor": [0, 0]}]}',
        "[",
    ],
)
def test_wrong_json_is_reported(text: str) -> None:
    with pytest.raises(InvalidInput):
        Facts.from_json(text)


_INTERVALS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-5, 9)), st.one_of(st.none(), st.integers(-5, 9))), max_size=3
)


@given(_INTERVALS, _INTERVALS, st.integers(-12, 12), st.sampled_from([-3, -1, 1, 2, 5]), st.integers(-4, 4))
def test_interval_lists_mean_sets(
    one: list[tuple[int | None, int | None]],
    two: list[tuple[int | None, int | None]],
    value: int,
    scale: int,
    offset: int,
) -> None:
    first, second = normalized(one), normalized(two)
    inside = contains(tuple(one), value)
    assert contains(first, value) == inside
    assert contains(complement(first), value) != inside
    assert contains(intersect(first, second), value) == (inside and contains(second, value))
    assert contains(preimage(first, scale, offset), value) == contains(first, scale * value + offset)


@given(st.integers(1, 9), st.integers(0, 8), st.integers(1, 9), st.integers(0, 8), _INTERVALS)
def test_residue_classes_mean_sets(
    d1: int, r1: int, d2: int, r2: int, intervals: list[tuple[int | None, int | None]]
) -> None:
    r1, r2 = r1 % d1, r2 % d2
    found = combine_classes((d1, r1), (d2, r2))
    clipped = clip_to_class(normalized(intervals), d1, r1)
    for value in range(-30, 100):
        both = value % d1 == r1 and value % d2 == r2
        assert both == (found is not None and value % found[0] == found[1])
        if value % d1 == r1:
            assert contains(clipped, value) == contains(tuple(intervals), value)


def test_facts_print_as_text_that_reads_back() -> None:
    text = "h%8 == 0; n in [1,32] or [64,96]; a + b == 1024; likely s = 128, 512"
    facts = Facts.parse(text, assumed=True)
    assert str(facts) == text and Facts.parse(str(facts), assumed=True) == facts
    assert str(Facts()) == ""


@pytest.mark.parametrize("wrong", [3, None, [None], b"b == 3", {"b": 3}], ids=repr)
def test_what_is_no_text_of_a_fact(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="is no text of a fact"):
        facts_given(wrong)
