"""The CUDA driver, through ctypes on its own library: devices, images of kernels, memory, streams, events.

Every function is called at an address, so that a test can put another driver in its place."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from egshape.runtime.abi.device import RELAXED
from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda import cublaslt, cudnn

LIBRARY = "libcuda.so.1"
_KINDS: dict[str, Any] = {"p": ctypes.c_void_p, "u": ctypes.c_uint32, "i": ctypes.c_int32, "s": ctypes.c_uint64}
SIGNATURES = {
    "cuInit": "u",
    "cuDriverGetVersion": "p",
    "cuDeviceGetCount": "p",
    "cuDeviceGet": "pi",
    "cuDeviceGetAttribute": "pii",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuGetErrorName": "ip",
    "cuGetErrorString": "ip",
    "cuCtxPushCurrent_v2": "p",
    "cuCtxPopCurrent_v2": "p",
    "cuCtxSynchronize": "",
    "cuModuleLoadData": "pp",
    "cuModuleGetFunction": "ppp",
    "cuModuleUnload": "p",
    "cuFuncSetAttribute": "pii",
    "cuMemAlloc_v2": "ps",
    "cuMemFree_v2": "p",
    "cuMemAllocHost_v2": "ps",
    "cuMemFreeHost": "p",
    "cuMemsetD8Async": "pusp",
    "cuMemGetInfo_v2": "pp",
    "cuMemPoolCreate": "pp",
    "cuMemPoolSetAttribute": "pip",
    "cuMemPoolTrimTo": "ps",
    "cuMemAllocFromPoolAsync": "pspp",
    "cuMemFreeAsync": "pp",
    "cuMemcpyHtoDAsync_v2": "ppsp",
    "cuMemcpyDtoHAsync_v2": "ppsp",
    "cuMemcpyDtoDAsync_v2": "ppsp",
    "cuStreamCreate": "pu",
    "cuStreamSynchronize": "p",
    "cuStreamDestroy_v2": "p",
    "cuStreamWaitEvent": "ppu",
    "cuEventCreate": "pu",
    "cuEventRecord": "pp",
    "cuEventElapsedTime": "ppp",
    "cuEventDestroy_v2": "p",
    "cuEventQuery": "p",
    "cuEventSynchronize": "p",
    "cuPointerGetAttribute": "pip",
    "cuThreadExchangeStreamCaptureMode": "p",
    "cuStreamBeginCapture_v2": "pi",
    "cuStreamIsCapturing": "pp",
    "cuStreamEndCapture": "pp",
    "cuGraphInstantiateWithFlags": "pps",
    "cuGraphLaunch": "pp",
    "cuGraphDestroy": "p",
    "cuGraphExecDestroy": "p",
    "cuLaunchKernel": "puuuuuuuppp",
}
"""What the runtime and programs call: arguments as p(ointer), u(nsigned 32 bits), i(nteger of 32 bits), s(ize)."""
_MAJOR, _MINOR = 75, 76
_SHARED_BYTES = 8
_RELEASE_THRESHOLD = 4
_KEEP = 2**64 - 1
OUT_OF_MEMORY = 2
_NO_BINARY, _NO_DEVICE = 209, 100
_ALIGN = 256
EVENT_WITHOUT_TIME = 2


class Driver:
    """One device of a driver. ``functions``: addresses of the driver's functions, which ``keep`` owns.

    Raises RunError (code "cuda") where there is no driver, or no such device."""

    def __init__(
        self,
        functions: Mapping[str, int],
        device: int = 0,
        library: Callable[[], Mapping[str, int] | None] = lambda: None,
        keep: object = None,
        attention: Callable[[], Mapping[str, int] | None] = lambda: None,
    ) -> None:
        self.functions, self._keep = functions, keep
        self.library, self.attention = library, attention
        """The functions of cuBLASLt and of cuDNN, if they are installed."""
        self.blocking: set[int] = set()
        """Streams of functions, which the default stream waits for and which wait for it."""
        self._calls: dict[str, Callable[..., int]] = {}
        self.device = device
        found = self("cuInit", 0, fails=False)
        if found:
            raise RunError(
                "the CUDA driver finds no device"
                if found == _NO_DEVICE
                else f"the CUDA driver does not start: {self.error(found)}",
                "cuda",
            )
        self.count = self._integer("cuDeviceGetCount")
        if device >= self.count:
            raise RunError(f"there is no device {device}: the CUDA driver knows {self.count}", "cuda")
        self.version = self._integer("cuDriverGetVersion")
        number = self._integer("cuDeviceGet", device)
        major, minor = (self._integer("cuDeviceGetAttribute", which, number) for which in (_MAJOR, _MINOR))
        self.capability = major, minor
        self.context = self.made("cuDevicePrimaryCtxRetain", number)
        with self.current():
            self.pool = self._pool(number)

    def __call__(self, name: str, *arguments: Any, fails: bool = True) -> int:
        """Call a function of the driver; its error code. ``fails``: raises RunError (code "cuda") where it is not 0."""
        if name not in self._calls:
            kinds = [_KINDS[kind] for kind in SIGNATURES[name]]
            self._calls[name] = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(self.functions[name])
        code = self._calls[name](*arguments)
        if code and fails:
            raise RunError(f"{name} fails: {self.error(code)}", "cuda")
        return code

    def made(self, name: str, *arguments: Any) -> int:
        """The handle or address that a function writes to its first argument."""
        place = ctypes.c_uint64(0)
        self(name, ctypes.addressof(place), *arguments)
        return place.value

    def _integer(self, name: str, *arguments: Any) -> int:
        place = ctypes.c_int32(0)
        self(name, ctypes.addressof(place), *arguments)
        return place.value

    def current(self) -> _Current:
        """The device's context is current inside of a ``with``."""
        return _Current(self)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The context is current, and what is called is no business of captures that other threads make."""
        with self.current():
            mode = ctypes.c_int32(RELAXED)
            self("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode), fails=False)
            try:
                yield
            finally:
                self("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode), fails=False)

    def trim(self) -> None:
        """Give memory back that the pool keeps and no program uses."""
        self("cuMemPoolTrimTo", self.pool, 0, fails=False)

    def error(self, code: int) -> str:
        """What the driver says of an error code."""
        said = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            place = ctypes.c_char_p()
            if not self(name, code, ctypes.addressof(place), fails=False) and place.value:
                said.append(place.value.decode(errors="replace"))
        return f"error {code}" + (f" ({': '.join(said)})" if said else "")

    def _pool(self, number: int) -> int:
        """Memory of programs: a pool that keeps what it has."""
        properties = (ctypes.c_int32 * 32)(1, 0, 1, number)
        pool = self.made("cuMemPoolCreate", ctypes.addressof(properties))
        keep = ctypes.c_uint64(_KEEP)
        self("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.addressof(keep))
        return pool

    def image(self, images: Mapping[str, bytes], toolkit: Sequence[int]) -> bytes:
        """The image that runs on this device. Raises RunError (code "cuda") with what there is and what is needed."""
        chosen = chosen_image(images, self.capability)
        here = f"sm_{self.capability[0]}{self.capability[1]}"
        if chosen is None:
            raise RunError(
                f"holds kernels for {', '.join(images)}, the device is {here}: compile with architectures=({here!r},)",
                "cuda",
            )
        if toolkit and self.version // 1000 < toolkit[0]:
            raise RunError(
                f"holds kernels of CUDA {toolkit[0]}.{toolkit[1]}, the driver is one of CUDA "
                f"{self.version // 1000}.{self.version % 1000 // 10}: install a newer driver",
                "cuda",
            )
        return images[chosen]

    def module(self, image: bytes) -> int:
        """An image on the device. Raises RunError (code "cuda") where the driver does not take it."""
        place = ctypes.c_uint64(0)
        code = self("cuModuleLoadData", ctypes.addressof(place), image, fails=False)
        if code == _NO_BINARY:
            raise RunError(f"the driver has no use for its kernels: {self.error(code)}", "cuda")
        if code:
            raise RunError(
                f"the driver does not load its kernels: {self.error(code)}; it may be older than they are", "cuda"
            )
        return place.value

    def kernels(self, module: int, functions: Sequence[Mapping[str, Any]]) -> list[int]:
        """Kernels of an image that is on the device. Raises RunError (code "cuda") for one that it does not have."""
        found = []
        for each in functions:
            found.append(self.made("cuModuleGetFunction", module, each["name"].encode()))
            if each["shared"]:
                self("cuFuncSetAttribute", found[-1], _SHARED_BYTES, each["shared"])
        return found

    def memory(self) -> tuple[int, int]:
        """Free and all bytes of the device."""
        free, total = ctypes.c_uint64(0), ctypes.c_uint64(0)
        self("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total), fails=False)
        return free.value, total.value

    def uploaded(self, arrays: Sequence[np.ndarray], stream: int) -> tuple[int, list[int]]:
        """Memory that holds arrays one after the other, and where each lies: on the device, for any stream, once this
        returns. Raises RunError where there is no memory."""
        places, size = [], 0
        for array in arrays:
            places.append(size)
            size += -(-array.nbytes // _ALIGN) * _ALIGN
        if not size:
            return 0, [0] * len(arrays)
        start = ctypes.c_uint64(0)
        code = self("cuMemAlloc_v2", ctypes.addressof(start), size, fails=False)
        if code == OUT_OF_MEMORY:
            raise RunError(
                f"the device has no memory for the constants: {size} bytes, {self.memory()[0]} are free", "memory"
            )
        if code:
            raise RunError(f"cuMemAlloc_v2 fails: {self.error(code)}", "cuda")
        try:
            for array, place in zip(arrays, places, strict=True):
                if array.nbytes:
                    self("cuMemcpyHtoDAsync_v2", start.value + place, array.ctypes.data, array.nbytes, stream)
            self("cuStreamSynchronize", stream)  # a copy of pageable memory may return before the device has it
        except RunError:
            self("cuMemFree_v2", start.value, fails=False)
            raise
        return start.value, [start.value + place for place in places]

    def implied(self, one: int, two: int) -> bool:
        """Whether two streams wait for each other by themselves: the default stream and one that was made for it."""
        return (one == 0 and two in self.blocking) or (two == 0 and one in self.blocking)

    def follow(self, stream: int, other: int) -> None:
        """What ``stream`` gets from now on waits for what ``other`` has got."""
        if stream == other or self.implied(stream, other):
            return
        with self.current():
            event = self.made("cuEventCreate", EVENT_WITHOUT_TIME)
            self("cuEventRecord", event, other)
            self("cuStreamWaitEvent", stream, event, 0)
            self("cuEventDestroy_v2", event)


class _Current:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        self._driver("cuCtxPushCurrent_v2", self._driver.context)

    def __exit__(self, *_: object) -> None:
        place = ctypes.c_uint64(0)
        self._driver("cuCtxPopCurrent_v2", ctypes.addressof(place), fails=False)


def chosen_image(images: Mapping[str, bytes], capability: tuple[int, int]) -> str | None:
    """The architecture among images that runs on a device: the same, or the newest older one of the same kind."""
    best: tuple[int, str] | None = None
    for name in images:
        parts = re.fullmatch(r"sm_(\d+)(\d)([af]?)", name)
        if parts is None:
            continue
        major, minor = int(parts[1]), int(parts[2])
        exact = (major, minor) == capability
        if (
            major == capability[0]
            and (exact or (minor < capability[1] and not parts[3]))
            and (best is None or minor >= best[0])
        ):
            best = minor, name
    return best[1] if best is not None else None


_LOCK = threading.Lock()
_DRIVERS: dict[int, Driver] = {}


def opened(device: int = 0) -> Driver:
    """A device of the system's driver, opened once. Raises RunError (code "cuda") where there is none."""
    with _LOCK:
        if device not in _DRIVERS:
            try:
                library = ctypes.CDLL(LIBRARY)
            except OSError as error:
                raise RunError(f"there is no CUDA driver: {error}", "cuda") from None
            _DRIVERS[device] = Driver(_addresses(library), device, cublaslt.addresses, attention=cudnn.addresses)
        return _DRIVERS[device]


def _addresses(library: Any) -> dict[str, int]:
    found = {}
    for name in SIGNATURES:
        try:
            found[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            raise RunError(f"the CUDA driver has no {name}: it is too old, install a newer one", "cuda") from None
    return found
