"""Reshape with -1: rejected where the other sizes are 0, as ONNX does, and believed behind that."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import TensorProto, helper, numpy_helper

import egshape
from egshape.errors import CheckFailed
from egshape.ir.interpret import interpret


def _graph(target: list[int]) -> egshape.ir.graph.Graph:
    node = helper.make_node("Reshape", ["x", "t"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(target), "t")],
    )
    return egshape.load(helper.make_model(graph).SerializeToString(), "onnx")


@pytest.mark.parametrize("optimized", [False, True])
def test_rejected_where_nothing_tells_the_size(optimized: bool) -> None:
    graph = _graph([0, -1])
    graph = egshape.optimize(graph).graph if optimized else graph
    assert interpret(graph, [np.zeros((2, 0, 4), np.float32)])[0].shape == (2, 0)
    with pytest.raises(CheckFailed):
        interpret(graph, [np.zeros((0, 3, 4), np.float32)])


def test_fixed_sizes_need_no_check() -> None:
    result = egshape.optimize(_graph([-1, 4]))
    assert not result.report.checks
    assert interpret(result.graph, [np.zeros((0, 3, 4), np.float32)])[0].shape == (0, 4)
