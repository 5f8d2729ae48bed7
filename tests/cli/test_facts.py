"""``egshape facts``: the table of sizes apart from a graph."""

from __future__ import annotations

import json
from dataclasses import replace
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


def test_derived_facts_of_the_same_model_are_not_assumed(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.json"
    assert main(["facts", str(model), "-o", str(file)]) == 0
    facts = egshape.Facts.from_json(file.read_text())
    assert facts.implied
    plain, again = egshape.optimize(model), egshape.optimize(model, facts=facts)
    assert [each.text for each in again.report.checks] == [each.text for each in plain.report.checks]


def test_derived_facts_of_another_model_are_assumed(model: Path) -> None:
    facts = replace(egshape.Facts.parse("k in [77,inf]"), implied=("k in [77,inf]",))
    result = egshape.optimize(model, facts=facts)
    assert result.derived.symbol("k").ranges == ((77, None),)


@pytest.mark.parametrize("form", ["mlir", "onnx", "egs"])
def test_a_written_file_keeps_lists_of_intervals(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "one.egs", tmp_path / f"out.{form}"
    source.write_text("graph g(%x: f32[n, 4]) { symbols n = size(%x, 0)  %0: f32[n, 4] = tanh(%x)  return %0 as y }")
    given = ["--assume", "n in [1,4] or [8,8] or [20,32]", "--assume", "n % 4 != 2"]
    assert main(["optimize", str(source), "-o", str(out), *given]) == 0
    capsys.readouterr()
    assert main(["facts", str(out)]) == 0
    assert "[1,4] or [8,8] or [20,32]" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["mlir", "onnx", "egs"])
def test_a_written_file_keeps_remainders_and_what_is_said_of_two_sizes(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "one.egs", tmp_path / f"out.{form}"
    source.write_text(
        "graph g(%x: f32[n, 4], %y: f32[m]) { symbols n = size(%x, 0), m = size(%y, 0)"
        "  %0: f32[n, 4] = tanh(%x)  return %0 as y, %y as z }"
    )
    given = ["--assume", "n in [1,5] or [8,12] or [40,44]", "--assume", "n % 4 == 0", "--assume", "m == 2*n + 1"]
    assert main(["optimize", str(source), "-o", str(out), *given]) == 0
    capsys.readouterr()
    assert main(["facts", str(out)]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert sorted(row[2:4] for row in rows[1:3]) == [["[4,12] or [40,44]", "4"], ["[9,25] or [81,89]", "8 rest 1"]]
    n, m = (row[0] for row in sorted(rows[1:3], key=lambda row: row[3]))
    assert [egshape.prove(f"{m} == 2*{n} + 1", given=row).status for row in rows[3:]] == ["proved"]
