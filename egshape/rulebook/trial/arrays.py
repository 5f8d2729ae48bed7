"""Numbers that rules go wrong at: zeros of both signs, NaN, infinities, ends of dtypes, what conversions lose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import ml_dtypes
import numpy as np

from egshape.ir.types import integer_range, is_complex, is_float, is_narrow, numpy_dtype

_FLOATS = (np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -1.5, 3.25, 0.1, -7.7, 2.5, 3e7, -300.0, 65520.0)
_INTEGERS = (0, -1, 1, 7, 5, -3, 2, 8, 31, 32, 64, 127, -128, 255, 256, -129, 32768, 16777217, 3_000_000_001)
_COMPLEX = (0.0, -1.0, 1.0, 7.0, -0.0, 0.1, -3.0)


def random_array(dtype: str, shape: Sequence[int], seed: int, tame: bool = False) -> np.ndarray:
    """An array full of special values, in an order that depends on the seed; the first goes round with it.

    tame: of small numbers instead, most of them different. NaN and infinities hide what else is wrong with a sum."""
    known = _small(dtype) if tame else specials(dtype)
    places = np.array(np.random.default_rng(seed).integers(len(known), size=tuple(shape)))
    if places.size:
        places[(0,) * len(shape)] = seed % len(known)
    return np.asarray(known[places])


@lru_cache(maxsize=64)
def _small(dtype: str) -> np.ndarray:
    """Numbers whose sums differ with their order, for dtypes with more than a few."""
    if dtype == "i1" or is_narrow(dtype):
        return specials(dtype)
    kind = numpy_dtype(dtype)
    fraction = 1 if np.issubdtype(kind, np.integer) else 7
    return (np.arange(1, 100) / fraction).astype(kind)


@lru_cache(maxsize=64)
def specials(dtype: str) -> np.ndarray:
    """The special values of a dtype, each once."""
    kind = numpy_dtype(dtype)
    if is_complex(dtype):
        return np.array([complex(one, two) for one in _COMPLEX for two in _COMPLEX], kind)
    if dtype == "i1":
        return np.array([True, False])
    if is_float(dtype) or dtype.startswith("f"):
        ends = ml_dtypes.finfo(kind)
        wide = np.array([*_FLOATS, float(ends.max), float(ends.tiny), -float(ends.smallest_subnormal)])
        if is_narrow(dtype):
            wide = wide[np.isfinite(wide)]
    else:
        low, high = integer_range(dtype)
        wide = np.array([each for each in (*_INTEGERS, low, high, low + 1, high - 1) if low <= each <= high], object)
    with np.errstate(all="ignore"):
        found = wide.astype(kind)
    return found[sorted({each.tobytes(): place for place, each in enumerate(found)}.values())]
