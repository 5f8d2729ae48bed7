"""Arrays of another library on the device, which give themselves by DLPack's exchange functions as torch's do."""

from __future__ import annotations

import ctypes
from typing import Any

from egshape.runtime.core import dlpack


class Foreign:
    """An array at an address; ``strides`` in elements. ``working``: the stream on which its library works."""

    working = 0
    asked = 0
    """How often an array was read."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        text: str = "f4",
        strides: tuple[int, ...] | None = None,
        place: tuple[int, int] = (dlpack.CUDA, 0),
    ) -> None:
        self.address, self.shape, self.text, self.place = address, shape, text, place
        self.sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.steps = (ctypes.c_int64 * max(1, len(shape)))(*(strides or ())) if strides is not None else None

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        raise BufferError("only by exchange functions")


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(dlpack.Tensor))
def _read(item: Foreign, out: Any) -> int:
    Foreign.asked += 1
    kind, tensor = dlpack.element_kind(item.text), out.contents
    tensor.data, tensor.offset, tensor.ndim = item.address, 0, len(item.shape)
    tensor.device_type, tensor.device_id = item.place
    tensor.code, tensor.bits, tensor.lanes = kind & 255, kind >> 8 & 255, kind >> 16
    whole = ctypes.POINTER(ctypes.c_int64)
    tensor.shape = ctypes.cast(item.sizes, whole)
    tensor.strides = ctypes.cast(item.steps, whole) if item.steps is not None else whole()
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))
def _working(kind: int, device: int, out: Any) -> int:
    out[0] = Foreign.working
    return 0


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_TABLE = (ctypes.c_uint64 * 7)(1 | 3 << 32, 0, 0, 0, 0, _address(_read), _address(_working))
_NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")
Foreign.__dlpack_c_exchange_api__ = dlpack.new_capsule(  # type: ignore[attr-defined]
    ctypes.addressof(_TABLE), ctypes.cast(_NAME, ctypes.c_char_p), None
)
