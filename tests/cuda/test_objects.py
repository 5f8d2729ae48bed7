"""Arrays of the device that native code reads and makes itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.errors import EgshapeError
from egshape.runtime.cuda import objects as cuda_objects
from egshape.runtime.cuda.arrays import DeviceArray
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.device import Emulated, compiled
from tests.cuda.foreign import Foreign
from tests.cuda.test_device import Interface, chain, equal, rows


@pytest.fixture
def device() -> Iterator[Emulated]:
    found = Emulated()
    Foreign.working = 0
    yield found
    assert not found.faults, found.faults[0]
    gc.collect()
    assert not found.blocks and found._depth == 0


def foreign(array: DeviceArray, **changes: object) -> Foreign:
    """The same memory as another library's array."""
    return Foreign(**{"address": array.address, "shape": array.shape, **changes})  # type: ignore[arg-type]


def test_nothing_is_read_through_python(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a type is known, neither inputs nor results nor arrays for results."""
    assert cuda_objects._FOUND is not None
    function = compiled(chain(), device)
    given, out = function(rows(5), device=True), function(rows(5), device=True)
    function(foreign(given[0]))

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("read through Python")

    monkeypatch.setattr(CudaFunction, "_on_device", refused)
    first = given[0].numpy()
    equal(function(given[0]), chain(), first)
    equal(function(foreign(given[0], strides=(40, 1))), chain(), first)
    equal(function(rows(5), device=True), chain(), rows(5))
    found = function(given[0], out=out)
    assert found[0] is out[0] and found[1] is out[1]
    equal(found, chain(), first)
    found = function(foreign(given[0]), out=[None, out[1]])
    assert found[1] is out[1]
    equal(found, chain(), first)


def test_the_stream_on_which_the_owner_works(device: Emulated) -> None:
    function = compiled(chain(), device)
    given = function(rows(5), device=True)[0]
    first = given.numpy()
    for stream in (0, 4242, 4242, 1):
        Foreign.working = stream
        found = function(foreign(given))
        assert found[0].stream == (0 if stream == 1 else stream)
        equal(found, chain(), first)
    assert function(foreign(given), stream=5151)[0].stream == 5151


def test_one_axis_and_none_lie_row_by_row(device: Emulated) -> None:
    function = compiled(chain(), device)
    given = function(rows(5), device=True)[0]
    line = given.numpy().reshape(-1)
    equal(function(foreign(given, shape=(1, 7), strides=(99, 1))), chain(), line[:7].reshape(1, 7))
    equal(function(foreign(given, shape=(7, 1), strides=(1, 99))), chain(), line[:7].reshape(7, 1))
    equal(function(foreign(given, shape=(0, 7), strides=(3, 3))), chain(), np.zeros((0, 7), np.float32))


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "f8"},
        {"shape": (200,)},
        {"strides": (1, 5)},
        {"place": (2, 1)},
        {"place": (13, 0)},
    ],
)
def test_what_native_code_does_not_take(changes: dict[str, object], device: Emulated) -> None:
    """It is asked for through Python, which here says no."""
    function = compiled(chain(), device)
    given = function(rows(5), device=True)[0]
    with pytest.raises(EgshapeError, match=r"input 'x' (cannot be read as an array|lies on device 1)"):
        function(foreign(given, **changes))
    equal(function(foreign(given)), chain(), given.numpy())


def test_arrays_of_ours_that_do_not_fit(device: Emulated) -> None:
    function, other = compiled(chain(), device), compiled(chain(), Emulated())
    one, total = function(rows(5), device=True)
    with pytest.raises(EgshapeError, match="wants rank 2"):
        function(total)
    with pytest.raises(EgshapeError, match="takes 1 input, got 2"):
        function(one, total)
    with pytest.raises(EgshapeError, match="lies on device 0"):
        function(other(rows(5), device=True)[0])
    with pytest.raises(EgshapeError, match="out wants 2 arrays, got 1"):
        function(one, out=one)
    with pytest.raises(EgshapeError, match="out for 'out0' overlaps another array"):
        function(one, out=[one, None])
    half = Interface(one, shape=(5,), data=(one.address + 16, False))
    with pytest.raises(EgshapeError, match="out for 'out1' overlaps another array"):
        function(one, out=[None, half])
    with pytest.raises(EgshapeError, match=r"the shape \(5, 40\), the result \(4, 40\)"):
        function(rows(4), out=[one, None], device=True)
    equal(function(one), chain(), one.numpy())


def test_memory_of_results_that_nobody_has_is_given_back_where_it_is_short(device: Emulated) -> None:
    function = compiled(chain(), device)
    one = function(rows(8), device=True)[0]
    function(one), function(one)
    device.room = device.used() + 1000
    found = function(rows(12), device=True)
    equal(found, chain(), rows(12))
    device.room = 1 << 30


@pytest.mark.parametrize(("number", "given"), [(1, False), (2, False), (1, True)])
def test_an_allocation_that_fails_once(number: int, given: bool, device: Emulated) -> None:
    """What a call got before is given back, and the call is right the second time, also with the caller's memory."""
    function = compiled(chain(), device)
    one, out = function(rows(5), device=True)[0], function(rows(9), device=True)[0]
    for _ in range(3):
        kept = function(rows(11), device=True)  # so that memory of results is too small, and the arena is not
    del kept
    device.fail("cuMemAllocFromPoolAsync", number, 2)
    n = 9 if given else 13
    found = function(rows(n), device=True, out=[out, None] if given else None)
    equal(found, chain(), rows(n))
    equal(function(one), chain(), one.numpy())


def test_shapes_that_change(device: Emulated) -> None:
    """Memory of another size is new, and results have their own shapes."""
    function = compiled(chain(), device)
    for n in (5, 5, 9, 3, 9, 0, 5):
        given = function(rows(n), device=True)[0]
        assert given.shape == (n, 40)
        equal(function(given), chain(), given.numpy())
