"""Complex numbers in graphs for a CUDA device: pairs that its kernels move, and calls of the references."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.adapters import cuda
from egshape.api import compile as compile_graph
from egshape.errors import CheckFailed, EgshapeError
from egshape.frontends.stablehlo import read
from tests.adapters.test_pairs import PROGRAMS, C, numbers
from tests.cuda.device import ARCHITECTURE, Emulated

ADDED = f"""func.func @main(%x: {C}, %y: {C}) -> {C} {{
  %0 = stablehlo.add %x, %y : {C}
  return %0 : {C} }}"""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Emulated:
    """A device, for which ``compile`` makes code."""
    found = Emulated()
    made = cuda.compile_function
    here = partial(made, make=found.image, open=lambda: found.driver(None))
    monkeypatch.setattr(cuda, "compile_function", lambda graph, _, facts: here(graph, (ARCHITECTURE,), facts))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_the_interpreter(name: str, device: Emulated) -> None:
    graph = read(PROGRAMS[name], "t.mlir")
    more = [np.array(3, np.int32)] if name == "loop" else []
    wanted, found = compile_graph(graph, optimize=False), compile_graph(graph, "cuda", optimize=False)
    assert "PairFunction for cuda" in repr(found)
    for shape in ((2, 3), (1, 1), (0, 2)):
        for one, two in zip(*(_list(each(numbers(*shape), *more)) for each in (wanted, found)), strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_allclose(one, two, 1e-6)
    assert not device.faults


def _list(found: object) -> list[np.ndarray]:
    return list(found) if isinstance(found, tuple) else [np.asarray(found)]


def test_errors(device: Emulated) -> None:
    function = compile_graph(read(ADDED, "t.mlir"), "cuda")
    with pytest.raises(CheckFailed):
        function(numbers(2, 3), numbers(2, 2))
    with pytest.raises(EgshapeError, match="'arg0' has elements of complex64, got float32"):
        function(np.zeros((2, 3), np.float32), numbers(2, 3))

    elsewhere = SimpleNamespace(__cuda_array_interface__={"shape": (2, 3), "typestr": "<c8", "data": (64, False)})
    with pytest.raises(EgshapeError, match="lies on a device"):
        function(elsewhere, numbers(2, 3))
