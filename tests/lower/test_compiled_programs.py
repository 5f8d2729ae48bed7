"""Random programs, sample models and programs that a careless compiler gets wrong, compiled raw and optimized, between
pages that cannot be touched; and one compile of an encoder for every shape. ``python -m tests.fuzz.compiled`` is the
long run."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.frontends.builder import Network
from tests.fuzz import networks
from tests.fuzz.compiled import fuzz
from tests.fuzz.differential import bits
from tests.lower.checking import call
from tests.lower.oracle import call_fenced, compiled_in_pieces, expected, fault, widened

SECONDS = 240
"""More than these take on any machine that is not stuck."""


@pytest.mark.long_but("networks-5")
@pytest.mark.parametrize(("kind", "count"), [("careless", 40), ("programs", 12), ("networks", 5)])
def test_programs(kind: str, count: int) -> None:
    done, found = fuzz([kind], SECONDS, 5000, count, fences=True)
    assert not found, "\n".join(found)
    assert done >= min(count, 24), f"only {done} of {count} in {SECONDS} seconds"


@pytest.mark.parametrize("seed", [4, 5])
def test_threads_do_not_change_a_bit(seed: int) -> None:
    """Networks with short rows, which a compiler likes to take several at once."""
    graph = networks.network(seed)
    one, three = (compiled_in_pieces(graph, threads) for threads in (1, 3))
    for sizes, arrays in networks.inputs(graph, seed):
        for mine, other in zip(call(one, arrays), call(three, arrays), strict=True):
            assert bits(mine) == bits(other), f"seed {seed} at {sizes}"


def encoder(masked: bool) -> egshape.Graph:
    """Two layers; the mask is of integers."""
    net = Network(seed=3)
    x = net.input("x", ["batch", "length", 16])
    mask = net.padding_mask(net.input("keep", ["batch", "length"], "i64")) if masked else None
    for _ in range(2):
        x = net.encoder_layer(x, heads=2, mask=mask)
    return net.graph(y=x)


@pytest.mark.long_but("True")
@pytest.mark.parametrize("masked", [False, True])
def test_one_compile_serves_every_shape(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = encoder(masked)
    better = egshape.optimize(graph, explain=False)
    assert {name for value in better.graph.inputs for dim in value.type.dims for name in dim.symbols()} == {
        "batch",
        "length",
    }, "no size is specialised away"
    function = egshape.compile(better.graph, target="llvm")
    wide = widened(graph)

    def recompile(*_: object) -> None:
        raise AssertionError("a call compiled something")

    for place in ("egshape.lower.llvm.native.object_code", "egshape.lower.llvm.native.load"):
        monkeypatch.setattr(place, recompile)
    for batch in range(1, 9):
        for length in (1, 7, 16, 33, 64, 300):
            rng = np.random.default_rng([batch, length])
            arrays = [rng.normal(size=(batch, length, 16)).astype(np.float32)]
            if masked:
                arrays.append((rng.random((batch, length)) < 0.8).astype(np.int64))
            want = expected(graph, wide, arrays)
            for found in (call(function, arrays), call_fenced(function, arrays, want.narrow, at_end=True)):
                wrong = fault(found, want)
                assert not wrong, f"batch {batch}, length {length}: {wrong}"
