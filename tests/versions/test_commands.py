"""The commands versions and buckets, --likely-from, and the example."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from egshape.cli import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = chlo.broadcast_add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "add.mlir"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def seen(tmp_path: Path) -> str:
    path = tmp_path / "seen.json"
    path.write_text('{"version":1,"sizes":{"arg0.0":{"4":9,"16":1}}}')
    return str(path)


@pytest.mark.long
def test_versions_are_listed(model: str, seen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions", model, "--versions", "9", "--likely-from", seen, "--json"]) == 0
    guards = {row["guard"] for row in json.loads(capsys.readouterr().out)}
    assert {"arg0.0 == 4", "arg0.0 == 16"} <= guards
    assert main(["versions", model, "--versions", "1", "--seconds", "0"]) == 0
    assert "no guard helps" in capsys.readouterr().err


def test_buckets_are_printed(model: str, seen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["buckets", model, "--likely-from", seen, "--most", "1"]) == 0
    assert capsys.readouterr().out.split()[-5:] == ["arg0.0", "4..16", "100.0%", "4.0%", "4.0%"]
    assert main(["buckets", model, "--likely-from", seen, "--json"]) == 0
    assert [row["last"] for row in json.loads(capsys.readouterr().out)[0]["rows"]] == [4, 16]
    assert main(["buckets", model]) == 0
    assert "--likely-from" in capsys.readouterr().err


def test_a_table_holds_the_sizes_that_were_seen(
    model: str, seen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.json"
    assert main(["facts", model, "--likely-from", seen, "--assume", "arg0.0 % 4 == 0", "-o", str(table)]) == 0
    capsys.readouterr()
    assert main(["facts", model, "--facts", str(table), "--json"]) == 0
    known = {each["name"]: each for each in json.loads(capsys.readouterr().out)["symbols"]}
    assert known["arg0.0"]["likely"] == [4, 16] and known["arg0.0"]["divisor"] == [4, 0]


def test_a_broken_file_of_sizes_is_named(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"sizes": 3}')
    assert main(["buckets", model, "--likely-from", str(path)]) == 2
    assert f"{path}: sizes" in capsys.readouterr().err


@pytest.mark.long
def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/versions.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "worth a version: arg0.0 == arg1.0; arg0.1 == arg1.1 (" in said
    assert "(3, 4) + (3, 4): arg0.0 == arg1.0; arg0.1 == arg1.1\n" in said
    assert "(1, 4) + (1, 4): arg0.0 == arg1.0; arg0.1 == arg1.1\n" in said and "(0, 4) + (0, 4): arg0" in said
    assert "(3, 4) + (3, 1): any other size\n" in said and "pad arg1.0 to " in said
