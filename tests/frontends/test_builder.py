"""Networks built of layers: their numbers against other frameworks that replay the same layers, at several sizes; and
what the builder refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.cpu import networks, peers
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.builder import Network
from egshape.ir.interpret import interpret
from egshape.ir.verify import verify

SMALL: dict[str, Callable[[], networks.Built]] = {
    "softmax": networks.softmax_bias,
    "layernorm": lambda: networks.layernorm_gelu(33),
    "encoder": lambda: networks.encoder(2, 24, 3),
    "bert": lambda: networks.bert(1, 24, 3, 50, 16),
    "decoder": lambda: networks.decoder(2, 24, 3),
    "convnet": lambda: networks.convnet((4, 6), 1, 5),
    "depthwise": lambda: networks.depthwise(6, 1),
}
SIZES = (
    {"rows": 5, "width": 17, "batch": 2, "length": 7, "past": 3, "height": 19},
    {"rows": 1, "width": 16, "batch": 1, "length": 1, "past": 0, "height": 8},
)


@pytest.mark.long_but("*-onnxruntime")
@pytest.mark.parametrize("peer", ["onnxruntime", "onnxruntime.fused", "jax", "torch"])
@pytest.mark.parametrize("name", SMALL)
def test_layers_mean_the_same_elsewhere(name: str, peer: str) -> None:
    if peer not in peers.installed():
        pytest.skip(f"{peer} is not installed")
    built = SMALL[name]()
    graph = built.graph()
    verify(graph)
    try:
        run = peers.PEERS[peer](built, 1)
    except LookupError:
        pytest.skip("nothing there to fuse")
    for sizes in SIZES:
        arrays = built.arrays(sizes)
        for mine, other in zip(interpret(graph, arrays), run(*arrays), strict=True):
            assert mine.dtype == other.dtype and mine.shape == other.shape
            np.testing.assert_allclose(mine, other, 1e-4, 1e-5, err_msg=f"{name} at {sizes}")


def test_activations() -> None:
    net = Network()
    x = net.input("x", ["n"])
    graph = net.graph(relu=net.relu(x), tanh=net.tanh(x), silu=net.silu(x), gelu=net.gelu(x))
    a = np.linspace(-4, 4, 33, dtype=np.float32)
    relu, tanh, silu, gelu = interpret(graph, [a])
    np.testing.assert_array_equal(relu, np.maximum(a, 0))
    np.testing.assert_allclose(tanh, np.tanh(a), 1e-6)
    np.testing.assert_allclose(silu, a / (1 + np.exp(-a)), 1e-5, 1e-7)
    assert abs(gelu[-1] - 4) < 1e-3 and abs(gelu[16]) == 0


def test_equal_names_are_equal_sizes() -> None:
    net = Network()
    x, y = net.input("x", ["n", 3]), net.input("y", ["n", 1])
    graph = net.graph(z=net.multiply(x, y))
    with pytest.raises(EgshapeError, match="wants n = 2"):
        interpret(graph, [np.ones((2, 3), np.float32), np.ones((3, 1), np.float32)])


def test_a_table_has_so_many_rows() -> None:
    net = Network()
    graph = net.graph(x=net.embedding(net.input("ids", ["b", "s"], "i64"), 9, 4, positions=5))
    assert interpret(graph, [np.zeros((2, 5), np.int64)])[0].shape == (2, 5, 4)
    with pytest.raises(CheckFailed, match="no 6 rows"):
        interpret(graph, [np.zeros((2, 6), np.int64)])


def test_the_seed_decides_the_weights() -> None:
    def weights(seed: int) -> list[bytes]:
        net = Network(seed=seed)
        net.linear(net.input("x", ["n", 3]), 2)
        return [layer.args[0].tobytes() for layer in net.layers if layer.name == "weight"]

    assert weights(1) == weights(1) != weights(2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda net: net.add(net.input("x", ["n", 3]), net.input("y", ["m", 3])), "n and m do not fit"),
        (lambda net: net.linear(net.input("x", ["n", "k"]), 3), "axis -1 of .* must be static"),
        (lambda net: net.split_heads(net.input("x", ["b", "s", 10]), 3), "10 cannot be split into 3"),
        (lambda net: net.input("x", [net.input("y", ["n"]).type.dims[0] + 1]), "an input cannot have the size"),
    ],
)
def test_refusals(build: Callable[[Network], object], message: str) -> None:
    with pytest.raises(EgshapeError, match=message) as caught:
        build(Network())
    assert caught.value.code == "size"
