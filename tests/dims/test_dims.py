"""The size algebra: every form has the value of what was written, and prints back to itself."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egshape.dims import bcast, ceildiv, const, floordiv, maximum, minimum, mod, parse, product, relu, symbol
from egshape.errors import ParseError, UndefinedSize

NAMES = ("a", "b", "c", "n.0")
SIZES = (0, 1, 2, 3, 5, 7, 8, 16, 97, 128, 1000, 1_000_003)


def _joined(a: int, b: int) -> int:
    """The size of a broadcast axis; where there is none, that of the declaration in rulesets/size/bcast.egg."""
    if 1 in (a, b) or a == b:
        return b if a == 1 else a
    return max(a, b) if min(a, b) > 0 else 0


def _python_value(text: str, env: dict[str, int]) -> int | None:
    functions = {
        "cdiv": lambda a, b: -((-a) // b),
        "bcast": _joined,
        "min": min,
        "max": max,
    }
    names = {name.replace(".", "_"): value for name, value in env.items()}
    try:
        return int(eval(text.replace("n.0", "n_0"), {}, {**functions, **names}))
    except ZeroDivisionError:
        return None


def _expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from((*NAMES, "0", "1", "2", "3", "5", "8", "128"))

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        infix = st.tuples(inner, st.sampled_from(("+", "-", "*", "//", "%")), inner)
        by_number = st.tuples(inner, st.sampled_from(("//", "%")), st.sampled_from(("2", "3", "4", "8")))
        call = st.tuples(st.sampled_from(("min", "max", "cdiv", "bcast")), inner, inner)
        return st.one_of(
            st.one_of(infix, by_number).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            call.map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
            inner.map(lambda t: f"(-{t})"),
        )

    return st.recursive(leaves, extend, max_leaves=6)


_ENVS = st.lists(st.fixed_dictionaries({n: st.sampled_from(SIZES) for n in NAMES}), min_size=4, max_size=4)


@settings(max_examples=300, deadline=None)
@given(_expressions(), _ENVS)
def test_form_has_the_value_of_the_text(text: str, envs: list[dict[str, int]]) -> None:
    dim = parse(text)
    for env in envs:
        want = _python_value(text, env)
        if want is not None:
            assert dim.evaluate(env) == want


@settings(max_examples=300, deadline=None)
@given(_expressions())
def test_text_parses_back_to_the_same_object(text: str) -> None:
    dim = parse(text)
    assert parse(str(dim)) is dim
    assert pickle.loads(pickle.dumps(dim)) is dim


@settings(max_examples=150, deadline=None)
@given(_expressions(), _expressions(), _ENVS)
def test_substitute_commutes_with_evaluate(text: str, value: str, envs: list[dict[str, int]]) -> None:
    dim, new = parse(text), parse(value)
    for env in envs:
        try:
            inner = new.evaluate(env)
            want = dim.evaluate({**env, "a": inner})
            got = dim.substitute({"a": new}).evaluate(env)
        except UndefinedSize:
            continue
        if inner >= 0:  # a symbol is a size
            assert got == want


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("3*a*a*b + 2*b*b*a", "a*b*(3*a + 2*b)"),
        ("(3*a+5)//3", "a+1"),
        ("(3*a+4)%3", "1"),
        ("(256*a*b)//32", "8*a*b"),
        ("(a//2)//3", "a//6"),
        ("(a%4)%2", "a%2"),
        ("(a+4)%4", "a%4"),
        ("((n-1)//2+1-1)//2+1", "(n-1)//4+1"),
        ("cdiv(n,8)", "(n+7)//8"),
        ("-((-n)//8)", "(n+7)//8"),
        ("n//2 + (n+1)//2", "n"),
        ("(t + (-t)%128)%128", "0"),
        ("max(a, a+2)", "a+2"),
        ("min(n, n+m)", "n"),
        ("max(a,b) + min(a,b)", "a+b"),
        ("max(b-a,0)", "max(a,b) - a"),
        ("max(a*c, b*c)", "c*max(a,b)"),
        ("min(1,a)*min(1,a)", "min(1,a)"),
        ("a*min(1,a)", "a"),
        ("bcast(a,a)", "a"),
        ("bcast(a,b)", "bcast(b,a)"),
        ("(n*(m+1))//(m+1)", "n"),
        ("floordiv(n,4)+mod(n,4)-ceildiv(n,4)", "n//4 + n%4 - cdiv(n,4)"),
    ],
)
def test_equal_writings_are_one_object(one: str, two: str) -> None:
    assert parse(one) is parse(two)


@pytest.mark.parametrize("one, two", [("(n*m)//m", "n"), ("n//n", "1"), ("0//m", "0"), ("(m*n)%m", "0")])
def test_a_division_by_a_possible_zero_stays(one: str, two: str) -> None:
    assert parse(one) is not parse(two)
    assert parse(one).divisors_maybe_zero()


@pytest.mark.parametrize(
    "text",
    [
        "16*p + max(a, b)//2",
        "cdiv(n, 8)",
        "(-t)%128",
        "c + 2*bcast(a, b)",
        "n%8",
        "min(a, 5)",
        "max(n - 5, 0)",
        "3 - a",
        "-(a//3)",
        "c*min(a, b)",
        "k*(h//k)",
        "cdiv(a, b)",
        "a%b",
        "%12.0 + `/a/b:0`.1 + `input.1`.0",
        "`a``b` + `max`",
    ],
)
def test_prints_as_written(text: str) -> None:
    assert str(parse(text)) == text


def test_order_of_names_is_natural() -> None:
    assert str(symbol("x10") + symbol("x2") + 1) == "x2 + x10 + 1"


def test_constructors() -> None:
    a, b = symbol("a"), symbol("b")
    assert (2 * a - a - a).const == 0
    assert const(7).is_const and not a.is_const
    assert product([a, b, 3]) is 3 * a * b
    assert (7 - a) is -(a - 7)
    assert 9 // const(2) is const(4)
    assert relu(a + 1) is a + 1 and relu(-a - 1) is const(0)
    assert floordiv(a, 8).symbols() == {"a"}
    assert maximum(a, b).symbols() == {"a", "b"}
    assert minimum(a, 0).const == 0
    assert mod(8 * a, 4).const == 0
    assert ceildiv(a, 1) is a
    assert bcast(1, a) is a


def test_evaluate_refuses_a_division_by_zero() -> None:
    with pytest.raises(UndefinedSize, match="divides by 0"):
        parse("n//m").evaluate({"n": 4, "m": 0})


@pytest.mark.parametrize(
    ("text", "column", "cause"),
    [
        ("a +", 4, "expected a size"),
        ("a b", 3, "expected an operator"),
        ("foo(a)", 1, "unknown function"),
        ("cdiv(a)", 8, "takes 2 sizes"),
        ("(a", 3, "expected '\\)'"),
        ("2n", 1, "expected a size"),
    ],
)
def test_parse_errors_name_column_and_cause(text: str, column: int, cause: str) -> None:
    with pytest.raises(ParseError, match=cause) as info:
        parse(text)
    assert info.value.where == f"column {column}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(" * 3000 + "a" + ")" * 3000, "nested too deeply"),
        ("-" * 5000 + "a", "nested too deeply"),
        ("max(" * 3000 + "a" + ", b)" * 3000, "nested too deeply"),
        ("1" + "0" * 6000 + "*a", "a number of 6001 digits"),
    ],
    ids=["parentheses", "signs", "functions", "digits"],
)
def test_what_is_too_large_to_read(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        parse(text)
    assert str(parse("(" * 60 + "a" + ")" * 60)) == "a"
