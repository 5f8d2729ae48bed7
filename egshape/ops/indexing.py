"""Gather and scatter, with batching dimensions, as the StableHLO spec defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Block
from egshape.ir.types import TensorType, is_integer
from egshape.ops.base import ElementScope, Loose, concrete_attrs, fault, op
from egshape.ops.regions import Region, result_dtypes, update_in_order
from egshape.ops.windows import axes_within, fit, merge, merge_shapes, of_length


def _index_dims(indices: TensorType, index_vector_dim: int) -> tuple[tuple[Dim, ...], Dim]:
    """The axes of the indices that are not the index vector, and its length (an implied 1 behind the last
    axis)."""
    if not is_integer(indices.dtype):
        raise fault(f"indices must be integers, got {indices}")
    if not 0 <= index_vector_dim <= indices.rank:
        raise fault(f"index_vector_dim {index_vector_dim} is no axis of {indices}")
    kept = tuple(size for axis, size in enumerate(indices.dims) if axis != index_vector_dim)
    return kept, indices.dims[index_vector_dim] if index_vector_dim < indices.rank else const(1)


def _check_batching(
    x: TensorType,
    indices: TensorType,
    operand_batch: Sequence[int],
    indices_batch: Sequence[int],
    index_vector_dim: int,
) -> None:
    axes_within(operand_batch, x.rank, "operand batching axes")
    axes_within(indices_batch, indices.rank, "index batching axes")
    of_length(indices_batch, len(operand_batch), "index batching axes")
    if index_vector_dim in indices_batch:
        raise fault(f"index_vector_dim {index_vector_dim} is a batching axis")
    for left, right in zip(operand_batch, indices_batch, strict=True):
        merge(x.dims[left], indices.dims[right], f"batching axes {left} and {right}")


def _check_index_map(index_map: Sequence[int], depth: Dim, rank: int, operand_batch: Sequence[int]) -> None:
    axes_within(index_map, rank, "indexed axes")
    if set(index_map) & set(operand_batch):
        raise fault(f"indexed axes {tuple(index_map)} and batching axes {tuple(operand_batch)} overlap")
    if depth.const is not None and depth.const != len(index_map):
        raise fault(f"index vectors have {depth} entries, {len(index_map)} axes are indexed")


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
    names={"stablehlo": "gather"},
    doc="Slices of x at the places that the index vectors name, clamped into x. StableHLO spec: gather, "
    "dynamic_gather.",
)
class Gather:
    @staticmethod
    def shape(
        x: TensorType,
        indices: TensorType,
        *,
        offset_dims: tuple[int, ...],
        collapsed: tuple[int, ...],
        operand_batch: tuple[int, ...],
        indices_batch: tuple[int, ...],
        start_index_map: tuple[int, ...],
        index_vector_dim: int,
        sizes: tuple[Dim, ...],
        sorted: bool,
    ) -> Loose:
        if x.shape is None or indices.shape is None:
            return x.dtype, None
        batch, depth = _index_dims(indices, index_vector_dim)
        of_length(sizes, x.rank, "sizes")
        axes_within((*collapsed, *operand_batch), x.rank, "collapsed and batching axes")
        _check_batching(x, indices, operand_batch, indices_batch, index_vector_dim)
        _check_index_map(start_index_map, depth, x.rank, operand_batch)
        for axis, (size, whole) in enumerate(zip(sizes, x.dims, strict=True)):
            if size.const is not None and whole.const is not None and size.const > whole.const:
                raise fault(f"a slice of size {size} does not fit axis {axis} of {x}")
            if (axis in collapsed or axis in operand_batch) and size.const is not None and size.const > 1:
                raise fault(f"the collapsed axis {axis} has slice size {size}")
        offsets = [
            size for axis, size in enumerate(sizes) if axis not in collapsed and axis not in operand_batch
        ]
        of_length(offset_dims, len(offsets), "offset_dims")
        axes_within(offset_dims, len(offsets) + len(batch), "offset_dims")
        inner, outer = iter(offsets), iter(batch)
        return x.dtype, tuple(
            next(inner if axis in offset_dims else outer) for axis in range(len(offsets) + len(batch))
        )

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
        for axis, size in enumerate(sizes):
            fit(
                0 <= size <= x.shape[axis],
                f"a slice of size {size} does not fit axis {axis} of size {x.shape[axis]}",
            )
            fit(
                size <= 1 or axis not in (*collapsed, *operand_batch),
                f"the collapsed axis {axis} has size {size}",
            )
        starts, batch = _starts(
            indices, x.shape, start_index_map, index_vector_dim, operand_batch, indices_batch
        )
        slices = tuple(size for axis, size in enumerate(sizes) if axis not in (*collapsed, *operand_batch))
        if any(sizes[axis] == 0 for axis in (*collapsed, *operand_batch)):
            # The slice is empty, but dropping its axis would make it one element: nothing stands there.
            fit(prod(batch) * prod(slices) == 0, "a collapsed axis of slice size 0 has no element to give")
        if prod(batch) * prod(slices) == 0:
            out = np.empty(batch + slices, x.dtype)
        else:
            # An element of an array of objects is no array of rank 0 by itself, and one of no axes has no batch.
            taken = x[_full_index(x.shape, starts, sizes, batch, (*collapsed, *operand_batch))]
            out = np.broadcast_to(np.asarray(taken, x.dtype), batch + slices)
        order = [axis for axis in range(out.ndim) if axis not in offset_dims] + list(offset_dims)
        return np.ascontiguousarray(out.transpose(np.argsort(order))) if out.ndim else np.asarray(out)

    @staticmethod
    def elements(
        scope: ElementScope,
        operands: Sequence[np.ndarray | None],
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
    ) -> np.ndarray | None:
        """Elements taken at constant indices."""
        x, indices = operands
        concrete = concrete_attrs(attrs)
        if x is None or indices is None or concrete is None:
            return None
        numbers = [item.const if isinstance(item, Dim) else None for item in indices.reshape(-1)]
        if any(number is None for number in numbers):
            return None
        # Only the reference's run-time checks can fail here, and then the op has no elements to speak of.
        if any(size > whole for size, whole in zip(concrete["sizes"], x.shape, strict=True)):
            return None
        places = np.array(numbers, dtype=np.int64).reshape(indices.shape)
        return np.asarray(Gather.reference(x, places, **concrete))


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
    vectors = (
        indices[..., None] if index_vector_dim == indices.ndim else np.moveaxis(indices, index_vector_dim, -1)
    )
    batch = vectors.shape[:-1]
    fit(
        vectors.shape[-1] == len(index_map),
        f"index vectors of {vectors.shape[-1]} entries do not fit {len(index_map)} indexed axes",
    )
    # An unsigned index above the int64 range is beyond any axis, as is the int64 maximum.
    wide = (
        np.minimum(vectors, np.iinfo(np.int64).max).astype(np.int64)
        if vectors.dtype == np.uint64
        else vectors.astype(np.int64)
    )
    starts = {axis: wide[..., i] for i, axis in enumerate(index_map)}
    for left, right in zip(operand_batch, indices_batch, strict=True):
        axis = right - (right > index_vector_dim)
        fit(
            batch[axis] == shape[left],
            f"size {batch[axis]} of index axis {right} does not fit size {shape[left]} of axis {left}",
        )
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
    names={"stablehlo": "scatter"},
    doc="n inputs with n updates folded in by the region at the places that the index vectors name, in "
    "logical order "
    "of the updates; an element that falls outside of the input is skipped. StableHLO spec: scatter.",
)
class Scatter:
    @staticmethod
    def shape(
        *operands: TensorType,
        update_window_dims: tuple[int, ...],
        inserted_window_dims: tuple[int, ...],
        operand_batch: tuple[int, ...],
        indices_batch: tuple[int, ...],
        scatter_dims_to_operand_dims: tuple[int, ...],
        index_vector_dim: int,
        sorted: bool,
        unique: bool,
        regions: tuple[Block, ...],
    ) -> list[Loose]:
        count = len(operands) // 2
        if len(operands) % 2 == 0 or not count:
            raise fault(f"takes n inputs, indices and n updates, got {len(operands)} operands")
        inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
        (update,) = regions
        if len(update.args) != 2 * count or len(update.results) != count:
            raise fault(
                f"the region takes {len(update.args)} values and gives {len(update.results)}, "
                f"{count} inputs need {2 * count} and {count}"
            )
        dtypes = [value.type.dtype for value in update.results]
        if any(each.shape is None for each in operands):
            return [(dtype, None) for dtype in dtypes]
        sizes = merge_shapes(inputs, "inputs")
        changes = merge_shapes(updates, "updates")
        batch, depth = _index_dims(indices, index_vector_dim)
        axes_within((*inserted_window_dims, *operand_batch), len(sizes), "inserted and batching axes")
        _check_batching(inputs[0], indices, operand_batch, indices_batch, index_vector_dim)
        _check_index_map(scatter_dims_to_operand_dims, depth, len(sizes), operand_batch)
        of_length(
            update_window_dims,
            len(sizes) - len(inserted_window_dims) - len(operand_batch),
            "update_window_dims",
        )
        axes_within(update_window_dims, len(changes), "update_window_dims")
        of_length(changes, len(batch) + len(update_window_dims), "the shape of an update")
        outer = [size for axis, size in enumerate(changes) if axis not in update_window_dims]
        for size, positions in zip(outer, batch, strict=True):
            merge(size, positions, "updates and indices")
        return [(dtype, sizes) for dtype in dtypes]

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
        for group in (inputs, updates):
            for array in group:
                fit(
                    array.shape == group[0].shape,
                    f"shapes {array.shape} and {group[0].shape} do not fit together",
                )
        starts, batch = _starts(
            indices, shape, scatter_dims_to_operand_dims, index_vector_dim, operand_batch, indices_batch
        )
        outer = [axis for axis in range(updates[0].ndim) if axis not in update_window_dims]
        fit(
            tuple(updates[0].shape[axis] for axis in outer) == batch,
            f"updates of shape {list(updates[0].shape)} do not fit indices of shape {list(indices.shape)}",
        )
        kept = [axis for axis in range(len(shape)) if axis not in (*inserted_window_dims, *operand_batch)]
        window = dict(zip(kept, update_window_dims, strict=True))
        for axis, source in window.items():
            fit(
                updates[0].shape[source] <= shape[axis],
                f"an update window of size {updates[0].shape[source]} does not fit axis {axis} of size "
                f"{shape[axis]}",
            )
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
    """For each update element in logical order: its flat place in the input, and whether it lies inside."""
    flat = np.zeros(updates, np.int64)
    inside = np.ones(updates, np.bool_)
    for axis, whole in enumerate(shape):
        index = np.zeros(updates, np.int64)
        if axis in starts:
            start = np.clip(
                starts[axis], -(2**62), 2**62
            )  # far outside stays outside, and the sum does not wrap
            wide = [1] * len(updates)
            for position, size in zip(outer, start.shape, strict=True):
                wide[position] = size
            index = index + start.reshape(wide)
        if axis in window:
            wide = [1] * len(updates)
            wide[window[axis]] = updates[window[axis]]
            index = index + np.arange(updates[window[axis]]).reshape(wide)
        ok = (index >= 0) & (index < whole)
        inside &= ok
        flat = flat * whole + np.where(ok, index, 0)
    return flat.reshape(-1), inside.reshape(-1)
