"""The bytes of a model without those of its weights: a protobuf message is cut so that large tensors stay where they
are in the file, and only the rest is parsed (protobuf encoding: developers.google.com/protocol-buffers)."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.errors import ParseError

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""Field numbers: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data."""

_LARGE = 4096
"""Raw data of at least so many bytes is left where it is."""


def cut(data: memoryview, where: str) -> tuple[bytes, dict[int, memoryview]]:
    """The model's message without the raw data of its large initializers, and these by the initializer's index.

    Raises ParseError for a message that ends early or is none."""
    pieces: list[bytes | memoryview] = []
    found: dict[int, memoryview] = {}
    index = 0
    for field, start, body, end in _fields(data, where):
        if field != _GRAPH or body == end:
            pieces.append(data[start:end])
            continue
        inner, index = _graph(data[body:end], index, found, where)
        length = sum(map(len, inner))
        pieces += [_key(_GRAPH), _varint(length), *inner]
    return b"".join(pieces), found


def _graph(
    data: memoryview, index: int, found: dict[int, memoryview], where: str
) -> tuple[list[bytes | memoryview], int]:
    pieces: list[bytes | memoryview] = []
    kept = 0
    for field, start, body, end in _fields(data, where):
        if field != _INITIALIZER:
            continue
        if end - body >= _LARGE:
            raw, rest = _tensor(data[body:end], where)
            if raw is not None:
                found[index] = raw
                pieces += [data[kept:start], _key(_INITIALIZER), _varint(sum(map(len, rest))), *rest]
                kept = end
        index += 1
    pieces.append(data[kept:])
    return pieces, index


def _tensor(data: memoryview, where: str) -> tuple[memoryview | None, list[memoryview]]:
    raw, rest = None, []
    for field, start, body, end in _fields(data, where):
        if field == _RAW_DATA and end - body >= _LARGE:
            raw = data[body:end]
        else:
            rest.append(data[start:end])
    return raw, rest


def _fields(data: memoryview, where: str) -> Iterator[tuple[int, int, int, int]]:
    """Each field of a message: number, start, start of its body, end."""
    place, length = 0, len(data)
    while place < length:
        start = place
        key, place = _read_varint(data, place, where)
        kind = key & 7
        if kind == 0:
            body = place
            _, place = _read_varint(data, place, where)
        elif kind == 2:
            size, body = _read_varint(data, place, where)
            place = body + size
        elif kind in (1, 5):
            body = place
            place += 8 if kind == 1 else 4
        else:
            raise ParseError("is no ONNX model: it does not parse as a protobuf message", where=where)
        if place > length:
            raise ParseError(
                "is no whole ONNX model: a field goes past the end",
                where=where,
                hint="the file is truncated or damaged",
            )
        yield key >> 3, start, body, place


def _read_varint(data: memoryview, place: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise ParseError(
        "is no whole ONNX model: a number goes past the end", where=where, hint="the file is truncated or damaged"
    )


def _key(field: int) -> bytes:
    return _varint(field << 3 | 2)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
