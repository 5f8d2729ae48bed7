"""Networks on images against ONNX Runtime: ONNX models as exporters write them, sizes open, compiled once.

    python -m benchmarks.cpu.vision [--only NAME] [--at "16 x"] [--threads 1] [--seconds 1.5] [--markdown]

One process, alternating runs, medians; results are compared before anything is timed (``benchmarks.cpu.beside_ort``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cpu.beside_ort import Case, Point, run


class Model:
    """An ONNX model in the making, of images [batch, channels, height, width]; weights are random."""

    def __init__(self, name: str) -> None:
        self.name, self.nodes, self.weights = name, list[Any](), list[Any]()
        self.rng = np.random.default_rng(0)
        self.channels: dict[str, int] = {"x": 3}

    def op(self, kind: str, *xs: str, channels: int = 0, **attrs: Any) -> str:
        """A node; its result has the channels of its first operand, or so many."""
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(xs), [out], **attrs))
        self.channels[out] = channels or self.channels[xs[0]]
        return out

    def constant(self, array: Any) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def conv(self, x: str, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> str:
        """A convolution with a bias."""
        inputs = self.channels[x] // groups
        spread = np.sqrt(1.5 / (inputs * size * size))
        kernel = self.rng.standard_normal((outputs, inputs, size, size)) * spread
        weights = self.constant(kernel.astype(np.float32))
        bias = self.constant((self.rng.standard_normal(outputs) * 0.1).astype(np.float32))
        options: dict[str, Any] = {
            "strides": [stride] * 2,
            "pads": [size // 2] * 4,
            "group": groups,
            "kernel_shape": [size] * 2,
        }
        return self.op("Conv", x, weights, bias, channels=outputs, **options)

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self.op("Relu", x)

    def silu(self, x: str) -> str:
        """x * sigmoid(x), as PyTorch exports it."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def clipped(self, x: str) -> str:
        """ReLU6."""
        low, high = (self.constant(np.float32(value)) for value in (0, 6))
        return self.op("Clip", x, low, high)

    def pool(self, x: str, size: int, stride: int) -> str:
        """The largest of each window."""
        return self.op("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)

    def classes(self, x: str, count: int = 100) -> str:
        """Global mean and a linear layer."""
        mean = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        weights = self.constant((self.rng.standard_normal((count, self.channels[x])) * 0.1).astype(np.float32))
        return self.op("Gemm", mean, weights, self.constant(np.zeros(count, np.float32)), transB=1)

    def built(self, *outputs: str) -> bytes:
        """The model."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", "width"])
        named = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in outputs]
        graph = helper.make_graph(self.nodes, self.name, [x], named, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(model.SerializeToString())


def residual(blocks: Sequence[int], widths: Sequence[int]) -> bytes:
    """A residual network (He et al. 2015) of basic blocks: ResNet-18 has 2, 2, 2, 2 of 64, 128, 256, 512."""
    m = Model("residual")
    x = m.pool(m.relu(m.conv("x", widths[0], 7, 2)), 3, 2)
    for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            inner = m.conv(m.relu(m.conv(x, width, 3, stride)), width)
            same = x if stride == 1 and m.channels[x] == width else m.conv(x, width, 1, stride)
            x = m.relu(m.op("Add", inner, same))
    return m.built(m.classes(x))


def depthwise(width: int = 96, blocks: int = 4) -> bytes:
    """Depthwise and pointwise convolutions in turn (Howard et al. 2017)."""
    m = Model("depthwise")
    x = m.relu(m.conv("x", width, 3, 2))
    for _ in range(blocks):
        x = m.relu(m.conv(x, width, 3, groups=width))
        x = m.relu(m.conv(x, width, 1))
    return m.built(m.classes(x))


def inverted() -> bytes:
    """Inverted residuals with linear bottlenecks (Sandler et al. 2018), the widths of MobileNetV2."""
    m = Model("inverted")
    x = m.clipped(m.conv("x", 32, 3, 2))
    for expand, width, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)):
        for block in range(count):
            stride, inner = first if not block else 1, m.channels[x] * expand
            y = m.clipped(m.conv(x, inner, 1)) if expand > 1 else x
            y = m.conv(m.clipped(m.conv(y, inner, 3, stride, groups=inner)), width, 1)
            x = m.op("Add", x, y) if stride == 1 and m.channels[x] == width else y
    return m.built(m.classes(m.clipped(m.conv(x, 320, 1))))


def detector(width: int = 16) -> bytes:
    """A one-stage detector: SiLU, split and joined channels, pooled pyramids, an upsampled path, two heads."""
    m = Model("detector")

    def split(x: str, outputs: int) -> str:
        x = m.silu(m.conv(x, outputs, 1))
        half = outputs // 2
        sizes = m.constant(np.array([half, half], np.int64))
        left, right = f"l{len(m.nodes)}", f"r{len(m.nodes)}"
        m.nodes.append(helper.make_node("Split", [x, sizes], [left, right], axis=1))
        m.channels |= {left: half, right: half}
        inner = m.op("Add", right, m.silu(m.conv(m.silu(m.conv(right, half)), half)))
        joined = m.op("Concat", left, right, inner, axis=1, channels=3 * half)
        return m.silu(m.conv(joined, outputs, 1))

    def pyramid(x: str) -> str:
        outputs = m.channels[x]
        found = [m.silu(m.conv(x, outputs // 2, 1))]
        for _ in range(3):
            found.append(m.pool(found[-1], 5, 1))
        return m.silu(m.conv(m.op("Concat", *found, axis=1, channels=2 * outputs), outputs, 1))

    def head(x: str) -> str:
        y = m.conv(m.silu(m.conv(x, m.channels[x])), 24, 1)
        shape = m.constant(np.array([0, 24, -1], np.int64))
        return m.op("Transpose", m.op("Reshape", y, shape), perm=[0, 2, 1])

    x = m.silu(m.conv(m.silu(m.conv("x", width, 3, 2)), 2 * width, 3, 2))
    fine = split(m.silu(m.conv(split(x, 2 * width), 4 * width, 3, 2)), 4 * width)
    coarse = pyramid(split(m.silu(m.conv(fine, 8 * width, 3, 2)), 8 * width))
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    options: dict[str, Any] = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    up = m.op("Resize", coarse, "", scales, **options)
    merged = split(m.op("Concat", up, fine, axis=1, channels=12 * width), 4 * width)
    out = m.op("Concat", head(merged), head(coarse), axis=1)
    return m.built(m.op("Sigmoid", out))


def _images(*sizes: tuple[int, int]) -> tuple[Point, ...]:
    """Batches of 1, 4 and 16 images of each height and width."""
    return tuple(
        Point(
            f"{batch} x {height} x {width}",
            {"x": np.random.default_rng(0).standard_normal((batch, 3, height, width), np.float32)},
        )
        for (height, width), batch in product(sizes, (1, 4, 16))
    )


CASES = (
    Case("conv net", lambda: residual((2, 2, 2), (64, 128, 256)), partial(_images, (64, 64), (112, 112), (97, 131))),
    Case("depthwise net", depthwise, partial(_images, (64, 64), (112, 112), (97, 131))),
    Case(
        "ResNet-18",
        lambda: residual((2, 2, 2, 2), (64, 128, 256, 512)),
        partial(_images, (64, 64), (160, 160), (224, 224)),
    ),
    Case("MobileNet-like", inverted, partial(_images, (64, 64), (160, 160), (224, 224))),
    Case("YOLO-like", detector, partial(_images, (64, 64), (160, 192), (320, 320))),
)


if __name__ == "__main__":
    run(CASES, __doc__)
