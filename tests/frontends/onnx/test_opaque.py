"""Ops that nobody knows go through; subgraphs of host calls keep what they read when they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx import helper, numpy_helper

import egshape
from egshape.adapters import onnx_verify
from egshape.errors import EgshapeError, Unsupported
from tests.frontends.onnx.roads import FLOAT, made

N = helper.make_node
HERE = ("x", FLOAT, ["b", 4])
FANCY = N("Fancy", ["r"], ["f"], domain="com.acme", name="fancy", k=3)
NODES = [N("Relu", ["x"], ["r"]), N("Neg", ["r"], ["unused"]), FANCY, N("Add", ["f", "x"], ["y"])]


def optimized(model: onnx.ModelProto) -> tuple[Any, list[str]]:
    result = egshape.optimize(egshape.load(model.SerializeToString(), "onnx"))
    assert result.report.status != "fallback", result.report.notes
    return result.graph, list(result.report.notes)


def saved(graph: Any, folder: Path) -> onnx.ModelProto:
    egshape.save(graph, folder / "m.onnx")
    return onnx.load(folder / "m.onnx")


def test_an_unknown_op_has_the_type_that_the_model_states(tmp_path) -> None:
    model = made(NODES, [HERE], [("y", FLOAT, ["b", 4])], 17, domains=["com.acme"], stated=[("f", FLOAT, ["b", 4])])
    graph, notes = optimized(model)
    assert any("com.acme.Fancy is kept as it is: there is no implementation" in note for note in notes)
    assert any("not validated: com.acme.Fancy cannot be run here" in note for note in notes)
    written = saved(graph, tmp_path)
    onnx.checker.check_model(written)
    kept = [node for node in written.graph.node if node.domain == "com.acme"]
    assert [(node.op_type, list(node.attribute)) for node in kept] == [("Fancy", list(FANCY.attribute))]
    assert [node.op_type for node in written.graph.node] == ["Relu", "Fancy", "Add"]
    (shape,) = [row.type.shape for row in graph.outputs]
    assert [str(size) for size in shape] == ["b", "4"]
    for target in ("interpret", "llvm"):
        with pytest.raises(EgshapeError, match=r"there is no implementation of com\.acme\.Fancy"):
            egshape.compile(graph, target, optimize=False)(np.ones((2, 4), np.float32))


def test_an_unknown_op_without_a_type(tmp_path) -> None:
    graph, _ = optimized(made(NODES, [HERE], [("y", FLOAT, None)], 17, domains=["com.acme"]))
    assert [node.op_type for node in saved(graph, tmp_path).graph.node] == ["Relu", "Fancy", "Add"]
    lone = made(
        [N("Source", [], ["s"], domain="com.acme"), N("Neg", ["s"], ["y"])],
        [],
        [("y", FLOAT, [3])],
        17,
        domains=["com.acme"],
    )
    with pytest.raises(Unsupported, match="nothing tells the element type of 's'") as caught:
        egshape.load(lone.SerializeToString(), "onnx")
    assert "value_info" in caught.value.hint


def test_sizes_that_the_model_does_not_know_are_named(tmp_path) -> None:
    model = made(
        [NODES[0], FANCY, N("Exp", ["f"], ["y"])],
        [HERE],
        [("y", FLOAT, [None, None])],
        17,
        domains=["com.acme"],
        stated=[("f", FLOAT, ["unknown", 4])],
    )
    graph, _ = optimized(model)
    (output,) = graph.outputs
    assert [str(size) for size in output.type.dims] == ["%f.0", "4"]


def test_equal_unknown_ops_stay_apart(tmp_path) -> None:
    nodes = [N("Draw", ["x"], [name], domain="com.acme") for name in "ab"] + [N("Sub", ["a", "b"], ["y"])]
    model = made(
        nodes,
        [HERE],
        [("y", FLOAT, ["b", 4])],
        17,
        domains=["com.acme"],
        stated=[(name, FLOAT, ["b", 4]) for name in "ab"],
    )
    graph, _ = optimized(model)
    assert [node.op_type for node in saved(graph, tmp_path).graph.node] == ["Draw", "Draw", "Sub"]


def test_onnx_runtime_runs_what_it_knows() -> None:
    pytest.importorskip("onnxruntime", reason="runs in ONNX Runtime")
    node = N("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", transB=1)
    model = made([node], [HERE, ("w", FLOAT, ["k", 4])], [("y", FLOAT, ["b", "k"])], 17, domains=["com.microsoft"])
    graph, _ = optimized(model)
    x, w = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((3, 4), np.float32)
    for target in ("interpret", "llvm"):
        np.testing.assert_allclose(egshape.compile(graph, target, optimize=False)(x, w), x @ w.T)


def test_a_model_that_the_runtime_does_not_know_is_not_compared(tmp_path) -> None:
    pytest.importorskip("onnxruntime", reason="compares in ONNX Runtime")
    model = made(NODES, [HERE], [("y", FLOAT, ["b", 4])], 17, domains=["com.acme"], stated=[("f", FLOAT, ["b", 4])])
    graph, _ = optimized(model)
    saved(graph, tmp_path)
    found = onnx_verify.compare_models(model.SerializeToString(), tmp_path / "m.onnx", graph, graph.facts)
    assert not found.difference and "cannot load the original" in found.skipped


def test_what_subgraphs_read_is_saved(tmp_path) -> None:
    """Names inside are those of the new model; one that hides an outer name still does."""
    info, one = helper.make_tensor_value_info, numpy_helper.from_array(np.ones(1, np.float32), "c")
    inner = helper.make_graph([N("Neg", ["q"], ["deep"])], "inner", [], [info("deep", FLOAT, None)])
    body = helper.make_graph(
        [
            N("Add", ["x", "r"], ["q"]),
            N("Mul", ["q", "c"], ["q2"]),
            N("Hold", ["q2"], ["z"], domain="com.acme", g=inner),
        ],
        "body",
        [],
        [info("z", FLOAT, None)],
        [one],
    )
    hold = N("Hold", ["x"], ["y"], domain="com.acme", body=body)
    model = made([N("Relu", ["x"], ["r"]), hold], [HERE], [("y", FLOAT, ["b", 4])], 17, domains=["com.acme"])
    graph, _ = optimized(model)
    written = saved(graph, tmp_path)
    onnx.checker.check_model(written)
    relu, kept = written.graph.node
    (found,) = [attribute.g for attribute in kept.attribute]
    add, mul, deep = found.node
    assert list(add.input) == ["x", relu.output[0]]
    assert mul.input[0] == add.output[0] and mul.input[1] == found.initializer[0].name
    assert deep.attribute[0].g.node[0].input[0] == add.output[0]
    assert egshape.load(tmp_path / "m.onnx").outputs[0].type.rank == 2


def test_an_unknown_op_of_the_standard_domain(tmp_path) -> None:
    graph, _ = optimized(made([N("Levitate", ["x"], ["y"])], [HERE], [("y", FLOAT, ["b", 4])], 17))
    assert [node.op_type for node in saved(graph, tmp_path).graph.node] == ["Levitate"]
