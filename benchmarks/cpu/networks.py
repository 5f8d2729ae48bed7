"""The networks of the CPU benchmark, with random weights: built once, run at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from egshape.frontends.builder import Network
from egshape.ir.graph import Graph, Value

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Built:
    """A network as a graph, and as the list of layers that it was made of."""

    network: Network
    outputs: Mapping[str, Value]
    draw: Callable[[np.random.Generator, Mapping[str, int]], Sequence[Array]]
    """Inputs for sizes of the symbols, in input order."""

    def graph(self) -> Graph:
        """The graph, not optimized."""
        return self.network.graph(**self.outputs)

    def arrays(self, sizes: Mapping[str, int]) -> list[Array]:
        """The inputs for some sizes, the same at every call."""
        return list(self.draw(np.random.default_rng(0), sizes))


@dataclass(frozen=True)
class Point:
    """Sizes at which a network is timed; goal: how many times faster than ONNX Runtime; copied: the bytes that its
    inputs and outputs take, where it is bound by memory."""

    sizes: Mapping[str, int]
    goal: float | None = None
    copied: int = 0


@dataclass(frozen=True)
class Workload:
    """A network, where it is timed, and the facts about its sizes that a user could state."""

    name: str
    build: Callable[[], Built]
    points: tuple[Point, ...]
    facts: tuple[str, ...] = ()
    quick: bool = field(default=True)
    """False for those that take minutes to prepare."""

    def label(self, point: Point) -> str:
        """The row's name in the table."""
        return f"{self.name}, " + " ".join(f"{name} {size}" for name, size in point.sizes.items())


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def softmax_bias() -> Built:
    """softmax(x + y) over rows of any length."""
    net = Network("softmax_bias")
    out = net.softmax(net.add(net.input("x", ["rows", "width"]), net.input("y", ["width"])))
    return Built(net, {"out": out}, lambda rng, s: [_normal(rng, s["rows"], s["width"]), _normal(rng, s["width"])])


def layernorm_gelu(width: int) -> Built:
    """gelu(layernorm(x)) over any number of rows."""
    net = Network("layernorm_gelu")
    out = net.gelu(net.layernorm(net.input("x", ["rows", width])))
    return Built(net, {"out": out}, lambda rng, s: [_normal(rng, s["rows"], width)])


def encoder(layers: int, width: int, heads: int) -> Built:
    """A transformer encoder on [batch, length, width], no mask."""
    net = Network("encoder")
    x = net.input("x", ["batch", "length", width])
    for _ in range(layers):
        x = net.encoder_layer(x, heads)
    return Built(net, {"out": x}, lambda rng, s: [_normal(rng, s["batch"], s["length"], width)])


def bert(layers: int = 12, width: int = 768, heads: int = 12, words: int = 30522, positions: int = 512) -> Built:
    """BERT (Devlin et al. 2018; the base sizes by default): word, position and kind embeddings, an encoder with a
    padding mask."""
    net = Network("bert")
    ids, kinds, keep = (net.input(name, ["batch", "length"], "i64") for name in ("ids", "kinds", "keep"))
    x = net.layernorm(net.add(net.embedding(ids, words, width, positions), net.embedding(kinds, 2, width)))
    mask = net.padding_mask(keep)
    for _ in range(layers):
        x = net.encoder_layer(x, heads, mask=mask)

    def draw(rng: np.random.Generator, s: Mapping[str, int]) -> Sequence[Array]:
        shape = s["batch"], s["length"]
        return [rng.integers(0, words, shape), rng.integers(0, 2, shape), np.ones(shape, np.int64)]

    return Built(net, {"out": x}, draw)


def decoder(layers: int, width: int, heads: int) -> Built:
    """One step of a decoder: the newest place [batch, 1, width] and the caches of each layer, which grow by one."""
    net = Network("decoder")
    x = net.input("x", ["batch", 1, width])
    outputs: dict[str, Value] = {}
    for k in range(layers):
        cache = [net.input(f"{name}{k}", ["batch", heads, "past", width // heads]) for name in ("keys", "values")]
        x, outputs[f"new_keys{k}"], outputs[f"new_values{k}"] = net.decoder_step(x, cache[0], cache[1], heads)

    def draw(rng: np.random.Generator, s: Mapping[str, int]) -> Sequence[Array]:
        shape = s["batch"], heads, s["past"], width // heads
        return [_normal(rng, s["batch"], 1, width), *(_normal(rng, *shape) for _ in range(2 * layers))]

    return Built(net, {"out": net.layernorm(x), **outputs}, draw)


def convnet(channels: Sequence[int] = (64, 128, 256), blocks: int = 2, classes: int = 100) -> Built:
    """A residual network on images [batch, 3, height, width] (He et al. 2015), two convolutions a block."""
    net = Network("convnet")
    x = net.relu(net.conv2d(net.input("x", ["batch", 3, "height", "width"]), channels[0], 7, stride=2))
    x = net.max_pool(x, 3, 2, 1)
    for k, count in enumerate(channels):
        for block in range(blocks):
            x = net.residual_block(x, count, 2 if k and not block else 1)
    out = net.linear(net.mean_pool(x), classes)
    return Built(net, {"out": out}, lambda rng, s: [_normal(rng, s["batch"], 3, s["height"], s["width"])])


def depthwise(channels: int = 96, blocks: int = 4) -> Built:
    """Depthwise and pointwise convolutions in turn (Howard et al. 2017)."""
    net = Network("depthwise")
    x = net.relu(net.conv2d(net.input("x", ["batch", 3, "height", "width"]), channels, 3, stride=2))
    for _ in range(blocks):
        x = net.relu(net.conv2d(x, channels, 3, groups=channels))
        x = net.relu(net.conv2d(x, channels, 1))
    out = net.linear(net.mean_pool(x), 100)
    return Built(net, {"out": out}, lambda rng, s: [_normal(rng, s["batch"], 3, s["height"], s["width"])])


def _rows(goal: float, *shapes: tuple[int, int], named: bool = True) -> tuple[Point, ...]:
    return tuple(Point({"rows": r, "width": w} if named else {"rows": r}, goal, 8 * r * w) for r, w in shapes)


def _texts(goals: Mapping[int, float]) -> tuple[Point, ...]:
    return tuple(Point({"batch": 1, "length": length}, goal) for length, goal in goals.items())


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "softmax(x+b)",
        softmax_bias,
        _rows(1.5, (256, 1024), (8192, 1024), (64, 33)),
        ("width % 16 == 0", "width in [16, 4096]", "likely width = 1024"),
    ),
    Workload(
        "layernorm+gelu",
        partial(layernorm_gelu, 768),
        _rows(1.5, (256, 768), (8192, 768), named=False),
        ("rows % 8 == 0", "rows >= 8"),
    ),
    Workload(
        "encoder 2x64",
        partial(encoder, 2, 64, 4),
        _texts({16: 3.0}),
        ("length % 16 == 0", "length in [16, 512]", "batch in [1, 8]", "likely length = 16, 128"),
    ),
    Workload(
        "encoder 6x384",
        partial(encoder, 6, 384, 6),
        _texts({16: 1.3, 64: 1.3, 128: 1.3}),
        ("length % 16 == 0", "length in [16, 512]", "batch in [1, 8]", "likely length = 16, 128"),
    ),
    Workload(
        "BERT-base",
        bert,
        _texts({16: 1.1, 32: 1.1, 64: 1.1, 128: 1.1, 256: 1.0, 512: 1.0}),
        ("length % 16 == 0", "length in [16, 512]", "batch in [1, 8]"),
        quick=False,
    ),
    Workload(
        "decoder step 6x384",
        partial(decoder, 6, 384, 6),
        tuple(Point({"batch": 1, "past": past}) for past in (15, 127, 511)),
        ("past % 16 == 15", "past <= 1023", "batch in [1, 8]"),
    ),
    Workload(
        "conv net",
        convnet,
        (
            Point({"batch": 1, "height": 64, "width": 64}, 0.8),
            Point({"batch": 1, "height": 112, "width": 112}, 0.8),
            Point({"batch": 1, "height": 97, "width": 131}, 0.8),
        ),
        ("height % 16 == 0", "width % 16 == 0", "height in [32, 512]", "width in [32, 512]"),
    ),
    Workload(
        "depthwise net",
        depthwise,
        (Point({"batch": 1, "height": 64, "width": 64}, 0.8),),
        ("height % 16 == 0", "width % 16 == 0", "height in [32, 512]", "width in [32, 512]"),
    ),
)

SHAPES = tuple({"batch": batch, "length": length} for batch in range(1, 9) for length in (1, 7, 16, 33, 64, 300))
"""What one compile of an encoder must serve."""
