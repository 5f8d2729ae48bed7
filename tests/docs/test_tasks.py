"""The ten tasks that are typed: they are the tutorial's, and a wrong answer is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tasks
from benchmarks.tools.pages import Block, blocks


def test_the_tasks_are_all_that_the_tutorial_runs() -> None:
    run = [block for block in blocks(tasks.PAGE) if not block.title and block.kind in ("python", "console")]
    assert len(tasks.TASKS) == 10 and sum(number for _, number in tasks.TASKS) == len(run)


def test_what_is_typed_is_remembered_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASKS", (("one", 1), ("two", 1), ("three", 1)))
    page = [
        Block(1, "python", "told.py", "number = 3\n"),
        Block(2, "python", "", "import told\n"),
        Block(3, "python", "", "print(told.number)\n"),
        Block(4, "output", "", "3\n"),
        Block(5, "python", "", "print(told.number + 1)\nraise ValueError\n"),
        Block(6, "output", "", "4\n"),
    ]
    first, second, third = tasks.typed(page, tmp_path)
    assert (first.wrong, second.wrong, second.first) == ("", "", "print(told.number)")
    assert "ValueError" in third.wrong and third.lines == 2


@pytest.mark.long
def test_all_ten_do_what_the_page_says(tmp_path: Path) -> None:
    for needed in ("jax", "z3", "llvmlite"):
        pytest.importorskip(needed)
    found = list(tasks.typed(list(blocks(tasks.PAGE)), tmp_path))
    assert len(found) == 10
    assert [each.wrong for each in found if each.wrong] == []
