"""Reductions and sort: ops that fold or compare with a region of scalars.

Folds run in logical index order, starting from the init value, in the dtype of the region's results; sums and products
of 16-bit floats of a reduction in f32."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Op
from egshape.ir.types import dtype_name, numpy_dtype
from egshape.ops.contraction import summed_in
from egshape.ops.declare import op
from egshape.ops.kinds import region_kind
from egshape.ops.regions import (
    Region,
    apply,
    fold,
    is_floating,
    is_neutral,
    known_fold,
    result_dtypes,
    total_order,
    update_in_order,
)
from egshape.ops.traits import Cost, Traits
from egshape.ops.windows import spread, window_slices, windowed_sizes


def _folded(op: Op) -> tuple[Dim, ...]:
    shape = op.operands[0].type.shape
    return () if shape is None else tuple(shape[axis] for axis in op.attrs["dims"])


def _length(op: Op) -> Dim | None:
    shape = op.operands[0].type.shape
    return None if shape is None else shape[op.attrs["dim"]]


_SUMS = ("add", "multiply")


def is_sum(op: Op) -> bool:
    """Whether a reduction adds up, or multiplies, elements of the dtype of its result."""
    dtypes = {value.type.dtype for value in (*op.operands, *op.results)}
    return len(op.results) == 1 and len(dtypes) == 1 and region_kind(op.regions[0]) in _SUMS


@op(
    "reduce",
    family="reduce",
    operands=("*operands",),
    attrs={"dims": "axes"},
    regions=("body",),
    traits=Traits(Cost(inner=_folded)),
    names={"stablehlo": "reduce"},
    doc="Fold the axes dims of n inputs together, starting from n init values; the body takes n running "
    "values and n "
    "elements. Sums and products of 16-bit floats are taken in f32 and rounded once, as XLA does. StableHLO spec: "
    "reduce.",
)
class Reduce:
    @staticmethod
    def reference(*operands: np.ndarray, dims: tuple[int, ...], regions: tuple[Region, ...]) -> list[np.ndarray]:
        half = len(operands) // 2
        inputs, inits = operands[:half], operands[half:]
        kept = [axis for axis in range(inputs[0].ndim) if axis not in dims]
        shape = tuple(inputs[0].shape[axis] for axis in kept)
        count = prod(inputs[0].shape[axis] for axis in dims)
        flat = [x.transpose(*kept, *sorted(dims)).reshape(*shape, count) for x in inputs]
        dtypes, kind = result_dtypes(regions[0], inits), getattr(regions[0], "kind", None)
        wide = numpy_dtype(summed_in(dtype_name(dtypes[0])))
        if half > 1 or kind not in _SUMS or {wide, *(x.dtype for x in operands)} == {wide}:
            return fold(regions[0], inits, flat)
        total = known_fold(kind, *(x.astype(wide) for x in (*inits, *flat)))
        assert total is not None
        with np.errstate(over="ignore"):
            return [total.astype(dtypes[0])]


@op(
    "reduce_window",
    family="reduce",
    operands=("*operands",),
    attrs={
        "window": "sizes",
        "strides": "sizes",
        "base_dilation": "sizes",
        "window_dilation": "sizes",
        "padding": "sizes",
    },
    regions=("body",),
    traits=Traits(Cost(inner=lambda op: tuple(op.attrs["window"])), signed=True),
    names={"stablehlo": "reduce_window"},
    doc="Fold each window of n inputs, starting from n init values; places that are no element (padding, and what base "
    "dilation puts between elements) are left out, as XLA does (the spec: they are init values). padding is flat: low "
    "and high of each axis, negative ones crop. StableHLO spec: reduce_window.",
)
class ReduceWindow:
    @staticmethod
    def reference(
        *operands: np.ndarray,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        base_dilation: tuple[int, ...],
        window_dilation: tuple[int, ...],
        padding: tuple[int, ...],
        regions: tuple[Region, ...],
    ) -> list[np.ndarray]:
        half = len(operands) // 2
        dtypes = result_dtypes(regions[0], operands[half:])
        inits = [init.astype(dtype) for init, dtype in zip(operands[half:], dtypes, strict=True)]
        inputs = [x.astype(dtype) for x, dtype in zip(operands[:half], dtypes, strict=True)]
        counts = windowed_sizes(inputs[0].shape, window, strides, padding, base_dilation, window_dilation)
        padded = [spread(x, init, padding, base_dilation) for x, init in zip(inputs, inits, strict=True)]
        places = window_slices(counts, window, strides, window_dilation)
        own = spread(np.ones(inputs[0].shape, np.bool_), False, padding, base_dilation)
        if not own.all() and not (half == 1 and is_neutral(getattr(regions[0], "kind", None), inits[0])):
            return _folded_inside(regions[0], inits, counts, (([x[k] for x in padded], own[k]) for k in places))
        stacked = [np.empty((*counts, prod(window)), x.dtype) for x in padded]
        if stacked[0].size:
            for k, place in enumerate(places):
                for whole, x in zip(stacked, padded, strict=True):
                    whole[..., k] = x[place]
        return fold(regions[0], inits, stacked)


def _folded_inside(
    region: Region,
    inits: Sequence[np.ndarray],
    counts: tuple[int, ...],
    places: Iterable[tuple[list[np.ndarray], np.ndarray]],
) -> list[np.ndarray]:
    """Windows folded place by place: the elements there, and of which windows they are elements at all."""
    totals = [np.full(counts, init, dtype=init.dtype) for init in inits]
    for items, inside in places:
        with np.errstate(all="ignore"):
            found = apply(region, [*totals, *items])
        totals = [np.where(inside, new, old) for new, old in zip(found, totals, strict=True)]
    return totals


@op(
    "select_and_scatter",
    family="reduce",
    operands=("x", "source", "init"),
    attrs={"window": "axes", "strides": "axes", "padding": "axes"},
    regions=("select", "scatter"),
    traits=Traits(Cost(over=lambda op: op.operands[1], inner=lambda op: tuple(map(const, op.attrs["window"])))),
    names={"stablehlo": "select_and_scatter"},
    doc="In each window of x the select region chooses an element; source is scattered onto init at these "
    "places. "
    "Padding is never chosen; a window without elements drops its source. StableHLO spec: "
    "select_and_scatter.",
)
class SelectAndScatter:
    @staticmethod
    def reference(
        x: np.ndarray,
        source: np.ndarray,
        init: np.ndarray,
        *,
        window: tuple[int, ...],
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        regions: tuple[Region, ...],
    ) -> np.ndarray:
        select, scatter = regions
        ones = (1,) * x.ndim
        counts = windowed_sizes(x.shape, window, strides, padding, ones, ones)
        values = spread(x, 0, padding, ones)
        places = spread(np.arange(x.size, dtype=np.int64).reshape(x.shape), -1, padding, ones)
        best = np.zeros(counts, x.dtype)
        chosen = np.full(counts, -1, np.int64)
        for place in window_slices(counts, window, strides, ones):
            inside = places[place] >= 0
            (keep,) = apply(select, [best, values[place]])
            take = inside & ((chosen < 0) | ~keep)
            best = np.where(take, values[place], best)
            chosen = np.where(take, places[place], chosen)
        (dtype,) = result_dtypes(scatter, [init])
        flat = np.full(x.size, init, dtype=dtype)
        hit = chosen.reshape(-1) >= 0
        update_in_order(scatter, [flat], chosen.reshape(-1)[hit], [source.astype(dtype).reshape(-1)[hit]])
        return flat.reshape(x.shape)


@op(
    "sort",
    family="reduce",
    operands=("*xs",),
    attrs={"dim": "int", "stable": ("bool", False)},
    regions=("comparator",),
    traits=Traits(Cost(sorted=_length)),
    names={"stablehlo": "sort"},
    doc="Sort n tensors together along dim by a comparator of 2n scalars (x0 of the left and the right "
    "element, then "
    "x1, ...) that says whether left goes first. Always stable here. StableHLO spec: sort.",
)
class Sort:
    @staticmethod
    def reference(*xs: np.ndarray, dim: int, stable: bool, regions: tuple[Region, ...]) -> list[np.ndarray]:
        moved = [np.moveaxis(x, dim, -1) for x in xs]
        length = moved[0].shape[-1]
        rows = [x.reshape(prod(x.shape[:-1]), length) for x in moved]
        if rows[0].size == 0:
            return [x.copy() for x in xs]
        order = _sort_order(rows, regions[0])
        out = [np.take_along_axis(row, order, axis=-1).reshape(x.shape) for row, x in zip(rows, moved, strict=True)]
        return [np.ascontiguousarray(np.moveaxis(x, -1, dim)) for x in out]


def _sort_order(rows: list[np.ndarray], comparator: Region) -> np.ndarray:
    """The stable order of each row."""
    kind = getattr(comparator, "kind", None)
    if kind is not None and kind.startswith("compare:"):
        _, operand, direction, meaning = kind.split(":")
        keys = rows[int(operand)]
        if meaning == "TOTALORDER" or not is_floating(keys.dtype) or not np.isnan(keys).any():
            if is_floating(keys.dtype) and meaning != "TOTALORDER":
                keys = keys + np.zeros((), keys.dtype)  # -0 and +0 are equal
            numbers = total_order(keys)
            return np.argsort(numbers if direction == "LT" else ~numbers, axis=-1, kind="stable")
    order = _merge_order(rows, comparator)
    if (np.sort(order, axis=-1) == np.arange(order.shape[-1])).all():
        return order
    return np.stack([_row_order([row[i] for row in rows], comparator) for i in range(order.shape[0])])


def _merge_order(rows: list[np.ndarray], comparator: Region) -> np.ndarray:
    """Merge sort of all rows at once; an element's place is found by bisection in the sibling run.

    Right for a strict weak order. For another comparator two elements may claim one place; the caller
    looks."""
    count, length = rows[0].shape
    index = np.arange(length)
    order = np.broadcast_to(index, (count, length)).copy()
    width = 1
    while width < length:
        start = index // (2 * width) * (2 * width)
        middle = np.minimum(start + width, length)
        left = index < middle
        sibling = np.where(left, middle, start)
        low = np.broadcast_to(sibling, (count, length)).copy()
        high = np.broadcast_to(np.where(left, np.minimum(start + 2 * width, length), middle), (count, length)).copy()
        mine = [np.take_along_axis(row, order, axis=-1) for row in rows]
        for _ in range(width.bit_length()):
            active = low < high
            probe = np.where(active, (low + high) // 2, 0)
            other = [np.take_along_axis(values, probe, axis=-1) for values in mine]
            # An element of the left run follows the right ones that go before it; one of the right run
            # follows all left ones that it does not go before.
            before = _less(comparator, other, mine, left)
            low = np.where(active & before, probe + 1, low)
            high = np.where(active & ~before, probe, high)
        own = np.where(left, start, middle)
        place = start + (index - own) + (low - sibling)
        fresh = np.full_like(order, -1)
        np.put_along_axis(fresh, place, order, axis=-1)
        if (fresh < 0).any():
            return fresh
        order = fresh
        width *= 2
    return order


def _less(comparator: Region, other: list[np.ndarray], mine: list[np.ndarray], left: np.ndarray) -> np.ndarray:
    """Whether the probed element of the sibling run goes before mine: other < mine, for the right run not
    mine < other."""
    pairs: list[np.ndarray] = []
    for theirs, own in zip(other, mine, strict=True):
        pairs += [np.where(left, theirs, own), np.where(left, own, theirs)]
    (less,) = apply(comparator, pairs)
    return np.where(left, less, ~less)


def _row_order(columns: list[np.ndarray], comparator: Region) -> np.ndarray:
    """One row by calling the comparator on pairs, for comparators that are no strict weak order."""

    def goes_first(one: int, two: int) -> bool:
        pairs = [np.asarray(column[place]) for column in columns for place in (one, two)]
        return bool(comparator(*pairs)[0])

    def three_way(one: int, two: int) -> int:
        return -1 if goes_first(one, two) else int(goes_first(two, one))

    return np.array(sorted(range(columns[0].size), key=functools.cmp_to_key(three_way)))
