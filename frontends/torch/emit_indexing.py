"""Elements taken from and put at places that are data, as calls of ATen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, const, product
from egshape.frontends.torch.emit import ONE, Emitter
from egshape.frontends.torch.emit_elementwise import converted
from egshape.frontends.torch.emit_moves import permuted
from egshape.frontends.torch.emitting import emits
from egshape.ir.graph import Block, Op, Value
from egshape.ops.kinds import region_kind

_REDUCES = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}


@emits("gather")
def gather(e: Emitter, op: Op) -> Any:
    """Rows or slices at places: index_select or index; else an index for each axis. Places are clamped."""
    x, indices = op.operands[:2]
    a = op.attrs
    found = _one_axis(op)
    if found is not None:
        places = _clamped(e, converted_places(e, indices), x.type.dims[found], ONE)
        return _rows(e, op, found, places, indices.type.rank)
    starts = _starts(e, op, indices, x)
    batch = [size for axis, size in enumerate(indices.type.dims) if axis != a["index_vector_dim"]]
    dropped = (*a["collapsed"], *a["operand_batch"])
    kept = [axis for axis in range(x.type.rank) if axis not in dropped]
    index = []
    for axis, whole in enumerate(x.type.dims):
        size = a["sizes"][axis]
        place = None
        if axis in starts:
            place = _unsqueezed(e, _clamped(e, starts[axis], whole, size), len(batch), len(kept))
        if axis in kept:
            line = e.line(size, "i64")
            for _ in range(len(kept) - kept.index(axis) - 1):
                line = e.call("unsqueeze.default", line, -1)
            place = line if place is None else e.call("add.Tensor", place, line)
        index.append(e.constant(_zero(), "zero") if place is None else place)
    full = e.sizes([*batch, *(a["sizes"][axis] for axis in kept)])
    node = e.call("index.Tensor", e.node(x), [e.call("expand.default", each, full) for each in index])
    behind = range(len(batch), len(batch) + len(kept))
    return permuted(e, node, _placing(op.result.type.rank, a["offset_dims"], range(len(batch)), behind))


def _placing(rank: int, offsets: Sequence[int], batch: Sequence[int], behind: Sequence[int]) -> list[int]:
    """The order that brings the axes of the batch to where offsets leave room, and those behind it to the offsets."""
    rest, slices = iter(batch), iter(behind)
    return [next(slices) if axis in offsets else next(rest) for axis in range(rank)]


def _one_axis(op: Op) -> int | None:
    """The axis of which a gather takes single places, all others whole; None for another gather."""
    a, (x, indices) = op.attrs, op.operands[:2]
    plain = a["index_vector_dim"] == indices.type.rank and not a["operand_batch"]
    if not plain or len(a["start_index_map"]) != 1 or a["collapsed"] != a["start_index_map"]:
        return None
    (axis,) = a["start_index_map"]
    sizes = [
        size is whole for place, (size, whole) in enumerate(zip(a["sizes"], x.type.dims, strict=True)) if place != axis
    ]
    return int(axis) if all(sizes) else None


def _rows(e: Emitter, op: Op, axis: int, places: Any, rank: int) -> Any:
    x = op.operands[0]
    offsets = op.attrs["offset_dims"]
    order = _placing(
        op.result.type.rank,
        offsets,
        range(axis, axis + rank),
        [place if place < axis else place + rank - 1 for place in range(x.type.rank) if place != axis],
    )
    if rank == 1:
        return permuted(e, e.call("index_select.default", e.node(x), axis, places), order)
    return permuted(e, e.call("index.Tensor", e.node(x), [None] * axis + [places]), order)


def converted_places(e: Emitter, indices: Value) -> Any:
    """Places as torch takes them."""
    node = e.node(indices)
    return node if indices.type.dtype == "i64" else converted(e, node, "i64")


def _clamped(e: Emitter, places: Any, whole: Dim, size: Dim) -> Any:
    """Places at which a part of this size lies inside; a program of torch made sure of it."""
    return places if e.trusting else e.call("clamp.default", places, 0, e.size(whole - size))


def _starts(e: Emitter, op: Op, indices: Value, x: Value) -> Mapping[int, Any]:
    """Where parts begin, by the axis, over the batch."""
    a = op.attrs
    node = converted_places(e, indices)
    vector, rank = a["index_vector_dim"], indices.type.rank
    axes = a.get("start_index_map", a.get("scatter_dims_to_operand_dims"))
    if vector == rank:
        starts = dict.fromkeys(axes, node)
    else:
        starts = {axis: e.call("select.int", node, vector, number) for number, axis in enumerate(axes)}
    sizes = [size for axis, size in enumerate(indices.type.dims) if axis != vector]
    for left, right in zip(a["operand_batch"], a["indices_batch"], strict=True):
        axis = right - (right > vector)
        line = e.line(sizes[axis], "i64")
        for _ in range(len(sizes) - axis - 1):
            line = e.call("unsqueeze.default", line, -1)
        starts[left] = e.call("expand.default", line, e.sizes(sizes))
    return starts


def _unsqueezed(e: Emitter, node: Any, first: int, count: int) -> Any:
    for place in range(count):
        node = e.call("unsqueeze.default", node, first + place)
    return node


def _zero() -> np.ndarray:
    return np.zeros((), np.int64)


# -- windows at places that are data -----------------------------------------------------------------------------------


def _window(e: Emitter, x: Value, starts: Sequence[Value], sizes: Sequence[Dim]) -> list[tuple[int, Any]]:
    """The axes of which a window takes a part, and the places that it takes."""
    out = []
    for axis, (whole, start, size) in enumerate(zip(x.type.dims, starts, sizes, strict=True)):
        if size is whole:
            continue
        first = e.call("clamp.default", converted_places(e, start), 0, e.size(whole - size))
        out.append((axis, e.call("add.Tensor", e.line(size, "i64"), first)))
    return out


@emits("dynamic_slice")
def dynamic_slice(e: Emitter, op: Op) -> Any:
    """index_select of each axis that is not whole."""
    x, *starts = op.operands
    node = e.node(x)
    for axis, places in _window(e, x, starts, op.result.type.dims):
        node = e.call("index_select.default", node, axis, places)
    return node


@emits("dynamic_update_slice")
def dynamic_update_slice(e: Emitter, op: Op) -> Any:
    """index_copy of one axis, index_put of several."""
    x, update, *starts = op.operands
    found = _window(e, x, starts, update.type.dims)
    if not found:
        return e.node(update)
    if len(found) == 1:
        return e.call("index_copy.default", e.node(x), found[0][0], found[0][1], e.node(update))
    index = dict(found)
    places = []
    for axis, size in enumerate(update.type.dims):
        line = index.get(axis) if axis in index else e.line(size, "i64")
        for _ in range(update.type.rank - axis - 1):
            line = e.call("unsqueeze.default", line, -1)
        places.append(line)
    return e.call("index_put.default", e.node(x), places, e.node(update))


# -- scatter -----------------------------------------------------------------------------------------------------------


@emits("scatter")
def scatter(e: Emitter, op: Op) -> Any:
    """On the flat operand, with one place more for what falls outside."""
    if len(op.operands) != 3:
        raise e.unsupported(op, "a scatter of several tensors")
    x, indices, updates = op.operands
    kind = region_kind(op.regions[0])
    puts = _puts(op.regions[0])
    if kind not in _REDUCES and not puts:
        raise e.unsupported(op, "a scatter by a function of its own")
    if x.type.dtype == "i1" and not puts:
        raise e.unsupported(op, f"a scatter of i1 by {kind}")
    flat, inside = _places(e, op, x, indices, updates)
    count = product(x.type.dims)
    flat = e.call("where.ScalarOther", inside, flat, e.size(count))
    flat = e.call("reshape.default", flat, [-1]) if updates.type.rank != 1 else flat
    source = e.node(updates) if updates.type.rank == 1 else e.call("reshape.default", e.node(updates), [-1])
    whole = e.node(x) if x.type.rank == 1 else e.call("reshape.default", e.node(x), [-1])
    whole = e.call("constant_pad_nd.default", whole, [0, 1], 0)
    if puts:
        whole = e.call("scatter.src", whole, 0, flat, source)
    else:
        whole = e.call("scatter_reduce.two", whole, 0, flat, source, _REDUCES[str(kind)])
    whole = e.call("slice.Tensor", whole, 0, 0, e.size(count))
    return whole if x.type.rank == 1 else e.call("reshape.default", whole, e.sizes(x.type.dims))


def _puts(region: Block) -> bool:
    """Whether a region gives the new element."""
    return len(region.args) == 2 and not region.ops and region.results == (region.args[1],)


def _places(e: Emitter, op: Op, x: Value, indices: Value, updates: Value) -> tuple[Any, Any]:
    """For each element of the updates its place in the flat operand, and whether its window lies inside."""
    a = op.attrs
    starts = _starts(e, op, indices, x)
    rank = updates.type.rank
    outer = [axis for axis in range(rank) if axis not in a["update_window_dims"]]
    kept = [axis for axis in range(x.type.rank) if axis not in (*a["inserted_window_dims"], *a["operand_batch"])]
    window = dict(zip(kept, a["update_window_dims"], strict=True))
    flat = inside = None
    for axis, whole in enumerate(x.type.dims):
        place = None
        size = updates.type.dims[window[axis]] if axis in window else const(1)
        if axis in starts:
            place = _spread(e, starts[axis], outer, rank)
            last = e.call("le.Scalar", place, e.size(whole - size))
            fits = e.call("bitwise_and.Tensor", e.call("ge.Scalar", place, 0), last)
            inside = fits if inside is None else e.call("bitwise_and.Tensor", inside, fits)
        if axis in window:
            line = _spread(e, e.line(size, "i64"), [window[axis]], rank)
            place = line if place is None else e.call("add.Tensor", place, line)
        place = e.constant(_zero(), "zero") if place is None else place
        flat = place if flat is None else e.call("add.Tensor", e.call("mul.Tensor", flat, e.size(whole)), place)
    flat = e.constant(_zero(), "zero") if flat is None else flat
    inside = e.call("ge.Scalar", flat, 0) if inside is None else inside
    full = e.sizes(updates.type.dims)
    return e.call("expand.default", flat, full), e.call("expand.default", inside, full)


def _spread(e: Emitter, node: Any, axes: Sequence[int], rank: int) -> Any:
    """A tensor whose axes are these, in order, of as many as the updates have."""
    for axis in range(rank):
        if axis not in axes:
            node = e.call("unsqueeze.default", node, axis)
    return node
