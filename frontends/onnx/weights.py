"""A model as bytes: weights are put between the pieces of the message, never copied into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from egshape.errors import Unsupported
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.types import SUBBYTE, dtype_name

LIMIT = 2**31 - 1
"""Bytes of a protobuf message."""

OUTSIDE = 1024
"""Initializers of at least so many bytes go to the side file."""

DIGITS = 12
"""Hexadecimal digits of the checksum in the side file's name."""

ALIGN, PAGE = 64, 4096
"""They begin at multiples of this; large ones at those of a page, so that they can be mapped."""

_GRAPH, _INITIALIZER, _RAW = 7, 5, 9
"""Field numbers: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data."""


def pieces(
    model: ModelProto, initializers: Mapping[str, np.ndarray], places: Mapping[str, Place] | None = None
) -> Iterator[bytes | memoryview]:
    """The bytes of ``model`` with ``initializers`` added to its graph; of those in ``places`` only where they lie.
    Raises Unsupported beyond 2 GB."""
    head = ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    parts: list[bytes | memoryview] = [model.graph.SerializeToString()]
    for name, array in initializers.items():
        parts += _initializer(name, array, (places or {}).get(name))
    length = sum(map(len, parts))
    if length > LIMIT:
        raise Unsupported(
            f"the model takes {length} bytes, a message holds {LIMIT}",
            where=model.graph.name,
            hint="save it to a file with external data (--external-data)",
        )
    yield head.SerializeToString()
    yield _tag(_GRAPH) + _varint(length)
    yield from parts


@dataclass(frozen=True)
class Place:
    """Where the bytes of an initializer lie in a file beside the model."""

    file: str
    offset: int
    length: int


class SideFile:
    """The bytes of initializers one after the other, as pieces to write; once they are written ``places`` and ``name``
    say where they lie. The name holds a checksum, so that no model ever meets another one's weights."""

    def __init__(self, initializers: Mapping[str, np.ndarray]) -> None:
        self._initializers = {name: array for name, array in initializers.items() if array.nbytes >= OUTSIDE}
        self._rows: dict[str, tuple[int, int]] = {}
        self._digest = blake2b(digest_size=DIGITS // 2)

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The file; each initializer is read when its turn comes."""
        at = 0
        for name, array in self._initializers.items():
            raw = packed(array)
            gap = -at % (PAGE if len(raw) >= PAGE else ALIGN)
            for part in (bytes(gap), raw):
                self._digest.update(part)
                yield part
            self._rows[name] = at + gap, len(raw)
            at += gap + len(raw)

    def name(self, model: str) -> str:
        """What the file is called beside a model of this name."""
        return f"{model}.{self._digest.hexdigest()}.data"

    def places(self, model: str) -> dict[str, Place]:
        """Where each initializer lies."""
        return {name: Place(self.name(model), *row) for name, row in self._rows.items()}


def size(initializers: Mapping[str, np.ndarray]) -> int:
    """About how many bytes the initializers take."""
    return sum(array.nbytes for array in initializers.values())


def tensor(array: np.ndarray) -> TensorProto:
    """An array as a message of its own. Raises EgshapeError for elements that ONNX has not."""
    return TensorProto(data_type=elem_type_of(dtype_name(array.dtype)), dims=array.shape, raw_data=bytes(packed(array)))


def packed(array: np.ndarray) -> memoryview:
    """The bytes of an array as ONNX wants them: row-major, little-endian, small elements packed."""
    data = np.ascontiguousarray(array)
    if data.dtype.byteorder == ">":
        data = data.astype(data.dtype.newbyteorder("<"))
    if dtype_name(array.dtype) in SUBBYTE:
        return memoryview(numpy_helper.from_array(data).raw_data)
    return data.reshape(-1).view(np.uint8).data if data.size else memoryview(b"")


def _initializer(name: str, array: np.ndarray, place: Place | None) -> list[bytes | memoryview]:
    tensor = TensorProto(name=name, data_type=elem_type_of(dtype_name(array.dtype)), dims=array.shape)
    if place is not None:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", place.file), ("offset", place.offset), ("length", place.length)):
            tensor.external_data.add(key=key, value=str(value))
        whole = tensor.SerializeToString()
        return [_tag(_INITIALIZER) + _varint(len(whole)) + whole]
    raw = packed(array)
    head = tensor.SerializeToString() + _tag(_RAW) + _varint(len(raw))
    return [_tag(_INITIALIZER) + _varint(len(head) + len(raw)) + head, raw]


def _tag(field: int) -> bytes:
    return _varint(field << 3 | 2)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
