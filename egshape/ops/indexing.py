"""Gather and scatter, with batching dimensions, as the StableHLO spec defines them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from egshape.ops.declare import op
from egshape.ops.regions import Region, result_dtypes, update_in_order
from egshape.ops.traits import Cost, Traits


@op(
    "gather",
    family="indexing",
    operands=("x", "indices"),
    attrs={
        "offset_dims": "axes",
        "collapsed": "axes",
        "operand_batch": ("axes", ()),
        "indices_batch": ("axes", ()),
        "start_index_map": "axes",
        "index_vector_dim": "int",
        "sizes": "sizes",
        "sorted": ("bool", False),
    },
    dynamic=("sizes",),
    traits=Traits(Cost(reads="result")),
    names={"stablehlo": "gather"},
    doc="Slices of x at the places that the index vectors name, clamped into x. StableHLO spec: gather, "
    "dynamic_gather.",
)
class Gather:
    @staticmethod
    def reference(
        x: np.ndarray,
        indices: np.ndarray,
        *,
        offset_dims: tuple[int, ...],
        collapsed: tuple[int, ...],
        operand_batch: tuple[int, ...],
        indices_batch: tuple[int, ...],
        start_index_map: tuple[int, ...],
        index_vector_dim: int,
        sizes: tuple[int, ...],
        sorted: bool,
    ) -> np.ndarray:
        starts, batch = _starts(indices, x.shape, start_index_map, index_vector_dim, operand_batch, indices_batch)
        slices = tuple(size for axis, size in enumerate(sizes) if axis not in (*collapsed, *operand_batch))
        if prod(batch) * prod(slices) == 0:
            out = np.empty(batch + slices, x.dtype)
        else:
            # An element of an array of objects is no array of rank 0 by itself, and one of no axes has no batch.
            taken = x[_full_index(x.shape, starts, sizes, batch, (*collapsed, *operand_batch))]
            out = np.broadcast_to(np.asarray(taken, x.dtype), batch + slices)
        order = [axis for axis in range(out.ndim) if axis not in offset_dims] + list(offset_dims)
        return np.ascontiguousarray(out.transpose(np.argsort(order))) if out.ndim else np.asarray(out)


def _starts(
    indices: np.ndarray,
    shape: Sequence[int],
    index_map: Sequence[int],
    index_vector_dim: int,
    operand_batch: Sequence[int],
    indices_batch: Sequence[int],
) -> tuple[dict[int, np.ndarray], tuple[int, ...]]:
    """Where slices begin along the operand's axes (axis -> array over the batch positions), and the batch
    shape."""
    vectors = indices[..., None] if index_vector_dim == indices.ndim else np.moveaxis(indices, index_vector_dim, -1)
    batch = vectors.shape[:-1]
    # An unsigned index above the int64 range is beyond any axis, as is the int64 maximum.
    wide = (
        np.minimum(vectors, np.iinfo(np.int64).max).astype(np.int64)
        if vectors.dtype == np.uint64
        else vectors.astype(np.int64)
    )
    starts = {axis: wide[..., i] for i, axis in enumerate(index_map)}
    for left, right in zip(operand_batch, indices_batch, strict=True):
        axis = right - (right > index_vector_dim)
        grid = np.arange(batch[axis], dtype=np.int64).reshape((-1,) + (1,) * (len(batch) - axis - 1))
        starts[left] = np.broadcast_to(grid, batch)
    return starts, batch


def _full_index(
    shape: Sequence[int],
    starts: dict[int, np.ndarray],
    sizes: Sequence[int],
    batch: tuple[int, ...],
    dropped: Sequence[int],
) -> tuple[np.ndarray, ...]:
    """For each operand axis an index array over (batch..., slice axes that are not dropped...), clamped."""
    kept = [axis for axis in range(len(shape)) if axis not in dropped]
    out = []
    for axis, whole in enumerate(shape):
        index = np.zeros((1,) * (len(batch) + len(kept)), np.int64)
        if axis in starts:
            start = np.clip(starts[axis], 0, whole - sizes[axis])
            index = index + start.reshape(batch + (1,) * len(kept))
        if axis in kept:
            behind = len(kept) - kept.index(axis) - 1
            index = index + np.arange(sizes[axis]).reshape((-1,) + (1,) * behind)
        out.append(index)
    full = batch + tuple(sizes[axis] for axis in kept)
    return tuple(np.broadcast_to(index, full) for index in out)


@op(
    "scatter",
    family="indexing",
    operands=("*operands",),
    attrs={
        "update_window_dims": "axes",
        "inserted_window_dims": "axes",
        "operand_batch": ("axes", ()),
        "indices_batch": ("axes", ()),
        "scatter_dims_to_operand_dims": "axes",
        "index_vector_dim": "int",
        "sorted": ("bool", False),
        "unique": ("bool", False),
    },
    regions=("update",),
    traits=Traits(Cost(over=lambda op: op.operands[len(op.operands) // 2 + 1])),
    names={"stablehlo": "scatter"},
    doc="n inputs with n updates folded in by the region at the places that the index vectors name, in "
    "logical order "
    "of the updates; a window that does not lie in the input is skipped, all of it, as XLA does (the spec: what of it "
    "lies outside). StableHLO spec: scatter.",
)
class Scatter:
    @staticmethod
    def reference(
        *operands: np.ndarray,
        update_window_dims: tuple[int, ...],
        inserted_window_dims: tuple[int, ...],
        operand_batch: tuple[int, ...],
        indices_batch: tuple[int, ...],
        scatter_dims_to_operand_dims: tuple[int, ...],
        index_vector_dim: int,
        sorted: bool,
        unique: bool,
        regions: tuple[Region, ...],
    ) -> list[np.ndarray]:
        count = len(operands) // 2
        inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
        shape = inputs[0].shape
        starts, _ = _starts(
            indices, shape, scatter_dims_to_operand_dims, index_vector_dim, operand_batch, indices_batch
        )
        outer = [axis for axis in range(updates[0].ndim) if axis not in update_window_dims]
        kept = [axis for axis in range(len(shape)) if axis not in (*inserted_window_dims, *operand_batch)]
        window = dict(zip(kept, update_window_dims, strict=True))
        places, inside = _places(shape, updates[0].shape, starts, window, outer)
        dtypes = result_dtypes(regions[0], inputs)
        results = [x.astype(dtype).reshape(-1) for x, dtype in zip(inputs, dtypes, strict=True)]
        changes = [u.astype(dtype).reshape(-1)[inside] for u, dtype in zip(updates, dtypes, strict=True)]
        update_in_order(regions[0], results, places[inside], changes)
        return [result.reshape(shape) for result in results]


def _places(
    shape: Sequence[int],
    updates: tuple[int, ...],
    starts: dict[int, np.ndarray],
    window: dict[int, int],
    outer: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """For each update element in logical order: its flat place in the input, and whether its window lies inside."""
    flat = np.zeros(updates, np.int64)
    inside = np.ones(updates, np.bool_)
    for axis, whole in enumerate(shape):
        index = np.zeros(updates, np.int64)
        size = updates[window[axis]] if axis in window else 1
        if axis in starts:
            start = np.clip(starts[axis], -(2**62), 2**62)  # far outside stays outside, and the sum does not wrap
            wide = [1] * len(updates)
            for position, many in zip(outer, start.shape, strict=True):
                wide[position] = many
            begin = start.reshape(wide)
            inside &= (begin >= 0) & (begin <= whole - size)
            index = index + begin
        if axis in window:
            wide = [1] * len(updates)
            wide[window[axis]] = size
            index = index + np.arange(size).reshape(wide)
        flat = flat * whole + np.where(inside, index, 0)
    return flat.reshape(-1), inside.reshape(-1)
