"""Sizes that several ops share: merged operand axes, dilated and windowed axes, and the fitting of
run-time shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from egshape.dims import Dim, floordiv, relu
from egshape.errors import CheckFailed
from egshape.ir.types import TensorType
from egshape.ops.base import as_dim, fault


def merge(first: Dim, second: Dim, what: str) -> Dim:
    """The size of an axis that two operands share: the constant one if there is one, else the first.

    Raises a fault if both are constants and differ; unequal symbolic sizes are an obligation, not an
    error."""
    if first.const is not None and second.const is not None and first.const != second.const:
        raise fault(f"{what}: sizes {first} and {second} differ")
    return second if first.const is None and second.const is not None else first


def merge_shapes(types: Sequence[TensorType], what: str) -> tuple[Dim, ...]:
    """The common shape of ranked operands that all have the same one. Raises a fault on different ranks."""
    shape = types[0].dims
    for other in types[1:]:
        if other.rank != len(shape):
            raise fault(f"{what}: ranks {len(shape)} and {other.rank} differ")
        shape = tuple(merge(one, two, what) for one, two in zip(shape, other.dims, strict=True))
    return shape


def axes_within(axes: Sequence[int], rank: int, what: str) -> None:
    """Raise a fault unless the axes are distinct and lie in [0, rank)."""
    if len(set(axes)) != len(axes):
        raise fault(f"{what} {tuple(axes)} repeats an axis")
    for axis in axes:
        if not 0 <= axis < rank:
            raise fault(f"{what} {tuple(axes)} names axis {axis} of a tensor of rank {rank}")


def of_length(items: Sequence[object], length: int, what: str) -> None:
    """Raise a fault unless an attribute has the length that the rank asks for."""
    if len(items) != length:
        raise fault(f"{what} has {len(items)} entries, the op needs {length}")


def positive(items: Sequence[Dim | int], what: str) -> None:
    """Raise a fault if an entry is a constant below 1."""
    for item in items:
        number = as_dim(item).const
        if number is not None and number < 1:
            raise fault(f"{what} must be positive, got {number}")


def dilated_dim(size: Dim, dilation: Dim | int) -> Dim:
    """The size of an axis with ``dilation - 1`` holes between elements: 0 for size 0, else
    (size-1)*dilation + 1."""
    step = as_dim(dilation)
    return size if step.const == 1 else relu(size * step - step + 1)


def windows_dim(padded: Dim, window: Dim, stride: Dim | int) -> Dim:
    """How many windows fit: floor((padded - window) / stride) + 1, or 0 where the window is larger than
    the axis."""
    return floordiv(relu(padded - window + stride), as_dim(stride))


def windowed_dims(
    sizes: Sequence[Dim],
    window: Sequence[Dim | int],
    strides: Sequence[Dim | int],
    padding: Sequence[Dim | int],
    base: Sequence[Dim | int],
    dilation: Sequence[Dim | int],
) -> tuple[Dim, ...]:
    """The output sizes of a windowed op; ``padding`` is flat: low and high of each axis."""
    return tuple(
        windows_dim(
            dilated_dim(size, base[i]) + padding[2 * i] + padding[2 * i + 1],
            dilated_dim(as_dim(window[i]), dilation[i]),
            strides[i],
        )
        for i, size in enumerate(sizes)
    )


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
    holes = np.full(wide, value, dtype=x.dtype)
    holes[tuple(slice(None, None, step) for step in dilation)] = x
    low, high = padding[0::2], padding[1::2]
    shape = tuple(max(0, size + lo + hi) for size, lo, hi in zip(wide, low, high, strict=True))
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
) -> list[tuple[slice, ...]]:
    """For each element of the window in row-major order: where it lies in the padded operand, for all
    windows."""
    return [
        tuple(
            slice(offset * step, offset * step + (count - 1) * stride + 1 if count else offset * step, stride)
            for offset, step, count, stride in zip(offsets, dilation, counts, strides, strict=True)
        )
        for offsets in product(*(range(size) for size in window))
    ]
