"""Reads safetensors, the part of it that artifacts use: arrays on the mapped file, nothing copied."""

from __future__ import annotations

import json
import math
import mmap
from typing import Any

import numpy as np

_TYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "BF16": np.uint16,
    "F32": np.float32,
    "F64": np.float64,
}
_LONGEST = 100_000_000


def mapped(file: Any, start: int, size: int) -> dict[str, np.ndarray]:
    """The arrays by name of ``size`` bytes of an open file; bf16 as ui16. Raises ValueError for what is none."""
    if size < 8:
        raise ValueError("the weights are cut off")
    page = mmap.ALLOCATIONGRANULARITY
    begin = start // page * page
    memory = mmap.mmap(file.fileno(), start - begin + size, access=mmap.ACCESS_READ, offset=begin)
    view = np.frombuffer(memory, np.uint8, size, start - begin)
    header = int(view[:8].view(np.uint64)[0])
    if header > min(_LONGEST, size - 8):
        raise ValueError("the weights are cut off")
    table = json.loads(bytes(view[8 : 8 + header]))
    found = {}
    for name, row in table.items():
        if name != "__metadata__":
            found[name] = _array(view[8 + header :], row)
    return found


def _array(data: np.ndarray, row: Any) -> np.ndarray:
    dtype = np.dtype(_TYPES[row["dtype"]])
    shape = [int(size) for size in row["shape"]]
    first, last = (int(place) for place in row["data_offsets"])
    if min(shape, default=0) < 0 or not 0 <= first <= last <= data.size:
        raise ValueError("the table of weights points outside of the file")
    if last - first != math.prod(shape) * dtype.itemsize:
        raise ValueError("the table of weights has a wrong size")
    found: np.ndarray = data[first:last].view(dtype).reshape(shape)
    return found
