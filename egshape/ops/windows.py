"""Sizes that several ops share: merged operand axes, dilated and windowed axes, and the fitting of
run-time shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from egshape.errors import CheckFailed
from egshape.limits import tick

# -- run time
# ----------------------------------------------------------------------------------------------------


def fit(holds: bool, message: str) -> None:
    """Raise CheckFailed with the message unless the run-time sizes fit together."""
    if not holds:
        raise CheckFailed(message)


def dilated_size(size: int, dilation: int) -> int:
    """``dilated_dim`` on numbers."""
    return (size - 1) * dilation + 1 if size else 0


def windowed_sizes(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    base: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """``windowed_dims`` on numbers."""
    out = []
    for i, size in enumerate(sizes):
        padded = dilated_size(size, base[i]) + padding[2 * i] + padding[2 * i + 1]
        wide = dilated_size(window[i], dilation[i])
        out.append((padded - wide) // strides[i] + 1 if padded >= wide else 0)
    return tuple(out)


def spread(x: np.ndarray, value: object, padding: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """``x`` with holes between its elements and edges (negative ones crop), all filled with ``value``."""
    wide = tuple(dilated_size(size, step) for size, step in zip(x.shape, dilation, strict=True))
    low, high = padding[0::2], padding[1::2]
    shape = tuple(max(0, size + lo + hi) for size, lo, hi in zip(wide, low, high, strict=True))
    tick((prod(wide) + prod(shape)) * x.itemsize / 2**20)
    holes = np.full(wide, value, dtype=x.dtype)
    holes[tuple(slice(None, None, step) for step in dilation)] = x
    out = np.full(shape, value, dtype=x.dtype)
    into, taken = [], []
    for size, lo, total in zip(wide, low, shape, strict=True):
        first, last = max(0, lo), min(total, size + lo)
        last = max(first, last)
        into.append(slice(first, last))
        taken.append(slice(first - lo, last - lo))
    out[tuple(into)] = holes[tuple(taken)]
    return out


def window_slices(
    counts: Sequence[int], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """For each element of the window in row-major order: where it lies in the padded operand, for all
    windows."""
    for offsets in product(*(range(size) for size in window)):
        tick()
        yield tuple(
            slice(offset * step, offset * step + (count - 1) * stride + 1 if count else offset * step, stride)
            for offset, step, count, stride in zip(offsets, dilation, counts, strides, strict=True)
        )
