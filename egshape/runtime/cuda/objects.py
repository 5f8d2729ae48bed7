"""What native code must know to read the arrays of a call itself, and to make those of its results
(runtime/native/device_arrays.c): where the fields of our objects lie, found by looking at known ones; functions of
Python; the types of other libraries whose arrays can be read without Python code.

Where a look does not find what it should (another interpreter, no global lock), arrays are read through Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.runtime.abi.device import OBJECT_WORDS, PORT, TYPE
from egshape.runtime.core import dlpack, objects
from egshape.runtime.core.dlpack import dtype_text
from egshape.runtime.cuda.arrays import Block, DeviceArray
from egshape.runtime.cuda.driver import Driver

FUNCTIONS = {
    "number_of": "PyLong_AsLongLong",
    "size": "PyTuple_Size",
    "clear": "PyErr_Clear",
    "save": "PyEval_SaveThread",
    "restore": "PyEval_RestoreThread",
    "alloc": "PyType_GenericAlloc",
    "hold": "Py_IncRef",
    "drop": "Py_DecRef",
    "tuple": "PyTuple_New",
    "place": "PyTuple_SetItem",
    "number": "PyLong_FromLongLong",
}
MOST_TYPES = 8


def _places(item: object, names: Sequence[str]) -> dict[str, int] | None:
    """Where slots of an object lie, all of which refer to different objects; None where that is not found."""
    count = type(item).__basicsize__ // 8
    words = list((ctypes.c_int64 * count).from_address(id(item)))
    found = {}
    for name in names:
        wanted = id(getattr(item, name))
        if words.count(wanted) != 1:
            return None
        found[name] = 8 * words.index(wanted)
    return found


def _references() -> bool:
    """Whether the number of references to an object is its first word, low half."""
    item = object()
    count = ctypes.c_int32.from_address(id(item))
    one = count.value == 1 == sys.getrefcount(item) - 1
    two = [item, item]
    return one and count.value == 3 and len(two) == 2


def _look() -> dict[str, int] | None:
    if objects._FOUND is None or not getattr(sys, "_is_gil_enabled", lambda: True)() or not _references():
        return None
    block = Block(0, 1 << 40, object(), 1 << 41, object())  # type: ignore[arg-type]
    array = DeviceArray(block, (1 << 42, 3), np.dtype(np.float32))
    arrays, blocks = _places(array, ("block", "shape", "dtype")), None
    block.address = 1 << 43
    blocks = _places(block, ("address", "queue", "driver"))
    block.address = 0
    if arrays is None or blocks is None:
        return None
    return {
        **dict(zip(OBJECT_WORDS, objects._FOUND, strict=False)),
        **arrays,
        **blocks,
        "own": id(DeviceArray),
        "none": id(None),
        **{name: dlpack.address_of(known) for name, known in FUNCTIONS.items()},
    }


_FOUND = _look()


class Reader:
    """The table of one function; ``address`` is what native code takes, 0 where it cannot read objects."""

    def __init__(self, ports: Sequence[tuple[np.dtype[Any], int]], driver: Driver, stream: int) -> None:
        self.address = 0
        self._types: dict[type, bool] = {}
        if _FOUND is None:
            return
        self._table = (ctypes.c_int64 * len(OBJECT_WORDS))()
        self._rows = (ctypes.c_int64 * (len(TYPE) * MOST_TYPES))()
        self._ports = (ctypes.c_int64 * (len(PORT) * max(1, len(ports))))()
        for k, (dtype, rank) in enumerate(ports):
            words: list[Any] = [id(dtype), dlpack.element_kind(dtype_text(dtype)), rank]
            self._ports[len(PORT) * k : len(PORT) * (k + 1)] = words
        self._keep = driver, [dtype for dtype, _ in ports]
        values = {
            **_FOUND,
            "this": id(driver),
            "device": driver.device,
            "stream": stream,
            "types": ctypes.addressof(self._rows),
            "ports": ctypes.addressof(self._ports),
        }
        for name, value in values.items():
            self._table[OBJECT_WORDS.index(name)] = value
        self.address = ctypes.addressof(self._table)

    def learn(self, items: Sequence[Any]) -> bool:
        """Read arrays of these types from now on; whether one of them is new."""
        new = False
        for kind in {type(item) for item in items} - self._types.keys():
            count = self._table[OBJECT_WORDS.index("count")] if self.address else MOST_TYPES
            found = dlpack.exchange(kind) if count < MOST_TYPES else None
            self._types[kind] = found is not None
            if found is not None:
                self._rows[len(TYPE) * count : len(TYPE) * (count + 1)] = [id(kind), *found]
                self._table[OBJECT_WORDS.index("count")] = count + 1
                new = True
        return new
