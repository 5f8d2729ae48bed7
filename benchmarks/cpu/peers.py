"""The same networks in other frameworks: each peer replays the layers of a ``Network`` in its own terms, in those that
its fusions recognise, and gives a function of numpy arrays."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu.networks import Array, Built
from egshape.frontends.builder import Layer
from egshape.ir.graph import Value

Run = Callable[..., Sequence[Array]]


def translated(item: Any, known: Mapping[Value, Any]) -> Any:
    """An argument of a layer with the peer's values in place of ours."""
    if isinstance(item, Value):
        return known[item]
    if isinstance(item, list | tuple):
        return [translated(each, known) for each in item]
    return item


def replay(built: Built, peer: Any) -> dict[str, Any]:
    """Ask a peer for every layer, by name; its outputs."""
    known: dict[Value, Any] = {}
    for layer in built.network.layers:
        peer.layer = layer
        args = [translated(item, known) for item in layer.args]
        options = {key: translated(item, known) for key, item in layer.options.items()}
        known[layer.result] = getattr(peer, layer.name)(*args, **options)
    return {name: known[value] for name, value in built.outputs.items()}


# -- ONNX Runtime --------------------------------------------------------------------------------------------------


class OnnxTwin:
    """An ONNX model, of opset 17, written as exporters write it."""

    def __init__(self) -> None:
        import onnx

        self._onnx = onnx
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.weights: list[Any] = []
        self.layer: Layer
        self._arrays: dict[str, Array] = {}
        self._split: dict[str, str] = {}
        """Heads by what they were transposed from, so that keys can be transposed once."""

    def _op(self, kind: str, *xs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, list(xs), [name], name=f"{kind}_{name}", **attrs))
        return name

    def _ints(self, *numbers: int) -> str:
        return self.weight(np.array(numbers, np.int64))

    def _number(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def input(self, name: str, shape: Sequence[Any], dtype: str = "f32") -> str:
        kind = {"f32": self._onnx.TensorProto.FLOAT, "i64": self._onnx.TensorProto.INT64}[dtype]
        self.inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def weight(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(self._onnx.numpy_helper.from_array(array, name))
        self._arrays[name] = array
        return name

    def add(self, x: str, y: str) -> str:
        if x in self._arrays and y in self._arrays:
            return self.weight(self._arrays[x] + self._arrays[y])
        return self._op("Add", x, y)

    def multiply(self, x: str, y: str) -> str:
        return self._op("Mul", x, y)

    def relu(self, x: str) -> str:
        return self._op("Relu", x)

    def tanh(self, x: str) -> str:
        return self._op("Tanh", x)

    def silu(self, x: str) -> str:
        return self._op("Mul", x, self._op("Sigmoid", x))

    def gelu(self, x: str) -> str:
        inner = self._op("Add", self._op("Erf", self._op("Div", x, self._number(math.sqrt(2)))), self._number(1.0))
        return self._op("Mul", self._op("Mul", x, inner), self._number(0.5))

    def softmax(self, x: str) -> str:
        return self._op("Softmax", x, axis=-1)

    def normalize(self, x: str, gain: str, bias: str, epsilon: float = 1e-5) -> str:
        return self._op("LayerNormalization", x, gain, bias, axis=-1, epsilon=epsilon)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        if x in self._arrays:
            return self.weight(self._arrays[x].reshape(shape))
        return self._op("Reshape", x, self._ints(*shape))

    def transpose(self, x: str, order: Sequence[int]) -> str:
        return self._op("Transpose", x, perm=list(order))

    def concatenate(self, xs: Sequence[str], axis: int) -> str:
        return self._op("Concat", *xs, axis=axis)

    def take(self, table: str, indices: str) -> str:
        return self._op("Gather", table, indices, axis=0)

    def rows(self, table: str, x: str, axis: int) -> str:
        count = self._op("Gather", self._op("Shape", x), self._ints(axis), axis=0)
        return self._op("Slice", table, self._ints(0), count, self._ints(0))

    def matmul(self, x: str, y: str) -> str:
        return self._op("MatMul", x, y)

    def _last(self, axis: int) -> int:
        """A static size of the value that the layer gives."""
        return self.layer.result.type.dims[axis].const or 0

    def split_heads(self, x: str, heads: int) -> str:
        split = self._op("Reshape", x, self._ints(0, 0, heads, self._last(3)))
        out = self._op("Transpose", split, perm=[0, 2, 1, 3])
        self._split[out] = split
        return out

    def merge_heads(self, x: str) -> str:
        return self._op("Reshape", self._op("Transpose", x, perm=[0, 2, 1, 3]), self._ints(0, 0, self._last(2)))

    def attend(self, q: str, k: str, v: str, mask: str | None = None) -> str:
        split = self._split.get(k)
        turned = self._op("Transpose", split or k, perm=[0, 2, 3, 1] if split else [0, 1, 3, 2])
        scores = self._op("Div", self._op("MatMul", q, turned), self._number(math.sqrt(self._last(3))))
        if mask is not None:
            scores = self._op("Add", scores, mask)
        return self._op("MatMul", self._op("Softmax", scores, axis=-1), v)

    def padding_mask(self, keep: str) -> str:
        wide = self._op("Unsqueeze", self._op("Unsqueeze", keep, self._ints(1)), self._ints(2))
        number = self._op("Cast", wide, to=int(self._onnx.TensorProto.FLOAT))
        return self._op("Mul", self._op("Sub", self._number(1.0), number), self._number(-10000.0))

    def convolve(self, x: str, kernel: str, stride: int = 1, padding: int = 0, groups: int = 1) -> str:
        return self._op("Conv", x, kernel, strides=[stride] * 2, pads=[padding] * 4, group=groups)

    def max_pool(self, x: str, window: int, stride: int, padding: int = 0) -> str:
        return self._op("MaxPool", x, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def mean_pool(self, x: str) -> str:
        return self._op("Flatten", self._op("GlobalAveragePool", x), axis=1)

    def model(self, outputs: Mapping[str, str], ranks: Mapping[str, int]) -> Any:
        """The model of the outputs, whose sizes are left open."""
        helper = self._onnx.helper
        named = []
        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name], name=f"Identity_{name}"))
            named.append(helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, [None] * ranks[name]))
        used = {x for node in self.nodes for x in node.input}
        weights = [each for each in self.weights if each.name in used]
        graph = helper.make_graph(self.nodes, "twin", self.inputs, named, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def onnx_model(built: Built) -> Any:
    """The twin of a network as an ONNX model."""
    twin = OnnxTwin()
    return twin.model(replay(built, twin), {name: value.type.rank for name, value in built.outputs.items()})


def onnxruntime(built: Built, threads: int) -> Run:
    """ONNX Runtime on the CPU with all of its optimizations."""
    return _session(onnx_model(built), threads)


def onnxruntime_fused(built: Built, threads: int) -> Run:
    """The same after ONNX Runtime's offline optimizer for transformers, which makes one op of each attention.
    Raises LookupError for a network without heads."""
    split = next((layer for layer in built.network.layers if layer.name == "split_heads"), None)
    if split is None:
        raise LookupError("no attention")
    import onnx
    from onnxruntime.transformers import optimizer

    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    heads = split.args[1]
    width = heads * (split.result.type.dims[3].const or 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(onnx_model(built), path)
        fused = optimizer.optimize_model(str(path), "bert", num_heads=heads, hidden_size=width, opt_level=0).model
    return _session(fused, threads)


def _session(model: Any, threads: int) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.add_session_config_entry("session.force_spinning_stop", "1")  # else its threads run in our turns too
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(*arrays: Array) -> Sequence[Array]:
        return list(session.run(None, dict(zip(names, arrays, strict=True))))

    return run


# -- JAX -----------------------------------------------------------------------------------------------------------


class JaxTwin:
    """The network in ``jax.numpy``; weights are arguments of the compiled function."""

    def __init__(self, inputs: Mapping[str, Any], weights: Sequence[Any]) -> None:
        import jax

        self.layer: Layer
        self._jax, self._np = jax, jax.numpy
        self._inputs, self._weights = inputs, iter(weights)

    def input(self, name: str, shape: Sequence[Any], dtype: str = "f32") -> Any:
        return self._inputs[name]

    def weight(self, array: Array) -> Any:
        return next(self._weights)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def relu(self, x: Any) -> Any:
        return self._jax.nn.relu(x)

    def tanh(self, x: Any) -> Any:
        return self._np.tanh(x)

    def silu(self, x: Any) -> Any:
        return self._jax.nn.silu(x)

    def gelu(self, x: Any) -> Any:
        return self._jax.nn.gelu(x, approximate=False)

    def softmax(self, x: Any) -> Any:
        return self._jax.nn.softmax(x, axis=-1)

    def normalize(self, x: Any, gain: Any, bias: Any, epsilon: float = 1e-5) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * self._jax.lax.rsqrt(variance + epsilon) * gain + bias

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return x.transpose(order)

    def concatenate(self, xs: Sequence[Any], axis: int) -> Any:
        return self._np.concatenate(xs, axis)

    def take(self, table: Any, indices: Any) -> Any:
        return self._np.take(table, indices, axis=0, mode="clip")

    def rows(self, table: Any, x: Any, axis: int) -> Any:
        return table[: x.shape[axis]]

    def matmul(self, x: Any, y: Any) -> Any:
        return x @ y

    def split_heads(self, x: Any, heads: int) -> Any:
        return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)

    def merge_heads(self, x: Any) -> Any:
        b, h, s, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, s, h * d)

    def attend(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        scores = self._np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
        weights = self.softmax(scores if mask is None else scores + mask)
        return self._np.einsum("bhqk,bhkd->bhqd", weights, v)

    def padding_mask(self, keep: Any) -> Any:
        return (1.0 - keep[:, None, None, :].astype("float32")) * -10000.0

    def convolve(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return self._jax.lax.conv_general_dilated(
            x, kernel, (stride,) * 2, [(padding, padding)] * 2, feature_group_count=groups
        )

    def max_pool(self, x: Any, window: int, stride: int, padding: int = 0) -> Any:
        pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        return self._jax.lax.reduce_window(
            x, -math.inf, self._jax.lax.max, (1, 1, window, window), (1, 1, stride, stride), pads
        )

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))


def _names(built: Built) -> list[str]:
    return [layer.args[0] for layer in built.network.layers if layer.name == "input"]


def _weights(built: Built) -> list[Array]:
    return [layer.args[0] for layer in built.network.layers if layer.name == "weight"]


def _start_jax(threads: int) -> Any:
    """The library, its CPU client made while the process has so many CPUs: that many threads it takes."""
    import jax as library

    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:threads])
    try:
        library.devices()
    finally:
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), every)
    return library


def jax(built: Built, threads: int) -> Run:
    """JAX on the CPU: compiled anew for each shape."""
    library = _start_jax(threads)
    weights = [library.device_put(each) for each in _weights(built)]
    names = _names(built)

    def network(weights: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any]:
        return list(replay(built, JaxTwin(inputs, weights)).values())

    compiled = library.jit(network)

    def run(*arrays: Array) -> Sequence[Array]:
        return [np.asarray(each) for each in compiled(weights, dict(zip(names, arrays, strict=True)))]

    return run


# -- PyTorch -------------------------------------------------------------------------------------------------------


class TorchTwin:
    """The network in PyTorch, with its own fused attention and normalization."""

    def __init__(self) -> None:
        import torch

        self._torch, self._f = torch, torch.nn.functional

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def relu(self, x: Any) -> Any:
        return self._f.relu(x)

    def tanh(self, x: Any) -> Any:
        return self._torch.tanh(x)

    def silu(self, x: Any) -> Any:
        return self._f.silu(x)

    def gelu(self, x: Any) -> Any:
        return self._f.gelu(x)

    def softmax(self, x: Any) -> Any:
        return self._f.softmax(x, -1)

    def normalize(self, x: Any, gain: Any, bias: Any, epsilon: float = 1e-5) -> Any:
        return self._f.layer_norm(x, x.shape[-1:], gain, bias, epsilon)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(order)

    def concatenate(self, xs: Sequence[Any], axis: int) -> Any:
        return self._torch.cat(xs, axis)

    def take(self, table: Any, indices: Any) -> Any:
        return self._f.embedding(indices, table)

    def rows(self, table: Any, x: Any, axis: int) -> Any:
        return table[: x.shape[axis]]

    def matmul(self, x: Any, y: Any) -> Any:
        return x @ y

    def split_heads(self, x: Any, heads: int) -> Any:
        return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(1, 2)

    def merge_heads(self, x: Any) -> Any:
        b, h, s, d = x.shape
        return x.transpose(1, 2).reshape(b, s, h * d)

    def attend(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return self._f.scaled_dot_product_attention(q, k, v, mask)

    def padding_mask(self, keep: Any) -> Any:
        return (1.0 - keep[:, None, None, :].float()) * -10000.0

    def convolve(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return self._f.conv2d(x, kernel, None, stride, padding, 1, groups)

    def max_pool(self, x: Any, window: int, stride: int, padding: int = 0) -> Any:
        return self._f.max_pool2d(x, window, stride, padding)

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))


def torch(built: Built, threads: int, *, compiled: bool = False) -> Run:
    """PyTorch, eager or through ``torch.compile(dynamic=True)``."""
    import torch as library

    library.set_num_threads(threads)
    names: dict[str, Any] = {}
    exec(script(built), names)
    twin, network = TorchTwin(), names["network"]

    class Module(library.nn.Module):  # type: ignore[misc, name-defined]
        """The network; its weights are parameters, so that their sizes are static for the compiler."""

        def __init__(self) -> None:
            super().__init__()
            arrays = [layer.args[0] for layer in built.network.layers if layer.name == "weight"]
            self.weights = library.nn.ParameterList(
                [library.nn.Parameter(library.from_numpy(each), requires_grad=False) for each in arrays]
            )

        def forward(self, *inputs: Any) -> Any:
            return network(twin, self.weights, inputs)

    module = Module().eval()
    chosen = library.compile(module, dynamic=True) if compiled else module

    def run(*arrays: Array) -> Sequence[Array]:
        with library.inference_mode():
            results = chosen(*(library.from_numpy(each) for each in arrays))
        return [each.numpy() for each in results]

    return run


def torch_compile(built: Built, threads: int) -> Run:
    """``torch.compile(dynamic=True)``."""
    return torch(built, threads, compiled=True)


def script(built: Built) -> str:
    """The layers as straight Python, ``network(peer, weights, inputs)``, which a tracing compiler reads without
    seeing how they are kept here."""
    known: dict[Value, str] = {}
    counts = {"input": 0, "weight": 0}

    def shown(item: Any) -> str:
        if isinstance(item, Value):
            return known[item]
        return f"[{', '.join(map(shown, item))}]" if isinstance(item, list | tuple) else repr(item)

    lines = ["def network(peer, weights, inputs):"]
    for number, layer in enumerate(built.network.layers):
        if layer.name in counts:
            code = f"{layer.name}s[{counts[layer.name]}]"
            counts[layer.name] += 1
        else:
            options = [f"{key}={shown(item)}" for key, item in layer.options.items()]
            code = f"peer.{layer.name}({', '.join([*map(shown, layer.args), *options])})"
        known[layer.result] = f"v{number}"
        lines.append(f"    v{number} = {code}")
    return "\n".join([*lines, f"    return [{', '.join(known[value] for value in built.outputs.values())}]\n"])


PEERS: dict[str, Callable[[Built, int], Run]] = {
    "onnxruntime": onnxruntime,
    "onnxruntime.fused": onnxruntime_fused,
    "jax": jax,
    "torch": torch,
    "torch.compile": torch_compile,
}
"""How each peer is made, by name."""


NEEDS = {"onnxruntime.fused": ("onnxruntime", "sympy"), "torch.compile": ("torch",)}
"""Packages of a peer that is not a package of its own; ONNX Runtime's transformer optimizer infers shapes by sympy."""


def installed() -> list[str]:
    """The peers that can be made here."""
    return [
        name for name in PEERS if all(importlib.util.find_spec(each) is not None for each in NEEDS.get(name, (name,)))
    ]
