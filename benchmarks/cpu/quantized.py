"""Dynamically quantized layers against ONNX Runtime: sizes open, compiled once.

    python -m benchmarks.cpu.quantized [--at "128 rows"] [--threads 1] [--seconds 1.5] [--markdown]

Each layer is DynamicQuantizeLinear, MatMulInteger of the bytes with weights of i8, a scale for each channel, a bias.
One process, alternating runs, medians; results are compared before anything is timed (``benchmarks.cpu.beside_ort``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cpu.beside_ort import Case, Point, run

WIDTHS = (256, 1024, 256)


def layers() -> bytes:
    """A network of WIDTHS over x [rows, 256], with Relu between its layers."""
    rng, nodes, weights, x = np.random.default_rng(0), [], [], "x"

    def constant(array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
        return str(weights[-1].name)

    for k, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        weight = constant(rng.integers(-127, 128, (inputs, outputs)).astype(np.int8))
        scale = constant((rng.random(outputs) / (127 * np.sqrt(inputs))).astype(np.float32))
        bias = constant(rng.standard_normal(outputs).astype(np.float32))
        nodes += [
            helper.make_node("DynamicQuantizeLinear", [x], [f"q{k}", f"s{k}", f"z{k}"]),
            helper.make_node("MatMulInteger", [f"q{k}", weight, f"z{k}"], [f"i{k}"]),
            helper.make_node("Cast", [f"i{k}"], [f"f{k}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"s{k}", scale], [f"c{k}"]),
            helper.make_node("Mul", [f"f{k}", f"c{k}"], [f"m{k}"]),
            helper.make_node("Add", [f"m{k}", bias], [f"a{k}"]),
            helper.make_node("Relu", [f"a{k}"], [f"r{k}"]),
        ]
        x = f"r{k}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "quantized",
        [value("x", TensorProto.FLOAT, ["rows", WIDTHS[0]])],
        [value(x, TensorProto.FLOAT, ["rows", WIDTHS[-1]])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def _points() -> Sequence[Point]:
    rng = np.random.default_rng(1)
    rows = (1, 4, 16, 128, 512)
    return [Point(f"{count} rows", {"x": rng.standard_normal((count, WIDTHS[0]), np.float32)}) for count in rows]


CASES = (Case("quantized", layers, _points),)


if __name__ == "__main__":
    run(CASES, __doc__)
