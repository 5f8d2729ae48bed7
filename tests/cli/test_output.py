"""Where commands write: what cannot be written is said before the work is done, in one message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egshape.cli import main
from tests.cli.test_cli import SMALL, Captured, fails


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    return str(path)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "is a folder"),
        ("out", "does not say which format"),
        ("out.txt", "'txt' is not known"),
        ("small.mlir/out.mlir", "is no folder"),
    ],
)
def test_output_that_cannot_be(
    output: str, said: str, small: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egshape.commands.models.optimized", lambda *_, **__: pytest.fail("the work was done"))
    assert said in fails(capsys, 2, "optimize", small, "-o", str(tmp_path / output))


def test_a_folder_that_is_made_is_said(small: str, tmp_path: Path, capsys: Captured) -> None:
    new = tmp_path / "new" / "inner"
    assert main(["optimize", small, "-o", str(new / "out.mlir"), "-q"]) == 0
    assert capsys.readouterr().err.count(f"the folder {new} is missing and will be made") == 1
    assert main(["optimize", small, "-o", str(new / "out.mlir"), "-q"]) == 0
    assert "folder" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["compile", "-o"], ["facts", "-o"], ["optimize", "--report"], ["run", "--inputs", "in.npz", "-o"]],
    ids=" ".join,
)
def test_a_model_is_not_written_over(command: list[str], small: str, capsys: Captured) -> None:
    name, *options = command
    assert "would be written over the model" in fails(capsys, 2, name, small, *options, small)
    assert Path(small).read_text() == SMALL


def test_nothing_else_is_written_over(small: str, tmp_path: Path, capsys: Captured) -> None:
    new, arrays = str(tmp_path / "new.mlir"), str(tmp_path / "in.npz")
    assert "would be written over the result" in fails(capsys, 2, "optimize", small, "-o", new, "--report", new)
    np.savez(arrays, x=np.ones(3, np.float32))
    before = Path(arrays).read_bytes()
    assert "would be written over the inputs" in fails(capsys, 2, "run", small, "--inputs", arrays, "-o", arrays)
    assert Path(arrays).read_bytes() == before and not Path(new).exists()


def test_report_in_a_folder_that_is_one(small: str, tmp_path: Path, capsys: Captured) -> None:
    assert "is a folder" in fails(capsys, 2, "optimize", small, "--report", str(tmp_path))


def test_a_report_that_is_asked_for_as_a_page(small: str, tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "page.html"
    said = fails(capsys, 2, "optimize", small, "--report", str(page))
    assert f"egshape viz {small} -o {page}" in said and not page.exists()


def test_model_that_is_a_folder(tmp_path: Path, capsys: Captured) -> None:
    assert "is a folder" in fails(capsys, 2, "shapes", str(tmp_path))


def test_arrays_that_are_no_archive(small: str, tmp_path: Path, capsys: Captured) -> None:
    text = tmp_path / "in.npz"
    text.write_text("hello")
    said = fails(capsys, 2, "run", small, "--inputs", str(text))
    assert "is no .npz file" in said and "pickle" not in said


def test_an_error_of_the_system_is_no_fault_of_ours(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, small: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("egshape.commands.models.print_table", full)
    assert main(["shapes", small]) == 2
    err = capsys.readouterr().err
    assert "No space left" in err and "internal" not in err
