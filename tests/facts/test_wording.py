"""Relations in words."""

from __future__ import annotations

import pytest

from egshape.facts import parse_facts
from egshape.facts.wording import worded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n % 4 == 0", "n is a multiple of 4"),
        ("(a + b) % 8 == 0", "a + b is a multiple of 8"),
        ("n % 4 == 1", "n%4 equals 1"),
        ("n == 2*m", "n equals 2*m"),
        ("n >= 1", "n is at least 1"),
        ("n > 1", "n is more than 1"),
        ("n <= 7", "n is at most 7"),
        ("n - 2 >= 0", "n is at least 2"),
        ("2*n + 3 <= 7", "2*n is at most 4"),
        ("a < b", "a is less than b"),
        ("a >= b", "b is at most a"),
        ("a != b", "a is not b"),
        ("n in [1,32] or [64,96]", "n lies in [1,32] or [64,96]"),
    ],
)
def test_words(text: str, words: str) -> None:
    (relation,) = parse_facts(text)
    assert worded(relation) == words
