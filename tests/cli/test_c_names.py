"""What C files and functions of models are called: no model takes the place of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from egshape.cli import main
from egshape.commands.compile import Emit, compiled_as
from egshape.errors import EgshapeError

TEXT = "graph g(%x: f32[n]) {{\n  symbols n = size(%x, 0)\n  %0: f32[n] = {op}(%x)\n  return %0 as out\n}}\n"


def models(folder: Path) -> tuple[str, str]:
    for name, op in (("one", "tanh"), ("two", "exponential")):
        (folder / f"{name}.egs").write_text(TEXT.format(op=op))
    return str(folder / "one.egs"), str(folder / "two.egs")


def test_two_models_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = models(tmp_path)
    folder = tmp_path / "c"
    assert main(["compile", one, "--emit", "c", "-o", str(folder)]) == 0
    before = (folder / "g.h").read_text()
    assert main(["compile", two, "--emit", "c", "-o", str(folder)]) == 2
    said = capsys.readouterr().err
    assert one in said and two in said and "--name" in said
    assert (folder / "g.h").read_text() == before
    assert main(["compile", two, "--emit", "c", "-o", str(folder), "--name", "second"]) == 0
    assert main(["compile", one, "--emit", "c", "-o", str(folder)]) == 0, "the same model again"
    assert sorted(each.name for each in folder.iterdir()) == ["g.h", "libg.so", "libsecond.so", "second.h"]
    assert "second_run(" in (folder / "second.h").read_text()


@pytest.mark.long
def test_a_folder_of_models(tmp_path: Path) -> None:
    models(tmp_path)
    assert main(["compile", str(tmp_path / "*.egs"), "--emit", "c", "-o", str(tmp_path / "c"), "--jobs", "1"]) == 0
    assert {each.name for each in (tmp_path / "c").glob("*.*")} >= {"one.h", "two.h", "libone.so", "libtwo.so"}


def test_two_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = models(tmp_path)
    assert main(["compile", one, "--emit", "c", "-o", str(tmp_path / "a.h"), "--name", "b"]) == 2
    assert "two names" in capsys.readouterr().err


def test_where_many_go() -> None:
    c = {"emit": Emit.c, "name": None}
    assert compiled_as(Path("in/a-b.onnx"), c) == Path("in/a_b.h")
    assert compiled_as(Path("in/3.onnx"), c) == Path("in/m_3.h")
    assert compiled_as(Path("in/3.onnx"), {"emit": None}) == Path("in/3.egx")
    with pytest.raises(EgshapeError, match="one model"):
        compiled_as(Path("a.onnx"), {**c, "name": "x"})
