"""Gathers and scatters. ONNX counts negative indices from the end, which our ops do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import Dim, const
from egshape.frontends.onnx.checks import distance_read, only_row
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import compare
from egshape.frontends.onnx.ops.shaping import reshape, single, taken, window
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.ir.graph import Block, Value
from egshape.ir.types import is_integer


@onnx_op("Gather")
def gather(s: Scope, node: Node, x: Value, indices: Value) -> Operand:
    """Elements of one axis. At known places it is a slice or a plain gather; else a composite that counts negative
    indices from the end."""
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    if only_row(s, node, x, indices, axis):
        return reshape(s, x, (*x.type.dims[:axis], *indices.type.dims, *x.type.dims[axis + 1 :]))
    distance = distance_read(s, node, x, indices)
    if distance is not None:
        return distance
    size, places = x.type.dims[axis], s.numbers(indices)
    if places is not None and indices.type.rank <= 1 and len(places) == 1:
        place = const(places[0]) if places[0] >= 0 else size + places[0]
        if size.const is None or -size.const <= places[0] < size.const:
            cut = window(s, x, axis, place, place + 1)
            shape = [*x.type.dims[:axis], *indices.type.dims, *x.type.dims[axis + 1 :]]
            return reshape(s, cut, shape)
    if places is not None and size.const is not None and all(-size.const <= at < size.const for at in places):
        counted = np.array([at % size.const for at in places], np.int64)
        counted = counted.reshape([each.const or 0 for each in indices.type.dims])
        return taken(s, x, axis, s.constant(counted), empty=True)
    found = composite(s, node, (x, indices), _gather)[0]
    s.look_up(indices, size)
    return found


def _gather(s: Scope, node: Node, x: Value, indices: Value) -> Value:
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    return taken(s, x, axis, placed(s, node, indices, x.type.dims[axis]), empty=True)


def placed(s: Scope, node: Node, indices: Value, size: Dim) -> Value:
    """Indices counted from the front, with a check that they lie on an axis of this size, unless that is known."""
    counted = counted_from_front(s, indices, size)
    if not _surely_inside(s, node, indices, size):
        _check_inside(s, node, counted, s.spread(s.vector([size], counted.type.dtype, ()), counted.type.dims), (size,))
    return counted


def _surely_inside(s: Scope, node: Node, indices: Value, size: Dim) -> bool:
    """Whether every index is known to lie within -size .. size - 1. Raises EgshapeError for one that never does."""
    numbers = s.numbers(indices)
    if numbers is not None:
        if not numbers:
            return True
        low, high = const(min(numbers)), const(max(numbers))
        if size.const is not None and not -size.const <= min(numbers) <= max(numbers) < size.const:
            raise node.error(
                f"reads place {min(numbers) if max(numbers) < size.const else max(numbers)} of an axis of size {size}"
            )
    else:
        span = s.program.spans.get(indices)
        if span is None:
            return False
        low, high = span.low, span.high
    return s.decide("<=", -size, low) is True and s.decide("<", high, size) is True


def _check_inside(s: Scope, node: Node, counted: Value, whole: Value, sizes: tuple[Dim, ...]) -> None:
    """A check of all places; our own ops would take the nearest one, or leave it out."""
    below = compare(s, "LT", counted, s.full(0, counted))
    outside = s.one("or", (below, compare(s, "GE", counted, whole)))
    found = fold(s, "or", outside, tuple(range(counted.type.rank))) if counted.type.rank else outside
    shown = " x ".join(f"{{{place}}}" for place in range(len(sizes)))
    s.add(
        "check",
        (s.one("not", (found,)),),
        {"message": f"an index of {node.op} lies outside of the axis of size {shown}", "args": sizes},
    )


def counted_from_front(s: Scope, indices: Value, size: Dim) -> Value:
    """Indices with the size added to the negative ones."""
    if indices.type.dtype.startswith("ui"):
        return indices
    whole = s.spread(s.vector([size], indices.type.dtype, ()), indices.type.dims)
    negative = compare(s, "LT", indices, s.full(0, indices))
    return s.one("select", (negative, s.one("add", (indices, whole)), indices))


@onnx_op("GatherElements", composite=True)
def gather_elements(s: Scope, node: Node, x: Value, indices: Value) -> Value:
    """out[i, j, k] = x[i, indices[i, j, k], k] for axis 1: a gather of single elements."""
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    vectors = _element_places(s, node, x, indices, axis)
    return s.one(
        "gather",
        (x, vectors),
        offset_dims=(),
        collapsed=tuple(range(x.type.rank)),
        start_index_map=tuple(range(x.type.rank)),
        index_vector_dim=indices.type.rank,
        sizes=tuple(single(s, size) for size in x.type.dims),
    )


def _element_places(s: Scope, node: Node, x: Value, indices: Value, axis: int) -> Value:
    """Index vectors of elements: their own place, but along one axis the index."""
    shape, columns = indices.type.dims, []
    for place in range(x.type.rank):
        if place == axis:
            columns.append(placed(s, node, indices, x.type.dims[axis]))
        else:
            columns.append(s.one("iota", dtype=indices.type.dtype, dim=place, shape=shape))
    parts = [reshape(s, column, (*shape, const(1))) for column in columns]
    return parts[0] if len(parts) == 1 else s.one("concatenate", parts, dim=len(shape))


@onnx_op("GatherND")
def gather_nd(s: Scope, node: Node, x: Value, indices: Value) -> Operand:
    """Slices at index vectors, which the last axis of the indices holds: a composite, but for a check."""
    if not node.int("batch_dims", 0) and indices.type.dims == (const(1),) and only_row(s, node, x, indices, 0):
        return reshape(s, x, x.type.dims[1:])
    return composite(s, node, (x, indices), _gather_nd)[0]


def _gather_nd(s: Scope, node: Node, x: Value, indices: Value) -> Value:
    batch, depth = node.int("batch_dims", 0), indices.type.dims[-1].const
    if depth is None:
        raise NoLowering("the length of the index vectors is data")
    fixed, last = batch + depth, indices.type.rank - 1
    counted = _vectors_from_front(s, node, indices, x.type.dims[batch:fixed])
    sizes = tuple(single(s, size) if axis < fixed else size for axis, size in enumerate(x.type.dims))
    return s.one(
        "gather",
        (x, counted),
        offset_dims=tuple(range(last, last + x.type.rank - fixed)),
        collapsed=tuple(range(batch, fixed)),
        operand_batch=tuple(range(batch)),
        indices_batch=tuple(range(batch)),
        start_index_map=tuple(range(batch, fixed)),
        index_vector_dim=last,
        sizes=sizes,
    )


def _vectors_from_front(s: Scope, node: Node, indices: Value, sizes: Sequence[Dim]) -> Value:
    """Index vectors counted from the front, checked unless they are constants that fit."""
    dtype, shape = indices.type.dtype, indices.type.dims
    line = s.vector(tuple(sizes), dtype)
    whole = s.one("broadcast_in_dim", (line,), dims=(len(shape) - 1,), shape=shape)
    negative = compare(s, "LT", indices, s.full(0, indices))
    counted = s.one("select", (negative, s.one("add", (indices, whole)), indices))
    if not _vectors_fit(s, indices, sizes):
        _check_inside(s, node, counted, whole, tuple(sizes))
    return counted


def _vectors_fit(s: Scope, indices: Value, sizes: Sequence[Dim]) -> bool:
    array = s.array(indices)
    if array is None or not sizes:
        return not sizes
    return all(
        s.decide("<=", -size, const(int(column.min(initial=0)))) is True
        and s.decide("<", const(int(column.max(initial=0))), size) is True
        for size, column in zip(sizes, array.reshape(-1, len(sizes)).T, strict=True)
    )


_REDUCERS = {"none": None, "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


def _update(s: Scope, node: Node, dtype: str) -> Block:
    """The region of a scatter: the new element, or the old one combined with it."""
    mode = node.text("reduction", "none")
    if mode not in _REDUCERS:
        raise NoLowering(f"reduction {mode}")
    ours = _REDUCERS[mode]
    return s.region(
        [(dtype, ()), (dtype, ())], lambda inner, old, new: new if ours is None else inner.one(ours, (old, new))
    )


@onnx_op("ScatterElements", "Scatter", composite=True)
def scatter_elements(s: Scope, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """Single elements put at, or combined with those at, places along one axis."""
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    rank = x.type.rank
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": tuple(range(rank)),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": tuple(range(rank)),
        "index_vector_dim": rank,
    }
    places = _element_places(s, node, x, indices, axis)
    return s.add("scatter", (x, places, updates), attrs, regions=(_update(s, node, x.type.dtype),))[0]


@onnx_op("ScatterND", composite=True)
def scatter_nd(s: Scope, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """Slices put at, or combined with those at, index vectors."""
    depth = indices.type.dims[-1].const
    if depth is None:
        raise NoLowering("the length of the index vectors is data")
    last = indices.type.rank - 1
    attrs = {
        "update_window_dims": tuple(range(last, last + x.type.rank - depth)),
        "inserted_window_dims": tuple(range(depth)),
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": tuple(range(depth)),
        "index_vector_dim": last,
    }
    places = _vectors_from_front(s, node, indices, x.type.dims[:depth])
    return s.add("scatter", (x, places, updates), attrs, regions=(_update(s, node, x.type.dtype),))[0]


@onnx_op("OneHot", composite=True)
def one_hot(s: Scope, node: Node, indices: Value, depth: Value, values: Value) -> Value:
    """values[1] where the place along a new axis is the index, else values[0]."""
    depth = depth if is_integer(depth.type.dtype) else s.one("convert", (depth,), dtype="i64")
    (count,) = s.sizes(reshape(s, depth, (const(1),)), f"{node.outputs[0]}.depth")
    axis = axis_of(node, node.int("axis", -1), indices.type.rank + 1)
    ints = indices if indices.type.dtype == "i64" else s.one("convert", (indices,), dtype="i64")
    ints = counted_from_front(s, ints, count)
    shape = (*ints.type.dims[:axis], count, *ints.type.dims[axis:])
    kept = tuple(place for place in range(len(shape)) if place != axis)
    wide = s.one("broadcast_in_dim", (ints,), dims=kept, shape=shape)
    here = s.one("compare", (wide, s.one("iota", dtype="i64", dim=axis, shape=shape)), direction="EQ", kind="SIGNED")
    off, on = (s.spread(reshape(s, window(s, values, 0, const(at), const(at + 1)), ()), shape) for at in (0, 1))
    return s.one("select", (here, on, off))
