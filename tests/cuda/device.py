"""A CUDA driver that is not there: functions at addresses, as programs call them, that do what a device would do on
this processor, in order.

Memory of the device lies at addresses that this processor cannot read (``APART`` is added), and every address that is
given is looked up: a host address given as one of the device, or the reverse, is an error, and so are accesses outside
of what was allocated, where a copy or the arguments of a kernel begin. Images hold the mapped loops compiled for this
processor. ``fail`` makes the n-th call of a function fail."""

from __future__ import annotations

import ctypes
import json
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egshape.adapters.native import failure
from egshape.ir.graph import Graph
from egshape.ir.types import itemsize
from egshape.lower.common import cache
from egshape.lower.drivers.cuda import Cuda, Function, compile_cuda
from egshape.lower.host.program import ATTRIBUTES
from egshape.lower.llvm import native
from egshape.lower.llvm.functions import text as functions_text
from egshape.lower.llvm.kernel import function
from egshape.lower.llvm.writer import Writer
from egshape.plan.cpu.program import ranged
from egshape.runtime.cuda.driver import SIGNATURES, Driver
from egshape.runtime.cuda.function import CudaFunction

APART = 1 << 60
ILLEGAL, INVALID, NO_MEMORY, NOT_FOUND, NO_CAPTURE = 700, 1, 2, 500, 901
UNSAFE = frozenset(
    f"cu{name}"
    for name in (
        "CtxSynchronize",
        "StreamSynchronize",
        "EventSynchronize",
        "EventQuery",
        "MemAlloc_v2",
        "MemFree_v2",
        "MemAllocHost_v2",
        "MemFreeHost",
        "ModuleLoadData",
        "ModuleUnload",
    )
)
"""What ends a strict capture of another thread, unless the caller's thread says that it is none of its business."""
DESTROYS = (
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuModuleUnload",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
)
_TYPES = {"p": ctypes.c_void_p, "u": ctypes.c_uint32, "i": ctypes.c_int32, "s": ctypes.c_uint64}
_NAMES = {NO_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY", ILLEGAL: b"CUDA_ERROR_ILLEGAL_ADDRESS", 100: b"CUDA_ERROR_NO_DEVICE"}
CAPABILITY = (9, 0)
ARCHITECTURE = "sm_90"


def image(functions: Sequence[Function], architecture: str = ARCHITECTURE) -> bytes:
    """The mapped loops of kernels as functions of this processor that take a table of pointers to their arguments:
    the length of a table of names and counts of arguments (pointers, all), the table, an object."""
    text, table, bodies = "", [], dict[str, int]()
    for number, each in enumerate(functions):
        body, taken = function(ranged(each.launch.kernel)), each.kernel
        w, shared = Writer(), set(each.launch.shared)
        words = [(buffer, "ptr") for buffer in taken.buffers] + [(name, "i64") for name in taken.sizes]
        values: dict[object, str] = {}
        for k, (key, type) in enumerate(words):
            place = w.value(f"load ptr, ptr {w.value(f'getelementptr ptr, ptr %params, i64 {k}')}")
            values[key] = w.value(f"load {type}, ptr {place}")
        for buffer in shared:
            values[buffer] = w.slot(f"[{(buffer.size.const or 0) * itemsize(buffer.dtype)} x i8], align 16")
        w.symbols = {name: values[name] for name in taken.sizes}
        arguments = [*(f"ptr {values[buffer]}" for buffer in body.buffers), *(f"i64 {values[n]}" for n in body.sizes)]
        if body.split is not None:
            arguments += ["i64 0", f"i64 {w.dim(body.split.units)}"]
        if body.text not in bodies:  # versions may differ only in what a GPU does
            bodies[body.text] = number
            text += f"define internal void @egs_body{number}{body.text}"
        w.line(f"call void @egs_body{bodies[body.text]}({', '.join(arguments)})")
        lines = "\n".join([*w.head, *w.lines])
        text += f"define void @{taken.name}(ptr %params) {{\n{lines}\n  ret void\n}}\n"
        table.append([taken.name, len(taken.buffers), len(words)])
    machine = native.host_machine()
    whole = native.whole(functions_text(text) + text + ATTRIBUTES, machine.features)
    code = cache.cached((whole, machine.features, "emulated"), lambda: native.object_code(whole, machine, level=1))
    head = json.dumps({"kernels": table, "bytes": len(code)}).encode()
    return len(head).to_bytes(8, "little") + head + code


@dataclass(frozen=True)
class _Kernel:
    name: str
    call: Any
    pointers: int
    words: int


class Emulated:
    """A device with ``room`` bytes of memory. ``calls`` counts what was called; ``launched`` are names of kernels."""

    def __init__(self, room: int = 1 << 30, count: int = 1, version: int = 13000) -> None:
        self.room, self.count, self.version = room, count, version
        self.calls: Counter[str] = Counter()
        self.launched: list[str] = []
        self.failures: dict[tuple[str, int], int] = {}
        self.gone: set[int] = set()
        """Handles of what is destroyed: a driver may end the process where one is used."""
        self.faults: list[str] = []
        """What went wrong with addresses."""
        self.blocks: dict[int, tuple[int, object]] = {}
        """Bytes and memory of what is allocated, by its address."""
        self._starts: list[int] = []
        self.pinned: dict[int, Any] = {}
        """Memory of the host, by its address."""
        self._kernels: dict[int, _Kernel] = {}
        self._keep: list[object] = []
        self._handles = 1000
        self._depth = 0
        self.streams: set[int] = set()
        """What kernels were launched on."""
        self.capturing: dict[int, list[tuple[int, bytes, tuple[int, ...]]]] = {}
        """What is captured of each stream that is."""
        self.strictly: set[int] = set()
        """Streams whose capture any thread's unsafe call ends."""
        self._thread = threading.local()
        self._graphs: dict[int, list[tuple[int, bytes, tuple[int, ...]]]] = {}
        self.clock = 0.0
        """What a library's work takes is added to it."""
        self.timed: dict[int, float] = {}
        """When events were recorded."""
        self.functions = {name: self._address(name, kinds) for name, kinds in SIGNATURES.items()}

    def driver(self, library: Mapping[str, int] | None = None, attention: Mapping[str, int] | None = None) -> Driver:
        """The driver of this device. ``library``: functions of cuBLASLt; ``attention``: of cuDNN."""
        return Driver(self.functions, library=lambda: library, keep=self, attention=lambda: attention)

    def keep(self, needed: object) -> None:
        """Let something live as long as the device."""
        self._keep.append(needed)

    def image(self, functions: Sequence[Function], architecture: str) -> bytes:
        """What this device takes for the image of kernels."""
        return image(functions, architecture)

    def holds(self, address: int, size: int) -> bool:
        """Whether so many bytes at an address are allocated."""
        return self._inside(address, size)

    def record(self, stream: int, run: Callable[[], None]) -> None:
        """What a library launches belongs to the graph that is captured."""
        self._kernels[number := self._handle()] = _Kernel("library", lambda _: run(), 0, 0)
        self.capturing[stream].append((number, b"", ()))

    def fail(self, name: str, number: int, code: int) -> None:
        """Let a call of a function fail: the ``number``-th from now on, the next one being 1."""
        self.failures[name, self.calls[name] + number] = code

    def used(self) -> int:
        """Bytes that are allocated."""
        return sum(size for size, _ in self.blocks.values())

    def _address(self, name: str, kinds: str) -> int:
        does: Callable[..., int | None] = getattr(self, f"_{name}", self._nothing)

        def called(*arguments: Any) -> int:
            self.calls[name] += 1
            code = self.failures.get((name, self.calls[name]))
            if code is not None:
                if name == "cuStreamEndCapture":
                    self.capturing.pop(arguments[0], None)  # it is over, whatever came of it
                return code
            given = [each or 0 for each, kind in zip(arguments, kinds, strict=True) if kind == "p"]
            if not self.gone.isdisjoint(given):
                self.faults.append(f"{name} is given what is destroyed")
            if name in DESTROYS:
                self.gone.add(given[0])
            if name in UNSAFE and self.strictly & self.capturing.keys() and not getattr(self._thread, "mode", 0):
                self.faults.append(f"{name} ends a capture of another thread")
                self.capturing.clear()
            try:
                return does(*[each or 0 for each in arguments]) or 0
            except Exception as error:
                self.faults.append(f"{name}: {error!r}")
                return 999

        made = ctypes.CFUNCTYPE(ctypes.c_int32, *(_TYPES[kind] for kind in kinds))(called)
        self._keep.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def _nothing(self, *_: Any) -> None:
        """Succeeds."""

    def _handle(self) -> int:
        self._handles += 8
        return self._handles

    # -- the device ---------------------------------------------------------------------------------------------------

    def _cuInit(self, _: int) -> int:
        return 0 if self.count else 100

    def _cuDriverGetVersion(self, place: int) -> None:
        ctypes.c_int32.from_address(place).value = self.version

    def _cuDeviceGetCount(self, place: int) -> None:
        ctypes.c_int32.from_address(place).value = self.count

    def _cuDeviceGetAttribute(self, place: int, which: int, _: int) -> None:
        ctypes.c_int32.from_address(place).value = CAPABILITY[which - 75]

    def _cuDevicePrimaryCtxRetain(self, place: int, _: int) -> None:
        self._put(place, self._handle())

    def _cuGetErrorName(self, code: int, place: int) -> None:
        ctypes.c_char_p.from_address(place).value = _NAMES.get(code, b"CUDA_ERROR_OTHER")

    def _cuCtxPushCurrent_v2(self, _: int) -> None:
        self._depth += 1

    def _cuCtxPopCurrent_v2(self, _: int) -> int:
        self._depth -= 1
        return 0 if self._depth >= 0 else 201

    def _put(self, place: int, value: int) -> None:
        ctypes.c_uint64.from_address(place).value = value

    def _made(self, place: int, *_: Any) -> None:
        self._put(place, self._handle())

    _cuStreamCreate = _cuEventCreate = _cuMemPoolCreate = _made

    def _cuEventRecord(self, event: int, stream: int) -> int:
        if stream in self.capturing:
            return 0
        self.timed[event] = self.clock
        return 0

    def _cuEventElapsedTime(self, place: int, begin: int, end: int) -> None:
        passed = self.timed.get(end, 0.0) - self.timed.get(begin, 0.0)
        ctypes.c_float.from_address(place).value = passed or 0.5

    # -- memory -------------------------------------------------------------------------------------------------------

    def _allocate(self, place: int, size: int) -> int:
        if self.used() + size > self.room:
            return NO_MEMORY
        block = (ctypes.c_uint8 * (size + 256))()
        ctypes.memset(block, 0xFB, size + 256)
        start = -(-ctypes.addressof(block) // 256) * 256 + APART
        self.blocks[start] = size, block
        self._starts = sorted(self.blocks)
        self._put(place, start)
        return 0

    def _cuMemAlloc_v2(self, place: int, size: int) -> int:
        return self._allocate(place, size)

    def _cuMemAllocFromPoolAsync(self, place: int, size: int, pool: int, stream: int) -> int:
        return NO_CAPTURE if stream in self.capturing else self._allocate(place, size) if pool else INVALID

    def _cuMemFree_v2(self, address: int) -> int:
        if address not in self.blocks:
            self.faults.append(f"{address:x} is freed but was not allocated")
            return INVALID
        del self.blocks[address]
        self._starts = sorted(self.blocks)
        return 0

    def _cuMemFreeAsync(self, address: int, stream: int) -> int:
        return self._cuMemFree_v2(address)

    def _cuMemAllocHost_v2(self, place: int, size: int) -> None:
        block = (ctypes.c_uint8 * size)()
        ctypes.memset(block, 0xFA, size)
        self.pinned[ctypes.addressof(block)] = block
        self._put(place, ctypes.addressof(block))

    def _cuMemFreeHost(self, address: int) -> int:
        return 0 if self.pinned.pop(address, None) is not None else INVALID

    def _is_pinned(self, address: int) -> bool:
        return any(start <= address < start + len(block) for start, block in self.pinned.items())

    def _cuMemGetInfo_v2(self, free: int, total: int) -> None:
        self._put(free, self.room - self.used())
        self._put(total, self.room)

    def _inside(self, address: int, size: int = 1) -> bool:
        at = bisect_right(self._starts, address) - 1
        return not size or (at >= 0 and address + size <= self._starts[at] + self.blocks[self._starts[at]][0])

    def _copy(self, target: int, source: int, size: int, kinds: str) -> int:
        real = []
        for address, kind in ((target, kinds[0]), (source, kinds[1])):
            if self._inside(address, size) != (kind == "d") or (kind == "h" and address >= APART):
                self.faults.append(f"a copy of {size} bytes at {address:x}, which is no memory of its kind ({kinds})")
                return ILLEGAL
            real.append(address - APART if kind == "d" else address)
        ctypes.memmove(real[0], real[1], size)
        return 0

    def _cuCtxSynchronize(self) -> int:
        if not self.capturing:
            return 0
        self.faults.append("all of the device's work is waited for while a stream is captured")
        self.capturing.clear()
        return NO_CAPTURE

    def _cuThreadExchangeStreamCaptureMode(self, place: int) -> None:
        given, now = ctypes.c_int32.from_address(place), getattr(self._thread, "mode", 0)
        self._thread.mode, given.value = given.value, now

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return NO_CAPTURE if stream in self.capturing else self._copy(target, source, size, "dh")

    def _cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        if stream in self.capturing:
            return self._captured(stream, "hd", target, source, size) if self._is_pinned(target) else NO_CAPTURE
        return self._copy(target, source, size, "hd")

    def _captured(self, stream: int, kinds: str, *copy: int) -> int:
        self.capturing[stream].append((0, kinds.encode(), copy))
        return 0

    def _fill(self, target: int, byte: int, size: int) -> int:
        if not self._inside(target, size):
            self.faults.append(f"{size} bytes at {target:x} are filled, which is no memory of the device")
            return ILLEGAL
        ctypes.memset(target - APART, byte, size)
        return 0

    def _cuMemsetD8Async(self, target: int, byte: int, size: int, stream: int) -> int:
        return NO_CAPTURE if stream in self.capturing else self._fill(target, byte, size)

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        if stream in self.capturing:
            return self._captured(stream, "dd", target, source, size)
        return self._copy(target, source, size, "dd")

    # -- kernels ------------------------------------------------------------------------------------------------------

    def _cuModuleLoadData(self, place: int, image: int) -> None:
        size = int.from_bytes(ctypes.string_at(image, 8), "little")
        head = json.loads(ctypes.string_at(image + 8, size))
        code = ctypes.string_at(image + 8 + size, head["bytes"])
        entries, keep = native.load([code], [name for name, _, _ in head["kernels"]], native.libm_symbols())
        self._keep.append(keep)
        for name, pointers, count in head["kernels"]:
            call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entries[name])
            self._kernels[self._handle()] = _Kernel(name, call, pointers, count)
        self._put(place, self._handle())

    def _cuModuleGetFunction(self, place: int, _: int, name: int) -> int:
        wanted = ctypes.string_at(name).decode()
        found = [handle for handle, kernel in self._kernels.items() if kernel.name == wanted]
        self._put(place, found[-1] if found else 0)
        return 0 if found else NOT_FOUND

    def _cuLaunchKernel(self, kernel: int, *rest: Any) -> int:
        x, y, z, _, ty, tz, _, stream, params, extra = rest
        if kernel not in self._kernels or not x or (y, z, ty, tz, extra) != (1, 1, 1, 1, 0):
            return INVALID
        self.streams.add(stream)
        table = (ctypes.c_uint64 * self._kernels[kernel].words).from_address(params)
        words = b"".join(ctypes.string_at(each, 8) for each in table)
        if stream in self.capturing:
            self.capturing[stream].append((kernel, words, ()))
            return 0
        return self._run(kernel, words)

    def _run(self, number: int, words: bytes) -> int:
        kernel = self._kernels[number]
        self.launched.append(kernel.name)
        values = (ctypes.c_uint64 * max(1, kernel.words)).from_buffer_copy(words or bytes(8))
        for k in range(kernel.pointers):
            if not values[k]:
                continue  # of an empty array
            if not self._inside(values[k]) and not self._inside(values[k] - 1):  # an empty array may lie at an end
                self.faults.append(f"{kernel.name} gets {values[k]:x}, which is no memory of the device")
                return ILLEGAL
            values[k] -= APART
        table = (ctypes.c_uint64 * len(values))(*(ctypes.addressof(values) + 8 * k for k in range(len(values))))
        kernel.call(ctypes.addressof(table))
        return 0

    # -- graphs -------------------------------------------------------------------------------------------------------

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> int:
        if stream in self.capturing or not stream:
            return NO_CAPTURE
        self.capturing[stream] = []
        (self.strictly.discard if mode else self.strictly.add)(stream)
        return 0

    def _cuStreamIsCapturing(self, stream: int, place: int) -> None:
        ctypes.c_int32.from_address(place).value = int(stream in self.capturing)

    def _cuStreamEndCapture(self, stream: int, place: int) -> int:
        if stream not in self.capturing:
            return NO_CAPTURE
        handle = self._handle()
        self._graphs[handle] = self.capturing.pop(stream)
        self._put(place, handle)
        return 0

    def _cuGraphInstantiateWithFlags(self, place: int, graph: int, _: int) -> None:
        handle = self._handle()
        self._graphs[handle] = self._graphs[graph]
        self._put(place, handle)

    def _cuGraphLaunch(self, graph: int, stream: int) -> int:
        for kernel, words, rest in self._graphs[graph]:
            code = self._run(kernel, words) if kernel else self._copy(*rest, words.decode())
            if code:
                return code
        return 0

    def _cuGraphDestroy(self, graph: int) -> int:
        return INVALID if self._graphs.pop(graph, None) is None else 0

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuStreamSynchronize(self, stream: int) -> int:
        return NO_CAPTURE if stream in self.capturing else 0


def compiled(
    graph: Graph,
    device: Emulated,
    facts: str = "all",
    library: Mapping[str, int] | None = None,
    attention: Mapping[str, int] | None = None,
) -> CudaFunction:
    """A graph compiled for a device that is not there. ``library``: functions of cuBLASLt; ``attention``: of cuDNN."""
    return loaded(compile_cuda(graph, (ARCHITECTURE,), facts, device.image), device, library, attention)


def loaded(
    made: Cuda,
    device: Emulated,
    library: Mapping[str, int] | None = None,
    attention: Mapping[str, int] | None = None,
) -> CudaFunction:
    """What was compiled, on such a device."""
    return CudaFunction(
        made.manifest,
        made.entries,
        made.images,
        made.constants,
        made.keep,
        failure,
        open=lambda: device.driver(library, attention),
    )
