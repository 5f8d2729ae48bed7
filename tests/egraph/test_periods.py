"""Parts that repeat in a row of numbers, here of letters; a dot is like nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest

from egshape.periods import Ints, completed, copies_of, stretches, taken

LEAST, COPIES = 3, 3


def _row(text: str) -> Ints:
    return np.array([-1 - at if letter == "." else ord(letter) for at, letter in enumerate(text)], np.int64)


def _parts(text: str) -> dict[str, int]:
    """The parts of a text, cut where each begins to repeat, and how often each stands."""
    row = _row(text)
    free, parts = row >= 0, []
    for repeated in stretches(row, LEAST, COPIES):
        longest = max(repeated, key=lambda each: each.length)
        part = copies_of(row, repeated, longest.start, free)
        taken(free, part)
        parts.append(part)
    found = completed(row, parts, free, LEAST, COPIES)
    covered = [at for part in found for start in part.starts for at in range(start, start + part.length)]
    assert len(covered) == len(set(covered)), "copies do not overlap"
    for part in found:
        assert len({text[start : start + part.length] for start in part.starts}) == 1
    return {text[part.starts[0] : part.starts[0] + part.length]: len(part.starts) for part in found}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("....", {}),
        ("abcdefgh", {}),
        ("abcabc", {}),
        ("xyzabcabcabcz", {"abc": 3}),
        ("abcabcabcabcdefgdefgdefg", {"abc": 4, "defg": 3}),
        ("abcabcabc.abcabcabc", {"abc": 6}),
        ("abcabc.xy.abc", {}),
        ("abcabcabc.xy.abc", {"abc": 4}),
        ("abaabaabaaba", {"aba": 4}),
        ("aaaaaaaaaaaa", {"aaa": 4}),
        ("ab" * 6, {"abab": 3}),
        ("abcabcabcDEF" * 3, {"abc": 9, "DEF": 3}),
        ("abcDEF" * 3, {"abcDEF": 3}),
        ("abcabcabcDEFabcDEFabcabcDEF", {"abc": 6, "DEF": 3}),
        ("abcabcabcabxabyabxabyabxaby", {"abc": 3, "abxaby": 3}),
        ("abcabcabc" + "abdabdabd", {"abc": 3, "abd": 3}),
    ],
)
def test_parts(text: str, parts: dict[str, int]) -> None:
    assert _parts(text) == parts


def test_a_part_of_another_row_is_one_wherever_its_stretch_begins() -> None:
    (both,) = stretches(_row("abcabcabc.bcabcabca"), LEAST, COPIES)
    part = copies_of(_row("abcabcabc.bcabcabca"), both, 0, np.ones(19, np.bool_))
    assert part.starts == (0, 3, 6, 12, 15)


def test_stretches_are_whole_though_they_overlap() -> None:
    row = _row("abcabcabc" + "abdabdabd")
    assert [(each.start, each.stop) for group in stretches(row, LEAST, COPIES) for each in group] == [(0, 11), (9, 18)]


@pytest.mark.parametrize("seed", range(6))
def test_what_was_planted_is_found(seed: int) -> None:
    """Parts of other lengths, as often as is drawn, with noise between stretches."""
    rng = np.random.default_rng(seed)
    row: list[int] = []
    planted: dict[bytes, int] = {}
    for number in range(12):
        length, copies = int(rng.integers(32, 300)), int(rng.integers(3, 12))
        part = 1_000 * number + rng.integers(0, length // 2, size=length)
        row += [*range(-len(row) - 9, -len(row)), *(list(part) * copies)]
        planted[np.sort(part).tobytes()] = copies
    kinds = np.array(row, np.int64)
    found = stretches(kinds, 32, COPIES)
    each_of = (each for group in found for each in group)
    parts = {np.sort(kinds[each.start : each.start + each.period]).tobytes(): each.copies for each in each_of}
    assert parts == planted


def test_a_long_row_takes_little() -> None:
    """100,000 numbers: noise; one part; three hundred parts. Each took 0.05 to 0.4 s."""
    rng = np.random.default_rng(0)
    many = np.concatenate([np.tile(k * 1_000 + rng.integers(0, 90, size=60 + k % 50), 4) for k in range(300)])
    for row in (rng.integers(0, 60, size=100_000), np.tile(rng.integers(0, 60, size=130), 770), many):
        began = time.process_time()
        stretches(row.astype(np.int64), 32, COPIES)
        assert time.process_time() - began < 4
