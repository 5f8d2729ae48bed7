"""Compiled graphs against ONNX Runtime on the CPU: one process, alternating runs, one thread, medians and ratios.

    python -m benchmarks.cpu [--seconds 1.0] [--only softmax]

Both sides get the same numbers; results are compared before anything is timed. The graphs have symbolic sizes and are
compiled once; ONNX Runtime has symbolic sizes too and all of its optimizations."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

import egshape
from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value

B, S = symbol("b"), symbol("s")


class Net:
    """Builds a graph with few words."""

    def __init__(self) -> None:
        self.b = BlockBuilder()

    def input(self, name: str, shape: Sequence[Dim | int], dtype: str = "f32") -> Value:
        names = [str(d) if isinstance(d, Dim) else None for d in shape]
        return self.b.arg(name, dtype, [None if isinstance(d, Dim) else d for d in shape], names)

    def weight(self, array: np.ndarray) -> Value:
        return self.b.one("constant", (), {"value": array})

    def op(self, name: str, *xs: Value, **attrs: object) -> Value:
        return self.b.one(name, xs, attrs)

    def like(self, x: Value, target: Value, dims: Sequence[int]) -> Value:
        return self.op("broadcast_in_dim", x, dims=tuple(dims), shape=target.type.dims)

    def scalar(self, value: float, target: Value) -> Value:
        return self.like(self.weight(np.array(value, np.float32)), target, ())

    def last(self, x: Value, target: Value) -> Value:
        """A vector along the last axis."""
        return self.like(x, target, (target.type.rank - 1,))

    def reduce(self, x: Value, name: str) -> Value:
        inner = self.b.child()
        one, two = inner.arg(None, "f32", []), inner.arg(None, "f32", [])
        body = inner.finish([inner.one(name, (one, two))])
        start = self.weight(np.array(-np.inf if name == "maximum" else 0, np.float32))
        (out,) = self.b.add("reduce", (x, start), {"dims": (x.type.rank - 1,)}, regions=(body,))
        return self.like(out, x, range(x.type.rank - 1))

    def dot(self, x: Value, y: Value, batch: int, contract: tuple[int, int]) -> Value:
        axes = tuple(range(batch))
        return self.op("dot_general", x, y, lhs_batch=axes, rhs_batch=axes, lhs_contract=(contract[0],),
                       rhs_contract=(contract[1],), dtype="f32")

    def softmax(self, x: Value) -> Value:
        e = self.op("exponential", self.op("subtract", x, self.reduce(x, "maximum")))
        return self.op("divide", e, self.reduce(e, "add"))

    def layernorm(self, x: Value, gain: Value, bias: Value) -> Value:
        size = self.scalar(float(x.type.dims[-1].const or 0), x)
        centred = self.op("subtract", x, self.op("divide", self.reduce(x, "add"), size))
        variance = self.op("divide", self.reduce(self.op("multiply", centred, centred), "add"), size)
        scale = self.op("rsqrt", self.op("add", variance, self.scalar(1e-5, x)))
        return self.op("add", self.op("multiply", self.op("multiply", centred, scale), self.last(gain, x)),
                       self.last(bias, x))

    def gelu(self, x: Value) -> Value:
        inner = self.op("erf", self.op("multiply", x, self.scalar(math.sqrt(0.5), x)))
        return self.op("multiply", self.op("multiply", x, self.scalar(0.5, x)),
                       self.op("add", inner, self.scalar(1.0, x)))

    def dense(self, x: Value, w: Value, bias: Value) -> Value:
        y = self.dot(x, w, 0, (x.type.rank - 1, 0))
        return self.op("add", y, self.last(bias, y))

    def graph(self, *results: Value) -> Graph:
        return Graph("benchmark", self.b.finish(results), tuple(f"out{k}" for k in range(len(results))))


class Twin:
    """The same network as an ONNX model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, name: str, shape: Sequence[str | int]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *xs: str, **attrs: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(xs), [name], **attrs))
        return name

    def gelu(self, x: str) -> str:
        root, one, half = (self.weight(np.array(v, np.float32)) for v in (math.sqrt(2), 1, 0.5))
        inner = self.op("Add", self.op("Erf", self.op("Div", x, root)), one)
        return self.op("Mul", self.op("Mul", x, inner), half)

    def session(self, result: str, threads: int) -> ort.InferenceSession:
        out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "twin", self.inputs, [out], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    bytes: int = 0


def _case(name: str, graph: Graph, session: ort.InferenceSession, arrays: Sequence[np.ndarray],
          traffic: int = 0) -> Case:
    function = egshape.compile(egshape.optimize(graph, validate=False, explain=False).graph, target="llvm")
    feed = {each.name: array for each, array in zip(session.get_inputs(), arrays, strict=True)}
    (wanted,), found = session.run(None, feed), function(*arrays)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4)
    return Case(name, lambda: function(*arrays), lambda: session.run(None, feed), traffic)


def softmax_bias(rows: int, width: int) -> Case:
    """softmax(x + b) over rows."""
    rng = np.random.default_rng(0)
    net, twin = Net(), Twin()
    x, b = net.input("x", [B, S]), net.input("y", [S])
    graph = net.graph(net.softmax(net.op("add", x, net.last(b, x))))
    session = twin.session(twin.op("Softmax", twin.op("Add", twin.input("x", ["b", "s"]), twin.input("y", ["s"])),
                                   axis=-1), 1)
    arrays = [rng.normal(size=(rows, width)).astype(np.float32), rng.normal(size=width).astype(np.float32)]
    return _case(f"softmax(x+b) {rows}x{width}", graph, session, arrays, 8 * rows * width)


def layernorm_gelu(rows: int, width: int) -> Case:
    """gelu(layernorm(x))."""
    rng = np.random.default_rng(0)
    gain, bias = (rng.normal(size=width).astype(np.float32) for _ in range(2))
    net, twin = Net(), Twin()
    x = net.input("x", [B, width])
    graph = net.graph(net.gelu(net.layernorm(x, net.weight(gain), net.weight(bias))))
    y = twin.op("LayerNormalization", twin.input("x", ["b", width]), twin.weight(gain), twin.weight(bias), axis=-1)
    arrays = [rng.normal(size=(rows, width)).astype(np.float32)]
    return _case(f"layernorm+gelu {rows}x{width}", graph, twin.session(twin.gelu(y), 1), arrays, 8 * rows * width)


def encoder(layers: int, hidden: int, heads: int, batch: int, length: int) -> Case:
    """A transformer encoder (post-norm, gelu, no mask) with random weights."""
    rng = np.random.default_rng(0)
    net, twin = Net(), Twin()
    x, y = net.input("x", [B, S, hidden]), twin.input("x", ["b", "s", hidden])
    depth = hidden // heads

    def weights(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / math.sqrt(shape[0])).astype(np.float32)

    def both(array: np.ndarray) -> tuple[Value, str]:
        return net.weight(array), twin.weight(array)

    def dense(a: Value, c: str, inner: int, outer: int) -> tuple[Value, str]:
        (w, v), (b, d) = both(weights(inner, outer)), both(weights(outer))
        return net.dense(a, w, b), twin.op("Add", twin.op("MatMul", c, v), d)

    def norm(a: Value, c: str) -> tuple[Value, str]:
        (g, h), (b, d) = both(weights(hidden)), both(weights(hidden))
        return net.layernorm(a, g, b), twin.op("LayerNormalization", c, h, d, axis=-1)

    split = twin.weight(np.array([0, 0, heads, depth], np.int64))
    merge = twin.weight(np.array([0, 0, hidden], np.int64))
    for _ in range(layers):
        parts = []
        for k in range(3):
            p, q = dense(x, y, hidden, hidden)
            p = net.op("reshape", p, shape=(B, S, const(heads), const(depth)))
            order = (0, 2, 3, 1) if k == 1 else (0, 2, 1, 3)
            parts.append((net.op("transpose", p, permutation=order),
                          twin.op("Transpose", twin.op("Reshape", q, split), perm=order)))
        (q1, q2), (k1, k2), (v1, v2) = parts
        score = net.dot(q1, k1, 2, (3, 2))
        score = net.op("divide", score, net.scalar(math.sqrt(depth), score))
        score2 = twin.op("Div", twin.op("MatMul", q2, k2), twin.weight(np.array(math.sqrt(depth), np.float32)))
        mixed = net.op("transpose", net.dot(net.softmax(score), v1, 2, (3, 2)), permutation=(0, 2, 1, 3))
        mixed = net.op("reshape", mixed, shape=(B, S, const(hidden)))
        mixed2 = twin.op("Transpose", twin.op("MatMul", twin.op("Softmax", score2, axis=-1), v2), perm=(0, 2, 1, 3))
        a, c = dense(mixed, twin.op("Reshape", mixed2, merge), hidden, hidden)
        x, y = norm(net.op("add", x, a), twin.op("Add", y, c))
        a, c = dense(x, y, hidden, 4 * hidden)
        a, c = dense(net.gelu(a), twin.gelu(c), 4 * hidden, hidden)
        x, y = norm(net.op("add", x, a), twin.op("Add", y, c))
    arrays = [rng.normal(size=(batch, length, hidden)).astype(np.float32)]
    return _case(f"encoder {layers}x{hidden} batch {batch} seq {length}", net.graph(x), twin.session(y, 1), arrays)


def _time(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(case: Case, seconds: float) -> tuple[float, float]:
    """Medians of alternating runs."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        case.ours(), case.theirs()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        times[0].append(_time(case.ours))
        times[1].append(_time(case.theirs))
    return statistics.median(times[0]), statistics.median(times[1])


CASES: tuple[Callable[[], Case], ...] = (
    lambda: softmax_bias(256, 1024), lambda: softmax_bias(8192, 1024), lambda: softmax_bias(64, 33),
    lambda: layernorm_gelu(256, 768), lambda: layernorm_gelu(8192, 768),
    lambda: encoder(2, 64, 4, 1, 16), lambda: encoder(6, 384, 6, 1, 16), lambda: encoder(6, 384, 6, 1, 64),
    lambda: encoder(6, 384, 6, 1, 128),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{'case':<36} {'egshape':>10} {'onnxruntime':>12} {'ratio':>7} {'GB/s':>6}")
    for make in CASES:
        case = make()
        if options.only not in case.name:
            continue
        ours, theirs = measure(case, options.seconds)
        speed = f"{case.bytes / ours / 1e9:6.1f}" if case.bytes else ""
        print(f"{case.name:<36} {ours * 1e6:8.1f}us {theirs * 1e6:10.1f}us {theirs / ours:6.2f}x {speed}", flush=True)


if __name__ == "__main__":
    main()
