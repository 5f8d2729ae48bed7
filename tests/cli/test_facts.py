"""``egshape facts``: the table of sizes apart from a graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import egshape
from egshape.cli import main

TEXT = """graph f(%x: f32[n, 8], %y: f32[m, 8], %z: f32[k]) {
  symbols n = size(%x, 0), m = size(%y, 0), k = size(%z, 0)
  %0: f32[n, 8] = add(%x, %y)
  return %0 as out0, %z as out1
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "f.egs"
    path.write_text(TEXT)
    return path


def test_a_table_of_symbols_and_relations(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", str(model), "--assume", "k % 4 == 0; k in [8, 32] or [64, 64]; likely k = 16"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split("\t") == ["symbol", "sources", "range", "divisor", "likely"]
    assert "k\tz.0\t[8,32] or [64,64]\t4\t16" in rows
    assert rows[-1] == "n == m"


def test_what_is_written_is_where_the_next_one_starts(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.json"
    assert main(["facts", str(model), "--assume", "n >= 2", "-o", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())
    again = egshape.optimize(model, facts=egshape.Facts.from_json(file.read_text()))
    assert {str(each) for each in again.derived.statements()} == {
        str(each) for each in egshape.Facts.from_json(file.read_text()).statements()
    }
    assert main(["explain", str(model), "x.0", "y.0", "--facts", str(file)]) == 0


def test_a_wrong_target_is_said_before_any_work(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", str(model), "-o", str(model.parent)]) == 2
    assert "is a folder" in capsys.readouterr().err
