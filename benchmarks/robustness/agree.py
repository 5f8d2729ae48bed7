"""Whether two results are the same: integers and truth values to the bit, floats but for what another order of the
same sums rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGEST_ERROR = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-5, "complex64": 2e-5}
"""Relative to the largest element; narrower floats have that of bfloat16."""

NARROW = 2e-2


def difference(one: Sequence[np.ndarray[Any, Any]], two: Sequence[np.ndarray[Any, Any]], tolerance: float = 0.0) -> str:
    """The first difference, "" if there is none. Any NaN is any NaN. ``tolerance``: more than what dtypes allow."""
    if len(one) != len(two):
        return f"{len(one)} results before, {len(two)} after"
    for number, (a, b) in enumerate(zip(one, two, strict=True)):
        found = _difference(np.asarray(a), np.asarray(b), tolerance)
        if found:
            return f"out{number} {found}"
    return ""


def _difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: float) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"was {a.dtype}{list(a.shape)}, is {b.dtype}{list(b.shape)}"
    if a.dtype.kind in "biuOUS":
        return "" if np.array_equal(a, b) else f"differs: was {_few(a)}, is {_few(b)}"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x)
    with np.errstate(all="ignore"):
        if not np.array_equal(np.where(finite, 0, x), np.where(np.isfinite(y), 0, y), equal_nan=True):
            return f"differs in what is finite: was {_few(a)}, is {_few(b)}"
        scale = np.abs(x[finite]).max(initial=0.0)
        error = np.abs(x[finite] - y[finite]).max(initial=0.0)
    if error > max(LARGEST_ERROR.get(a.dtype.name, NARROW), tolerance) * max(scale, 1e-30):
        return f"differs by {error:.2g} of {scale:.2g}: was {_few(a)}, is {_few(b)}"
    return ""


def _few(array: np.ndarray[Any, Any]) -> str:
    return np.array2string(array.ravel()[:6], threshold=6).replace("\n", "")
