"""Whatever fails while a program is loaded, or tables of a call are made, what was made by then is given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from tests.cuda.device import Emulated, compiled
from tests.cuda.library import Library
from tests.fuzz.differential import argument, graph_of

PAIRS = {
    "cuModuleLoadData": "cuModuleUnload",
    "cuStreamCreate": "cuStreamDestroy_v2",
    "cuEventCreate": "cuEventDestroy_v2",
    "cuMemAllocHost_v2": "cuMemFreeHost",
    "cublasLtCreate": "cublasLtDestroy",
}
"""What makes something, and what takes it back."""
SIDE = 4242


def _graph() -> Graph:
    """A product with constants, and a check of data, which needs pinned memory."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [symbol("n"), const(4)])
    weights = b.one("constant", [], {"value": np.arange(12, dtype=np.float32).reshape(4, 3)})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    return graph_of(b, b.one("tanh", [b.one("dot_general", [x, weights], attrs)]))


def _kept(device: Emulated, library: Library) -> dict[str, int]:
    calls = device.calls + library.calls
    failed = [name for name, number in device.failures if number <= device.calls[name]]
    return {one: calls[one] - failed.count(one) - calls[two] for one, two in PAIRS.items()}


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("cuModuleGetFunction", 1),
        ("cuStreamCreate", 1),
        ("cuStreamCreate", 2),
        ("cuMemAlloc_v2", 1),
        ("cuMemcpyHtoDAsync_v2", 1),
        ("cuStreamSynchronize", 1),
        ("cuEventCreate", 1),
        ("cuEventCreate", 2),
    ],
)
def test_what_was_made_is_given_back(name: str, number: int) -> None:
    device, x = Emulated(), np.ones((2, 4), np.float32)
    library = Library(device)
    function = compiled(_graph(), device, library=library.functions)
    device.fail(name, number, 2)
    with pytest.raises(EgshapeError):
        function(x, stream=SIDE)
    np.testing.assert_allclose(function(x, stream=SIDE, device=False)[0], np.tanh([18, 22, 26]))
    del function
    gc.collect()
    assert not device.blocks and not any(_kept(device, library).values()), _kept(device, library)
    assert not library.objects and not device.faults


def test_a_library_that_does_not_start_is_noted() -> None:
    for name, number, said in (("cuMemAlloc_v2", 2, "cuBLASLt has no workspace"), ("", 0, "cuBLASLt does not start")):
        device, x = Emulated(), np.ones((2, 4), np.float32)
        library = Library(device, starts=bool(name))
        function = compiled(_graph(), device, library=library.functions)
        if name:
            device.fail(name, number, 2)
        np.testing.assert_allclose(function(x)[0], np.tanh([18, 22, 26]))
        (fault,) = function.library_faults()
        assert said in fault
        del function
        gc.collect()
        assert not device.blocks and not library.objects


def test_what_the_library_does_not_take_back_stops_nothing() -> None:
    device, x = Emulated(), np.ones((2, 4), np.float32)
    library = Library(device, keeps=True)
    function = compiled(_graph(), device, library=library.functions)
    function(x)
    del function
    gc.collect()
    assert not device.blocks and library.calls["cublasLtDestroy"] == 1


@pytest.mark.parametrize("stays", [False, True])
def test_a_function_in_a_cycle_is_taken_apart_in_order(stays: bool) -> None:
    """The collector of cycles runs finalizers in any order; a driver may end the process where a stream is used that is
    destroyed."""
    device = Emulated()
    library = Library(device)
    function = compiled(_graph(), device, library=library.functions)
    results = [function(np.ones((2, 4), np.float32), device=stays) for _ in range(4)]
    held = [function, results]
    held.append(held)
    del function, results, held
    gc.collect()
    assert not device.faults, device.faults[0]
    assert not any(_kept(device, library).values()) and not device.blocks
