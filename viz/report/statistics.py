"""What is told of the values of a constant: its least, greatest and mean number, how they spread, what is no number."""

from __future__ import annotations

from typing import Any

import numpy as np

Json = dict[str, Any]

MOST = 1 << 20
"""Of a larger constant, about so many numbers are looked at, evenly spread."""
BINS = 16


def statistics(array: np.ndarray[Any, Any]) -> Json | None:
    """The statistics of numbers; None of text, of no numbers, and of a single one."""
    if array.size < 2 or (array.dtype.kind in "OSUV" and array.dtype.names is None and not _is_number(array)):
        return None
    flat = array.reshape(-1)
    step = -(-flat.size // MOST)
    values = flat[::step]
    if values.dtype.kind == "c":
        values = np.abs(values)
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    out: Json = {"size": int(flat.size), "bytes": int(array.nbytes)}
    if step > 1:
        out["of"] = int(values.size)
    if (nans := int(np.isnan(numbers).sum())) > 0:
        out["nan"] = nans
    if (infinite := int(np.isinf(numbers).sum())) > 0:
        out["inf"] = infinite
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        out |= {"min": _short(low), "max": _short(high), "mean": _short(_mean(finite))}
        out["std"] = _short(_deviation(finite))
        out["zero"] = int((finite == 0).sum())
        if high > low:
            out["bins"] = _histogram(finite, low, high)
    return out


def _is_number(array: np.ndarray[Any, Any]) -> bool:
    """Whether it holds one of the small floats, which numpy calls void."""
    try:
        array.reshape(-1)[:1].astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _scaled(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float]:
    """The numbers over the greatest of them, so that sums of them are numbers too."""
    scale = float(np.abs(values).max()) or 1.0
    return values / scale, scale


def _mean(values: np.ndarray[Any, Any]) -> float:
    scaled, scale = _scaled(values)
    return float(scaled.mean()) * scale


def _deviation(values: np.ndarray[Any, Any]) -> float:
    scaled, scale = _scaled(values)
    return float(scaled.std()) * scale


def _histogram(values: np.ndarray[Any, Any], low: float, high: float) -> list[int]:
    """How many numbers lie in each of equal parts of the range, by hundredths of the most."""
    scale = max(abs(low), abs(high))
    part = (values / scale - low / scale) / (high / scale - low / scale)
    counts = np.bincount(np.minimum((part * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    return [int(count) for count in np.ceil(100 * counts / counts.max())]


def _short(value: float) -> float:
    return float(f"{value:.4g}")
