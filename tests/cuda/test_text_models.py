"""The sample models and random programs as printed text on a device that is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

import egshape
from egshape.plan.gpu import narrow
from egshape.plan.ir.launch import Launch
from tests.cuda.device import compiled
from tests.cuda.text import ORDERS, Texts
from tests.cuda.text_device import TextDevice
from tests.fuzz.engine import program
from tests.fuzz.maker import arrays_at, bearable, variations
from tests.lower.checking import check_model
from tests.lower.oracle import verdict, widened
from tests.lower.test_sizes import data_of

WIDE = ("gpt_kv_concat", "moe_topk")
"""Models that also run with indices of 64 bits everywhere."""


def checked(name: str, folder: Path, texts: Texts, orders: tuple[str, ...]) -> None:
    """A model equals what is stored, in some orders of threads."""
    graph = egshape.optimize(egshape.load(folder / f"{name}.mlir"), validate=False, explain=False).graph
    device = TextDevice(texts)
    function = compiled(graph, device)
    texts.compile(device.kernels)
    for order in orders:
        device.order = order
        check_model(function, name, folder)
        assert not device.faults, device.faults[0]
    assert device.launched


@pytest.mark.long
def test_model(model_name: str, shared_models: Path, texts: Texts) -> None:
    checked(model_name, shared_models, texts, ORDERS)


@pytest.mark.long
@pytest.mark.parametrize("name", WIDE)
def test_indices_of_64_bits(name: str, shared_models: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(launch: Launch) -> Launch:
        return launch

    monkeypatch.setattr(narrow, "narrowed", unchanged)
    checked(name, shared_models, texts, ORDERS[:1])


@pytest.mark.parametrize("size", ["4611686018427387904*n", "n*n*n*n*n*n*n*n*n"])
def test_a_size_that_is_a_value_wraps(size: str, texts: Texts) -> None:
    device = TextDevice(texts)
    function = compiled(data_of(size), device)
    texts.compile(device.kernels)
    for n in (1, 2, 7, 1000):
        wanted = (eval(size, {"n": n}) + 2**63) % 2**64 - 2**63
        np.testing.assert_array_equal(function(np.zeros(n, np.int64)), np.full(n, wanted))
    assert not device.faults


@pytest.mark.long_but("3000")
@pytest.mark.parametrize("seed", range(3000, 3005))
def test_program(seed: int, texts: Texts) -> None:
    maker, graph = program(seed, (), 8)
    device = TextDevice(texts, ORDERS[seed % len(ORDERS)])
    function, wide = compiled(graph, device), widened(graph)
    texts.compile(device.kernels)
    for sizes, numbers in variations(maker, seed, 4):
        if bearable(graph, sizes):
            arrays = arrays_at(graph, sizes, numbers, seed)
            wrong = verdict(function, graph, wide, arrays, fences=False, relative=3e-5)
            assert not device.faults, device.faults[0]
            assert not wrong, f"at {sizes}: {wrong}\n{graph}"
