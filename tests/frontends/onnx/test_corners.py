"""NaN among what is ordered, bounds and steps of slices beyond any size, results that are asked to be larger: as in
ONNX Runtime, or where that has no opinion of its own as in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
pytest.importorskip("onnxruntime", reason="ONNX needs the extra onnx")

import onnxruntime as ort
from onnx import parser

import egshape

NAN, INF, FAR = np.nan, np.inf, 2**63 - 1
ROWS = [[3, 1, NAN, 9, 2], [NAN, NAN, 1, 0, -1], [0.0, -0.0, INF, -INF, NAN], [NAN, NAN, NAN, NAN, NAN]]


def model(text: str, opset: int = 17) -> Any:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {text}')


def as_there(text: str, *arrays: np.ndarray, opset: int = 17) -> None:
    """The compiled graph gives what ONNX Runtime gives."""
    made = model(text, opset)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {value.name: x for value, x in zip(made.graph.input, arrays, strict=True)})
    found = egshape.compile(egshape.optimize(made), optimize=False)(*arrays)
    for one, two in zip(wanted, found if isinstance(found, tuple) else (found,), strict=True):
        assert (one.shape, one.dtype) == (two.shape, two.dtype)
        np.testing.assert_allclose(two, one, rtol=1e-6)


def row(*numbers: float) -> np.ndarray:
    return np.array([numbers], np.float32)


@pytest.mark.parametrize("largest", [0, 1])
def test_of_an_axis_with_nan_the_largest_are_found(largest: int) -> None:
    for numbers in ROWS:
        text = "(float[n,h] x) => (float[n,2] y, int64[n,2] i) <int64[1] k = {2}>"
        as_there(f"{text} {{ y, i = TopK<largest={largest}>(x, k) }}", row(*numbers))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_there_is_always_a_place(op: str, last: int) -> None:
    for numbers in ([NAN, NAN], [NAN, 1], [-INF, -INF, -INF], [INF, INF], [2, 2, 1, 1]):
        text = f"{{ i = {op}<axis=1, keepdims=0, select_last_index={last}>(x) }}"
        as_there(f"(float[n,h] x) => (int64[n] i) {text}", row(*numbers))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_nan_is_the_largest_and_the_least(op: str) -> None:
    compiled = egshape.compile(model(f"(float[n,h] x) => (int64[n] i) {{ i = {op}<axis=1, keepdims=0>(x) }}"))
    for numbers in ([1, NAN, 3], [3, 1, NAN, NAN], [NAN, NAN]):
        assert compiled(row(*numbers)).tolist() == [int(np.argmax(np.isnan(numbers)))]


@pytest.mark.parametrize("dtype", ["float", "double", "uint8", "int8"])
def test_places_of_a_pool_lie_in_the_tensor(dtype: str) -> None:
    node = "{ y, i = MaxPool<kernel_shape=[2], pads=[1,1]>(x) }"
    text = f"({dtype}[n,1,h] x) => ({dtype}[a,b,c] y, int64[a,b,c] i) {node}"
    kind = {"float": np.float32, "double": np.float64, "uint8": np.uint8, "int8": np.int8}[dtype]
    least = -INF if np.dtype(kind).kind == "f" else np.iinfo(kind).min
    rows: list[list[float]] = [[least] * 3, [5, 100, 3, least]]
    for numbers in [*rows, [NAN] * 3] if dtype == "float" else rows:
        as_there(text, np.array([[numbers]], kind))


@pytest.mark.parametrize("start", [FAR, 100, 3, -1, -2])
def test_a_computed_start_beyond_the_axis(start: int) -> None:
    held = f"<int64[1] e = {{-{FAR}}}, int64[1] a = {{0}}, int64[1] t = {{-1}}>"
    text = f"(float[h] x, int64[1] s) => (float[k] y) {held} {{ y = Slice(x, s, e, a, t) }}"
    as_there(text, np.arange(4, dtype=np.float32), np.array([start]))


@pytest.mark.parametrize(("start", "end", "step"), [(0, FAR, FAR), (FAR, -FAR, -FAR), (-1, -FAR, -FAR)])
def test_a_step_beyond_the_axis(start: int, end: int, step: int) -> None:
    held = ", ".join(f"int64[1] {name} = {{{x}}}" for name, x in (("s", start), ("e", end), ("a", 0), ("t", step)))
    as_there(f"(float[h] x) => (float[k] y) <{held}> {{ y = Slice(x, s, e, a, t) }}", np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("size", [11, 12, 13, 15])
@pytest.mark.parametrize("pad", ["NOTSET", "SAME_UPPER"])
def test_a_larger_result_than_there_is_has_zeros_behind(pad: str, size: int) -> None:
    node = f'ConvTranspose<strides=[3], output_shape=[{size}], auto_pad="{pad}">(x, w)'
    text = f"(float[n,1,h] x) => (float[a,b,c] y) <float[1,1,1] w = {{1.0}}> {{ y = {node} }}"
    as_there(text, np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5))


@pytest.mark.parametrize("bounds", ["min = -1.0, max = 2.0", "min = -1.0", "max = 2.0", ""])
def test_before_opset_11_infinities_are_clipped(bounds: str) -> None:
    text = f"(float[n,h] x) => (float[n,h] y) {{ y = Clip{f'<{bounds}>' if bounds else ''}(x) }}"
    as_there(text, row(-INF, INF, NAN, 0, 3.4e38, -5), opset=9)


def test_nothing_times_nan_is_left_out() -> None:
    held = "<float[2,2] w = {1.0, 2.0, 3.0, 4.0}>"
    text = f"(float[n,2] x, float[2] c) => (float[n,2] y) {held} {{ y = Gemm<beta=0.0>(x, w, c) }}"
    as_there(text, np.ones((3, 2), np.float32), np.array([NAN, INF], np.float32))


def test_an_op_that_ends_the_process_at_odd_sizes_is_not_tried() -> None:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> '
        "g (float[n,h] x) => (float[n,h] y) { a = Relu(x) y = com.microsoft.Inverse(a) }"
    )
    result = egshape.optimize(made)
    assert result.report.status == "saturated", result.report.notes
    np.testing.assert_allclose(egshape.compile(result)(2 * np.eye(3, dtype=np.float32)), np.eye(3) / 2)
