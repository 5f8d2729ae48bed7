"""A program of the checkout over processes and workers: what it prints, in which order, and its exit code."""

from __future__ import annotations

import pytest

from benchmarks.tools import spread

Captured = pytest.CaptureFixture[str]
PROGRAM = "tests.cli.counting {} 'two words'"


@pytest.mark.parametrize("how", [["--jobs", "2"], pytest.param(["--cluster", "local"], marks=pytest.mark.long)])
def test_all_is_printed_in_the_order_of_the_words(how: list[str], capsys: Captured) -> None:
    if "--cluster" in how:
        pytest.importorskip("distributed", reason="needs the extra cluster")
    assert spread.main([*how, PROGRAM, "3", "0", "a b"]) == 3
    found = capsys.readouterr()
    assert found.out.splitlines() == [
        "# tests.cli.counting 3 'two words'",
        "['3', 'two words']",
        "# tests.cli.counting 0 'two words'",
        "['0', 'two words']",
        "# tests.cli.counting 'a b' 'two words'",
        "['a b', 'two words']",
    ]
    assert found.err == "noted\n" * 3


def test_a_program_says_where_the_word_goes(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        spread.main(["tests.cli.counting", "3"])
    assert stopped.value.code == 2
    assert "does not say where the word goes" in capsys.readouterr().err


def test_a_program_that_is_killed_is_no_success() -> None:
    assert spread.main(["--jobs", "1", PROGRAM, "kill"]) == 128 + 9
