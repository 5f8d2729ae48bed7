"""Drawn networks on images: channels last, padded where they are read, gathered, summed by strips, or none of it."""

import numpy as np
import pytest

from egshape.ir.interpret import interpret
from tests.fuzz.differential import graph_of
from tests.lower.checking import call, compiled
from tests.plan.test_channels import Images, after

BETWEEN = (
    "bias and clamp",
    "windows",
    "concatenate",
    "lines put together",
    "half of the channels",
    "pad",
    "reverse",
    "weights by the mean of each channel",
    "sums over lines",
    "sums over channels",
    "places",
    "a transposed image",
)


def drawn(seed):
    """A network of up to 10 steps; what it gives is read in several ways."""
    rng = np.random.default_rng(seed)
    b = Images()
    values = [b.conv(b.input(channels=int(rng.choice([1, 3, 20]))), 16)]
    for _ in range(rng.integers(3, 10)):
        x = values[-1] if rng.random() < 0.8 else values[rng.integers(len(values))]
        channels = x.type.dims[1].const
        kind = rng.choice(["conv", "conv", "conv", "depthwise", "same", "between"])
        if kind == "conv":
            outputs, size = int(rng.choice([2, 12, 16, 17, 40, 64])), int(rng.choice([1, 3, 5]))
            values.append(b.conv(x, outputs, size, int(rng.choice([1, 1, 2]))))
        elif kind == "depthwise":
            values.append(b.conv(x, channels, 3, int(rng.choice([1, 2])), groups=channels))
        elif kind == "same":
            values.append(b.b.one("add", [x, b.b.one("tanh", [b.conv(x, channels)])]))
        elif channels == 16:
            values.append(after(b, x, str(rng.choice(BETWEEN))))
    last = values[-1]
    results = [b.fold(last, (2, 3)), b.conv(last, 16)]
    if rng.random() < 0.5:
        results.append(values[rng.integers(len(values))])
    return graph_of(b.b, *dict.fromkeys(results))


@pytest.mark.long_but("0", "1", "2")
@pytest.mark.parametrize("seed", range(20))
def test_drawn(seed, monkeypatch):
    graph = drawn(seed)
    if seed % 2:
        monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    function = compiled(graph)
    rng = np.random.default_rng(seed)
    channels = graph.inputs[0].type.dims[1].const
    for shape in ((1, 7, 6), (2, 1, 1), (1, 17, 9), (0, 4, 4), (3, 5, 2)):
        array = rng.normal(size=(shape[0], channels, *shape[1:])).astype(np.float32)
        wanted = interpret(graph, [array])
        for found, exact in zip(call(function, [array]), wanted, strict=True):
            np.testing.assert_allclose(found, exact, 1e-3, 3e-5 * np.abs(exact).max(initial=1))
