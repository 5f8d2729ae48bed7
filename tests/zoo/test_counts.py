"""Node counts beside peers that keep every bit."""

from __future__ import annotations

from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import parser  # noqa: E402

from benchmarks.zoo import counts, reports  # noqa: E402
from benchmarks.zoo.plans import plan_of  # noqa: E402

SINE = "g (float[n] x) => (float[n] y) {{ a = {}(x) y = Sin(a) }}"


def saved(path: Path, text: str) -> Path:
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    return path


def test_other_bits_and_refusals_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", SINE.format("Neg"))
    plan = plan_of(path, tmp_path)
    assert not counts.changed(saved(tmp_path / "same.onnx", SINE.format("Neg")), path, plan)
    assert counts.changed(saved(tmp_path / "other.onnx", SINE.format("Exp")), path, plan).startswith("other bits")
    text = "g (float[n] x) => (float[n] y) <int64[1] s = {7}> { a = Reshape(x, s) b = Neg(a) y = Sin(b) }"
    assert counts.changed(saved(tmp_path / "seven.onnx", text), path, plan).startswith("refused")


@pytest.mark.parametrize("name", ["channels last: Concat", "channels last: Pad", "channels last: Slice"])
def test_transposes_cancel_across_what_moves_elements(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(reports.model(name), path)
    target = tmp_path / "out.onnx"
    assert counts.write("egshape", path, target)
    assert "Transpose" not in {node.op_type for node in onnx.load(target).graph.node}
    assert not counts.changed(target, path, plan_of(path, tmp_path))


@pytest.mark.parametrize("name", reports.GRAPHS)
def test_reports_are_models(name: str) -> None:
    assert reports.model(name).graph.node
