"""Quantized ops, compiled, against ONNX Runtime: the same bits wherever both compute the same arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import egshape  # noqa: E402
from egshape.adapters.native import compile_function  # noqa: E402

U8, I8, F32, I32 = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT, TensorProto.INT32
KINDS = {"u8": (U8, np.uint8), "i8": (I8, np.int8)}
Inputs = dict[str, tuple[int, Sequence[int | str]]]


class Pair:
    """A model of one node, compiled by us and loaded by ONNX Runtime."""

    def __init__(
        self,
        op: str,
        names: Sequence[str],
        inputs: Inputs,
        constants: dict[str, np.ndarray],
        results: Sequence[tuple[str, int]],
        domain: str = "",
        **attributes: Any,
    ) -> None:
        node = helper.make_node(op, names, [name for name, _ in results], domain=domain, **attributes)
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info(name, *type) for name, type in inputs.items()],
            [helper.make_tensor_value_info(name, dtype, None) for name, dtype in results],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        model = helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        )
        whole = model.SerializeToString()
        loaded = egshape.load(whole, format="onnx")
        self.order = [value.name for value in loaded.inputs]
        self.ours = compile_function(egshape.optimize(loaded, validate=False).graph)
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.theirs = runtime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])

    def results(self, feed: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Our results and theirs."""
        found = self.ours(*(feed[name] for name in self.order))
        return list(found) if isinstance(found, tuple) else [found], self.theirs.run(None, feed)

    def same(self, feed: dict[str, np.ndarray]) -> None:
        """Both give the same bits."""
        for one, two in zip(*self.results(feed), strict=True):
            np.testing.assert_array_equal(one, two, strict=True)


def numbers(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    dtype = KINDS[kind][1]
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("one,two", [("u8", "i8"), ("u8", "u8"), ("i8", "i8")])
@pytest.mark.parametrize("columns", [False, True])
def test_matmul_integer(one: str, two: str, columns: bool) -> None:
    rng = np.random.default_rng(1)
    for k, n in ((7, 50), (64, 3), (33, 1)):
        constants = {"w": numbers(rng, two, k, n)}
        constants["q"] = numbers(rng, two, n) if columns and two == "u8" else np.zeros((), KINDS[two][1])
        pair = Pair(
            "MatMulInteger",
            ["x", "w", "p", "q"],
            {"x": (KINDS[one][0], ["b", "m", k]), "p": (KINDS[one][0], [])},
            constants,
            [("y", I32)],
        )
        for b, m in ((1, 1), (2, 9), (3, 17)):
            pair.same({"x": numbers(rng, one, b, m, k), "p": numbers(rng, one)})


def test_matmul_integer_of_two_inputs() -> None:
    rng = np.random.default_rng(2)
    pair = Pair(
        "MatMulInteger",
        ["x", "y", "p", "q"],
        {"x": (U8, ["m", "k"]), "y": (I8, ["k", "n"]), "p": (U8, []), "q": (I8, [])},
        {},
        [("z", I32)],
    )
    for m, n, k in ((1, 1, 1), (5, 49, 7), (9, 3, 66)):
        pair.same(
            {
                "x": numbers(rng, "u8", m, k),
                "y": numbers(rng, "i8", k, n),
                "p": numbers(rng, "u8"),
                "q": numbers(rng, "i8"),
            }
        )


@pytest.mark.parametrize("two", ["u8", "i8"])
def test_qlinear_matmul(two: str) -> None:
    rng = np.random.default_rng(3)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": numbers(rng, two, 37, 50),
        "ws": np.float32(0.013),
        "wz": np.asarray(3, KINDS[two][1]),
        "ys": np.float32(0.6),
        "yz": np.uint8(131),
    }
    constants = {name: np.asarray(value) for name, value in constants.items()}
    pair = Pair(
        "QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], {"x": (U8, ["m", 37])}, constants, [("y", U8)]
    )
    for m in (1, 8, 33):
        pair.same({"x": numbers(rng, "u8", m, 37)})


@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_conv_integer_and_qlinear_conv(kind: str) -> None:
    rng = np.random.default_rng(4)
    shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}
    w = numbers(rng, kind, 9, 5, 3, 3)
    zero = np.asarray(115 if kind == "u8" else 0, KINDS[kind][1])
    plain = Pair(
        "ConvInteger",
        ["x", "w", "p", "q"],
        {"x": (U8, ["n", 5, "h", "w1"]), "p": (U8, [])},
        {"w": w, "q": zero},
        [("y", I32)],
        **shape,
    )
    scales = {
        "xs": np.float32(0.02),
        "ws": np.float32(0.01),
        "ys": np.float32(0.9),
        "yz": np.uint8(128),
        "xz": np.uint8(117),
        "bias": rng.integers(-900, 900, 9).astype(np.int32),
        "w": w,
        "q": zero,
    }
    whole = Pair(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "q", "ys", "yz", "bias"],
        {"x": (U8, ["n", 5, "h", "w1"])},
        {name: np.asarray(value) for name, value in scales.items()},
        [("y", U8)],
        **shape,
    )
    for n, h, width in ((1, 3, 3), (2, 9, 20), (1, 1, 1)):
        x = numbers(rng, "u8", n, 5, h, width)
        plain.same({"x": x, "p": numbers(rng, "u8")})
        whole.same({"x": x})


def test_dynamic_quantize_linear() -> None:
    rng = np.random.default_rng(5)
    pair = Pair("DynamicQuantizeLinear", ["x"], {"x": (F32, ["m", "n"])}, {}, [("y", U8), ("s", F32), ("z", U8)])
    for m, n in ((1, 1), (3, 50), (17, 33)):
        for scale, shift in ((1.0, 0.0), (1e-3, 5.0), (30.0, -100.0), (0.0, 0.0)):
            pair.same({"x": floats(rng, m, n) * np.float32(scale) + np.float32(shift)})


# -- DynamicQuantizeLSTM ----------------------------------------------------------------------------------------------


def lstm(
    rng: np.random.Generator, kind: str, columns: bool, bias: bool, way: str, width: int, hidden: int, **attributes: Any
) -> Pair:
    """The op with random weights: scales a direction, or one a column; zero points as ONNX Runtime takes them."""
    ways = 2 if way == "bidirectional" else 1
    shape = (ways, 4 * hidden) if columns else (ways,)
    constants = {name: numbers(rng, kind, ways, size, 4 * hidden) for name, size in (("w", width), ("r", hidden))}
    for name in ("w", "r"):
        constants[f"{name}s"] = (rng.random(shape) * 0.002 + 0.001).astype(np.float32)
        constants[f"{name}z"] = np.full(shape, 0 if kind == "i8" else 128, KINDS[kind][1])
    if bias:
        constants["b"] = floats(rng, ways, 8 * hidden) * np.float32(0.1)
    names = ["x", "w", "r", "b" if bias else "", "", "h", "c", "", "ws", "wz", "rs", "rz"]
    state: tuple[int, Sequence[int | str]] = (F32, [ways, "b", hidden])
    return Pair(
        "DynamicQuantizeLSTM",
        names,
        {"x": (F32, ["t", "b", width]), "h": state, "c": state},
        constants,
        [("y", F32), ("yh", F32), ("yc", F32)],
        domain="com.microsoft",
        direction=way,
        hidden_size=hidden,
        **attributes,
    )


def lstm_feed(
    rng: np.random.Generator, steps: int, batch: int, ways: int, width: int, hidden: int
) -> dict[str, np.ndarray]:
    return {
        "x": floats(rng, steps, batch, width),
        "h": floats(rng, ways, batch, hidden) * np.float32(0.3),
        "c": floats(rng, ways, batch, hidden) * np.float32(0.3),
    }


@pytest.mark.parametrize("kind", ["u8", "i8"])
@pytest.mark.parametrize(
    "columns,bias,way", [(False, True, "bidirectional"), (True, True, "forward"), (False, False, "reverse")]
)
def test_lstm_has_the_same_bits(kind: str, columns: bool, bias: bool, way: str) -> None:
    """With activations whose arithmetic both do alike, quantization, products and sums agree bit for bit."""
    rng = np.random.default_rng(6)
    ways = 2 if way == "bidirectional" else 1
    pair = lstm(rng, kind, columns, bias, way, 7, 9, activations=["HardSigmoid", "Softsign", "Softsign"] * ways)
    for steps, batch in ((1, 1), (12, 3), (5, 1)):
        pair.same(lstm_feed(rng, steps, batch, ways, 7, 9))


def test_lstm_with_its_own_activations() -> None:
    """Sigmoid and Tanh are approximated differently, by about a unit of the last place."""
    rng = np.random.default_rng(7)
    pair = lstm(rng, "i8", False, True, "forward", 33, 40)
    for steps, batch in ((1, 1), (3, 2)):
        for one, two in zip(*pair.results(lstm_feed(rng, steps, batch, 1, 33, 40)), strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=2e-6)
