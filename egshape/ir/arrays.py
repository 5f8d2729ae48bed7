"""Arrays by their bits, without copies of the large ones: 0.0 and -0.0 differ, a NaN equals itself."""

from __future__ import annotations

import numpy as np


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array as rows, one an element; a view where the array is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def is_splat(array: np.ndarray) -> bool:
    """Whether all elements have the same bits."""
    rows = bits(array)
    few = rows[:: max(1, len(rows) // 64)]
    return bool((few == rows[:1]).all()) and (len(few) == len(rows) or bool((rows == rows[:1]).all()))
