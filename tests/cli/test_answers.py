"""--json of the commands that say little: one object with its version, and nothing beside it on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egshape.cli import main

Captured = pytest.CaptureFixture[str]

MODEL = """module @m {
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.negate %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "small.mlir"
    path.write_text(MODEL)
    return str(path)


def told(capsys: Captured, *argv: str, code: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found.pop("version") == 1
    return found


def test_run(model: str, tmp_path: Path, capsys: Captured) -> None:
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, arg0=np.ones((3, 4), np.float32))
    output = {"name": "out0", "dtype": "float32", "shape": [3, 4]}
    assert told(capsys, "run", model, "--inputs", str(given)) == {"outputs": [output], "file": None}
    assert told(capsys, "run", model, "--inputs", str(given), "-o", str(out)) == {"outputs": [output], "file": str(out)}
    assert np.load(out)["out0"].tolist() == [[-1.0] * 4] * 3


def test_compile(model: str, tmp_path: Path, capsys: Captured) -> None:
    pytest.importorskip("llvmlite")
    out = tmp_path / "small.egx"
    found = told(capsys, "compile", model, "-o", str(out), "--versions", "arg0.0 == 1")
    assert found["files"] == [{"file": str(out), "bytes": out.stat().st_size}]
    assert [each["guard"] for each in found["versions"]] == ["arg0.0 == 1", ""]
    assert all(each["code_bytes"] > 0 for each in found["versions"])
    assert found["memory"]


def test_viz(model: str, tmp_path: Path, capsys: Captured) -> None:
    found = told(capsys, "viz", model, "--stage", "output")
    assert (found["stage"], found["file"]) == ("output", None)
    assert found["text"].startswith("digraph")
    out = tmp_path / "small.dot"
    assert told(capsys, "viz", model, "-o", str(out)) == {
        "stage": "input",
        "file": {"file": str(out), "bytes": out.stat().st_size},
        "text": None,
    }


def test_viz_report(model: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "small.html"
    found = told(capsys, "viz", model, "-o", str(out), "--advise-seconds", "0")
    assert (found["stage"], found["file"]["bytes"]) == ("report", out.stat().st_size)


FUNCTIONS = """
import numpy as np
from egshape.shapelib.library import declared

@declared(lambda x: x.T, "n, m")
def turned(x):
    '''The axes in turn.'''
    return x.dtype, x.dims[::-1]

@declared(lambda x: x.T, "n, m")
def kept(x):
    '''Wrong, where the sizes differ.'''
    return x.dtype, x.dims
"""


def test_shapelib(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FUNCTIONS)
    listed = told(capsys, "shapelib", "list", str(file))["functions"]
    assert [(each["op"], each["about"]) for each in listed] == [
        ("turned", "The axes in turn."),
        ("kept", "Wrong, where the sizes differ."),
    ]
    checked = told(capsys, "shapelib", "check", str(file), code=1)
    right, wrong = checked["functions"]
    assert right["wrong"] == "" and "it gives" in wrong["wrong"]
    assert checked["known_to"] == {}


def test_rules_fmt(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.egg"
    file.write_text("(ruleset   mine)\n")
    assert told(capsys, "rules", "fmt", str(file), "--check", code=1) == {"files": 1, "changed": [str(file)]}
    assert told(capsys, "rules", "fmt", str(file)) == {"files": 1, "changed": [str(file)]}
    assert told(capsys, "rules", "fmt", str(file)) == {"files": 1, "changed": []}


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = told(capsys, "--version")
    assert lines[0] == f"egshape {found['egshape']}" and found["python"] in lines[1]
    packages = {each["name"]: each for each in found["packages"]}
    assert f"numpy {packages['numpy']['installed']}" in lines
    assert packages["distributed"]["extra"] == "cluster"
    assert len(lines) == 2 + len(packages)


def test_json_goes_behind_a_command(capsys: Captured) -> None:
    assert main(["--json"]) == 2
    assert main(["--json", "shapes", "m.mlir"]) == 2
    assert "write it behind the command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["prove", "a + 0 == a"], 0),
        (["prove", "a == b"], 1),
        (["explain", "{model}", "arg0.1 == 4"], 0),
        (["rules", "check", "size.floordiv"], 0),
        (["rules", "fmt", "{rules}", "--check"], 1),
        (["run", "{model}", "--inputs", "{arrays}"], 0),
        (["shapelib", "check", "{functions}"], 1),
        (["optimize", "{model}", "{copy}", "-o", "{out}/"], 0),
    ],
)
def test_quiet_says_what_is_wrong_alone(
    argv: list[str], code: int, model: str, tmp_path: Path, capsys: Captured
) -> None:
    paths = {name: tmp_path / name for name in ("rules", "arrays", "functions", "out", "copy")}
    paths["rules"].write_text("(ruleset   mine)\n")
    paths["functions"].write_text(FUNCTIONS)
    paths["copy"] = paths["copy"].with_suffix(".mlir")
    paths["copy"].write_text(MODEL)
    paths["out"].mkdir()
    with paths["arrays"].open("wb") as file:
        np.savez(file, arg0=np.ones((3, 4), np.float32))
    assert main([each.format(model=model, **paths) for each in argv] + ["-q"]) == code
    found = capsys.readouterr()
    assert found.err == ""
    assert bool(found.out) == (argv[0] == "shapelib")
