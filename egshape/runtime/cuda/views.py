"""Arrays of other libraries on a device, read through Python: torch's tensors, DLPack, ``__cuda_array_interface__``.

What native code reads itself (runtime/native/device_arrays.c) does not come here."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from egshape.runtime.core import dlpack
from egshape.runtime.core.dlpack import dtype_text
from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda.arrays import DeviceArray
from egshape.runtime.cuda.driver import Driver

_DEVICE_ORDINAL = 9


class View(NamedTuple):
    """Memory that holds an array row by row. ``hosted``: it is the host's. ``dtype``: as numpy writes it, bf16 as
    "bf16". ``keep`` owns the memory. ``queue``: the stream that is to be waited for, and whose later work must wait
    until the array is not in use any more; None where the owner names none: then ``keep`` is held until then."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    hosted: bool
    keep: object
    queue: int | None = None


def _kind_of(kind: type) -> str:
    """How an array is read, by its type: "numpy", "own", "torch", "dlpack", "interface" or "" for anything else."""
    if issubclass(kind, np.ndarray | np.generic):
        return "numpy"
    if issubclass(kind, DeviceArray):
        return "own"
    if kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "data_ptr"):
        return "torch"
    if hasattr(kind, "__dlpack_device__"):
        return "dlpack"
    return "interface" if hasattr(kind, "__cuda_array_interface__") else ""


_kind: Callable[[Any], str] = functools.cache(_kind_of)


def is_on_device(item: Any) -> bool:
    """Whether an object says that its memory is a CUDA device's."""
    kind = _kind(type(item))
    if kind == "torch":
        return bool(item.is_cuda)
    if kind == "dlpack":
        return bool(item.__dlpack_device__()[0] == dlpack.CUDA)
    return kind in ("own", "interface") or (not kind and hasattr(item, "__cuda_array_interface__"))


def device_view(item: Any, name: str, driver: Driver, stream: int) -> View:
    """The memory of an array on the device, for work on ``stream`` that follows the view's ``queue``. Raises RunError
    (code "input") for an array of another device, or one that does not lie row by row."""
    match _kind(type(item)):
        case "own":
            if item.driver is not driver:
                raise _elsewhere(name, item.driver.device, driver)
            return View(item.address, item.shape, dtype_text(item.dtype), False, item, item.stream)
        case "torch":
            return _torch(item, name, driver)
        case "dlpack":
            device = int(item.__dlpack_device__()[1])
            if device != driver.device:
                raise _elsewhere(name, device, driver)
            try:
                capsule = item.__dlpack__(stream=stream or dlpack.LEGACY)
            except (BufferError, TypeError, ValueError, RuntimeError) as error:
                raise RunError(f"input {name!r} cannot be read as an array: {error}", "input") from None
            return _imported(capsule, name)
    return _interface(item, name, driver)


def current_stream(items: Sequence[Any], driver: Driver) -> int | None:
    """The stream on which torch works now, if a tensor of it on the device is among arrays."""
    if any(_kind(type(item)) == "torch" and item.is_cuda for item in items):
        return int(sys.modules["torch"].cuda.current_stream(driver.device).cuda_stream)
    return None


@functools.cache
def _torch_text(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    return {"bfloat16": "bf16", "bool": "b1"}.get(name) or dtype_text(np.dtype(name))


def _torch(item: Any, name: str, driver: Driver) -> View:
    """torch's tensors without a capsule, which takes several times as long."""
    device = item.get_device()
    if device != driver.device:
        raise _elsewhere(name, device, driver)
    if not item.is_contiguous():
        raise _strided(name)
    if item.is_neg():
        raise RunError(f"input {name!r} has the negative bit: call its resolve_neg()", "input")
    queued = sys.modules["torch"].cuda.current_stream(device).cuda_stream
    return View(item.data_ptr(), tuple(item.shape), _torch_text(item.dtype), False, item, int(queued))


def _elsewhere(name: str, device: int, driver: Driver) -> RunError:
    return RunError(f"input {name!r} lies on device {device}, the function runs on device {driver.device}", "input")


def _interface(item: Any, name: str, driver: Driver) -> View:
    found = item.__cuda_array_interface__
    address, shape = int(found["data"][0] or 0), tuple(map(int, found["shape"]))
    text = found["typestr"].lstrip("<|=")
    if found.get("mask") is not None:
        raise RunError(f"input {name!r} has a mask, which is not read", "input")
    strides = found.get("strides")
    if strides is not None and not _is_plain(shape, [each // np.dtype(text).itemsize for each in strides]):
        raise _strided(name)
    queue = found.get("stream")
    if address and driver.count > 1:
        place = ctypes.c_int32(driver.device)
        with driver.current():
            code = driver("cuPointerGetAttribute", ctypes.addressof(place), _DEVICE_ORDINAL, address, fails=False)
        if not code and place.value != driver.device:
            raise _elsewhere(name, place.value, driver)
    return View(
        address, shape, text, False, item, None if queue is None else 0 if queue == dlpack.LEGACY else int(queue)
    )


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

    def __init__(self, managed: dlpack.Managed, address: int) -> None:
        self._managed, self._address = managed, address

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def _imported(capsule: Any, name: str) -> View:
    address = dlpack.pointer(capsule, dlpack.NAME)
    managed = dlpack.Managed.from_address(address)
    tensor = managed.tensor
    dlpack.rename(capsule, dlpack.USED)
    keep = _Imported(managed, address)
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides and not _is_plain(shape, list(tensor.strides[: tensor.ndim])):
        raise _strided(name)
    kinds = {code: kind for kind, code in dlpack.CODES.items()}
    bfloat = (tensor.code, tensor.bits) == (dlpack.BFLOAT, 16)
    text = "bf16" if bfloat else f"{kinds.get(tensor.code, '?')}{tensor.bits // 8}"
    if tensor.lanes != 1:
        raise RunError(f"input {name!r} has elements of {tensor.lanes} lanes", "input")
    return View((tensor.data or 0) + tensor.offset, shape, text, False, keep)
