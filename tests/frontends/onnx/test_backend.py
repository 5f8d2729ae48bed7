"""The ONNX backend: a sample of onnx.backend.test, both targets; ``make backend`` runs all of it."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

import onnx
from onnx.backend.test.loader import load_model_tests

import egshape.frontends.onnx as frontend
from benchmarks.onnx_backend import run_case

SAMPLE = ("test_add_bcast", "test_softmax_axis_1", "test_layer_normalization_default_axis", "test_reshape_zero_dim",
          "test_slice_neg_steps", "test_gather_1", "test_where_example", "test_basic_conv_with_padding",
          "test_reduce_mean_keepdims_random", "test_expand_dim_changed", "test_gemm_all_attributes", "test_if")


@cache
def _cases() -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the suite's own expectations divide by 0
        return {case.name: case for case in load_model_tests(kind="node")}


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
