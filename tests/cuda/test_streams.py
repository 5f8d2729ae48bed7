"""Streams that run when they like: what a program, its caller and other libraries do on them is ordered by events and
waits, or by nothing. Every test runs with work as late as it may be, and in random orders."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from egshape.ir.interpret import interpret
from egshape.runtime.cuda.arrays import DeviceArray
from tests.cuda import test_device as ordered
from tests.cuda.device import APART
from tests.cuda.foreign import Foreign
from tests.cuda.streams import Adversary, modes
from tests.cuda.test_device import Capsule, Interface, chain, chained, rows

SIDE, OTHER = 4242, 5151
"""Streams of a caller."""
RUBBISH = 0xFE


@pytest.fixture(params=list(modes()), ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[Adversary]:
    """A device; nothing goes wrong on it, even when all of its work is done, and all memory is given back."""
    found = Adversary(request.param)
    Foreign.working = 0
    yield found
    gc.collect()
    found.drain()
    assert not found.faults, found.faults[0]
    assert not found.blocks, f"{found.used()} bytes are still allocated"
    assert found._depth == 0, "the context of the device is still current"


@pytest.mark.parametrize(
    "test",
    [
        ordered.test_a_counted_loop_never_waits_for_the_device,
        ordered.test_a_size_that_data_tells,
        ordered.test_a_condition_on_data,
        ordered.test_arrays_stay_on_the_device,
        ordered.test_arrays_of_other_libraries,
        ordered.test_an_array_that_is_not_aligned_is_copied,
        ordered.test_results_in_arrays_of_the_caller,
        ordered.test_streams_of_the_caller,
        ordered.test_sizes_that_come_again_are_captured,
        ordered.test_constants_are_there_before_the_first_call,
        ordered.test_several_threads,
        ordered.test_profile,
    ],
    ids=lambda test: test.__name__,
)
def test_what_holds_in_order(test: Callable[[Adversary], None], device: Adversary) -> None:
    test(device)


def put(device: Adversary, stream: int, address: int, array: np.ndarray) -> None:
    """Let a stream write an array when its turn comes."""
    data = array.tobytes()
    device.put(stream, lambda: ctypes.memmove(address - APART, data, len(data)) and None)


def spoil(device: Adversary, stream: int, address: int, size: int) -> None:
    """Let a stream write rubbish when its turn comes."""
    device.put(stream, lambda: ctypes.memset(address - APART, RUBBISH, size) and None)


class Memory:
    """Memory of another library on the device."""

    def __init__(self, device: Adversary, size: int) -> None:
        self.device, self.size = device, size
        self.address = device.driver().made("cuMemAlloc_v2", size)

    def free(self) -> None:
        self.device.drain()
        assert not self.device._cuMemFree_v2(self.address)


@pytest.fixture
def memory(device: Adversary) -> Iterator[Memory]:
    found = Memory(device, 5 * 40 * 4)
    yield found
    found.free()


def exact(array: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the chain gives."""
    return tuple(interpret(chain(), [array]))


def close(found: tuple[DeviceArray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    for mine, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(mine), one, rtol=1e-5)


def test_the_host_writes_to_its_arrays_after_a_call(device: Adversary) -> None:
    function = chained(device)
    for stays in (True, False, True, True):
        x = rows(5)
        found = function(x, device=stays)
        x[:] = np.nan
        close(found, exact(rows(5)))


Maker = Callable[[Memory, int], object]


def _interface(memory: Memory, stream: int) -> object:
    item = Interface.__new__(Interface)
    item.__cuda_array_interface__ = {
        "data": (memory.address, False),
        "shape": (5, 40),
        "typestr": "<f4",
        "version": 3,
        "stream": stream or 1,
    }
    return item


def _foreign(memory: Memory, stream: int) -> object:
    Foreign.working = stream
    return Foreign(memory.address, (5, 40))


@pytest.mark.parametrize("make", [_interface, _foreign])
@pytest.mark.parametrize("theirs", [0, SIDE])
@pytest.mark.parametrize("ours", [None, 0, OTHER, SIDE])
def test_who_owns_an_array_goes_on_with_it(
    make: Maker, theirs: int, ours: int | None, device: Adversary, memory: Memory
) -> None:
    """Its stream makes the array before the call, and writes to it behind; the caller says nothing of that stream."""
    function = chained(device)
    for n in range(4):
        put(device, theirs, memory.address, rows(5) + n)
        found = function(make(memory, theirs), stream=ours)
        spoil(device, theirs, memory.address, memory.size)
        close(found, exact(rows(5) + n))


@pytest.mark.parametrize("make", [_interface, _foreign])
@pytest.mark.parametrize("theirs", [0, SIDE])
def test_results_in_memory_of_others(make: Maker, theirs: int, device: Adversary, memory: Memory) -> None:
    """Their stream has used the memory before, and reads the result behind the call."""
    function = chained(device)
    held: list[bytes] = []
    for n in range(3):
        spoil(device, theirs, memory.address, memory.size)
        function(rows(5) + n, out=[make(memory, theirs), None], device=True)
        device.put(theirs, lambda: held.append(ctypes.string_at(memory.address - APART, memory.size)))
    device.drain()
    for n, data in enumerate(held):
        np.testing.assert_allclose(np.frombuffer(data, np.float32).reshape(5, 40), exact(rows(5) + n)[0], rtol=1e-5)


@pytest.mark.parametrize("reader", [None, 1, 2, SIDE])
@pytest.mark.parametrize("stream", [None, 0, OTHER])
def test_results_are_read_by_others(reader: int | None, stream: int | None, device: Adversary) -> None:
    """Another library reads a result on its stream, later than the result is dropped and computed again."""
    function = chained(device)
    theirs = {None: 0, 1: 0}.get(reader, reader)
    assert theirs is not None
    held: list[bytes] = []
    for n in range(4):
        found, _ = function(rows(5) + n, device=True, stream=stream)
        capsule, address = found.__dlpack__(stream=reader), found.address
        device.put(theirs, lambda address=address: held.append(ctypes.string_at(address - APART, 800)))
        del found, capsule, _
    device.drain()
    for n, data in enumerate(held):
        np.testing.assert_allclose(np.frombuffer(data, np.float32).reshape(5, 40), exact(rows(5) + n)[0], rtol=1e-5)


@pytest.mark.parametrize("streams", [(None, SIDE), (0, SIDE), (SIDE, None), (SIDE, OTHER), (2, None), (SIDE, 2)])
def test_results_go_from_stream_to_stream(streams: tuple[int | None, int | None], device: Adversary) -> None:
    """A result is an input on another stream, and dropped; its memory is used again at once."""
    function = chained(device)
    kept = []
    for n in range(5):
        one, _ = function(rows(5) + n, device=True, stream=streams[0])
        kept.append(function(one, stream=streams[1]))
        del one, _
    for n, found in enumerate(kept):
        close(found, exact(exact(rows(5) + n)[0]))


def test_memory_of_results_is_used_again(device: Adversary) -> None:
    """A loop of calls on results allocates nothing once it has two of each."""
    function = chained(device)
    state, wanted = function(rows(5), device=True)[0], exact(rows(5))[0]
    for _ in range(2):
        state, wanted = function(state)[0], exact(wanted)[0]
    before = device.calls["cuMemAllocFromPoolAsync"]
    for _ in range(5):
        state, wanted = function(state)[0], exact(wanted)[0]
    assert device.calls["cuMemAllocFromPoolAsync"] == before
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-4)


def test_a_capsule_without_a_stream_is_held(device: Adversary, memory: Memory) -> None:
    """An owner that says nothing of its stream gets its array back when the device has read it."""
    function, made = chained(device), []
    for n in range(12):
        given, _ = function(rows(5) + n, device=True)
        made.append(function(Capsule(given), stream=SIDE))
        del given, _
    for n, found in enumerate(made):
        close(found, exact(exact(rows(5) + n)[0]))


def test_a_stream_of_the_caller_may_go_before_the_function(device: Adversary) -> None:
    """What waits for the work of a stream that is gone waits for an event."""
    function = chained(device)
    stream = device.driver().made("cuStreamCreate", 1)
    for n in range(3):
        function(rows(5) + n, device=True, stream=stream)
    with device.lock:
        device._cuStreamSynchronize(stream)
        device._cuStreamDestroy_v2(stream)
    function(rows(5))
    del function
