"""An encoder, or a network on images, in f32, bf16 and f16: sizes open, compiled once by egshape, one process,
alternating runs, least times.

    python -m benchmarks.cpu.narrow [--images] [--width 256] [--heads 4] [--threads 1] [--rounds 12] [--markdown]

Softmax and normalization are computed in f32. The network on images has six residual blocks of two 3x3 convolutions,
of 64, 128 and 256 channels, which lie first. The programs come from JAX (extra ``jax``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import egshape
from benchmarks.tools.machine import measured_on
from benchmarks.tools.timing import Table, sampled, shown

DTYPES = ("float32", "bfloat16", "float16")
SIZES = ((1, 1), (1, 4), (1, 8), (1, 16), (1, 128), (4, 64), (8, 33), (16, 128))
LAYERS = 2
IMAGES = ((1, 56), (1, 112), (1, 224), (4, 112))
"""Batch and side."""
CHANNELS = (64, 64, 128, 128, 256, 256)
Layer = Mapping[str, np.ndarray]


def weights(width: int) -> Sequence[Layer]:
    """Of each layer: query, key, value, output and the two products behind them."""
    rng = np.random.default_rng(0)
    shapes = {**dict.fromkeys("qkvo", (width, width)), "a": (width, 4 * width), "b": (4 * width, width)}
    return [
        {name: rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0])) for name, shape in shapes.items()}
        for _ in range(LAYERS)
    ]


def _normal(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    apart = wide - wide.mean(-1, keepdims=True)
    return (apart * jax.lax.rsqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def encoder(layers: Sequence[Layer], heads: int, x: Any) -> Any:
    """x [batch, length, width], in its dtype."""
    dtype, (batch, length, width) = x.dtype, x.shape
    for layer in layers:
        p = {name: each.astype(dtype) for name, each in layer.items()}
        q, k, v = ((x @ p[name]).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for name in "qkv")
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k).astype(jnp.float32) / np.float32(np.sqrt(width // heads))
        found = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores).astype(dtype), v)
        x = _normal(x + found.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"])
        x = _normal(x + jnp.tanh(x @ p["a"]) @ p["b"])
    return x


def kernels() -> Sequence[Sequence[np.ndarray]]:
    """Of the first convolution, and of each block: the first, the second, and the one beside them."""
    rng = np.random.default_rng(0)

    def kernel(outputs: int, inputs: int, taps: int) -> np.ndarray:
        return rng.standard_normal((outputs, inputs, taps, taps), np.float32) / np.float32(np.sqrt(inputs * taps**2))

    pairs = pairwise((64, *CHANNELS))
    return [[kernel(64, 3, 7)], *([kernel(n, c, 3), kernel(n, n, 3), kernel(n, c, 1)] for c, n in pairs)]


def residual(layers: Sequence[Sequence[np.ndarray]], x: Any) -> Any:
    """x [batch, 3, height, width], in its dtype; [batch, 256]."""

    def convolved(x: Any, kernel: np.ndarray, stride: int) -> Any:
        around = kernel.shape[-1] // 2
        return jax.lax.conv_general_dilated(x, kernel.astype(x.dtype), (stride,) * 2, ((around, around),) * 2)

    x = jax.nn.relu(convolved(x, layers[0][0], 2))
    for one, two, beside in layers[1:]:
        stride = 1 + (one.shape[0] > one.shape[1])
        y = convolved(jax.nn.relu(convolved(x, one, stride)), two, 1)
        x = jax.nn.relu(y + convolved(x, beside, stride))
    return x.mean((2, 3))


def compiled(width: int, heads: int, dtype: str, threads: int) -> Any:
    """The encoder of a dtype as a function of any batch and length."""
    batch, length = export.symbolic_shape("batch, length")
    argument = jax.ShapeDtypeStruct((batch, length, width), jnp.dtype(dtype))
    return _compiled(partial(encoder, weights(width), heads), argument, threads)


def compiled_images(dtype: str, threads: int) -> Any:
    """The network on images of a dtype as a function of any batch, height and width."""
    argument = jax.ShapeDtypeStruct((*export.symbolic_shape("n, 3, h, w"),), jnp.dtype(dtype))
    return _compiled(partial(residual, kernels()), argument, threads)


def _compiled(function: Callable[[Any], Any], argument: Any, threads: int) -> Any:
    made = export.export(jax.jit(function))(argument)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.mlir")
        path.write_text(made.mlir_module())
        graph = egshape.load(path)
    return egshape.compile(egshape.optimize(graph).graph, threads=threads)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 256), ("heads", 4), ("threads", 1), ("rounds", 12)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("images", "markdown"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    functions = {
        dtype: compiled_images(dtype, options.threads)
        if options.images
        else compiled(options.width, options.heads, dtype, options.threads)
        for dtype in DTYPES
    }
    print(measured_on(["jax"], options.threads))
    sizes = "images" if options.images else "tokens"
    table = Table((sizes, *DTYPES, "f32 / bf16", "f32 / f16"), markdown=options.markdown)
    for batch, length in IMAGES if options.images else SIZES:
        shape = (batch, 3, length, length) if options.images else (batch, length, options.width)
        x = np.random.default_rng(1).standard_normal(shape, np.float32)
        inputs = {dtype: x.astype(jnp.dtype(dtype)) for dtype in DTYPES}
        results = [np.asarray(functions[dtype](inputs[dtype]), np.float32) for dtype in DTYPES]
        assert all(np.abs(each - results[0]).max() < 0.2 for each in results), "the results differ"
        runs = {dtype: partial(functions[dtype], inputs[dtype]) for dtype in DTYPES}
        samples = sampled(runs, options.rounds, 1.0, best=True)
        times = [samples.typical(dtype) for dtype in DTYPES]
        ratios = [f"{times[0] / each:.2f}" for each in times[1:]]
        table.row([f"{batch} x {length}", *map(shown, times), *ratios])


if __name__ == "__main__":
    main()
