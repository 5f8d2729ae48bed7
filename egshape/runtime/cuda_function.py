"""A compiled graph as a callable on arrays of a CUDA device, or of the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.runtime.call import WORDS, Call
from egshape.runtime.cuda import OUT_OF_MEMORY, Driver, opened
from egshape.runtime.cuda_arrays import DeviceArray, View, device_view, dtype_text, is_on_device
from egshape.runtime.cuda_call import FUNCTIONS, HOSTED, UNALIGNED, DeviceCall, Loaded, loaded
from egshape.runtime.cuda_profile import Log
from egshape.runtime.errors import HOST, SHAPES, RunError
from egshape.runtime.function import CompiledFunction
from egshape.runtime.host_calls import HostFunction
from egshape.runtime.memory import free, owned
from egshape.runtime.profile import Profile

DRIVER, MEMORY, CAPTURE = 11, 12, 13
"""What the entry reports besides the codes of ``errors``: lower/cuda/device.py."""
_ALIGN = 16
"""What kernels may rely on of the address of an array."""
_STRICT, _PROFILE = WORDS.index("strict"), WORDS.index("profile")
Opener = Callable[[], Driver]


class CudaFunction(CompiledFunction):
    """Calls native code that drives a device. Arrays of numpy go up and results come down; where an input lies on the
    device, or ``device=True``, results stay there (``DeviceArray``), and nothing waits for them.

    ``stream``: a stream of the caller's (its handle, or torch's or cupy's object) that all work goes to; without one, a
    stream of the function's own that the legacy default stream waits for. ``out`` may give an array, of the host or of
    the device, or None for each output. The driver is opened, and kernels are loaded, with the first call."""

    def __init__(self, manifest: Mapping[str, Any], entries: Mapping[str, int], images: Mapping[str, bytes],
                 constants: Sequence[np.ndarray], keep: object,
                 failure: Callable[[str, str, str], Exception] = RunError, save: Any = None,
                 open: Opener = opened, host_functions: Sequence[HostFunction] = ()) -> None:
        super().__init__(manifest, {**entries, "egshape_pool": 0}, constants, keep, failure, save, 1, host_functions)
        self._images = images
        self._open = open
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._streams: dict[int, list[DeviceCall]] = {}
        self._texts = [dtype_text(dtype) for _, dtype, _ in self._inputs]

    def load(self) -> None:
        """Open the driver and load the kernels now. Raises what a call would."""
        self._ready()

    @property
    def stream(self) -> int:
        """The handle of the stream that calls use which give none."""
        return self._ready().stream

    def _ready(self) -> Loaded:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = loaded(self._open(), self._images, self.manifest, self._constants)
                except RunError as error:
                    raise self._failed(error) from None
            return self._loaded

    def _failed(self, error: RunError) -> Exception:
        return error if self._failure is RunError else self._failure(error.message, error.code, error.where)

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, device: bool | None = None) -> Any:
        if stream is None and not device and not any(map(is_on_device, (*inputs, *_listed(out)))):
            return super().__call__(*inputs, out=out)
        try:
            return self._on_device(inputs, out, stream, device)
        except RunError as error:
            raise self._failed(error) from None

    def _new_call(self) -> Call:
        ready = self._ready()
        return self._call_on(ready, ready.stream)

    def _call_on(self, ready: Loaded, stream: int) -> DeviceCall:
        axes = sum(rank for _, _, rank in self._inputs)
        fixed = {"constants": self._constant_table.ctypes.data, "threads": 1, "host": self._host.address}
        return DeviceCall(len(self._inputs), axes, self._outputs, fixed, ready, stream, self.manifest["graph_words"])

    def _settled(self, code: int, call: Call, inputs: Sequence[Any], results: Any) -> Any:
        if code == CAPTURE and isinstance(call, DeviceCall):
            call.without_graphs()
            code = self._run(call, self._arrays(inputs), results)
        return super()._settled(code, call, inputs, results)

    def _described(self, code: int, words: list[int]) -> tuple[str, str, str]:
        ready = self._loaded
        if code not in (DRIVER, MEMORY) or ready is None:
            return super()._described(code, words)
        driver = ready.driver
        if code == MEMORY:
            request = self.manifest["requests"][words[1]]
            asked = f"{request['what']}: {request['expression']} = {words[2]} bytes"
            if words[0] == OUT_OF_MEMORY:
                with driver.current():
                    spare = driver.memory()[0]
                return f"the device has no memory for {asked}; {spare} are free", "memory", ""
            return f"the driver gives no memory for {asked}: {driver.error(words[0])}", "cuda", ""
        name = list(FUNCTIONS.values())[words[2]]
        if words[1] < 0:
            return f"{name} fails, for what was launched before: {driver.error(words[0])}", "cuda", ""
        row = self.manifest["kernels"][words[1]]
        return f"the kernel {row['name']}: {name} fails: {driver.error(words[0])}", "cuda", row["where"]

    def profile(self, *inputs: Any, runs: int = 10) -> Profile:
        """Where the time of a run goes on the device, kernel by kernel, over ``runs`` runs after a first one that is
        not counted: times between events before and behind each kernel, so that a kernel that ends before the next one
        is launched looks longer than it is."""
        arrays, call, seconds, runs = self._arrays(inputs), self._new_call(), 0.0, max(runs, 1)
        assert isinstance(call, DeviceCall)
        log = Log(call.loaded.driver)
        for number in range(runs + 1):
            start = time.perf_counter()
            results = call.fresh()
            call.words[_PROFILE] = log.address
            code = self._run(call, arrays, results)
            call.words[_PROFILE] = 0
            seconds += time.perf_counter() - start if number else 0.0
            if code or not number:
                log.clear()
                self._settled(code, call, arrays, results)
                continue
            log.take()
            self._settled(code, call, arrays, results)
        names = [row["name"] for row in self.manifest["kernels"]]
        return Profile(log.times(names, runs), seconds / runs, runs)

    # -- arrays of the device -----------------------------------------------------------------------------------------

    def _on_device(self, inputs: Sequence[Any], out: Any, stream: Any, device: bool | None) -> Any:
        ready = self._ready()
        handle = ready.stream if stream is None else _handle(stream)
        views = self._views(inputs, ready.driver, handle)
        stays = any(not view.hosted for view in views) if device is None else device
        given = self._given_views(out, ready.driver, handle)
        try:
            call = self._streams.setdefault(handle, []).pop()
        except IndexError:
            call = self._call_on(ready, handle)
        self._fill(call, views)
        results = self._run_on_device(call, given, stays)
        call.keep = views, given
        self._streams[handle].append(call)
        return results[0] if self._single else tuple(results)

    def _views(self, inputs: Sequence[Any], driver: Driver, stream: int) -> list[View]:
        if len(inputs) != len(self._inputs):
            raise RunError(f"takes {len(self._inputs)} inputs, got {len(inputs)}", "input")
        views = []
        for item, (name, dtype, rank), text in zip(inputs, self._inputs, self._texts, strict=True):
            if is_on_device(item):
                view = device_view(item, name, driver, stream)
            else:
                array = self._array(item, name)
                view = View(array.ctypes.data, array.shape, dtype_text(array.dtype), True, array)
            if view.dtype != text:
                raise RunError(f"input {name!r} wants elements of {dtype}, got {view.dtype}", "input")
            if len(view.shape) != rank:
                raise RunError(f"input {name!r} wants rank {rank}, got an array of rank {len(view.shape)}", "input")
            views.append(view)
        return views

    def _array(self, item: Any, name: str) -> np.ndarray:
        try:
            return np.ascontiguousarray(item) if np.ndim(item) else np.asarray(item)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"input {name!r} cannot be read as an array: {error}", "input") from None

    def _given_views(self, out: Any, driver: Driver, stream: int) -> list[tuple[View, Any] | None]:
        if out is None:
            return [None] * len(self._outputs)
        items = _listed(out)
        if len(items) != len(self._outputs):
            raise RunError(f"out wants {len(self._outputs)} arrays, got {len(items)}", "input")
        found: list[tuple[View, Any] | None] = []
        for item, output in zip(items, self._outputs, strict=True):
            if item is None:
                found.append(None)
                continue
            view = device_view(item, output.name, driver, stream) if is_on_device(item) else \
                View(item.ctypes.data, item.shape, dtype_text(item.dtype), True, item)
            plain = not view.hosted or (item.flags.c_contiguous and item.flags.writeable)
            if view.dtype != dtype_text(output.dtype) or len(view.shape) != output.rank or not plain \
                    or (not view.hosted and view.address % _ALIGN):
                raise RunError(f"out for {output.name!r} must be a writable, contiguous array of {output.dtype}, rank "
                               f"{output.rank}, at a multiple of {_ALIGN} bytes", "input")
            found.append((view, item))
        return found

    def _fill(self, call: DeviceCall, views: Sequence[View]) -> None:
        """The tables of the inputs."""
        words, at, inputs = call.words, call.at["sizes"], call.at["inputs"]
        for k, view in enumerate(views):
            words[inputs + k] = view.address
            for size in view.shape:
                words[at] = size
                at += 1
            call.hosted[k] = HOSTED if view.hosted else UNALIGNED if view.address % _ALIGN else 0

    def _run_on_device(self, call: DeviceCall, given: Sequence[tuple[View, Any] | None], stays: bool) -> list[Any]:
        """The results. Raises what went wrong."""
        code, fresh = SHAPES, list[Any]()
        while code in (SHAPES, CAPTURE):
            if code == CAPTURE:
                call.without_graphs()
            fresh = [None] * len(self._outputs) if stays else list(call.fresh())
            call.words[_STRICT] = int(not stays or any(given))
            for k, (mine, output) in enumerate(zip(given, self._outputs, strict=True)):
                call.hosted[len(self._inputs) + k] = int(not stays if mine is None else mine[0].hosted)
                if mine is not None:
                    fresh[k] = None
                    call.expect(k, mine[0].shape)
                    call.give(k, mine[0].address, int(np.prod(mine[0].shape, dtype=np.int64)) * output.dtype.itemsize)
                elif fresh[k] is not None:
                    call.expect(k, fresh[k].shape)
                    call.give(k, fresh[k].ctypes.data, fresh[k].nbytes)
                else:
                    call.give(k, 0, 0)
            code = self._entry(call.address)
            if code == SHAPES:
                self._fit(call.shapes(), given, late=False)
                call.learn()
        return self._results(code, call, given, fresh)

    def _fit(self, shapes: Sequence[tuple[int, ...]], given: Sequence[tuple[View, Any] | None], late: bool) -> None:
        for output, mine, shape in zip(self._outputs, given, shapes, strict=True):
            if mine is not None and output.late <= late and mine[0].shape != shape:
                raise RunError(f"out for {output.name!r} has the shape {mine[0].shape}, the result {shape}", "input")

    def _results(self, code: int, call: DeviceCall, given: Sequence[tuple[View, Any] | None],
                 fresh: Sequence[Any]) -> list[Any]:
        """The results, with those that the entry allocated. Raises what went wrong."""
        found, shapes = list[Any](), call.shapes()
        driver = call.loaded.driver
        for k, (output, shape) in enumerate(zip(self._outputs, shapes, strict=True)):
            address, mine, hosted = call.memory(k), given[k], bool(call.hosted[len(self._inputs) + k])
            own = mine is None or address != mine[0].address
            call.give(k, 0, 0)
            if fresh[k] is not None:
                found.append(fresh[k])
            elif not own and mine is not None:
                found.append(mine[1])
            elif not hosted:
                found.append(DeviceArray(address, shape, output.dtype, driver, call.stream, call.loaded))
            elif code:
                free(address)
                found.append(None)
            else:
                found.append(owned(address, shape, output.dtype))
        if code:
            raised = self._host.raised(threading.get_ident()) if code == HOST else None
            raise self._failure(*self._described(code, call.error())) if raised is None else raised
        self._fit(shapes, given, late=True)
        return found


def _listed(out: Any) -> list[Any]:
    return [] if out is None else list(out) if isinstance(out, list | tuple) else [out]


def _handle(stream: Any) -> int:
    """The driver's handle of a stream: a number, torch's ``cuda_stream``, cupy's ``ptr``, or ``__cuda_stream__``."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise RunError(f"{type(stream).__name__} is no stream: give its handle", "input")
