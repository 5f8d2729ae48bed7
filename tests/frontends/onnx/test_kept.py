"""Nodes, values, outputs and types that are as the file had them keep their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx import helper

import egshape
from tests.frontends.onnx.roads import FLOAT, INT64, made

N = helper.make_node


def saved(model: onnx.ModelProto, path: Path, **options: object) -> onnx.ModelProto:
    egshape.save(egshape.optimize(egshape.load(model.SerializeToString(), "onnx"), **options), path)
    found = onnx.load(path)
    onnx.checker.check_model(found, full_check=True)
    return found


def test_names_of_nodes_and_values(tmp_path: Path) -> None:
    nodes = [
        N("Transpose", ["x"], ["xt"], perm=[0, 2, 1], name="/turn"),
        N("MatMul", ["xt", "w"], ["m"], name="/product"),
        N("Neg", ["m"], ["a"], name="/once"),
        N("Neg", ["a"], ["b"], name="/twice"),
        N("Relu", ["b"], ["r"], name="/act"),
        N("Reshape", ["r", "target"], ["f"], name="/flat"),
        N("Add", ["f", "f"], ["y"], name="/out"),
    ]
    constants = {"w": np.ones((3, 5), np.float32), "target": np.array([0, 40])}
    found = saved(
        made(nodes, [("x", FLOAT, ["n", 3, 8])], [("y", FLOAT, ["n", 40])], 17, constants), tmp_path / "o.onnx"
    )
    assert [(node.name, *node.output) for node in found.graph.node] == [
        ("/turn", "xt"),
        ("/product", "m"),
        ("/act", "r"),
        ("/flat", "f"),
        ("/out", "y"),
    ]
    assert {each.name for each in found.graph.initializer} == {"w", "target"}


def test_a_name_is_given_to_no_other_value(tmp_path: Path) -> None:
    """The second half of the Split becomes the first that is read: b stays b."""
    nodes = [
        N("Split", ["x"], ["a", "b"], axis=1, num_outputs=2, name="/split"),
        N("Relu", ["b"], ["r"], name="/relu"),
        N("Sub", ["r", "a"], ["y"], name="/sub"),
    ]
    model = made(nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 2])], 18)
    found = saved(model, tmp_path / "o.onnx")
    by_name = {node.name: node for node in found.graph.node}
    assert list(by_name["/relu"].input) == ["b"] and list(by_name["/sub"].input) == ["r", "a"]


@pytest.mark.parametrize(
    ("node", "inputs", "declared", "wanted"),
    [
        (
            N("Compress", ["x", "c"], ["y"], axis=0),
            [("x", FLOAT, ["n", 3]), ("c", onnx.TensorProto.BOOL, ["n"])],
            ["kept", 3],
            ["kept", 3],
        ),
        (N("NonZero", ["x"], ["y"]), [("x", FLOAT, ["n"])], [1, 8], [1, 8]),
        (N("Relu", ["x"], ["y"]), [("x", FLOAT, ["n", 3])], ["rows", "columns"], ["n", 3]),
    ],
    ids=["name", "number", "more-is-known"],
)  # fmt: skip
def test_declared_types(node, inputs, declared, wanted, tmp_path: Path) -> None:
    kind = INT64 if node.op_type == "NonZero" else FLOAT
    nodes = [N("Identity", ["x"], ["unused"]), node]
    found = saved(made(nodes, inputs, [("y", kind, declared)], 17), tmp_path / "o.onnx", allow_larger=True)
    dims = found.graph.output[0].type.tensor_type.shape.dim
    assert [each.dim_param or each.dim_value for each in dims] == wanted


def test_a_constant_output_is_an_initializer(tmp_path: Path) -> None:
    nodes = [N("Relu", ["x"], ["y"]), N("Identity", ["k"], ["z"])]
    model = made(
        nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"]), ("z", FLOAT, [2])], 17, {"k": np.ones(2, np.float32)}
    )
    found = saved(model, tmp_path / "o.onnx")
    assert [node.op_type for node in found.graph.node] == ["Relu"]
    assert [each.name for each in found.graph.initializer] == ["z"]
