"""Every op, and convolutions of every kind, as printed text on a device that is not there, threads in three orders."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.errors import Unsupported
from egshape.lower.drivers import cuda as driver
from egshape.ops import REGISTRY
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.device import compiled
from tests.cuda.text import ORDERS, Texts
from tests.cuda.text_device import TextDevice
from tests.lower import test_convolution
from tests.lower.opcases import OpCase, cases
from tests.lower.oracle import verdict, widened

pytestmark = pytest.mark.long  # test_text.py and test_text_models.py run a little of it

OPS = tuple(decl.name for decl in REGISTRY)
SIZES = (0, 1, 2, 33, 64, 300)
LIKELY = {64: ("f32", "i32"), 20000: ("f16",)}
"""Sizes that kernels are made for, and in which dtypes: other ones are long rows, and folds in two stages."""

Made = dict[str, list[tuple[OpCase, CudaFunction, TextDevice]]]


@pytest.fixture(scope="module")
def made(texts: Texts) -> Made:
    """Every case that is not refused, compiled together."""
    found: Made = {}
    for likely, op in product(LIKELY, OPS):
        for number, case in enumerate(cases(op, LIKELY[likely])):
            device = TextDevice(texts, ORDERS[number % len(ORDERS)])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(driver, "_FREE_SIZE", likely)
                try:
                    found.setdefault(op, []).append((case, compiled(case.graph, device), device))
                except Unsupported:
                    continue  # test_ops.py holds these against what may be refused
    texts.compile(kernel for each in found.values() for _, _, device in each for kernel in device.kernels)
    return found


@pytest.mark.parametrize("op", OPS)
def test_op(op: str, made: Made) -> None:
    for case, function, device in made.get(op, ()):
        wide = widened(case.graph)
        for n in SIZES:
            if n <= case.most:
                wrong = verdict(function, case.graph, wide, case.arrays(n), fences=False)
                assert not device.faults, f"{case} at n = {n}: {device.faults[0]}"
                assert not wrong, f"{case} at n = {n}: {wrong}\n{case.graph}"


@pytest.mark.parametrize("name", sorted(test_convolution.CASES))
def test_convolutions(name: str, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    device = TextDevice(texts, ORDERS[len(name) % len(ORDERS)])
    monkeypatch.setattr(test_convolution, "compiled", lambda graph: compiled(graph, device))
    test_convolution.test_convolution(name, "input", "any number", monkeypatch)
    assert not device.faults, device.faults[0]
