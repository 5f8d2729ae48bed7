"""docs/features.md: each row's command runs and prints what the row says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from egshape.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "features.md"
_ROW = re.compile(
    r"^\| (?P<ability>.+?) \| (?P<others>.*?) ?\| `(?P<command>[^`]+)` \| (?P<prints>.*?) ?\|$", re.MULTILINE
)


@dataclass(frozen=True)
class Row:
    """An ability and the command that shows it."""

    ability: str
    words: tuple[str, ...]
    prints: str


ROWS = [
    Row(found["ability"], tuple(shlex.split(found["command"])), found["prints"])
    for found in _ROW.finditer(PAGE.read_text())
]


def test_every_row_is_read() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "`" in line]
    assert len(ROWS) == len(lines)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.ability)
def test_a_row(row: Row, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("jaxlib", "llvmlite", "onnx", "z3"):
        pytest.importorskip(name)
    monkeypatch.chdir(ROOT)
    program, *arguments = row.words
    if any("torch" in each for each in arguments):
        pytest.importorskip("torch", reason="torch is not installed: its rows do not run")
    if program == "egshape":
        assert main(arguments) in (0, 1), "1 is an answer too: a statement that was refuted"
        found = capsys.readouterr()
        printed = found.out + found.err
    else:
        assert program == "python"
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    assert " ".join(row.prints.split()) in " ".join(printed.split())
    assert "internal error" not in printed
