"""A window that does not fit is refused where ONNX Runtime refuses it: in graphs, native code and saved files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="compared with ONNX Runtime")

import onnxruntime as ort
from onnx import helper

import egshape
from egshape import api
from egshape.adapters.native import compile_function
from egshape.errors import EgshapeError
from tests.frontends.onnx.roads import FLOAT, made

N = helper.make_node
W = {"w": np.ones((2, 2, 3), np.float32)}
POOL = {"kernel_shape": [3]}

CASES = {
    "conv": (N("Conv", ["x", "w"], ["y"]), W),
    "conv-stride": (N("Conv", ["x", "w"], ["y"], strides=[2]), W),
    "conv-dilation": (N("Conv", ["x", "w"], ["y"], dilations=[2], pads=[1, 0]), W),
    "conv-padded": (N("Conv", ["x", "w"], ["y"], pads=[1, 1]), W),
    "conv-same": (N("Conv", ["x", "w"], ["y"], strides=[2], auto_pad="SAME_UPPER"), W),
    "conv-transpose": (N("ConvTranspose", ["x", "w"], ["y"], pads=[1, 1]), W),
    "max-pool": (N("MaxPool", ["x"], ["y"], **POOL), {}),
    "max-pool-padded": (N("MaxPool", ["x"], ["y"], **POOL, pads=[1, 1], strides=[2]), {}),
    "max-pool-stride": (N("MaxPool", ["x"], ["y"], kernel_shape=[5], strides=[3]), {}),
    "max-pool-valid": (N("MaxPool", ["x"], ["y"], kernel_shape=[5], strides=[2], auto_pad="VALID"), {}),
    "max-pool-ceil": (N("MaxPool", ["x"], ["y"], kernel_shape=[5], strides=[2], ceil_mode=1), {}),
    "max-pool-dilated": (N("MaxPool", ["x"], ["y"], kernel_shape=[3], dilations=[3], strides=[2]), {}),
    "average-pool-stride": (
        N("AveragePool", ["x"], ["y"], kernel_shape=[6], strides=[2], pads=[1, 0], count_include_pad=1),
        {},
    ),
    "average-pool-included": (
        N("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], count_include_pad=1, ceil_mode=1),
        {},
    ),
    "average-pool-dilated": (
        N("AveragePool", ["x"], ["y"], kernel_shape=[2], dilations=[2], pads=[1, 1], strides=[2]),
        {},
    ),
    "average-pool-ceil": (N("AveragePool", ["x"], ["y"], kernel_shape=[5], strides=[2], ceil_mode=1), {}),
    "average-pool": (N("AveragePool", ["x"], ["y"], **POOL, pads=[1, 1]), {}),
    "lp-pool-stride": (N("LpPool", ["x"], ["y"], kernel_shape=[5], strides=[3]), {}),
    "lp-pool": (N("LpPool", ["x"], ["y"], **POOL), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_too_large_a_window(name: str, tmp_path: Path) -> None:
    node, weights = CASES[name]
    model = made([node], [("x", FLOAT, ["n", 2, "t"])], [("y", FLOAT, ["n", 2, "k"])], 19, weights)
    graph = egshape.load(model.SerializeToString(), "onnx")
    egshape.save(egshape.optimize(graph), tmp_path / "o.onnx")
    native = compile_function(graph)
    session, saved = (
        ort.InferenceSession(each, providers=["CPUExecutionProvider"])
        for each in (model.SerializeToString(), (tmp_path / "o.onnx").read_bytes())
    )
    refused = 0
    for t in range(7):
        x = np.arange(2 * t, dtype=np.float32).reshape(1, 2, t)
        try:
            wanted = session.run(None, {"x": x})[0]
        except Exception:  # the runtime's errors have no common class
            refused += 1
            with pytest.raises(EgshapeError):
                api.run(graph, [x])
            with pytest.raises(EgshapeError):
                native(x)
            with pytest.raises(Exception, match="ONNXRuntimeError"):
                saved.run(None, {"x": x})
            continue
        for found in (api.run(graph, [x])[0], native(x), saved.run(None, {"x": x})[0]):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert 0 < refused < 7
