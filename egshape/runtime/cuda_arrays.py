"""Arrays on a device: what programs take from other libraries and give to them, without a copy.

DLPack (the capsule of an unversioned DLManagedTensor) and ``__cuda_array_interface__``, both ways."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from egshape.runtime.cuda import Driver
from egshape.runtime.errors import RunError

_CPU, _CUDA, _PINNED = 1, 2, 3
_LEGACY = 1
"""How DLPack writes the stream 0, which to it means nothing."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4
_DEVICE_ORDINAL = 9


class _Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64))


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))
_API = ctypes.pythonapi
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _declared(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of Python's C API, with a prototype of our own."""
    address = ctypes.cast(getattr(_API, name), ctypes.c_void_p).value or 0
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


_new_capsule = _declared("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _declared("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_pointer_of = _declared("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_is_valid = _declared("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_rename = _declared("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_NAME, _USED = b"dltensor", b"used_dltensor"


class View(NamedTuple):
    """Memory that holds an array row by row. ``hosted``: it is the host's. ``dtype``: as numpy writes it, bf16 as
    "bf16". ``keep`` owns the memory."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    hosted: bool
    keep: object


@functools.cache
def dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype as views write it."""
    return "bf16" if dtype.name == "bfloat16" else np.dtype(dtype).str.lstrip("<|=")


_KINDS: dict[type, str] = {}


def _kind(item: object) -> str:
    """How an array is read, by its type: "numpy", "own", "torch", "dlpack", "interface" or "" for anything else."""
    found = _KINDS.get(type(item))
    if found is None:
        found = _KINDS[type(item)] = _kind_of(type(item))
    return found


def _kind_of(kind: type) -> str:
    if issubclass(kind, np.ndarray | np.generic):
        return "numpy"
    if issubclass(kind, DeviceArray):
        return "own"
    if kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "data_ptr"):
        return "torch"
    if hasattr(kind, "__dlpack_device__"):
        return "dlpack"
    return "interface" if hasattr(kind, "__cuda_array_interface__") else ""


def is_on_device(item: Any) -> bool:
    """Whether an object says that its memory is a CUDA device's."""
    kind = _kind(item)
    if kind == "torch":
        return bool(item.is_cuda)
    if kind == "dlpack":
        return bool(item.__dlpack_device__()[0] == _CUDA)
    return kind in ("own", "interface") or (not kind and hasattr(item, "__cuda_array_interface__"))


def device_view(item: Any, name: str, driver: Driver, stream: int) -> View:
    """The memory of an array on the device, which ``stream`` may use from now on. Raises RunError (code "input") for an
    array of another device, or one that does not lie row by row."""
    match _kind(item):
        case "own":
            driver.follow(stream, item.stream)
            if item.driver is not driver:
                raise _elsewhere(name, item.driver.device, driver)
            return View(item.address, item.shape, dtype_text(item.dtype), False, item)
        case "torch":
            return _torch(item, name, driver, stream)
        case "dlpack":
            device = int(item.__dlpack_device__()[1])
            if device != driver.device:
                raise _elsewhere(name, device, driver)
            return _imported(item.__dlpack__(stream=stream or _LEGACY), name)
    return _interface(item, name, driver, stream)


@functools.cache
def _torch_text(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    return {"bfloat16": "bf16", "bool": "b1"}.get(name) or dtype_text(np.dtype(name))


def _torch(item: Any, name: str, driver: Driver, stream: int) -> View:
    """torch's tensors without a capsule, which takes several times as long. Work that torch has queued on its current
    stream comes first; the legacy default stream needs no word, as ``stream`` waits for it by itself."""
    device = item.get_device()
    if device != driver.device:
        raise _elsewhere(name, device, driver)
    if not item.is_contiguous():
        raise _strided(name)
    queued = sys.modules["torch"].cuda.current_stream(device).cuda_stream
    if queued:
        driver.follow(stream, queued)
    return View(item.data_ptr(), tuple(item.shape), _torch_text(item.dtype), False, item)


def _elsewhere(name: str, device: int, driver: Driver) -> RunError:
    return RunError(f"input {name!r} lies on device {device}, the function runs on device {driver.device}", "input")


def _interface(item: Any, name: str, driver: Driver, stream: int) -> View:
    found = item.__cuda_array_interface__
    address, shape = int(found["data"][0] or 0), tuple(map(int, found["shape"]))
    text = found["typestr"].lstrip("<|=")
    if found.get("mask") is not None:
        raise RunError(f"input {name!r} has a mask, which is not read", "input")
    strides = found.get("strides")
    if strides is not None and not _is_plain(shape, [each // np.dtype(text).itemsize for each in strides]):
        raise _strided(name)
    if found.get("stream") is not None:
        driver.follow(stream, 0 if found["stream"] == _LEGACY else int(found["stream"]))
    if address and driver.count > 1:
        place = ctypes.c_int32(driver.device)
        with driver.current():
            code = driver("cuPointerGetAttribute", ctypes.addressof(place), _DEVICE_ORDINAL, address, fails=False)
        if not code and place.value != driver.device:
            raise _elsewhere(name, place.value, driver)
    return View(address, shape, text, False, item)


def _strided(name: str) -> RunError:
    return RunError(f"input {name!r} does not lie row by row in the device's memory: make it contiguous", "input")


def _is_plain(shape: tuple[int, ...], strides: list[int]) -> bool:
    """Whether strides, in elements, are those of an array that lies row by row."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class _Imported:
    """What a capsule held; its owner hears when the last view of it is gone."""

    def __init__(self, managed: _Managed, address: int) -> None:
        self._managed, self._address = managed, address

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def _imported(capsule: Any, name: str) -> View:
    address = _pointer(capsule, _NAME)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    _rename(capsule, _USED)
    keep = _Imported(managed, address)
    shape = tuple(tensor.shape[:tensor.ndim])
    if tensor.strides and not _is_plain(shape, list(tensor.strides[:tensor.ndim])):
        raise _strided(name)
    kinds = {code: kind for kind, code in _CODES.items()}
    text = "bf16" if (tensor.code, tensor.bits) == (_BFLOAT, 16) else f"{kinds.get(tensor.code, '?')}{tensor.bits // 8}"
    if tensor.lanes != 1:
        raise RunError(f"input {name!r} has elements of {tensor.lanes} lanes", "input")
    return View((tensor.data or 0) + tensor.offset, shape, text, False, keep)


class DeviceArray:
    """A result on the device, for any library that takes DLPack or ``__cuda_array_interface__``.

    ``stream`` is what computed it, in whose order its memory is given back: a stream of the caller's must live as
    long as the results made on it (``keep`` owns the function's own). ``numpy()`` copies it to the host."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], driver: Driver, stream: int,
                 keep: object) -> None:
        self.address, self.shape, self.dtype = address, shape, dtype
        self.driver, self.stream, self._keep = driver, stream, keep

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory, once it is computed."""
        found = np.empty(self.shape, self.dtype)
        driver = self.driver
        with driver.current():
            if found.nbytes:
                driver("cuMemcpyDtoHAsync_v2", found.ctypes.data, self.address, found.nbytes, self.stream)
            driver("cuStreamSynchronize", self.stream)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"<array of {self.dtype}{list(self.shape)} on CUDA device {self.driver.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if dtype_text(self.dtype) == "bf16":
            raise AttributeError("__cuda_array_interface__ has no bf16: use DLPack")
        return {"data": (self.address, False), "shape": self.shape, "typestr": self.dtype.str, "version": 3,
                "stream": self.stream or _LEGACY}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.driver.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        if stream is not None and stream >= 0:
            self.driver.follow(0 if stream == _LEGACY else stream, self.stream)
        return _exported(self)

    def __del__(self) -> None:
        if self.address:
            free = functools.partial(self.driver, "cuMemFreeAsync", self.address, self.stream, fails=False)
            if free():  # no context is current, which only the default stream needs
                with contextlib.suppress(RunError), self.driver.current():
                    free()


_EXPORTED: dict[int, tuple[object, ...]] = {}
"""What exported capsules refer to, by the address of what they hold."""


def _exported(array: DeviceArray) -> Any:
    text = dtype_text(array.dtype)
    code = _BFLOAT if text == "bf16" else _CODES[text[0]]
    shape = (ctypes.c_int64 * max(1, len(array.shape)))(*array.shape)
    managed = _Managed()
    managed.tensor = _Tensor(array.address, _CUDA, array.driver.device, len(array.shape), code,
                             8 * array.dtype.itemsize, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0)
    managed.deleter = _DELETE
    address = ctypes.addressof(managed)
    _EXPORTED[address] = managed, shape, array
    return _new_capsule(address, _NAME, ctypes.cast(_DESTROY, ctypes.c_void_p))


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(capsule: int) -> None:
    """A capsule that nobody took."""
    if _is_valid(capsule, _NAME):
        _EXPORTED.pop(_pointer_of(capsule, _NAME), None)


_DELETE, _DESTROY = _DELETER(_delete), _DESTRUCTOR(_destroy)
