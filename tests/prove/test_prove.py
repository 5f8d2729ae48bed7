"""`prove`: the answers, what comes with them, and that they are never wrong."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from egshape.decide.context import holds_all
from egshape.errors import ParseError
from egshape.facts import Relation, parse_facts, parse_relation
from egshape.prove import check_counterexample, prove, prove_cases
from tests.fresh import fresh

PROVED = [
    ("", "2*a*(b + 1) == 2*a*b + 2*a"),
    ("", "(5*a + 9)//5 == a + 1"),
    ("", "((n - 1)//4 + 1 - 1)//2 + 1 == (n - 1)//8 + 1"),
    ("", "(n*n*n - n) % 3 == 0"),
    ("", "cdiv(n, 16)*16 >= n"),
    ("", "n//6 <= n//3"),
    ("", "max(x, max(y, z)) == max(max(z, y), x)"),
    ("", "min(x, max(y, x)) == x"),
    ("", "x*x + y*y >= 2*x*y"),
    ("a >= b; c >= d", "a*c >= b*d"),
    ("i < m; j < n; k < p", "(i*n + j)*p + k < m*n*p"),
    ("d >= 2; a <= b", "a//d <= b//d"),
    ("a + b == c; b == d", "c - d == a"),
    ("n*m == k*h; m == h; h >= 2", "n == k"),
    ("x % 6 == 0; y % 4 == 0", "(x + y) % 2 == 0"),
    ("n in {8, 24}", "n % 8 == 0"),
    ("n in [1,3] or [9,11]; n % 5 == 0", "n == 10"),
    ("3*a == 2*b", "b % 3 == 0"),
    ("a <= b; b <= c; c <= a", "a == c"),
    ("a != b; a <= b", "a + 1 <= b"),
    # of equations that stay rules: their rows, and cases of what stands in them
    ("", "-1 - b - a%2 != min(2, b)"),
    ("a >= 4", "max(cdiv(a, 2), a - 4) != a"),
    ("a <= 5", "3 - a*a != a"),
    ("", "b*(6 + a) != a + 5"),
    ("a*b == 6", "a <= 6"),
    ("", "(a*a) % 8 != 2"),
    # quotients in one form
    ("b >= 1; c >= 1", "(a*b)//(b*c) == a//c"),
    ("b >= 1; c >= 1", "(a*b) % (c*b) == (a % c)*b"),
    ("b >= 1", "(-a) % b == (a + b - 1)//b*b - a"),
    ("a % b >= 1", "cdiv(a, b) == a//b + 1"),
]


@pytest.mark.parametrize(("given", "goal"), PROVED)
def test_proved(given: str, goal: str) -> None:
    proof = prove(goal, [given] if given else [])
    assert proof.status == "proved"
    assert proof.why and proof.why[-1].to == goal


@pytest.mark.parametrize(
    ("given", "goal"),
    [
        ("", "a >= 3"),
        ("", "(n + 2)//3 == n//3"),
        ("n*k == m*k", "n == m"),
        ("n % 6 == 0; n % 10 == 0", "n % 60 == 0"),
        ("n in [1,4] or [8,9]", "n <= 8"),
        ("a*b == c*c; a >= 1", "a == b"),
        ("a <= b; b <= 40", "a <= 39"),
        ("m >= 1", "n//m == n"),
    ],
)
def test_refuted_comes_with_sizes_that_check(given: str, goal: str) -> None:
    proof = prove(goal, [given])
    assert proof.status == "refuted"
    assert proof.counterexample is not None
    assert check_counterexample(goal, [given], proof.counterexample)


@pytest.mark.parametrize(
    ("given", "clash"),
    [
        (["b >= 1", "a >= 3", "a <= 2"], ["a >= 3", "a <= 2"]),
        (["a >= b + 1", "c == 4", "b >= a"], ["a >= b + 1", "b >= a"]),
        (["6*m == 15"], ["6*m == 15"]),
        (["2*a + 4*b == 2*c + 1"], ["2*a + 4*b == 2*c + 1"]),
        (["n in {3, 5}", "n % 4 == 0", "m == n"], ["n in {3, 5}", "n % 4 == 0"]),
        (["x < y; y < z; z < x"], ["x < y", "y < z", "z < x"]),
    ],
)
def test_inconsistent_names_the_givens_that_clash(given: list[str], clash: list[str]) -> None:
    proof = prove("a == a", given)
    assert proof.status == "inconsistent"
    assert proof.clash == clash


@pytest.mark.parametrize(
    ("given", "goal", "missing"),
    [
        ("", "(n*m)//m == n", "1 <= m"),
        ("", "n//m == n//m", "1 <= m"),
        ("", "n%k < k", "1 <= k"),
        ("", "bcast(a, b)*0 == 0", "a == b"),
    ],
)
def test_unknown_names_a_fact_that_decides(given: str, goal: str, missing: str) -> None:
    proof = prove(goal, [given] if given else [])
    assert (proof.status, proof.missing) == ("unknown", missing)
    assert prove(goal, [given, missing]).status == "proved"


def test_a_given_holds_only_where_it_is_defined() -> None:
    assert prove("(h//k)*k == h", ["h % k == 0"]).status == "proved"
    assert prove("k >= 1", ["h // k == 3"]).status == "proved"


def test_an_undefined_goal_is_refuted_where_it_is_false_at_a_defined_size() -> None:
    assert prove("n//m == 7").status == "refuted"
    assert prove("0*(n//m) == 0").status == "unknown"


def test_json() -> None:
    proof = prove("n % 4 == 0", ["n % 8 == 0"])
    data = proof.model_dump()
    assert list(data) == [
        "version", "goal", "given", "status", "why", "counterexample", "missing", "clash", "seconds",
    ]  # fmt: skip
    assert data["why"][-1]["from"] == ["n % 8 == 0"] and data["why"][-1]["to"] == "n % 4 == 0"
    assert '"from":["n % 8 == 0"]' in proof.model_dump_json()


def test_a_file_of_questions() -> None:
    text = "id\tfamily\tgivens\tgoal\twant\nQ1\tx\tn%8==0; m>=1\tn%4 == 0\tproved\nQ2\tx\t\ta == 1\tproved\n"
    found = prove_cases(text)
    assert (found.right, found.wrong) == (1, 1)
    assert found.rows[0].given == ["n%8==0", "m>=1"]
    with pytest.raises(ParseError, match="line 2"):
        prove_cases("id\tfamily\tgivens\tgoal\twant\nQ1\tx\t\ta ==\tproved\n")


@pytest.mark.parametrize("text", ["a", "a == ", "a == b; c == d", "likely a = 3"])
def test_a_goal_is_one_relation(text: str) -> None:
    with pytest.raises(ParseError):
        prove(text)


QUICK = 5.0
"""Seconds; alone it is 0.02, and a collection of what earlier tests left may fall into it."""


def _seconds(goal: str, given: list[str], status: str) -> float:
    """Of this process alone: what else the machine does is not counted."""
    start = time.process_time()
    assert prove(goal, given).status == status
    return time.process_time() - start


def test_a_long_chain_is_quick() -> None:
    chain = [f"a{i} >= a{i + 1}" for i in range(200)]
    random.Random(1).shuffle(chain)
    assert _seconds("a0 >= a200", chain, "proved") < QUICK
    assert _seconds("a0 > a200", chain, "refuted") < QUICK
    backwards = "; ".join(f"a{i} >= a{i + 1}" for i in reversed(range(200)))
    assert _seconds("a0 >= a200", [backwards], "proved") < QUICK


def test_nothing_slow_is_imported() -> None:
    code = "import sys; from egshape.prove import prove; prove('a >= 0'); print('pydantic' in sys.modules)"
    assert fresh(code).strip() == "False"


def test_a_large_polynomial_is_quick() -> None:
    names = [f"x{i}" for i in range(6)]
    monomials = [m for d in (1, 2, 3) for m in itertools.combinations_with_replacement(names, d)][:83]
    text = " + ".join("*".join((str(i + 1), *m)) for i, m in enumerate(monomials)) + " + 7"
    assert _seconds(f"{text} >= 7", [], "proved") < QUICK
    assert _seconds(f"{text} <= 10000000", [f"{n} <= 10" for n in names], "proved") < QUICK


def _expression(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(["a", "b", "c", "a", "b", "c", str(rng.choice([0, 1, 2, 3, 4, 5, 8]))])
    one, two = _expression(rng, depth - 1), _expression(rng, depth - 1)
    number = str(rng.choice([2, 3, 4]))
    return rng.choice(
        [
            f"({one} + {two})",
            f"({one} - {two})",
            f"({one} * {two})",
            f"(({one}) // ({rng.choice([two, number])}))",
            f"(({one}) % ({rng.choice([two, number])}))",
            f"cdiv({one}, {rng.choice([two, number])})",
            f"min({one}, {two})",
            f"max({one}, {two})",
            f"bcast({one}, {two})",
        ]
    )


def _relation(rng: random.Random, depth: int) -> str:
    name = rng.choice("abc")
    if rng.random() < 0.3:
        return rng.choice(
            [
                f"{name} % {rng.choice([2, 3, 4, 6])} == {rng.randrange(3)}",
                f"{name} in {{{rng.randrange(5)}, {rng.randrange(9)}}}",
                f"{_expression(rng, 1)} in [{rng.randrange(4)},{rng.randrange(3, 9)}] or [10,14]",
            ]
        )
    kind = rng.choice(["==", "==", "<=", "<", ">=", "!="])
    return f"{_expression(rng, depth)} {kind} {_expression(rng, depth)}"


def _admitted(given: list[Relation]) -> list[dict[str, int]]:
    sizes = (0, 1, 2, 3, 4, 5, 6, 8, 12, 13)
    points = (dict(zip("abc", p, strict=True)) for p in itertools.product(sizes, repeat=3))
    return [p for p in points if holds_all(given, p)]


@pytest.mark.parametrize("seed", range(60))
def test_answers_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        given = [_relation(rng, rng.choice([0, 1, 1, 2])) for _ in range(rng.choice([0, 1, 2, 3]))]
        goal = _relation(rng, rng.choice([1, 2]))
        relations = [r for text in given for r in parse_facts(text) if isinstance(r, Relation)]
        proof = prove(goal, given)
        if proof.status == "refuted":
            assert proof.counterexample is not None
            assert check_counterexample(goal, given, proof.counterexample), (given, goal)
            continue
        points = _admitted(relations)
        if proof.status == "inconsistent":
            assert not points, (given, goal, points[0])
        elif proof.status == "proved":
            wrong = [p for p in points if not holds_all([parse_relation(goal)], p)]
            assert not wrong, (given, goal, wrong[0])


def test_a_divisor_whose_largest_value_is_0_ends_nothing() -> None:
    """Where all cases are tried, some leave a divisor no other value, and a rule about bounds divides by that."""
    given = ["bcast(max(5, a), b) == b", "c in [3,5] or [10,14]", "c % 4 == cdiv(b - c, 3)"]
    assert prove("bcast(bcast(c, b), b//b) >= max(b, c) - cdiv(a, a)", given).status == "unknown"


@pytest.mark.parametrize("given", ["a*a == bcast(a, b) + 1", "a*b == bcast(a, b)", "a*a == bcast(a, b)*b"])
def test_equations_with_a_common_size_on_both_sides_end(given: str) -> None:
    assert prove("c <= a", given).status == "refuted"


def test_givens_that_a_part_of_them_shows_to_clash_are_no_error() -> None:
    """All together the clash is not found within the effort; it is where one is left out to find what was needed."""
    given = ["b//b == max(b, c)", "cdiv(b, c) + bcast(c, b) < min(b//4, 4)", "b % a in [1,8] or [10,14]"]
    assert prove("b <= a", given).status in ("proved", "inconsistent")


@pytest.mark.parametrize(
    ("goal", "given"),
    [
        ("(n//a)//b == n//(a*b)", "a >= 1; b >= 1"),
        ("(n//a)//b == (n//b)//a", "a >= 1; b >= 1"),
        ("(n//a + 2)//b == (n + 2*a)//(a*b)", "a >= 1; b >= 1"),
        ("((n//a)//b)//c == n//(a*b*c)", "a >= 1; b >= 1; c >= 1"),
        ("(a % n)*(b % n) >= 0", "n >= 1"),
        ("(a % n)*(b % m)*c >= 0", "n >= 1; m >= 2"),
        ("((a - 3) % n)*(b % n) >= 0", "n >= 1"),
        ("(a % n)*(n - b % n) >= 0", "n >= 1"),
        ("(a % n)*b <= b*n", "n >= 1"),
        ("m % (-4) == 0", "m % 8 == 0"),
    ],
)
def test_quotients_and_remainders_by_open_divisors(goal: str, given: str) -> None:
    assert prove(goal, [given]).status == "proved"


@pytest.mark.parametrize(
    ("goal", "given"),
    [("(n//a)//b == n//(a*b)", "a >= 1"), ("(a % n)*(b % n) >= 0", ""), ("(n//a)//b == n//(a + b)", "a >= 1; b >= 1")],
)
def test_divisors_that_may_be_0_prove_nothing(goal: str, given: str) -> None:
    assert prove(goal, [given] if given else []).status != "proved"


@pytest.mark.parametrize("goal", ["(a % n)*(b % n) < n*n", "a*b*b == b*a*c", "a*a + b*b >= 2*a*b + c*c - c*c"])
def test_a_goal_is_never_missing_for_itself(goal: str) -> None:
    proof = prove(goal, ["n >= 1; c <= 5"])
    assert proof.missing != goal
    assert proof.missing is None or prove(goal, ["n >= 1; c <= 5", proof.missing]).status == "proved"
