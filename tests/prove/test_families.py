"""Each family of questions: at least 95 % answered as they must be, and none wrongly."""

from __future__ import annotations

import random

import pytest

from egshape.prove import prove
from tests.prove.families import FAMILIES, question
from tests.prove.long import any_question, fault

_COUNT = 40


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_decided(family: str) -> None:
    r = random.Random(f"family {family}")
    statuses: list[bool] = []
    for _ in range(_COUNT):
        made = question(family, r)
        status, wrong, _ = fault([made.given] if made.given else [], made.goal, made.want)
        assert not wrong, (made, status, wrong)
        statuses.append(status == made.want)
    assert sum(statuses) >= 0.95 * _COUNT


@pytest.mark.parametrize("seed", range(5))
def test_random_questions_agree_with_brute_force(seed: int) -> None:
    r = random.Random(1000 + seed)
    for _ in range(40):
        given, goal = any_question(r)
        status, wrong, _ = fault(given, goal)
        assert not wrong, (given, goal, status, wrong)


MISSING = [
    ("", "(n*m)//m == n", "1 <= m"),
    ("", "n%k < k", "1 <= k"),
    ("", "n//m == n//m", "1 <= m"),
    ("", "cdiv(n, k)*k >= n", "1 <= k"),
    ("a >= b", "(a*c)//c >= b", "1 <= c"),
    ("n % k == 0", "(n*m)%(k*m) == 0", "1 <= m"),
    ("", "(a*b*c)//(b*c) == a", "1 <= b; 1 <= c"),
    ("", "n//m <= n", "1 <= m"),
    ("", "(n*m + m)//m == n + 1", "1 <= m"),
    ("m >= 1", "(n*m*k)//(m*k) == n", "1 <= k"),
    ("", "(a - b)//k*k + (a - b)%k == a - b", "1 <= k"),
    ("", "min(n, n%k) == n%k", "1 <= k"),
    ("", "bcast(n, 1)//m*m <= n", "1 <= m"),
    ("a <= b", "a//d <= b//d", "1 <= d"),
    ("b <= 9", "bcast(a, b) >= 0", "a == b"),
    ("", "cdiv(n, k) == (n + k - 1)//k", "1 <= k"),
    ("", "(n//k)*k + n%k == n", "1 <= k"),
    ("", "(n + k)//k == n//k + 1", "1 <= k"),
    ("", "(n + k)%k == n%k", "1 <= k"),
    ("", "max(n, 1)//m <= max(n, 1)", "1 <= m"),
]


@pytest.mark.parametrize(("given", "goal", "missing"), MISSING)
def test_the_missing_fact_is_the_smallest(given: str, goal: str, missing: str) -> None:
    texts = [given] if given else []
    proof = prove(goal, texts)
    assert (proof.status, proof.missing) == ("unknown", missing)
    assert prove(goal, [*texts, missing]).status == "proved"
