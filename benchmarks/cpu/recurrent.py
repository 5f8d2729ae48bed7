"""Recurrent networks over texts of different lengths against ONNX Runtime: sizes open, compiled once.

    python -m benchmarks.cpu.recurrent [--only NAME] [--at "32 x"] [--threads 1] [--seconds 1.5] [--markdown]

A batch is padded to its longest text, as taggers do it. One process, alternating runs, medians; results are compared
before anything is timed (``benchmarks.cpu.beside_ort``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cpu.beside_ort import Case, Point, run

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def tagger(kind: str, layers: int = 2, width: int = 128, hidden: int = 128, tags: int = 32) -> bytes:
    """Layers in both directions over x [time, batch, width], and a product: scores [time, batch, tags]."""
    rng, nodes, weights = np.random.default_rng(0), [], []

    def constant(*shape: int) -> str:
        array = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
        return weights[-1].name

    rows, x, inputs = GATES[kind] * hidden, "x", width
    weights.append(numpy_helper.from_array(np.array([0, 0, -1], np.int64), "flat"))
    for k in range(layers):
        sides = [constant(2, rows, inputs), constant(2, rows, hidden), constant(2, 2 * rows)]
        attrs = {"hidden_size": hidden, "direction": "bidirectional"} | (
            {"linear_before_reset": 1} if kind == "GRU" else {}
        )
        nodes.append(helper.make_node(kind, [x, *sides, "lengths"], [f"y{k}"], **attrs))
        nodes.append(helper.make_node("Transpose", [f"y{k}"], [f"t{k}"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"t{k}", "flat"], [f"f{k}"]))
        x, inputs = f"f{k}", 2 * hidden
    nodes.append(helper.make_node("MatMul", [x, constant(inputs, tags)], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "tagger",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", "batch", width]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["time", "batch", tags])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


def _texts() -> Sequence[Point]:
    """Batches of texts whose lengths are spread between a fifth of the longest one and all of it."""
    found = []
    for batch, longest in ((1, 24), (4, 24), (5, 40), (8, 32), (16, 40), (32, 48)):
        rng = np.random.default_rng(batch)
        lengths = rng.integers(max(1, longest // 5), longest + 1, batch).astype(np.int32)
        lengths[rng.integers(batch)] = longest
        x = rng.standard_normal((longest, batch, 128), np.float32)
        found.append(Point(f"{batch} x {longest}", {"x": x, "lengths": lengths}))
    return found


CASES = tuple(Case(f"{kind} tagger", partial(tagger, kind), _texts) for kind in GATES)


if __name__ == "__main__":
    run(CASES, __doc__)
