"""A compiled graph for a CUDA device, apart from its calls: what is loaded on the device, tables of calls by stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.runtime.core.call import Call
from egshape.runtime.core.dlpack import dtype_text
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.function import CompiledFunction
from egshape.runtime.core.host_calls import HostFunction
from egshape.runtime.cuda.call import DeviceCall, Loaded, loaded
from egshape.runtime.cuda.driver import Driver, opened
from egshape.runtime.cuda.objects import Reader

_MOST_STREAMS = 16
Opener = Callable[[], Driver]


class CudaProgram(CompiledFunction):
    """Kernels and tables on a device, made with the first call."""

    target = "cuda"

    def __init__(
        self,
        manifest: Mapping[str, Any],
        entries: Mapping[str, int],
        images: Mapping[str, bytes],
        constants: Sequence[np.ndarray],
        keep: object,
        failure: Callable[[str, str, str], Exception] = RunError,
        save: Any = None,
        open: Opener = opened,
        host_functions: Sequence[HostFunction] = (),
        reduce: Callable[[], tuple[Any, ...]] | None = None,
    ) -> None:
        super().__init__(
            manifest, {**entries, "egshape_pool": 0}, constants, keep, failure, save, 1, host_functions, reduce
        )
        self._images = images
        self._open = open
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._streams: dict[int, list[DeviceCall]] = {}
        self._device = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 4, ctypes.c_int64)(
            entries["egshape_device"]
        )
        self._reader: Reader | None = None
        self._recent = 0
        """The stream of the last call that named none."""
        self._texts = [dtype_text(dtype) for _, dtype, _ in self._inputs]

    def load(self) -> None:
        """Open the driver and load the kernels now. Raises what a call would."""
        self._ready()

    @property
    def stream(self) -> int:
        """The handle of the stream that calls use which give none."""
        return self._ready().stream

    def library_faults(self) -> tuple[str, ...]:
        """Products that were to be computed by cuBLASLt, where it is installed, and attention by cuDNN, that were
        computed by the program's own kernels, as the library did not start, has nothing for them or refused a call."""
        ready = self._loaded
        if ready is None:
            return ()
        products = (fault for each in ready.libraries for fault in each.faults)
        attentions = ready.attentions.refused if ready.attentions is not None else {}
        return tuple(dict.fromkeys((*ready.refused, *products, *attentions)))

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

    def _new_call(self) -> Call:
        ready = self._ready()
        return self._call_on(ready, ready.stream)

    def _call_on(self, ready: Loaded, stream: int) -> DeviceCall:
        axes = sum(rank for _, _, rank in self._inputs)
        fixed = {word: number for word, number in self.fixed().items() if word != "pool"}
        graph_words, graphs, pinned = (self.manifest[key] for key in ("graph_words", "graphs", "pinned"))
        try:
            return DeviceCall(len(self._inputs), axes, self._outputs, fixed, ready, stream, graph_words, graphs, pinned)
        except RunError as error:
            raise self._failed(error) from None

    def _take(self, handle: int) -> DeviceCall:
        """Tables for a call on a stream."""
        try:
            return self._streams.setdefault(handle, []).pop()
        except IndexError:
            return self._call_on(self._ready(), handle)

    def _give(self, call: DeviceCall) -> None:
        """Tables that the next call on their stream may use."""
        call.ended()
        calls = self._streams.setdefault(call.stream, [])
        calls.append(call)
        if len(self._streams) > _MOST_STREAMS:  # of streams that are used no more
            self._streams.pop(next(iter(self._streams)), None)

    def _made_reader(self) -> Reader:
        ready = self._ready()
        ports = [*((dtype, rank) for _, dtype, rank in self._inputs), *((o.dtype, o.rank) for o in self._outputs)]
        self._reader = Reader(ports, ready.driver, ready.stream)
        self._recent = ready.stream
        return self._reader

    def _released(self, call: DeviceCall) -> bool:
        """Give back memory that only later results would use; whether there was some."""
        every = [each for calls in (*self._streams.values(), [call]) for each in list(calls)]
        found = [each.release() for each in every]
        if any(found):
            with call.loaded.driver.aside():
                for each in every:
                    each.wait()
                call.loaded.driver.trim()
        return any(found)
