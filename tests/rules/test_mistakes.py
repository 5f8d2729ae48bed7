"""What is said of each mistake in a rule file, word for word. EGSHAPE_BLESS=1 writes the goldens anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from egshape.egraph.engine import Engine
from egshape.egraph.program import preludes, program
from egshape.errors import EgshapeError
from egshape.rulelang.lint import check_rulesets

FOLDER = Path(__file__).resolve().parents[1] / "invalid" / "rules" / "mistakes"
MISTAKES = sorted(path.stem for path in FOLDER.glob("*.egg"))
WARNED = {"shadowed", "overlap"}
"""Mistakes that do not make a file unusable."""


def test_there_are_enough() -> None:
    assert len(MISTAKES) >= 20


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    checked = check_rulesets([f"{name}.egg"], preludes(), Engine)
    assert checked.problems, "nothing was found"
    assert bool(checked.errors) == (name not in WARNED)
    assert all(problem.hint and problem.at.line >= 1 and problem.at.column >= 1 for problem in checked.problems)
    said, golden = checked.render() + "\n", FOLDER / f"{name}.txt"
    if os.environ.get("EGSHAPE_BLESS"):
        golden.write_text(said)
    assert said == golden.read_text()


@pytest.mark.parametrize("name", [name for name in MISTAKES if name not in WARNED])
def test_optimize_refuses_the_file_before_it_touches_a_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(EgshapeError) as caught:
        program((f"{name}.egg",))
    assert caught.value.code == "rules"
    assert caught.value.where.startswith(f"{name}.egg:")
    assert "\n" not in str(caught.value)
    assert "panic" not in str(caught.value).lower() or name == "ends-the-engine"
