"""ai.onnx.ml: shapes are kept, and ONNX Runtime runs the nodes where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="compared with ONNX Runtime")

import onnxruntime as ort
from onnx import TensorProto, TypeProto, helper

import egshape
from egshape import api
from tests.frontends.onnx.roads import FLOAT, INT64

TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
LEAVES = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 0], "class_weights": [0.2, 0.8]}
TARGETS = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0]}
VECTORS = {
    "kernel_params": [0.1, 0.0, 3.0],
    "kernel_type": "RBF",
    "rho": [0.5],
    "support_vectors": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}

CASES = {
    "Scaler": (FLOAT, {"offset": [1.0], "scale": [2.0]}, ["f32[n, 3]"]),
    "Normalizer": (FLOAT, {"norm": "L2"}, ["f32[n, 3]"]),
    "Imputer": (FLOAT, {"imputed_value_floats": [7.0], "replaced_value_float": 1.0}, ["f32[n, 3]"]),
    "Binarizer": (FLOAT, {"threshold": 0.5}, ["f32[n, 3]"]),
    "LabelEncoder": (INT64, {"keys_int64s": [0, 1], "values_strings": ["a", "b"]}, ["text[n, 3]"]),
    "OneHotEncoder": (INT64, {"cats_int64s": [0, 1], "zeros": 1}, ["f32[n, 3, 2]"]),
    "LinearRegressor": (FLOAT, {"coefficients": [1.0, 2.0, 3.0] * 2, "targets": 2}, ["f32[n, 2]"]),
    "TreeEnsembleRegressor": (FLOAT, {"n_targets": 1, **TREE, **TARGETS}, ["f32[n, 1]"]),
    "TreeEnsembleClassifier": (FLOAT, {"classlabels_strings": ["a", "b"], **TREE, **LEAVES}, ["text[n]", "f32[n, 2]"]),
    "SVMRegressor": (FLOAT, {"coefficients": [1.0, 2.0], "n_supports": 2, **VECTORS}, ["f32[n, 1]"]),
    "SVMClassifier": (
        FLOAT,
        {"classlabels_ints": [0, 1], "coefficients": [1.0, -1.0], "vectors_per_class": [1, 1], **VECTORS},
        ["i64[n]", "f32[n, %s.1]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str) -> None:
    kind, attributes, types = CASES[name]
    outputs = ["y", "s"][: len(types)]
    node = helper.make_node(name, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_value_info(each, TypeProto()) for each in outputs],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2 if name == "LabelEncoder" else 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    read = egshape.load(model)
    assert [str(value.type) for value in read.outputs] == types
    function = egshape.compile(read)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for n in (0, 1, 5):
        x = (np.arange(3 * n) % 2).astype(np.int64 if kind == INT64 else np.float32).reshape(n, 3)
        wanted = session.run(None, {"x": x})
        found = function(x)
        for each in (api.run(read, [x]), found if isinstance(found, tuple) else (found,)):
            for one, two in zip(each, wanted, strict=True):
                assert one.dtype == two.dtype and one.shape == two.shape
                assert np.array_equal(one, two) or np.allclose(one, two)
    notes = egshape.optimize(read).report.notes
    assert f"ai.onnx.ml.{name} has no lowering: it is called in ONNX Runtime" in notes
    assert repr(function).endswith(f"calls:   ai.onnx.ml.{name} (outside of its code)>")


def test_trees_of_doubles() -> None:
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[1],
        nodes_modes=helper.make_tensor("modes", TensorProto.UINT8, [1], [0]),
        nodes_splits=helper.make_tensor("splits", TensorProto.DOUBLE, [1], [0.5]),
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=helper.make_tensor("weights", TensorProto.DOUBLE, [2], [1.0, 1 / 3]),
    )
    inputs = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", 3])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_value_info("y", TypeProto())])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    read = egshape.load(helper.make_model(graph, opset_imports=imports, ir_version=10))
    (found,) = api.run(read, [np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])])
    assert found.dtype == np.float64 and found.tolist() == [[1.0], [1 / 3]]
