"""Arrays on a device that programs give: for any library that takes DLPack (the capsule of an unversioned
DLManagedTensor) or ``__cuda_array_interface__``."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from typing import Any, Protocol

import numpy as np

from egshape.runtime.core import dlpack
from egshape.runtime.core.dlpack import dtype_text
from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda.driver import Driver


class Home(Protocol):
    """What keeps blocks, to compute later results in (``cuda_call.DeviceCall``)."""

    def forget(self, block: Block) -> None:
        """Compute nothing in a block any more."""


class Owner(Protocol):
    """What owns the function's own stream (``cuda_call.Loaded``)."""

    def leave(self, user: object) -> None:
        """A user needs the stream no longer."""


class Block:
    """Memory of a result on the device, given back in the order of its stream ``queue`` once nothing refers to it.

    Its ``home`` keeps some, to compute later results in, which is in the stream's order
    too. What another stream reads by an export is in another order: such a block is not used again, and given back
    behind what that stream has got by then; where the reader did not say which stream it is, once the device has done
    all of its work. The collector of cycles may come to a block that its home still has: that gives it back then.
    ``owner`` owns the function's own stream."""

    __slots__ = ("address", "bytes", "driver", "dropped", "home", "kept", "owner", "queue", "readers", "settled")

    def __init__(
        self, address: int, bytes: int, driver: Driver, queue: int, owner: Owner, home: weakref.ref[Home] | None = None
    ) -> None:
        self.address, self.bytes, self.driver, self.queue, self.owner = address, bytes, driver, queue, owner
        self.home = home
        self.readers: tuple[int, ...] = ()
        """Other streams that have it."""
        self.settled = False
        """Whether all work on it is done, so that its stream need not exist any more."""
        self.kept = self.dropped = False
        """Whether its home has it; whether nothing else has."""

    def export(self, reader: int) -> None:
        """Another library reads it from now on, on the stream ``reader`` (negative: it does not say which)."""
        if reader in (self.queue, *self.readers) or self.driver.implied(reader, self.queue):
            return
        self.readers = *self.readers, reader
        home = self.home() if self.home is not None else None
        if home is not None:
            home.forget(self)

    def __del__(self) -> None:
        self.dropped = True
        if not self.kept:
            self.free()

    def free(self) -> None:
        """Give it back; nothing the second time."""
        if not self.address:
            return
        with contextlib.suppress(RunError), self.driver.aside():  # what cannot be waited for is not given back
            order = 0 if self.settled else self.queue
            for reader in self.readers:
                if reader < 0 or reader == dlpack.PER_THREAD:
                    self.driver("cuCtxSynchronize")
                else:
                    self.driver.follow(order, reader)
            self.driver("cuMemFreeAsync", self.address, order, fails=False)
        self.address = 0
        self.owner.leave(self)


class DeviceArray:
    """A result on the device, row by row.

    ``stream`` is what computed it, in whose order its memory is given back: a stream of the caller's must live as
    long as the results made on it. ``numpy()`` copies it to the host. Native code makes and reads such arrays by their
    slots (cuda_objects.py)."""

    __slots__ = ("__weakref__", "block", "dtype", "shape")

    def __init__(self, block: Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.block, self.shape, self.dtype = block, shape, dtype

    @property
    def address(self) -> int:
        """Where it lies on the device."""
        return self.block.address

    @property
    def driver(self) -> Driver:
        """The device."""
        return self.block.driver

    @property
    def stream(self) -> int:
        """The handle of the stream that computes it."""
        return self.block.queue

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
        """Who reads it waits for its stream; what is said of readers' own streams is that of the default one."""
        if dtype_text(self.dtype) == "bf16":
            raise AttributeError("__cuda_array_interface__ has no bf16: use DLPack")
        self.block.export(0)
        return {
            "data": (self.address, False),
            "shape": self.shape,
            "typestr": self.dtype.str,
            "version": 3,
            "stream": self.stream or dlpack.LEGACY,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.driver.device

    def __dlpack__(
        self, *, stream: int | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **_: Any
    ) -> Any:
        """``stream``: who reads it next, None for the default stream, -1 for one that waits by itself. Raises
        BufferError where another device or a copy is asked for."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("an array of a device is given as it is: no copy, no other device")
        reader = 0 if stream is None or stream == dlpack.LEGACY else stream
        if reader >= 0:
            self.driver.follow(reader, self.stream)
        self.block.export(reader)
        return _exported(self)


_EXPORTED: dict[int, tuple[object, ...]] = {}
"""What exported capsules refer to, by the address of what they hold."""


def _exported(array: DeviceArray) -> Any:
    kind = dlpack.element_kind(dtype_text(array.dtype))
    shape = (ctypes.c_int64 * max(1, len(array.shape)))(*array.shape)
    managed = dlpack.Managed()
    managed.tensor = dlpack.Tensor(
        array.address,
        dlpack.CUDA,
        array.driver.device,
        len(array.shape),
        kind & 255,
        kind >> 8 & 255,
        1,
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        None,
        0,
    )
    managed.deleter = _DELETE
    address = ctypes.addressof(managed)
    _EXPORTED[address] = managed, shape, array
    return dlpack.new_capsule(address, dlpack.NAME, ctypes.cast(_DESTROY, ctypes.c_void_p))


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(capsule: int) -> None:
    """A capsule that nobody took."""
    if dlpack.is_valid(capsule, dlpack.NAME):
        _EXPORTED.pop(dlpack.pointer_of(capsule, dlpack.NAME), None)


_DELETE, _DESTROY = dlpack.DELETER(_delete), dlpack.DESTRUCTOR(_destroy)
