"""A model as bytes: weights are put between the pieces of the message, never copied into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import ModelProto, TensorProto

from egshape.errors import Unsupported
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.types import dtype_name

LIMIT = 2**31 - 1
"""Bytes of a protobuf message."""

_GRAPH, _INITIALIZER, _RAW = 7, 5, 9
"""Field numbers: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data."""


def pieces(model: ModelProto, initializers: Mapping[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The bytes of ``model`` with ``initializers`` added to its graph. Raises Unsupported beyond 2 GB."""
    head = ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    parts: list[bytes | memoryview] = [model.graph.SerializeToString()]
    for name, array in initializers.items():
        parts += _initializer(name, array)
    length = sum(map(len, parts))
    if length > LIMIT:
        raise Unsupported(f"the model takes {length} bytes, a message holds {LIMIT}", where=model.graph.name,
                          hint="save it as external data is not supported yet; keep the weights as inputs")
    yield head.SerializeToString()
    yield _tag(_GRAPH) + _varint(length)
    yield from parts


def _initializer(name: str, array: np.ndarray) -> list[bytes | memoryview]:
    data = np.ascontiguousarray(array)
    if data.dtype.byteorder == ">":
        data = data.astype(data.dtype.newbyteorder("<"))
    tensor = TensorProto(name=name, data_type=elem_type_of(dtype_name(array.dtype)), dims=array.shape)
    raw = data.reshape(-1).view(np.uint8).data if data.size else memoryview(b"")
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
