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
        (N("Relu", ["x"], ["y"]), [("x", FLOAT, ["n", 3])], ["rows", "columns"], ["rows", 3]),
    ],
    ids=["name", "number", "a number is known"],
)  # fmt: skip
def test_declared_types(node, inputs, declared, wanted, tmp_path: Path) -> None:
    kind = INT64 if node.op_type == "NonZero" else FLOAT
    nodes = [N("Identity", ["x"], ["unused"]), node]
    found = saved(made(nodes, inputs, [("y", kind, declared)], 17), tmp_path / "o.onnx", allow_larger=True)
    dims = found.graph.output[0].type.tensor_type.shape.dim
    assert [each.dim_param or each.dim_value for each in dims] == wanted


def test_what_is_said_of_nodes_and_values(tmp_path: Path) -> None:
    model = made(
        [N("Relu", ["x"], ["y"], name="/act", doc_string="node")], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], 17
    )
    model.graph.doc_string = "graph"
    model.graph.input[0].doc_string, model.graph.output[0].doc_string = "input", "output"
    found = saved(model, tmp_path / "o.onnx").graph
    said = (found, found.node[0], found.input[0], found.output[0])
    assert [each.doc_string for each in said] == ["graph", "node", "input", "output"]


def test_names_inside_of_graphs(tmp_path: Path) -> None:
    """A branch, and a body in a branch."""
    info = helper.make_tensor_value_info
    state, row = info("s", FLOAT, ["m"]), info("e", FLOAT, ["m"])
    inner = [N("Add", ["s", "e"], ["t"], name="add/1"), N("Exp", ["t"], ["o"], name="exp/1")]
    body = helper.make_graph(inner, "the body", [state, row], [info("t", FLOAT, ["m"]), info("o", FLOAT, ["m"])])
    one = N("Scan", ["i", "x"], ["f", "p"], name="scan/1", num_scan_inputs=1, body=body)
    yes = helper.make_graph([one], "the branch", [], [info("p", FLOAT, ["n", "m"])])
    no = helper.make_graph([N("Neg", ["x"], ["q"], name="neg/1")], "the other", [], [info("q", FLOAT, ["n", "m"])])
    node = N("If", ["c"], ["y"], name="if/1", then_branch=yes, else_branch=no)
    inputs = [("c", onnx.TensorProto.BOOL, []), ("i", FLOAT, ["m"]), ("x", FLOAT, ["n", "m"])]
    found = saved(made([node], inputs, [("y", FLOAT, ["n", "m"])], 17), tmp_path / "o.onnx")

    def names(graph: onnx.GraphProto) -> set[str]:
        inside = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
        return {graph.name, *(node.name for node in graph.node)}.union(*map(names, inside))

    wanted = {"if/1", "the branch", "the other", "scan/1", "the body", "add/1", "exp/1", "neg/1"}
    assert names(found.graph) - {found.graph.name} == wanted


def test_a_constant_output_is_an_initializer(tmp_path: Path) -> None:
    nodes = [N("Relu", ["x"], ["y"]), N("Identity", ["k"], ["z"])]
    model = made(
        nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"]), ("z", FLOAT, [2])], 17, {"k": np.ones(2, np.float32)}
    )
    found = saved(model, tmp_path / "o.onnx")
    assert [node.op_type for node in found.graph.node] == ["Relu"]
    assert [each.name for each in found.graph.initializer] == ["z"]
