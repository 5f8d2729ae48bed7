"""What `egshape optimize` says of a model's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egshape.cli import main
from egshape.frontends.registry import of_form

Captured = pytest.CaptureFixture[str]

TEXT = """module @m {
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.negate %x : tensor<?x4xf32>
  %1 = stablehlo.negate %0 : tensor<?x4xf32>
  %2 = stablehlo.add %1, %y : tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.mlir"
    path.write_text(TEXT)
    return path


def said(capsys: Captured, *argv: str) -> list[str]:
    assert main(["optimize", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_statements_bytes_sizes_and_checks(model: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out.mlir"
    first, *lines = said(capsys, str(model), "-o", str(out), "--assume", "arg0.0 % 8 == 0")
    assert first.startswith(("small: 3 statements -> ", "m: 3 statements -> "))
    assert any(line.split() == ["negate", "2", "->", "0"] for line in lines)
    assert f"file: {model.stat().st_size:,} -> {out.stat().st_size:,} bytes" in lines
    assert any(line.startswith("inputs: arg0 f32[") for line in lines)
    assert any("is a multiple of 8" in line for line in lines)


def test_quiet_verbose_and_json(model: Path, capsys: Captured) -> None:
    assert said(capsys, str(model), "-q") == []
    assert said(capsys, str(model), "-v")[-1].startswith("seconds: load ")
    (line,) = said(capsys, str(model), "--json")
    found = json.loads(line)
    assert found["file"]["unit"] == "statements" and found["file"]["before"]["negate"] == 2
    assert set(found["file"]["seconds"]) >= {"load", "rules", "validate"} and found["ops"]["before"]["total"] == 3


def test_the_report_says_it_too(model: Path, tmp_path: Path, capsys: Captured) -> None:
    report, out = tmp_path / "r.json", tmp_path / "out.mlir"
    said(capsys, str(model), "-o", str(out), "--report", str(report))
    file = json.loads(report.read_text())["file"]
    assert file["bytes"] == [model.stat().st_size, out.stat().st_size]


def test_nodes_of_onnx_as_the_file_has_them(tmp_path: Path, capsys: Captured) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
    helper = onnx.helper
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"])], "then", [], [helper.make_tensor_value_info("a", 1, ["n"])]
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["b"])], "else", [], [helper.make_tensor_value_info("b", 1, ["n"])]
    )
    graph = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=other),
            helper.make_node("Identity", ["z"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n"]), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("y", 1, ["n"])],
    )
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    first, *lines = said(capsys, str(path), "-o", str(out))
    assert first.startswith("g: 4 nodes -> 3 nodes (saturated") and "Identity" in lines[0]
    assert sum(of_form("onnx").kinds(out)[1].values()) == 3
    assert "g: 4 nodes -> 3 nodes" in said(capsys, str(path))[0], "the same without a file"


def test_a_model_from_standard_input_counts_ops(model: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(model.read_bytes())))
    assert "3 ops -> 1 ops" in said(capsys, "-", "--format", "mlir")[0]


def test_bytecode_and_text_count_alike(model: Path, tmp_path: Path) -> None:
    import egshape

    for suffix in ("mlir", "mlirbc"):
        egshape.save(egshape.load(model), tmp_path / f"same.{suffix}")
    frontend = of_form("mlir")
    assert frontend.kinds(tmp_path / "same.mlir") == frontend.kinds(tmp_path / "same.mlirbc")
    assert frontend.kinds(egshape.load(model)) == frontend.kinds(tmp_path / "same.mlir")
