"""`egshape optimize m.onnx --assume FACT`: compared at sizes that the fact admits, rejected at others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
from typer.testing import CliRunner

from egshape.adapters.onnx_verify import compare_models
from egshape.api import load
from egshape.cli import app
from egshape.facts import Facts
from tests.frontends.onnx.test_checks import rounded

FACTS = ["n % 8 == 0", "n in [0,4] or [8,8]", "n >= c", "n*c % 8 == 0"]


def model(path: Path) -> Path:
    """Rows up to a multiple of 8, and the image's sums of windows, which want sizes beyond a few."""
    onnx.save(rounded(), path)
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
