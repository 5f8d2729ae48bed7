"""Moves of elements that lowerings of many ops are made of."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, minimum
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value

_ONE = const(1)


def reshape(s: Scope, x: Value, shape: Sequence[Dim]) -> Value:
    """The same elements in another shape; x itself where it has that."""
    return x if x.type.dims == tuple(shape) else s.moved(x, s.one("reshape", (x,), shape=tuple(shape)))


def window(s: Scope, x: Value, axis: int, start: Dim, limit: Dim, stride: int = 1) -> Value:
    """A part of one axis; x itself where it is the whole axis."""
    if start.const == 0 and limit is x.type.dims[axis] and stride == 1:
        return x
    starts = [const(0)] * x.type.rank
    limits, strides = list(x.type.dims), [_ONE] * x.type.rank
    starts[axis], limits[axis], strides[axis] = start, limit, const(stride)
    return s.one("slice", (x,), starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))


def taken(s: Scope, x: Value, axis: int, places: Value, empty: bool = False) -> Value:
    """Elements of one axis at places within it, which may have any rank: their axes stand for that axis. ``empty``:
    the axis may have no elements, as there are surely no places then, or a check rejects them; else it is checked."""
    rank, inner = x.type.rank, places.type.rank
    offset = tuple(place if place < axis else place + inner - 1 for place in range(rank) if place != axis)
    sizes = list(x.type.dims)
    sizes[axis] = single(s, sizes[axis]) if empty else _ONE
    return s.one(
        "gather",
        (x, places),
        offset_dims=offset,
        collapsed=(axis,),
        start_index_map=(axis,),
        index_vector_dim=inner,
        sizes=tuple(sizes),
    )


def single(s: Scope, size: Dim) -> Dim:
    """How much of an axis of this size one place takes: an element, or nothing where it has none."""
    return _ONE if s.decide("<=", _ONE, size) is True else minimum(size, _ONE)
