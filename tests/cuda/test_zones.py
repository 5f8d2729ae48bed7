"""Red zones on a device: what a kernel writes outside of its buffers is told, with the kernel and the buffer."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

import egshape
from egshape.errors import EgshapeError
from tests.cuda import test_device as ordered
from tests.cuda.device import APART, Emulated, compiled
from tests.cuda.test_device import Interface, chain, chained, equal, rows
from tests.lower.checking import check_model


class Astray(Emulated):
    """A device on which kernels that reverse tables write 4 bytes next to their result, at ``offset`` from its
    beginning."""

    offset: int | None = None

    def _run(self, number: int, words: bytes) -> int:
        code = super()._run(number, words)
        kernel = self._kernels[number]
        if self.offset is not None and "reverse" in kernel.name and kernel.words - kernel.pointers > 1:
            results = int.from_bytes(words[8 * (kernel.pointers - 1) : 8 * kernel.pointers], "little")
            ctypes.memset(results + self.offset - APART, 0, 4)
        return code


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Astray]:
    monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    found = Astray()
    yield found
    assert not found.faults, found.faults[0]
    gc.collect()
    assert not found.blocks


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (1, 1), (5, 40), (64, 33)])
def test_what_is_right_stays_right(shape: tuple[int, int], device: Astray) -> None:
    function, graph = chained(device), chain()
    for stays in (False, True, True):
        equal(function(rows(*shape), device=stays), graph, rows(*shape))


@pytest.mark.parametrize(
    "test",
    [
        ordered.test_a_size_that_data_tells,
        ordered.test_a_condition_on_data,
        ordered.test_results_in_arrays_of_the_caller,
    ],
    ids=lambda test: test.__name__,
)
def test_what_holds_without_zones(test: object, device: Astray) -> None:
    assert callable(test)
    test(device)


@pytest.mark.long_but("mlp_concat_split")
@pytest.mark.parametrize("name", ["mlp_concat_split", "nonzero_size", "while_decode"])
def test_model(name: str, shared_models: Path, device: Astray) -> None:
    graph = egshape.load(shared_models / f"{name}.mlir")
    function = compiled(egshape.optimize(graph, validate=False, explain=False).graph, device)
    check_model(function, name, shared_models)


@pytest.mark.parametrize(("offset", "stays"), [(800, False), (804, False), (-4, False), (800, True), (804, True)])
def test_a_kernel_that_writes_outside(offset: int, stays: bool, device: Astray) -> None:
    """Behind a result of 5 x 40 numbers and before it; a result that stays on the device has no zone before it."""
    function = chained(device)
    equal(function(rows(5), device=stays), chain(), rows(5))
    device.offset = offset
    with pytest.raises(EgshapeError, match=r"the kernel \d+_\w*reverse wrote outside of the buffer") as caught:
        function(rows(5), device=stays)
    assert caught.value.code == "red-zone"
    device.offset = None
    equal(function(rows(5), device=stays), chain(), rows(5))


def test_arrays_of_the_caller_have_none(device: Astray) -> None:
    """They are copied, so that nothing is written behind them."""
    function = chained(device)
    given = function(rows(8), device=True)[0]
    part = Interface(given, shape=(5, 40))
    before = given.numpy()
    out = function(rows(5), out=[part, None])[0]
    assert out is part
    np.testing.assert_array_equal(given.numpy()[5:], before[5:])
    equal(function(part), chain(), given.numpy()[:5])
