"""Programs for a CUDA device, end to end on one that is not there: its memory is apart from the host's."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

import egshape
from egshape.adapters.cuda import compile_function
from egshape.adapters.native import failure
from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.interpret import interpret
from egshape.lower.drivers.cuda import Cuda, compile_cuda
from egshape.runtime import RunError
from egshape.runtime.cuda import call as cuda_call
from egshape.runtime.cuda import driver as cuda
from egshape.runtime.cuda.arrays import DeviceArray
from egshape.runtime.cuda.driver import chosen_image
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.device import APART, ARCHITECTURE, Emulated, compiled, image
from tests.fuzz.differential import argument, constant, graph_of, region, wanted
from tests.fuzz.engine import program
from tests.fuzz.maker import arrays_at, bearable, variations
from tests.lower import test_host_calls as host_calls
from tests.lower.checking import assert_close, call, check_model
from tests.lower.test_updates import loop

N, M = symbol("n"), symbol("m")


@pytest.fixture
def device() -> Iterator[Emulated]:
    """A device; nothing went wrong on it, and all of its memory is given back in the end."""
    found = Emulated()
    yield found
    assert not found.faults, found.faults[0]
    gc.collect()
    assert not found.blocks, f"{found.used()} bytes are still allocated"
    assert found._depth == 0, "the context of the device is still current"


@pytest.mark.long_but("convnet", "nonzero_size", "mlp_concat_split")
def test_model(model_name: str, shared_models: Path, device: Emulated) -> None:
    graph = egshape.load(shared_models / f"{model_name}.mlir")
    function = compiled(egshape.optimize(graph, validate=False, explain=False).graph, device)
    check_model(function, model_name, shared_models)
    assert device.launched


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_program(seed: int, device: Emulated) -> None:
    maker, graph = program(seed, (), 8)
    function = compiled(graph, device)
    for sizes, numbers in variations(maker, seed, 4):
        if not bearable(graph, sizes):
            continue
        arrays = arrays_at(graph, sizes, numbers, seed)
        expected = wanted(graph, arrays)
        if expected.error is not None:
            with pytest.raises(EgshapeError):
                function(*arrays)
            continue
        for found, exact in zip(call(function, arrays), expected.results, strict=True):
            assert_close(found, exact, 3e-5 if found.dtype == np.float32 else None)


def chain() -> Graph:
    """Rows of exp(x) reversed, and their sums, behind a check of their number."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, M])
    b.add("check", [], {"relation": "<=", "sides": (N, const(64)), "message": "{0} rows are too many", "args": (N,)})
    y = b.one("exponential", [x])
    (total,) = b.add("reduce", [y, constant(b, 0, "f32")], {"dims": (1,)}, regions=(region(b, "add", "f32"),))
    return graph_of(b, b.one("reverse", [y], {"dims": (0,)}), b.one("reverse", [total], {"dims": (0,)}))


@functools.cache
def _chain(zones: str) -> Cuda:
    assert zones == os.environ.get("EGSHAPE_REDZONES", "")
    return compile_cuda(chain(), (ARCHITECTURE,), make=image)


def chained(device: Emulated) -> CudaFunction:
    """The chain on a device, compiled once for all, and once more where memory has zones around it."""
    made = _chain(os.environ.get("EGSHAPE_REDZONES", ""))
    return CudaFunction(
        made.manifest, made.entries, made.images, made.constants, made.keep, failure, open=device.driver
    )


def rows(n: int, m: int = 40) -> np.ndarray:
    """Numbers."""
    return np.random.default_rng(n).normal(size=(n, m)).astype(np.float32)


def equal(found: object, graph: Graph, *arrays: np.ndarray) -> None:
    """Hold results against the interpreter's."""
    results = found if isinstance(found, tuple) else (found,)
    for mine, exact in zip(results, interpret(graph, arrays), strict=True):
        assert_close(np.asarray(mine), exact, 1e-5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0), (1, 1), (1, 40), (64, 33)])
def test_sizes_of_all_kinds(shape: tuple[int, int], device: Emulated) -> None:
    function, graph = chained(device), chain()
    equal(function(rows(*shape)), graph, rows(*shape))
    if 0 in shape:
        assert all("exponential" not in name for name in device.launched)


def test_a_failed_check_runs_nothing(device: Emulated) -> None:
    function = chained(device)
    with pytest.raises(CheckFailed, match="65 rows are too many"):
        function(rows(65))
    assert not device.launched
    equal(function(rows(3)), chain(), rows(3))


# -- what the host decides by ------------------------------------------------------------------------------------------


def test_a_counted_loop_never_waits_for_the_device(device: Emulated) -> None:
    """The counter and its comparison run on the host; the device gets the counter where it reads it."""
    b = BlockBuilder()
    x, u = argument(b, "x", "f32", [N, 8]), argument(b, "u", "f32", [1, 8])

    def step(body: BlockBuilder, i: Value, a: Value) -> Value:
        return body.one("negate", [body.one("dynamic_update_slice", [a, u, i, constant(body, 0, "i32")])])

    graph = graph_of(b, loop(b, x, 3, step))
    function = compiled(graph, device)
    arrays = rows(5, 8), rows(1, 8)
    equal(function(*arrays), graph, *arrays)
    assert device.calls["cuMemcpyDtoHAsync_v2"] == 1 and device.calls["cuStreamSynchronize"] == 1
    assert len(device.launched) >= 6


def test_a_size_that_data_tells(device: Emulated) -> None:
    """The number of true elements is computed on the device, read back once, and sizes what follows."""
    b = BlockBuilder()
    x = argument(b, "x", "i1", [N])
    counted = b.one("convert", [x], {"dtype": "i32"})
    (total,) = b.add("reduce", [counted, constant(b, 0, "i32")], {"dims": (0,)}, regions=(region(b, "add", "i32"),))
    (size,), needs = b.sizes("count", b.one("reshape", [total], {"shape": (const(1),)}), "shape")
    (found,) = b.add("iota", [], {"shape": (size,), "dim": 0, "dtype": "i32"}, requires=needs)
    graph = graph_of(b, b.one("multiply", [found, found]))
    function = compiled(graph, device)
    for n in (0, 1, 7, 300):
        flags = np.random.default_rng(n).random(n) < 0.5
        equal(function(flags), graph, flags)
    stays = function(flags, device=True)
    assert stays.shape == (int(flags.sum()),)
    equal(stays, graph, flags)
    for where in (True, False, True, False):  # memory of the device is never taken for the host's
        equal(function(flags, stream=function.stream, device=where), graph, flags)
    few, many = np.arange(300) < 5, np.arange(300) < 200
    for first, second in ((few, many), (many, few)):
        given = function(first, device=True)
        with pytest.raises(EgshapeError, match="has the shape"):
            function(second, device=True, out=given)
        assert function(first, device=True, out=given) is given
        equal(given, graph, first)


def test_a_condition_on_data(device: Emulated) -> None:
    b = BlockBuilder()
    x, limit = argument(b, "x", "f32", [N]), argument(b, "limit", "f32", [])
    fine = b.one("compare", [limit, constant(b, 2, "f32")], {"direction": "LT", "kind": "FLOAT"})
    b.add("check", [fine, limit], {"relation": "value", "message": "{0} is not below 2"})
    graph = graph_of(b, b.one("multiply", [x, b.one("broadcast_in_dim", [limit], {"shape": (N,), "dims": ()})]))
    function = compiled(graph, device)
    arrays = np.arange(5, dtype=np.float32), np.float32(1.5)
    equal(function(*arrays), graph, *map(np.asarray, arrays))
    with pytest.raises(CheckFailed, match=r"3\.5 is not below 2"):
        function(arrays[0], np.float32(3.5))


# -- arrays of the device ---------------------------------------------------------------------------------------------


def test_arrays_stay_on_the_device(device: Emulated) -> None:
    """Results are inputs again: nothing is copied, and nothing waits."""
    function = chained(device)
    one, total = function(rows(5), device=True)
    before = dict(device.calls)
    two, again = function(one)
    assert (one.shape, total.shape, two.shape) == ((5, 40), (5,), (5, 40))
    for name in ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"):
        assert device.calls[name] == before.get(name, 0), f"{name} is called"
    first = interpret(chain(), [rows(5)])[0]
    equal((two, again), chain(), first)
    back = function(one, device=False)
    assert isinstance(back[0], np.ndarray)
    equal(back, chain(), first)


class Interface:
    """An array of another library: only its interface."""

    def __init__(self, array: object, **changes: object) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}
        self.keep = array


class Capsule:
    """An array of another library: only DLPack."""

    def __init__(self, array: object, device: int = 0) -> None:
        self.array, self.device, self.streams = array, device, list[int]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)


def test_arrays_of_other_libraries(device: Emulated) -> None:
    function = chained(device)
    given, _ = function(rows(6), device=True)
    first = interpret(chain(), [rows(6)])[0]
    for item in (Interface(given), Capsule(given), Interface(given, strides=(160, 4), stream=77)):
        found = function(item)
        assert not isinstance(found[0], np.ndarray)
        equal(found, chain(), first)
    foreign = Capsule(given)
    equal(function(foreign, stream=4242), chain(), first)
    assert foreign.streams == [4242]
    given.__dlpack__()  # a capsule that nobody takes


class Tensor:
    """What is read of torch's tensors."""

    __module__ = "torch"
    dtype = "torch.float32"

    def __init__(self, array: DeviceArray, device: int | None = 0, plain: bool = True) -> None:
        self.array, self.shape, self.device, self.plain = array, array.shape, device, plain
        self.is_cuda = device is not None

    def data_ptr(self) -> int:
        return self.array.address

    def get_device(self) -> int:
        return -1 if self.device is None else self.device

    def is_neg(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return self.plain

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array.numpy()


@pytest.mark.parametrize("queued", [0, 9090])
def test_tensors_of_torch(queued: int, device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a capsule, on the stream on which torch works."""
    stream = SimpleNamespace(cuda_stream=queued)
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda device: stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    function = chained(device)
    given, _ = function(rows(6), device=True)
    first = interpret(chain(), [rows(6)])[0]
    equal(function(Tensor(given)), chain(), first)
    assert queued in device.streams and not device.calls["cuStreamWaitEvent"]
    assert isinstance(function(Tensor(given, None))[0], np.ndarray)
    for tensor, message in ((Tensor(given, 1), "lies on device 1"), (Tensor(given, plain=False), "row by row")):
        with pytest.raises(EgshapeError, match=message):
            function(tensor)


def test_an_array_that_is_not_aligned_is_copied(device: Emulated) -> None:
    function = chained(device)
    given, _ = function(rows(6), device=True)
    first = interpret(chain(), [rows(6)])[0]
    shape, address = (5, 39), given.address + 4
    item = Interface(given, shape=shape, data=(address, False))
    equal(function(item), chain(), first.reshape(-1)[1:196].reshape(shape))
    assert device.calls["cuMemcpyDtoDAsync_v2"] == 1


def test_results_in_arrays_of_the_caller(device: Emulated) -> None:
    function = chained(device)
    one, _ = function(rows(5), device=True)
    first = interpret(chain(), [rows(5)])[0]
    found = function(rows(5), out=[one, None])
    assert found[0] is one
    equal(found, chain(), rows(5))
    out = [np.empty((5, 40), np.float32), np.empty(5, np.float32)]
    mixed = function(one, out=out)
    assert mixed[0] is out[0]
    equal(mixed, chain(), first)
    equal(function(rows(5), out=out), chain(), rows(5))
    with pytest.raises(EgshapeError, match=r"out for 'out0' has the shape \(5, 40\), the result \(6, 40\)"):
        function(rows(6), out=[one, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: Capsule(array, 1), "lies on device 1, the function runs on device 0"),
        (lambda array: Interface(array, strides=(4, 20)), "does not lie row by row"),
        (lambda array: Interface(array, typestr="<f8"), "wants elements of float32, got f8"),
        (lambda array: Interface(array, shape=(200,)), "wants rank 2"),
        (lambda array: Interface(array, mask=array), "has a mask"),
    ],
)
def test_arrays_that_cannot_be_taken(change: Callable[[object], object], message: str, device: Emulated) -> None:
    function = chained(device)
    given, _ = function(rows(5), device=True)
    with pytest.raises(EgshapeError, match=message) as caught:
        function(change(given))
    assert caught.value.code == "input"


def test_streams_of_the_caller(device: Emulated) -> None:
    """Everything of a call goes to its stream, and what a stream has in use no other one gets."""
    function = chained(device)

    class Stream:
        cuda_stream = 5151

    for stream in (4242, Stream(), None, 4242, 0):
        equal(function(rows(5), stream=stream), chain(), rows(5))
    assert {4242, 5151, 0} < device.streams
    with pytest.raises(EgshapeError, match="str is no stream"):
        function(rows(5), stream="main")


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_sizes_that_come_again_are_captured(device: Emulated) -> None:
    function = chained(device)
    for _ in range(4):
        equal(function(rows(5)), chain(), rows(5))
    assert device.calls["cuStreamBeginCapture_v2"] == 1 and device.calls["cuGraphLaunch"] == 3
    launches = device.calls["cuLaunchKernel"]
    equal(function(-rows(5)), chain(), -rows(5))
    assert device.calls["cuLaunchKernel"] == launches, "a replay launches one graph"
    equal(function(rows(7)), chain(), rows(7))
    assert device.calls["cuGraphLaunch"] == 4, "another size runs kernel by kernel first"


def test_only_some_graphs_are_kept(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not used any more gives way."""
    monkeypatch.setattr(cuda_call, "GRAPHS", 4)
    function = chained(device)
    for n in range(1, 13):
        for _ in range(10):
            equal(function(rows(n, 3)), chain(), rows(n, 3))
    assert device.calls["cuGraphInstantiateWithFlags"] == 12 and len(device._graphs) <= 4
    equal(function(rows(1, 3)), chain(), rows(1, 3))


def test_many_sizes_in_turn_are_captured(device: Emulated) -> None:
    function = chained(device)
    function(rows(60, 3))  # memory for all
    for _ in range(3):
        for n in range(1, 41):
            equal(function(rows(n, 3)), chain(), rows(n, 3))
    assert device.calls["cuGraphInstantiateWithFlags"] == 40 and device.calls["cuGraphLaunch"] == 80


def test_more_sizes_in_turn_than_graphs(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are captured and stay so."""
    monkeypatch.setattr(cuda_call, "GRAPHS", 4)
    function = chained(device)
    function(rows(60, 3))  # memory for all
    for _ in range(10):
        for n in range(1, 7):
            equal(function(rows(n, 3)), chain(), rows(n, 3))
    assert device.calls["cuGraphInstantiateWithFlags"] == 4 and device.calls["cuGraphLaunch"] == 36


def test_sizes_that_never_come_again_push_no_graph_out(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_call, "GRAPHS", 4)
    function = chained(device)
    function(rows(60, 3))  # memory for all
    for n in (1, 1, 2, 2, *range(10, 60), 1, 2):
        equal(function(rows(n, 3)), chain(), rows(n, 3))
    assert device.calls["cuGraphInstantiateWithFlags"] == 2 and device.calls["cuGraphLaunch"] == 4


@pytest.mark.parametrize("name", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_where_nothing_can_be_captured_kernels_are_launched(name: str, device: Emulated) -> None:
    function = chained(device)
    for number in (1, 2):
        device.fail(name, number, 901)
    for n in (3, 3, 3, 4, 4):
        equal(function(rows(n)), chain(), rows(n))
    assert device.calls[name] == 2 and not device.calls["cuGraphLaunch"]


@pytest.mark.parametrize("name", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_a_capture_that_fails_is_tried_once_more(name: str, device: Emulated) -> None:
    function = chained(device)
    device.fail(name, 1, 901)
    for _ in range(3):
        equal(function(rows(3)), chain(), rows(3))
    assert device.calls[name] == 2 and device.calls["cuGraphLaunch"] == 2


def test_a_stream_that_the_caller_captures_is_refused(device: Emulated) -> None:
    function = chained(device)
    stream = device.driver().made("cuStreamCreate", 1)
    function(rows(3), stream=stream)
    device._cuStreamBeginCapture_v2(stream, 0)
    allocated = device.used()
    with pytest.raises(EgshapeError, match="the stream is being captured"):
        function(rows(3), stream=stream)
    assert not device.capturing[stream] and device.used() == allocated
    device.capturing.pop(stream)
    equal(function(rows(3), stream=stream, device=False), chain(), rows(3))


def test_constants_are_there_before_the_first_call(device: Emulated) -> None:
    """Copies of pageable memory may return before the device has it."""
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N, const(64)])
    weights = b.one("constant", [], {"value": np.arange(64 * 8, dtype=np.float32).reshape(64, 8)})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    graph = graph_of(b, b.one("dot_general", [x, weights], attrs))
    stream = device.driver().made("cuStreamCreate", 1)
    found = compiled(graph, device)(np.ones((2, 64), np.float32), stream=stream, device=False)
    np.testing.assert_array_equal(found, interpret(graph, [np.ones((2, 64), np.float32)])[0])


def test_tables_of_a_call_that_are_half_made_are_given_back(device: Emulated) -> None:
    for name in ("cuStreamCreate", "cuEventCreate"):
        function = chained(device)
        function.load()
        device.fail(name, 1, 2)
        with pytest.raises(EgshapeError, match="error 2"):
            function(rows(3))
        equal(function(rows(3)), chain(), rows(3))


def test_a_failure_inside_of_a_capture_ends_it(device: Emulated) -> None:
    function = chained(device)
    function(rows(3))
    device.fail("cuLaunchKernel", 2, 719)
    with pytest.raises(EgshapeError, match="error 719"):
        function(rows(3))
    assert not device.capturing
    equal(function(rows(3)), chain(), rows(3))


def test_several_threads(device: Emulated) -> None:
    """Each call has tables, an arena and a capture of its own."""
    function = chained(device)

    def run(number: int) -> None:
        for n in (3, 3, 3, number + 1):
            equal(function(rows(n)), chain(), rows(n))
            equal(function(rows(n), device=True), chain(), rows(n))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(8)))


# -- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_names_the_kernel_and_its_place(device: Emulated) -> None:
    function = chained(device)
    device.fail("cuLaunchKernel", 1, 719)
    with pytest.raises(EgshapeError, match=r"the kernel 0_\w+: cuLaunchKernel fails: error 719") as caught:
        function(rows(3))
    assert caught.value.code == "cuda" and "reduce %" in caught.value.where
    device.fail("cuStreamSynchronize", 1, 700)
    with pytest.raises(EgshapeError, match=r"for what was launched before: error 700 .*ILLEGAL_ADDRESS"):
        function(rows(3))
    equal(function(rows(3)), chain(), rows(3))


@pytest.mark.parametrize("name", ["cuCtxPushCurrent_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_every_function_may_fail(name: str, device: Emulated) -> None:
    function = chained(device)
    function(rows(3))
    device.fail(name, 1, 999)
    with pytest.raises(EgshapeError, match="error 999"):
        function(rows(3))
    if name == "cuCtxPushCurrent_v2":
        device._depth = 0
    equal(function(rows(3)), chain(), rows(3))


def test_out_of_memory_says_what_was_asked() -> None:
    device = Emulated(room=100_000)
    function = chained(device)
    with pytest.raises(EgshapeError, match=r"no memory for the arena: .*m\*n.* = \d+ bytes; 100000 are free") as caught:
        function(rows(64, 999))
    assert caught.value.code == "memory"
    equal(function(rows(3)), chain(), rows(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "finds no device"),
        ({"version": 11040}, "kernels of CUDA 13.0, the driver is one of CUDA 11.4"),
    ],
)
def test_machines_that_cannot_run_it(changes: dict[str, int], message: str) -> None:
    device = Emulated(**changes)
    made = compile_cuda(chain(), (ARCHITECTURE,), make=image)
    manifest = {**made.manifest, "toolkit": [13, 0]}
    function = CudaFunction(manifest, made.entries, made.images, made.constants, made.keep, open=device.driver)
    with pytest.raises(RunError, match=message):
        function(rows(3))


def test_no_kernels_for_the_device() -> None:
    device = Emulated()
    made = compile_cuda(chain(), ("sm_80", "sm_100"), make=image)
    function = CudaFunction(made.manifest, made.entries, made.images, made.constants, made.keep, open=device.driver)
    with pytest.raises(RunError, match=r"holds kernels for sm_80, sm_100, the device is sm_90"):
        function(rows(3))


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("sm_80", "sm_90"), "sm_90"),
        (("sm_80", "sm_86", "sm_89"), None),
        (("sm_90a",), "sm_90a"),
        (("emulated",), None),
    ],
)
def test_the_image_for_a_device(names: tuple[str, ...], wanted: str | None) -> None:
    assert chosen_image(dict.fromkeys(names, b""), (9, 0)) == wanted
    assert chosen_image({"sm_80": b"", "sm_86": b"", "sm_89": b""}, (8, 7)) == "sm_86"
    assert chosen_image({"sm_90a": b""}, (9, 2)) is None


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda.so.none")
    monkeypatch.setattr(cuda, "_DRIVERS", {})
    made = compile_cuda(chain(), (ARCHITECTURE,), make=image)
    function = CudaFunction(made.manifest, made.entries, made.images, made.constants, made.keep)
    with pytest.raises(RunError, match="there is no CUDA driver"):
        function(rows(3))


def test_a_host_address_is_noticed(device: Emulated) -> None:
    """The device would fault at an address of the host, and the emulated one does too."""
    function = chained(device)
    item = Interface(function(rows(3), device=True)[0], data=(rows(3).ctypes.data, False))
    with pytest.raises(EgshapeError, match="error 700"):
        function(item)
    assert "no memory of the device" in device.faults.pop() and APART > 2**47


# -- times ------------------------------------------------------------------------------------------------------------


def test_profile(device: Emulated) -> None:
    function = chained(device)
    found = function.profile(rows(8), runs=3)
    kernels = {each.name: each for each in found.kernels}
    assert kernels["upload"].bytes == 8 * 40 * 4 and kernels["download"].calls == 2
    assert all(each.seconds == pytest.approx(0.0005 * each.calls) for each in found.kernels)
    assert any(name.endswith("_reverse") for name in kernels)
    assert "GB/s" in str(found)
    equal(function(rows(8)), chain(), rows(8))


# -- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"raise"])
def test_python_is_called_between_kernels(payload: bytes, device: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays are copied down and its results up; what it raises reaches the caller."""
    monkeypatch.setitem(host_calls.host.RESOLVERS, "test", f"{host_calls.__name__}:positive")
    host_calls.host.resolve.cache_clear()
    function = compile_function(host_calls.graph(payload), (ARCHITECTURE,), make=image, open=device.driver)
    for n, stays in ((0, False), (7, False), (33, True)):
        x = rows(n, 1)[:, 0]
        if payload:
            with pytest.raises(KeyError, match="mine"):
                function(x, device=stays)
            continue
        where, rest = function(x, device=stays)
        np.testing.assert_array_equal(np.asarray(where), 2 * np.flatnonzero(-x > 0))
        np.testing.assert_array_equal(np.asarray(rest), -x)


def test_what_is_dropped_ends_no_capture_of_another_thread(device: Emulated) -> None:
    """Results, tables and programs go while somebody captures a stream of theirs: nothing waits for all of the device,
    and what is called is marked as no business of captures."""
    driver = device.driver()
    capture, side = driver.made("cuStreamCreate", 1), driver.made("cuStreamCreate", 1)
    function = chained(device)
    one, _ = function(rows(3), device=True)
    two, _ = function(rows(3), device=True, stream=side)
    capsule = one.__dlpack__(stream=side)
    device._cuStreamBeginCapture_v2(capture, 0)
    del one, two, _, capsule, function
    gc.collect()
    assert capture in device.capturing
    device.capturing.pop(capture)


def test_memory_that_the_pool_keeps_is_given_back(device: Emulated) -> None:
    function = chained(device)
    function(rows(3))
    before = device.calls["cuMemPoolTrimTo"]
    del function
    gc.collect()
    assert device.calls["cuMemPoolTrimTo"] == before + 1
