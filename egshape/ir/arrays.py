"""Arrays without copies of the large ones: by their bits (0.0 and -0.0 differ, a NaN equals itself), and by shape."""

from __future__ import annotations

from typing import Any

import numpy as np


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array as rows, one an element; a view where the array is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def is_splat(array: np.ndarray) -> bool:
    """Whether all elements have the same bits."""
    rows = bits(array)
    if rows.shape[1] in (2, 4, 8):  # some times faster than byte by byte
        rows = rows.view(f"u{rows.shape[1]}")
    few = rows[:: max(1, len(rows) // 64)]
    return bool((few == rows[:1]).all()) and (len(few) == len(rows) or bool((rows == rows[:1]).all()))


def unread(dtype: Any, shape: Any) -> np.ndarray:
    """An array of which nobody reads more than dtype and shape; it takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)
