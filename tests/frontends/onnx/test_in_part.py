"""Models of which a part would be written larger: that part stays as it came, the rest is optimized."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnx
import onnxruntime as ort
from onnx import helper

import egshape

Feed = dict[str, np.ndarray]
info = helper.make_tensor_value_info


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """Two negations that go, before some nodes that read ``b``."""
    front = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    graph = helper.make_graph([*front, *nodes], "g", [info("x", 1, ["n", "m"]), *inputs], [output], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def integers(name: str, *values: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, np.int64), name)


def scan() -> onnx.ModelProto:
    """A Scan whose body reshapes each row to a shape that comes with it."""
    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["row", "shape"], ["wide"], name="inside"),
            helper.make_node("Add", ["state", "wide"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
        ],
        "body",
        [info("state", 1, None), info("row", 1, ["m"]), info("shape", 7, [2])],
        [info("next", 1, None), info("out", 1, None)],
    )
    node = helper.make_node("Scan", ["s", "b", "k"], ["last", "y"], body=body, num_scan_inputs=2)
    return model([node], [info("s", 1, [None, None]), info("k", 7, ["n", 2])], info("y", 1, None))


WORDS = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
CASES: dict[str, tuple[onnx.ModelProto, Feed, str]] = {
    "a shape that data tell": (
        model(
            [helper.make_node("Reshape", ["b", "s"], ["y"], name="to")], [info("s", 7, [3])], info("y", 1, [None] * 3)
        ),
        {"x": WORDS, "s": np.array([2, -1, 3])},
        "Reshape",
    ),
    "a slice that data tell": (
        model(
            [helper.make_node("Slice", ["b", "from", "to", "axes", "steps"], ["y"], name="cut")],
            [info("from", 7, [1]), info("to", 7, [1])],
            info("y", 1, None),
            [integers("axes", 1), integers("steps", 2)],
        ),
        {"x": WORDS, "from": np.array([-5]), "to": np.array([100])},
        "Slice",
    ),
    "a scan": (
        scan(),
        {"x": WORDS, "s": np.zeros((2, 3), np.float32), "k": np.array([[2, 3]] * 4)},
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_optimized(name: str, tmp_path: Path) -> None:
    source, feed, kept = CASES[name]
    path = tmp_path / "m.onnx"
    result = egshape.optimize(source)
    egshape.save(result.graph, path)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert len(kinds) <= len(source.graph.node)
    if kept:
        assert kinds == [kept] and any(note.startswith("left as they were") for note in result.report.notes)
    wanted = ort.InferenceSession(source.SerializeToString()).run(["y"], feed)[0]
    np.testing.assert_array_equal(ort.InferenceSession(path).run(["y"], feed)[0], wanted)
    np.testing.assert_array_equal(egshape.compile(result, target="interpret")(**feed), wanted)
    again = egshape.optimize(path)
    egshape.save(again.graph, path)
    assert [node.op_type for node in onnx.load(path).graph.node] == kinds, "a second time finds nothing"


def test_what_stays_runs_natively_too() -> None:
    pytest.importorskip("llvmlite")
    source, feed, _ = CASES["a shape that data tell"]
    function = egshape.compile(source)
    np.testing.assert_array_equal(function(**feed), feed["x"].reshape(2, 4, 3))
    with pytest.raises(egshape.EgshapeError):
        function(x=feed["x"], s=np.array([5, 5, 1]))


def test_a_fact_about_what_stays_is_kept(tmp_path: Path) -> None:
    """As one about a value inside of it cannot be said of one op, the model is left as it was, or the fact checked."""
    source, feed, _ = CASES["a shape that data tell"]
    path = tmp_path / "m.onnx"
    result = egshape.optimize(source, assume="%y.0 == 2")
    egshape.save(result.graph, path)
    session = ort.InferenceSession(path)
    np.testing.assert_array_equal(session.run(["y"], feed)[0], feed["x"].reshape(2, 4, 3))
    with pytest.raises(Exception, match=r"check: %y\.0 == 2|running Reshape node"):
        session.run(["y"], {**feed, "s": np.array([3, -1, 2])})


def test_only_what_grew_is_named() -> None:
    """Not a reshape that goes, or one to a constant shape."""
    nodes = [
        helper.make_node("Reshape", ["b", "s"], ["r"], name="grows"),
        helper.make_node("Reshape", ["r", "flat"], ["y"], name="stays"),
    ]
    found = egshape.optimize(model(nodes, [info("s", 7, [2])], info("y", 1, [None]), [integers("flat", -1)]))
    assert [note for note in found.report.notes if "stays" in note] == []


def test_what_is_said_of_the_graph_is_not_lost(tmp_path: Path) -> None:
    source, feed, _ = CASES["a shape that data tell"]
    graph = egshape.load(source).annotate("x", "f32[2*k, m]")
    egshape.save(egshape.optimize(graph).graph, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_array_equal(session.run(["y"], feed)[0], feed["x"].reshape(2, 4, 3))
    with pytest.raises(Exception, match="Non-zero status code"):
        session.run(["y"], {**feed, "x": WORDS[:3]})


def test_no_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from egshape import optimizing

    once = optimizing._once

    def slow(*given: Any) -> Any:
        time.sleep(0.4)
        return once(*given)

    monkeypatch.setattr(optimizing, "_once", slow)
    found = egshape.optimize(CASES["a shape that data tell"][0], limits=egshape.Limits(seconds=0.6))
    assert "no time was left to optimize the part of it that did not grow" in found.report.notes
