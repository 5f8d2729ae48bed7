"""`--annotate "x: f32[n, 4*m]"` and `--annotate-file`: types that are held, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from egshape.api import load, run
from egshape.cli import app, main
from egshape.errors import CheckFailed

PLAIN = """graph f(%x: f32[`x.0`, `x.1`], %y: f32[`y.0`]) {
  symbols x.0 = size(%x, 0), x.1 = size(%x, 1), y.0 = size(%y, 0)
  %0: f32[`x.0`, `x.1`] = negate(%x)
  return %0 as out0, %y as out1
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "f.egs"
    path.write_text(PLAIN)
    return path


def called(*argv: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, argv)))


@pytest.mark.parametrize(
    "command",
    [
        ["shapes"],
        ["optimize"],
        ["facts"],
        ["advise"],
        ["viz", "-o", "OUT.dot"],
        ["compile", "-o", "OUT.egx"],
        ["explain", "%0.1", "x.1"],
    ],
)
def test_each_command_that_takes_facts_takes_types(command: list[str], model: Path, tmp_path: Path) -> None:
    if command[0] == "compile":
        pytest.importorskip("llvmlite")
    name, *rest = [str(tmp_path / each) if each.startswith("OUT") else each for each in command]
    assert called(name, model, *rest, "--annotate", "x: f32[n, 4*m]", "--annotate", "y: f32[m]").exit_code == 0
    refused = called(name, model, *rest, "--annotate", "x: f32[n]")
    assert "argument x: is f32[x.0, x.1], of rank 2, where f32[n] is said of it" in str(refused.exception)


def test_types_come_from_a_file_too(model: Path, tmp_path: Path) -> None:
    types, out = tmp_path / "types.txt", tmp_path / "out.egs"
    types.write_text("# what the caller knows\n\nx: f32[n, 4*m]  # rows of 4\ny: f32[m]\n")
    assert called("optimize", model, "-o", out, "--annotate-file", types).exit_code == 0
    graph = load(out)
    assert [each.shape for each in run(graph, [np.zeros((3, 8), "f4"), np.zeros(2, "f4")])] == [(3, 8), (2,)]
    with pytest.raises(CheckFailed, match=r"argument x, axis 1: 4\*m = 15 has no solution"):
        run(graph, [np.zeros((8, 15), "f4"), np.zeros(2, "f4")])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["x: f32[n"], "--annotate 'x: f32[n': column 6: cannot read 'f32[n': expected ']', found the end"),
        (
            ["f32[n]"],
            "--annotate 'f32[n]': does not say of which value "
            "(say one type of each value, as NAME: TYPE, such as x: f32[n, 4*m])",
        ),
        (
            ["y: f32[n]", "y: f32[4]"],
            "--annotate 'y: f32[4]': says a second type of y "
            "(say one type of each value, as NAME: TYPE, such as x: f32[n, 4*m])",
        ),
        (["z: f32[n]"], "the graph has no value 'z' (it has x, y, out0, out1, %0)"),
        (
            ["x: f32[n*m, ?]"],
            "argument x, axis 0: nothing tells what m and n is in n*m "
            "(say m of an axis of its own; alone in a sum with numbers and known names it is solved for)",
        ),
    ],
)
def test_a_wrong_type_is_one_message(
    texts: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shapes", str(model), *(each for text in texts for each in ("--annotate", text))]) == 2
    assert capsys.readouterr().err == f"egshape: {message}\n"


def test_a_wrong_line_of_a_file_is_said_with_its_number(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    types = tmp_path / "types.txt"
    types.write_text("x: f32[n, 4*m]\n\ny: f33[m]\n")
    assert main(["shapes", str(model), "--annotate-file", str(types)]) == 2
    said = "column 1: cannot read 'f33[m]': 'f33' is no dtype (near are f32, f64, bf16)"
    assert capsys.readouterr().err.startswith(f"egshape: {types}:3: {said[:52]}")


@pytest.mark.parametrize("said", [["n: f32[8*k, ?]"], ["n: f32[k, 2*k + 64]"], ["n: f32[60 - k, k]"]])
def test_a_written_onnx_model_is_compared_at_sizes_that_the_types_admit(said: list[str], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")
    ports = [onnx.helper.make_tensor_value_info(each, 1, ["a", "b"]) for each in ("n", "out")]
    node = onnx.helper.make_node("Relu", ["n"], ["out"])
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    done = called("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--annotate", *said)
    assert done.exit_code == 0, done.output
    assert "compared in ONNX Runtime at 4 sizes" in done.stderr, done.stderr
    assert any(each.name.startswith("check: ") for each in onnx.load(tmp_path / "o.onnx").graph.node)
