"""How references call regions, and fold with them.

A region callable takes numpy arrays and returns a list of arrays. It may carry ``kind`` (see
``egshape.ops.kinds``), ``vectorised`` (False if it can be called on scalars only) and ``dtypes`` (numpy
dtypes of its results)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.ir.types import dtype_name, integer_range, is_complex, is_float
from egshape.limits import tick

Region = Callable[..., list[Any]]

_SEQUENTIAL = {"add": np.add, "multiply": np.multiply}
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_EXTREME = {"maximum": np.maximum, "minimum": np.minimum}


def is_floating(dtype: np.dtype) -> bool:
    """True for the float dtypes, bfloat16 included (numpy gives it kind V)."""
    return dtype.kind in "fV"


def result_dtypes(region: Region, fallback: Sequence[np.ndarray]) -> list[np.dtype]:
    """The dtypes of a region's results, else those of the arrays that it folds into."""
    known = getattr(region, "dtypes", None)
    return list(known) if known is not None else [array.dtype for array in fallback]


def apply(region: Region, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Call a scalar region elementwise on arrays of equal shape."""
    if getattr(region, "vectorised", True):
        return [np.broadcast_to(out, arrays[0].shape) for out in region(*arrays)]
    columns: list[list[Any]] = [
        region(*(np.asarray(array[index]) for array in arrays)) for index in np.ndindex(arrays[0].shape)
    ]
    if not columns:
        half = arrays[: len(arrays) // 2]
        return [np.empty(arrays[0].shape, dtype) for dtype in result_dtypes(region, half)]
    return [np.stack(column).reshape(arrays[0].shape) for column in zip(*columns, strict=True)]


def total_order(x: np.ndarray) -> np.ndarray:
    """Integers that order as the elements do; floats in total order: -NaN, -inf .. -0, +0 .. inf, NaN."""
    if x.dtype.kind == "b":
        return x.astype(np.uint8)
    if not is_floating(x.dtype):
        return x
    bits = np.asarray(x, order="C").view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _from_total_order(keys: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = np.where(keys < 0, keys ^ np.iinfo(keys.dtype).max, keys).astype(keys.dtype)
    return np.asarray(bits, order="C").view(dtype)


def fold(region: Region, inits: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Fold the last axis of equally shaped inputs in order, starting from scalars; a known reducer goes
    fast."""
    kind = getattr(region, "kind", None)
    dtypes = result_dtypes(region, inits)
    inits = [np.asarray(init).astype(dtype) for init, dtype in zip(inits, dtypes, strict=True)]
    inputs = [array.astype(dtype, copy=False) for array, dtype in zip(inputs, dtypes, strict=True)]
    if len(inputs) == 1:
        quick = known_fold(kind, inits[0], inputs[0])
        if quick is not None:
            return [quick]
    kept = inputs[0].shape[:-1]
    totals = [np.full(kept, init, dtype=init.dtype) for init in inits]
    for k in range(inputs[0].shape[-1]):
        tick()
        totals = apply(region, [*totals, *(array[..., k] for array in inputs)])
    return [np.array(total) for total in totals]


def known_fold(kind: str | None, init: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """The fold of the last axis by a known reducer; None for another one."""
    dtype = x.dtype
    first = np.full((*x.shape[:-1], 1), init, dtype=dtype)
    if kind in _SEQUENTIAL:
        return _sequential(kind, first, x)
    if kind in _BITS and dtype.kind in "iub":
        return np.asarray(_BITS[kind].reduce(np.concatenate([first, x], axis=-1), axis=-1), dtype=dtype)
    if kind in _EXTREME and dtype.kind != "c":
        return _extreme(_EXTREME[kind], np.concatenate([first, x], axis=-1))
    return None


def _sequential(kind: str, first: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Left to right, each step rounded in the dtype."""
    function = _SEQUENTIAL[kind]
    total = first[..., 0]
    with np.errstate(all="ignore"):
        if x.shape[-1] > 64 and x.dtype.kind != "V" and total.size < x.shape[-1]:
            steps = function.accumulate(np.concatenate([first, x], axis=-1), axis=-1, dtype=x.dtype)
            return np.asarray(steps[..., -1])
        for k in range(x.shape[-1]):
            total = function(total, x[..., k])
    return np.asarray(total, dtype=x.dtype)


def _extreme(function: Any, x: np.ndarray) -> np.ndarray:
    """Maximum or minimum over the last, non-empty axis: NaN wins, and -0 lies below +0."""
    keys = function.reduce(total_order(x), axis=-1)
    if not is_floating(x.dtype):
        return np.asarray(keys).astype(x.dtype)
    out = _from_total_order(np.asarray(keys), x.dtype)
    return np.where(np.isnan(x).any(axis=-1), np.asarray(np.nan, dtype=x.dtype), out)


def is_neutral(kind: str | None, init: np.ndarray) -> bool:
    """Whether folding an init value in once more changes nothing. (Of -0.0 and a sum of nothing it would.)"""
    start = neutral(kind, dtype_name(init.dtype)) if kind else None
    return start is not None and bool(np.array_equal(init, init.dtype.type(start)))


def neutral(kind: str, dtype: str) -> int | float | bool | None:
    """The element that folding by an op leaves as it is; None for an op without one."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "multiply":
        return 1
    if kind not in ("and", "maximum", "minimum") or is_complex(dtype):
        return None
    if dtype == "i1":
        return kind != "maximum"
    if is_float(dtype):
        return -np.inf if kind == "maximum" else np.inf if kind == "minimum" else None
    low, high = integer_range(dtype)
    return low if kind == "maximum" else high if kind == "minimum" else -1 if low < 0 else high


def update_in_order(
    region: Region, targets: Sequence[np.ndarray], where: np.ndarray, updates: Sequence[np.ndarray]
) -> None:
    """``targets[where[k]] = region(targets[where[k]], updates[k])`` for k in order; all arrays flat, in
    place.

    Updates of distinct places do not see each other, so the k-th updates of all places run together."""
    order = np.argsort(where, kind="stable")
    places = where[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]]) if places.size else np.empty(0, np.int64)
    counts = np.diff(np.r_[starts, places.size])
    for turn in range(int(counts.max(initial=0))):
        chosen = order[starts[counts > turn] + turn]
        spots = where[chosen]
        values = apply(region, [*(target[spots] for target in targets), *(update[chosen] for update in updates)])
        for target, value in zip(targets, values, strict=True):
            target[spots] = value
