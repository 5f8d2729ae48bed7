"""Weights as safetensors (https://github.com/huggingface/safetensors): eight bytes, a JSON table, the elements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, MutableMapping

import numpy as np

from egshape.runtime.abi.call import ALIGN

Interned = MutableMapping[tuple[str, tuple[int, ...], bytes], np.ndarray]
"""Constants of several functions, each once: by dtype, shape and what hashes its bytes."""

_TYPES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
"""The format's names by numpy's, so that numpy is all that writing needs."""


def pieces(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The file in pieces, arrays uncopied; dtypes that the format lacks are bytes. Each begins at a multiple of 64
    bytes of a file that does: the format allows no holes, so bytes named ``pad`` fill them."""
    table: dict[str, dict[str, object]] = {}
    data: list[bytes | memoryview] = []
    at = 0

    def put(name: str, kind: str, shape: list[int], content: bytes | memoryview, size: int) -> None:
        nonlocal at
        table[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        data.append(content)
        at += size

    for name, array in arrays.items():
        gap = -at % ALIGN
        if gap:
            put(f"pad{at}", "U8", [gap], bytes(gap), gap)
        whole = np.ascontiguousarray(array)
        content = whole.reshape(-1).view(np.uint8).data if whole.size else b""
        put(name, _TYPES.get(array.dtype.name, "U8"), list(array.shape), content, whole.nbytes)
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 8) % ALIGN)
    yield len(header).to_bytes(8, "little") + header
    yield from data


def interned(array: np.ndarray, known: Interned) -> np.ndarray:
    """The array of ``known`` with these bytes, which is this one from now on if there is none."""
    data = np.ascontiguousarray(array)
    content = data.reshape(-1).view(np.uint8).data if data.size else b""
    return known.setdefault((data.dtype.name, data.shape, hashlib.sha256(content).digest()), data)
