"""Names of files that are empty, standard input's, and the model's own."""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typer.main import get_command

import egshape
from egshape.cli import app, main
from egshape.commands.app import takes_file

Captured = pytest.CaptureFixture[str]
TEXT = "graph g(%x: f32[n]) {\n  symbols n = size(%x, 0)\n  %0: f32[n] = negate(%x)\n  %1: f32[n] = negate(%0)\n"
TEXT += "  %2: f32[n] = tanh(%1)\n  return %2 as y\n}\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "my model.egs"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["optimize", ""], "MODEL"),
        (["explain", "", "a"], "MODEL"),
        (["optimize", "m.egs", "-o", ""], "-o"),
        (["optimize", "m.egs", "--report="], "--report"),
        (["optimize", "m.egs", "--facts", ""], "--facts"),
        (["run", "m.egs", "--inputs", ""], "--inputs"),
        (["compile", "m.egs", "-o", ""], "-o"),
        (["prove", "--file", ""], "--file"),
        (["rules", "test", "--ops", ""], "--ops"),
        (["rules", "test", "a.egg", ""], "FILE|NAME"),
        (["rules", "fmt", ""], "FILE"),
        (["rules", "fmt", "--check", "--", ""], "FILE"),
        (["rules", "watch", "a.egg", "--model", ""], "--model"),
        (["rules", "playground", ""], "FILE"),
        (["shapelib", "check", ""], "FILE"),
    ],
)
def test_an_empty_name_is_called_so(command: list[str], named: str, capsys: Captured) -> None:
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"egshape: {named}: is an empty file name (give one)")


def test_all_that_takes_a_file_says_so() -> None:
    """In what help writes for it, from which an empty name is known."""
    for command in commands(get_command(app)):
        hints = get_type_hints(command.callback)
        named = {each.name for each in command.params if takes_file(each)}
        assert {name for name, hint in hints.items() if "Path" in str(hint)} <= named, command.name


def commands(group: Any) -> Iterator[Any]:
    for each in group.commands.values():
        yield from commands(each) if hasattr(each, "commands") else [each]


def test_other_texts_may_be_empty(model: Path, capsys: Captured) -> None:
    assert main(["prove", ""]) == 2
    assert main(["explain", str(model), ""]) == 2
    assert "empty file name" not in capsys.readouterr().err
    with pytest.raises(egshape.EgshapeError, match="is an empty file name"):
        egshape.load("")


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [("egs", "graph g(", "<stdin>:1:9: "), ("mlir", "module {\n  foo\n}", "<stdin>:2:3: "), ("onnx", "x", "<stdin>: ")],
)
def test_standard_input_is_named_so(
    form: str, text: str, place: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["optimize", "-", "--format", form]) == 2
    assert capsys.readouterr().err.startswith(f"egshape: {place}")


def test_what_comes_from_standard_input_is_no_name_of_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %0 = stablehlo.tanh %x : tensor<?xf32>\n"
    text += "  return %0 : tensor<?xf32>\n}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["optimize", "-", "--format", "mlir", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "model"


def test_a_hint_can_be_pasted(model: Path, capsys: Captured) -> None:
    assert main(["optimize", str(model), "--format", "egs", "--report", "a $b.html"]) == 2
    hint = capsys.readouterr().err.partition("(")[2].partition(" writes that")[0]
    assert shlex.split(hint) == ["egshape", "viz", str(model), "--format", "egs", "-o", "a $b.html"]


def test_a_model_may_be_written_over(model: Path, capsys: Captured) -> None:
    """By one that is whole, whose counts are told beside those of the old one."""
    before = model.stat()
    assert main(["optimize", str(model), "-o", os.path.relpath(model), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "my model.egs is the model, and is written over" in err
    file = json.loads(out)["file"]
    assert (sum(file["before"].values()), sum(file["after"].values())) == (3, 1)
    assert file["bytes"] == [before.st_size, model.stat().st_size]
    assert [op.name for op in egshape.load(model).ops] == ["tanh"]
    assert model.stat().st_ino != before.st_ino, "a new file took its place"
    assert [each.name for each in model.parent.iterdir()] == [model.name]


def test_a_model_stays_where_it_cannot_be_written_over(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main(["optimize", str(model), "-o", str(model)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert model.read_text() == TEXT and [each.name for each in model.parent.iterdir()] == [model.name]
