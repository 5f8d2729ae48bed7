"""A compiled graph as a callable on arrays of a CUDA device, or of the host."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.runtime.abi.call import DEVICE_CALL, DEVICE_CAPTURE, DEVICE_MEMORY, DEVICE_STREAM, OBJECT, SHAPES, WORDS
from egshape.runtime.abi.device import ALIGN, FUNCTIONS, HOSTED, UNALIGNED
from egshape.runtime.core.call import Call
from egshape.runtime.core.dlpack import LEGACY, PER_THREAD, dtype_text
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.memory import free, owned
from egshape.runtime.core.profile import Profile
from egshape.runtime.cuda.arrays import DeviceArray
from egshape.runtime.cuda.call import DeviceCall
from egshape.runtime.cuda.driver import OUT_OF_MEMORY, Driver
from egshape.runtime.cuda.profile import Log
from egshape.runtime.cuda.program import CudaProgram
from egshape.runtime.cuda.views import View, current_stream, device_view, is_on_device

_HOST = frozenset((np.ndarray, *(kind for kind in np.sctypeDict.values() if isinstance(kind, type))))
"""Types whose memory is the host's."""
_STRICT, _PROFILE = WORDS.index("strict"), WORDS.index("profile")


class CudaFunction(CudaProgram):
    """Calls native code that drives a device. Arrays of numpy go up and results come down; where an input lies on the
    device, or ``device=True``, results stay there (``DeviceArray``), and nothing waits for them.

    ``stream``: a stream of the caller's (its handle, or torch's or cupy's object) that all work goes to; without one,
    torch's current stream where a tensor of it is given, else a stream of the function's own that the default stream
    waits for. Inputs go by name as those of ``CompiledFunction``. ``out`` may give an array, of the host or of
    the device, or None for each output. The driver is opened, and kernels are loaded, with the first call."""

    def __call__(
        self, /, *inputs: Any, out: Any = None, stream: Any = None, device: bool | None = None, **named: Any
    ) -> Any:
        if named or (len(inputs) == 1 and type(inputs[0]) is dict):
            inputs = self.ordered(inputs, named)
        if stream is None and not device and out is None and _HOST.issuperset(map(type, inputs)):
            return super().__call__(*inputs)
        try:
            given = None if out is None else tuple(_listed(out))
            if device is not False and not self._redzones and not self._gives_late(given):
                found = self._at_once(inputs, given, stream, bool(device))
                if found is not None:
                    return found[0] if self._single else found
            if stream is None and not device and not any(map(is_on_device, (*inputs, *(given or ())))):
                return super().__call__(*inputs, out=out)
            return self._on_device(inputs, given, stream, device)
        except RunError as error:
            raise self._failed(error) from None

    def _gives_late(self, given: Sequence[Any] | None) -> bool:
        """Whether the caller gives an array for a result whose shape is known once it is computed: native code, which
        makes results where their shapes are known, does not look whether such an array fits."""
        pairs = zip(given or (), self._outputs, strict=False)
        return any(each is not None and output.late for each, output in pairs)

    def _settled(self, code: int, call: Call, inputs: Sequence[Any], results: Any) -> Any:
        if isinstance(call, DeviceCall) and self._may_again(code, call):
            code = self._run(call, self._arrays(inputs), results)
        return super()._settled(code, call, inputs, results)

    def _run(self, call: Call, arrays: tuple[np.ndarray, ...], results: tuple[np.ndarray | None, ...]) -> int:
        code = super()._run(call, arrays, results)
        while isinstance(call, DeviceCall) and self._may_again(code, call):
            code = super()._run(call, arrays, results)
        return code

    def _may_again(self, code: int, call: DeviceCall, given: Sequence[Any] = ()) -> bool:
        """Whether a call that went wrong may go right now: without graphs, or with memory that was kept for results.
        ``given``: for each result what the caller gave, if anything."""
        for k in range(len(self._outputs) if code in (DEVICE_CAPTURE, DEVICE_MEMORY) else 0):
            if not call.hosted[len(self._inputs) + k] and (not given or given[k] is None):
                call.block(k)  # what the program allocated before it left
        if code == DEVICE_CAPTURE:
            call.capture_failed()
            return True
        return code == DEVICE_MEMORY and self._released(call)

    def _described(self, code: int, words: list[int]) -> tuple[str, str, str]:
        ready = self._loaded
        if code not in (DEVICE_CALL, DEVICE_MEMORY) or ready is None:
            return super()._described(code, words)
        driver = ready.driver
        if code == DEVICE_MEMORY:
            request = self.manifest["requests"][words[1]]
            asked = f"{request['what']}: {request['expression']} = {words[2]} bytes"
            if words[0] == OUT_OF_MEMORY:
                with driver.current():
                    spare = driver.memory()[0]
                return f"the device has no memory for {asked}; {spare} are free", "memory", ""
            return f"the driver gives no memory for {asked}: {driver.error(words[0])}", "cuda", ""
        name = list(FUNCTIONS.values())[words[2]]
        if name == FUNCTIONS["capturing"] and not words[0]:
            return "the stream is being captured: call the function outside of the capture", "input", ""
        if words[1] < 0:
            return f"{name} fails, for what was launched before: {driver.error(words[0])}", "cuda", ""
        row = self.manifest["kernels"][words[1]]
        return f"the kernel {row['name']}: {name} fails: {driver.error(words[0])}", "cuda", row["where"]

    def profile(self, /, *inputs: Any, runs: int = 10, **named: Any) -> Profile:
        """Where the time of a run goes on the device, kernel by kernel, over ``runs`` runs after a first one that is
        not counted: times between events before and behind each kernel, so that a kernel that ends before the next one
        is launched looks longer than it is."""
        arrays = self._arrays(self.ordered(inputs, named))
        call, seconds, runs = self._new_call(), 0.0, max(runs, 1)
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

    def _at_once(self, inputs: tuple[Any, ...], given: tuple[Any, ...] | None, stream: Any, stays: bool) -> Any:
        """A call whose arrays native code reads; None where it cannot, and nothing was done."""
        reader = self._reader or self._made_reader()
        if not reader.address or len(inputs) != len(self._inputs) or (given and len(given) != len(self._outputs)):
            return None
        handle = self._recent if stream is None else _handle(stream)
        if handle == PER_THREAD:
            return None
        fixed, tried = (stream is not None) + 2 * stays, False
        while True:
            call = self._take(handle)
            found = self._device(call.address, id(inputs), id(given) if given else 0, reader.address, fixed)
            if found.__class__ is tuple:
                self._give(call)
                return found
            if found == DEVICE_STREAM:
                handle = self._recent = call.error()[0]
            elif found == SHAPES and not tried:  # the table has the right ones of the other results now
                tried = True
            elif found in (SHAPES, OBJECT):
                self._give(call)
                if found == OBJECT and reader.learn((*inputs, *(given or ()))):
                    continue
                return None
            elif not self._may_again(found, call, given or ()):
                return self._made(found, call, given or (None,) * len(self._outputs))
            self._give(call)

    def _made(self, code: int, call: DeviceCall, given: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a call whose memory is new, or whose shapes are. Raises what went wrong."""
        blocks = [None if mine is not None else call.block(k) for k, mine in enumerate(given)]
        try:
            if code:
                self._raise(code, call)
            shapes = call.remember()
        finally:
            self._give(call)
        return tuple(
            [
                mine if block is None else DeviceArray(block, shape, output.dtype)
                for mine, block, shape, output in zip(given, blocks, shapes, self._outputs, strict=True)
            ]
        )

    def _raise(self, code: int, call: DeviceCall) -> None:
        raise self.failed(code, call.error())

    # -- arrays that are read through Python --------------------------------------------------------------------------

    def _on_device(self, inputs: Sequence[Any], out: Sequence[Any] | None, stream: Any, device: bool | None) -> Any:
        ready = self._ready()
        driver, handle = ready.driver, _handle(stream) if stream is not None else None
        if handle is None:
            handle = current_stream((*inputs, *(out or ())), driver)
        others = {PER_THREAD} if handle == PER_THREAD else set[int]()
        if handle is None or handle == PER_THREAD:
            handle = ready.stream
        views = self._views(inputs, driver, handle)
        stays = any(not view.hosted for view in views) if device is None else device
        given = self._given_views(out, driver, handle)
        far = [view for view in (*views, *(each[0] for each in given if each is not None)) if not view.hosted]
        others |= {view.queue for view in far if view.queue is not None}
        self._are_apart(views, given)
        call = self._take(handle)
        self._fill(call, views)
        for other in others:
            driver.follow(handle, other)
        try:
            results = (
                self._watched_far(call, given, stays)
                if self._redzones
                else self._run_on_device(call, given, [stays] * len(given))
            )
        finally:
            for other in others:
                driver.follow(other, handle)
            if any(view.queue is None for view in far):
                call.hold(far)
            self._give(call)
        return results[0] if self._single else tuple(results)

    def _views(self, inputs: Sequence[Any], driver: Driver, stream: int) -> list[View]:
        views = []
        for item, (name, dtype, rank), text in zip(self.ordered(inputs, {}), self._inputs, self._texts, strict=True):
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

    def _given_views(self, items: Sequence[Any] | None, driver: Driver, stream: int) -> list[tuple[View, Any] | None]:
        if items is None:
            return [None] * len(self._outputs)
        if len(items) != len(self._outputs):
            raise RunError(f"out wants {len(self._outputs)} arrays, got {len(items)}", "input")
        found: list[tuple[View, Any] | None] = []
        for item, output in zip(items, self._outputs, strict=True):
            if item is None:
                found.append(None)
                continue
            view = (
                device_view(item, output.name, driver, stream)
                if is_on_device(item)
                else View(item.ctypes.data, item.shape, dtype_text(item.dtype), True, item)
            )
            plain = not view.hosted or (item.flags.c_contiguous and item.flags.writeable)
            if (
                view.dtype != dtype_text(output.dtype)
                or len(view.shape) != output.rank
                or not plain
                or (not view.hosted and view.address % ALIGN)
            ):
                raise RunError(
                    f"out for {output.name!r} must be a writable, contiguous array of {output.dtype}, rank "
                    f"{output.rank}, at a multiple of {ALIGN} bytes",
                    "input",
                )
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
            moved = view.address % ALIGN or self._redzones  # with red zones around it
            call.hosted[k] = HOSTED if view.hosted else UNALIGNED if moved else 0

    def _run_on_device(
        self, call: DeviceCall, given: Sequence[tuple[View, Any] | None], stays: Sequence[bool]
    ) -> list[Any]:
        """The results. ``stays``: which of them are the device's where none is given. Raises what went wrong."""
        code, fresh = SHAPES, list[Any]()
        while code == SHAPES or self._may_again(code, call, given):
            fresh = (
                [None if far else each for far, each in zip(stays, call.fresh(), strict=True)]
                if not all(stays)
                else [None] * len(stays)
            )
            call.words[_STRICT] = int(not all(stays) or any(given))
            for k, (mine, output) in enumerate(zip(given, self._outputs, strict=True)):
                call.hosted[len(self._inputs) + k] = int(not stays[k] if mine is None else mine[0].hosted)
                if mine is not None:
                    fresh[k] = None
                    call.expect(k, mine[0].shape)
                    call.give(k, mine[0].address, int(np.prod(mine[0].shape, dtype=np.int64)) * output.dtype.itemsize)
                elif fresh[k] is not None:
                    call.expect(k, fresh[k].shape)
                    call.give(k, fresh[k].ctypes.data, fresh[k].nbytes)
                elif stays[k]:
                    call.pick(k)
                else:  # the entry allocates on the host
                    call.give(k, 0, 0)
            code = self._entry(call.address)
            if code == SHAPES:
                self._fit(call.shapes(), given, late=False)
                call.learn()
        return self._results(code, call, given, fresh)

    def _are_apart(self, views: Sequence[View], given: Sequence[tuple[View, Any] | None]) -> None:
        """Raises RunError if an array for a result lies where another array does."""
        known = [*views, *(each[0] for each in given if each is not None)]
        for each, output in zip(given, self._outputs, strict=True):
            for other in known if each is not None else ():
                if other is not each[0] and _meet(each[0], other):  # type: ignore[index]
                    raise RunError(f"out for {output.name!r} overlaps another array of the call", "input")

    def _watched_far(self, call: DeviceCall, given: list[tuple[View, Any] | None], stays: bool) -> list[Any]:
        """A call with red zones, which the program would write behind arrays of the caller's on the device: it gets
        others, whose elements are copied then."""
        far = [each is not None and not each[0].hosted for each in given]
        mine = [None if other else each for each, other in zip(given, far, strict=True)]
        results = self._run_on_device(call, mine, [stays or other for other in far])
        self._fit([result.shape for result in results], given, late=True)
        driver = call.loaded.driver
        for k, each in enumerate(given):
            if far[k] and each is not None:
                with driver.current():
                    driver("cuMemcpyDtoDAsync_v2", each[0].address, results[k].address, results[k].nbytes, call.stream)
                results[k] = each[1]
        return results

    def _fit(self, shapes: Sequence[tuple[int, ...]], given: Sequence[tuple[View, Any] | None], late: bool) -> None:
        for output, mine, shape in zip(self._outputs, given, shapes, strict=True):
            if mine is not None and output.late <= late and mine[0].shape != shape:
                raise RunError(f"out for {output.name!r} has the shape {mine[0].shape}, the result {shape}", "input")

    def _results(
        self, code: int, call: DeviceCall, given: Sequence[tuple[View, Any] | None], fresh: Sequence[Any]
    ) -> list[Any]:
        """The results, with those that the entry allocated. Raises what went wrong."""
        found, shapes = list[Any](), call.shapes()
        for k, (output, shape) in enumerate(zip(self._outputs, shapes, strict=True)):
            address, mine, hosted = call.memory(k), given[k], bool(call.hosted[len(self._inputs) + k])
            own = mine is None or address != mine[0].address
            if fresh[k] is not None:
                found.append(fresh[k])
            elif not own and mine is not None:
                found.append(mine[1])
            elif not hosted:
                found.append(DeviceArray(call.block(k), shape, output.dtype))
            elif code:
                free(address)
                found.append(None)
            else:
                found.append(owned(address, shape, output.dtype))
        if code:
            self._raise(code, call)
        self._fit(shapes, given, late=True)
        return found


def _listed(out: Any) -> list[Any]:
    return [] if out is None else list(out) if isinstance(out, list | tuple) else [out]


def _meet(one: View, two: View) -> bool:
    ends = [
        view.address + math.prod(view.shape) * (2 if view.dtype == "bf16" else np.dtype(view.dtype).itemsize)
        for view in (one, two)
    ]
    return max(one.address, two.address) < min(ends)


def _handle(stream: Any) -> int:
    """The driver's handle of a stream: a number, torch's ``cuda_stream``, cupy's ``ptr``, or ``__cuda_stream__``."""
    if isinstance(stream, int):
        found = stream
    elif hasattr(stream, "__cuda_stream__"):
        found = int(stream.__cuda_stream__()[1])
    else:
        names = [name for name in ("cuda_stream", "ptr") if hasattr(stream, name)]
        if not names:
            raise RunError(f"{type(stream).__name__} is no stream: give its handle", "input")
        found = int(getattr(stream, names[0]))
    return 0 if found == LEGACY else found
