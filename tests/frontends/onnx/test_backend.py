"""The ONNX backend: a sample of onnx.backend.test, both targets; ``make backend`` runs all of it."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx.backend.test.loader import load_model_tests

import egshape
import egshape.frontends.onnx as frontend
from benchmarks.onnx_backend import run_case
from egshape.adapters.onnx_host import compile_with_host_calls
from egshape.errors import Unsupported
from egshape.ir.interpret import interpret

SAMPLE = (
    "test_add_bcast",
    "test_softmax_axis_1",
    "test_layer_normalization_default_axis",
    "test_reshape_zero_dim",
    "test_slice_neg_steps",
    "test_gather_1",
    "test_where_example",
    "test_basic_conv_with_padding",
    "test_reduce_mean_keepdims_random",
    "test_expand_dim_changed",
    "test_gemm_all_attributes",
    "test_if",
)


@cache
def _cases() -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the suite's own expectations divide by 0
        return {case.name: case for case in load_model_tests(kind="node")}


@pytest.mark.long  # reading the suite takes most of it
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("target", ["interpret", "llvm"])
@pytest.mark.parametrize("name", SAMPLE)
def test_sample(name: str, target: str, symbolic: bool) -> None:
    if target == "llvm":
        pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")
    result = run_case(_cases()[name], target, symbolic)
    assert result.passed, result.fault


def test_single_nodes_and_devices() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    (found,) = frontend.Backend.run_node(node, [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    assert found.tolist() == [[2.0] * 3] * 2
    assert frontend.Backend.supports_device("CPU") and not frontend.Backend.supports_device("CUDA")


def _erfs() -> egshape.ir.graph.Graph:
    nodes = [
        onnx.helper.make_node("Celu", ["x"], ["h"], name="first"),
        onnx.helper.make_node("Elu", ["h"], ["y"], name="second"),
    ]
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:]))
    return egshape.load(model.SerializeToString(), "onnx")


def test_what_a_back_end_refuses_becomes_a_host_call() -> None:
    refused: list[list[str]] = []

    def compile_graph(graph: egshape.ir.graph.Graph) -> egshape.ir.graph.Graph:
        names = [op.name for op in graph.ops if op.result.type.rank]
        refused.append(names)
        if names.count("composite"):
            place = next(op.location for op in graph.ops if op.name == "composite")
            raise Unsupported("cannot", where=f"something inside at {place}")
        return graph

    found = compile_with_host_calls(_erfs(), compile_graph)
    assert [op.name for op in found.ops] == ["host_call", "host_call"] and len(refused) == 3
    x = np.array([-1.0, 2.0], np.float32)
    np.testing.assert_allclose(interpret(found, [x])[0], interpret(_erfs(), [x])[0], rtol=1e-6)


def test_a_refusal_elsewhere_is_passed_on() -> None:
    def compile_graph(graph: egshape.ir.graph.Graph) -> None:
        raise Unsupported("cannot", where="nowhere")

    with pytest.raises(Unsupported, match="cannot"):
        compile_with_host_calls(_erfs(), compile_graph)
