"""Sums of floats of 16 bits are taken in f32 and rounded once: what the same op gives on f32, in 16 bits. In 16 bits a
sum of more than 2048 ones (bf16: 256) would stay where it is, and counts beyond 65504 be infinite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import TensorProto, helper

import egshape

KINDS = {"f16": (TensorProto.FLOAT16, np.float16), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
IMAGE, ROWS = (1, 4, 70, 60), (2, 5000)
AXES = {"axes": np.array([1], np.int64)}
Case = tuple[tuple[int, ...], dict[str, np.ndarray], dict[str, Any]]
CASES: dict[str, Case] = {
    "GlobalAveragePool": (IMAGE, {}, {}),
    "GlobalLpPool": (IMAGE, {}, {}),
    "AveragePool": (IMAGE, {}, {"kernel_shape": [60, 60]}),
    "LpPool": (IMAGE, {}, {"kernel_shape": [60, 60], "p": 1}),
    "LRN": (IMAGE, {}, {"size": 3}),
    "InstanceNormalization": (IMAGE, {"scale": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}, {}),
    "MeanVarianceNormalization": (IMAGE, {}, {}),
    "LpNormalization": (ROWS, {}, {"axis": 1}),
    "CumSum": (ROWS, {"axis": np.array(1, np.int64)}, {}),
    "Einsum": (ROWS, {}, {"equation": "ij->i"}),
    **{f"Reduce{kind}": (ROWS, AXES, {}) for kind in ("Sum", "Mean", "Prod", "L1", "L2", "SumSquare", "LogSum")},
    "ReduceLogSumExp": (ROWS, AXES, {}),
    "ReduceMax": (ROWS, AXES, {}),
}
CHANNELS = {name: np.arange(3, 7, dtype=np.float32) / 8 for name in ("scale", "bias", "mean", "variance")}
ELEMENTWISE: dict[str, Case] = {
    "BatchNormalization": (IMAGE, CHANNELS, {}),
    **{op: (ROWS, {}, {}) for op in ("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish")},
    **{op: (ROWS, {}, {}) for op in ("Selu", "Shrink", "Softplus", "Softsign")},
    "Mean": (ROWS, {"other": np.array([0.375], np.float32), "third": np.array([0.5], np.float32)}, {}),
}


def model(op: str, element: int, kind: type, rank: int, held: dict[str, np.ndarray], attributes: dict[str, Any]) -> Any:
    constants = {name: x.astype(kind) if x.dtype == np.float32 else x for name, x in held.items()}
    types = {name: element if x.dtype == kind else TensorProto.INT64 for name, x in constants.items()}
    initializers = [
        helper.make_tensor(name, types[name], x.shape, x.tobytes(), raw=True) for name, x in constants.items()
    ]
    node = helper.make_node(op, ["x", *held], ["y"], **attributes)
    sizes: Sequence[str] = [f"s{axis}" for axis in range(rank)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, sizes)],
        [helper.make_tensor_value_info("y", element, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@cache
def data(op: str) -> np.ndarray:
    shape = (CASES | ELEMENTWISE)[op][0]
    noise = np.random.default_rng(0).standard_normal(shape)
    if op == "ReduceProd":
        return 1 + 2.0**-7 * np.round(noise)
    return np.round((8 if op in CASES else 0) + 4 * noise) / 8


def results(op: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """What an op gives in 16 bits, and what it gives in f32, rounded."""
    shape, held, attributes = (CASES | ELEMENTWISE)[op]
    element, dtype = KINDS[kind]
    x = data(op).astype(dtype)
    assert (x.astype(np.float64) == data(op)).all(), "the data is exact in 16 bits"
    found = []
    for one, two in ((element, dtype), (TensorProto.FLOAT, np.float32)):
        graph = egshape.optimize(egshape.load(model(op, one, two, len(shape), held, attributes))).graph
        found.append(np.asarray(egshape.compile(graph, optimize=False)(x.astype(two))))
    assert found[0].dtype == dtype
    return found[0].astype(np.float64), found[1].astype(dtype).astype(np.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", CASES)
def test_results_are_those_of_f32_rounded_once(op: str, kind: str) -> None:
    found, exact = results(op, kind)
    assert np.isfinite(exact).all() or op in ("ReduceProd", "ReduceSumSquare", "CumSum")
    near = np.isclose(found, exact, 2.0 * np.finfo(np.float16).eps if kind == "f16" else 2.0**-7, 1e-3)
    assert (near | (found == exact)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_steps_of_an_op_are_not_rounded(op: str, kind: str) -> None:
    found, exact = results(op, kind)
    assert np.isfinite(exact).all()
    assert (found == exact).all()
