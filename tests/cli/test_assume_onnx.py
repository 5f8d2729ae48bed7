"""`egshape optimize m.onnx --assume FACT`: compared at sizes that the fact admits, rejected at others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from egshape.adapters.onnx_verify import compare_models
from egshape.api import load
from egshape.cli import app
from egshape.facts import Facts

FACTS = ["n % 8 == 0", "n in [0,4] or [8,8]", "n >= c", "n*c % 8 == 0"]


def model(path: Path) -> Path:
    """Rows up to a multiple of 8, and the image's sums of windows, which want sizes beyond a few."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one", "zero"], ["n_"]),
        helper.make_node("Div", ["n_", "eight"], ["d"]),
        helper.make_node("Mul", ["d", "eight"], ["m"]),
        helper.make_node("Slice", ["x", "zero", "m", "zero"], ["y"]),
        helper.make_node("Tanh", ["y"], ["out"]),
    ]
    held = [
        numpy_helper.from_array(np.array([number], np.int64), name)
        for name, number in (("zero", 0), ("one", 1), ("eight", 8))
    ]
    graph = helper.make_graph(
        nodes,
        "rounded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        held,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("fact", FACTS)
def test_an_assumed_fact_is_written_and_verified(fact: str, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = CliRunner().invoke(app, ["optimize", str(model(tmp_path / "m.onnx")), "-o", str(out), "--assume", fact])
    assert done.exit_code == 0, done.output
    assert "more rejected as the facts want" in done.stderr
    assert any(node.name.startswith("check: ") for node in onnx.load(out).graph.node)


def test_checks_that_are_left_out_are_said(tmp_path: Path) -> None:
    out, report = tmp_path / "out.onnx", tmp_path / "r.json"
    done = CliRunner().invoke(
        app,
        [
            "optimize",
            str(model(tmp_path / "m.onnx")),
            "-o",
            str(out),
            "--assume",
            "n % 8 == 0",
            "--checks",
            "metadata",
            "--report",
            str(report),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "only listed in the metadata" in done.stderr
    assert any("only listed in the metadata" in note for note in json.loads(report.read_text())["notes"])
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Tanh"]


def test_a_model_that_lost_its_check_is_found(tmp_path: Path) -> None:
    first = model(tmp_path / "m.onnx")
    graph, facts = load(first), Facts.parse("n % 8 == 0")
    bare = onnx.load(first)
    del bare.graph.node[:5]
    bare.graph.node[0].input[0] = "x"
    found = compare_models(first, bare.SerializeToString(), graph, facts, excluding=True)
    assert "n % 8 == 0 does not hold, but the written model runs" in found.difference
    assert compare_models(first, bare.SerializeToString(), graph, facts).difference == ""
    assert compare_models(first, bare.SerializeToString(), graph, Facts()).difference
