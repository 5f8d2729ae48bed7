"""A report of an ONNX model shows the nodes of its file and of the file that is written, and tells what became of them
in these terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import egshape
from egshape import measure
from egshape.viz.report.boxes import Box
from egshape.viz.report.data import report_data
from egshape.viz.report.layers import LARGE, layer, layers_of

onnx = pytest.importorskip("onnx", reason="reading ONNX needs the extra onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Row = dict[str, Any]


def optimized(
    nodes: Sequence[Any], inputs: dict[str, Sequence[Any]], held: dict[str, np.ndarray], output: str
) -> egshape.Result:
    """A model of f32 inputs of these sizes and one output, optimized."""
    info = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    out = helper.make_tensor_value_info(output, 1, None)
    weights = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(list(nodes), "g", info, [out], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return egshape.optimize(egshape.load(model.SerializeToString(), format="onnx"), validate=False)


def ops(data: Row, side: str) -> dict[str, Row]:
    """The rows of ops by the name of what they give."""
    return {row["gives"][0][0]: row for row in data["sides"][side]["items"] if row["kind"] == "op"}


def drawn(data: Row, side: str) -> Counter[str]:
    return Counter(row["title"] for row in ops(data, side).values())


def test_nodes_that_stay_are_not_marked() -> None:
    """The zeros of two Relus become one for us; in the file nothing has changed."""
    node = helper.make_node
    result = optimized(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
         node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"])],
        {"x": ["n", 4, "h", "v"]}, {"w": np.ones((4, 4, 3, 3), np.float32)}, "y",
    )  # fmt: skip
    data = report_data(result)
    for side in ("before", "after"):
        assert drawn(data, side) == {"Conv": 2, "Relu": 2}
        assert [row["title"] for row in data["sides"][side]["items"] if row.get("status")] == []
    assert data["steps"] == [], "rewrites are told that change no node"


def test_what_is_gone_and_what_changed_are_nodes() -> None:
    """A product with ones goes; of a Transpose before a MatMul the written model makes one of the MatMul."""
    node = helper.make_node
    result = optimized(
        [node("Mul", ["x", "ones"], ["m"]), node("Transpose", ["y"], ["t"], perm=[0, 2, 1]),
         node("MatMul", ["m", "t"], ["p"]), node("Exp", ["p"], ["z"])],
        {"x": ["n", "a", 8], "y": ["n", "b", 8]}, {"ones": np.ones(8, np.float32)}, "z",
    )  # fmt: skip
    data = report_data(result)
    before, after = ops(data, "before"), ops(data, "after")
    assert {name: row.get("status") for name, row in before.items()} == {
        "m": "gone", "t": "gone", "p": "changed", "z": None,
    }  # fmt: skip
    assert {name: (row["title"], row.get("status")) for name, row in after.items()} == {
        "p": ("Transpose + MatMul", "changed"), "z": ("Exp", None),
    }  # fmt: skip
    rules = {data["texts"][data["steps"][step][0]] for step in before["p"]["why"]}
    assert "tensor.transpose/into-dot-right" in rules
    assert data["count"] == {"before": 4, "after": 3}


def test_a_node_that_others_do_is_gone() -> None:
    """Slice and Squeeze are written as one Gather."""
    node = helper.make_node
    held = {name: np.array([value], np.int64) for name, value in (("one", 1), ("two", 2), ("axis", 1))}
    result = optimized(
        [node("Exp", ["x"], ["e"]), node("Slice", ["e", "one", "two", "axis"], ["s"]),
         node("Squeeze", ["s", "axis"], ["q"]), node("Exp", ["q"], ["y"])],
        {"x": ["n", 4, 8]}, held, "y",
    )  # fmt: skip
    data = report_data(result)
    drawn_after, changed = drawn(data, "after"), result.changes.after
    assert drawn_after == changed, "boxes are not nodes"
    before = ops(data, "before")
    assert {name for name in before if before[name].get("status") == "gone"} == set(before) - set(ops(data, "after"))


def test_attributes_of_ours_are_not_said_in_a_box() -> None:
    node = helper.make_node
    held = {"w": np.ones((4, 4), np.float32)}
    data = report_data(optimized([node("MatMul", ["x", "w"], ["y"])], {"x": ["n", 4]}, held, "y"))
    row = ops(data, "before")["y"]
    assert "detail" not in row and row["under"] == "dot_general"


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("/encoder/layer.0/attention/MatMul", ["encoder.layer.0", ""]),
        ("/stages.2/stages.2.29/conv/Conv", ["stages.2", "stages.2.29", ""]),
        ("backbone.blocks.3.1.conv", ["backbone.blocks.3", "backbone.blocks.3.1", ""]),
        ("/model/norm/Mul", ["model", ""]),
        ("/Add", ["", ""]),
        ("", ["", ""]),
    ],
)
def test_layers_by_name(name: str, layers: list[str]) -> None:
    assert [layer(name, depth) for depth in range(len(layers))] == layers


def test_a_large_layer_is_told_by_those_inside() -> None:
    names = [f"/stages.0/stages.0.{number // 10}/conv/Conv" for number in range(LARGE + 10)] + ["/head.0/fc/Gemm"] * 9
    boxes = [Box("op", name) for name in names]
    found = layers_of(boxes, lambda box: [], lambda box: [box.title])
    assert [(label, len(run)) for label, run in found] == [*((f"stages.0.{k}", 10) for k in range(13)), ("head.0", 9)]
    small = layers_of(boxes[LARGE // 2 :], lambda box: [], lambda box: [box.title])
    assert [label for label, _ in small] == ["stages.0", "head.0"]


def test_a_large_graph_is_counted_in_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written once, to be counted, where it would not be written again and again to be measured."""
    monkeypatch.setattr(measure, "MOST_OPS", 1)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    result = optimized(nodes, {"x": ["n", 4]}, {}, "y")
    assert result.changes.unit == "nodes" and sum(result.changes.before.values()) == 2
    monkeypatch.setattr(measure, "MOST_COUNTED", 1)
    assert optimized(nodes, {"x": ["n", 4]}, {}, "y").changes.unit == "ops"


def test_kernels_of_a_large_graph_are_told_where_a_profile_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    result = optimized([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", 4]}, {}, "y")
    assert report_data(result)["kernels"]
    monkeypatch.setattr("egshape.viz.report.data.MOST_OPS", 1)
    assert report_data(result)["kernels"] == {}
    assert report_data(result, profile=[{"kernel": "maximum", "us": 1.0}])["kernels"]
