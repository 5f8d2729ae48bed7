"""Numbers that rules go wrong at: zeros of both signs, NaN, infinities, the ends of each dtype, what conversions lose."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from egshape.ir.types import integer_range, is_complex, is_float, is_narrow, numpy_dtype

_FLOATS = (np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -1.5, 3.25, 0.1, -7.7, 2.5, 3e7, -300.0, 65520.0)
_INTEGERS = (0, -1, 1, 7, 5, -3, 2, 8, 31, 32, 64, 127, -128, 255, 256, -129, 32768, 16777217, 3_000_000_001)
_COMPLEX = (0.0, -1.0, 1.0, 7.0, -0.0, 0.1, -3.0)


def random_array(dtype: str, shape: Sequence[int], seed: int, tame: bool = False) -> np.ndarray:
    """An array full of special values, in an order that depends on the seed; the first goes round with it.

    tame: of small numbers instead, most of them different. NaN and infinities hide what else is wrong with a sum."""
    choices = random.Random(seed)
    known = _small(dtype) if tame else specials(dtype)
    count = int(np.prod(shape))
    items = [known[seed % len(known)], *(choices.choice(known) for _ in range(count - 1))][:count]
    return np.array(items, numpy_dtype(dtype)).reshape(tuple(shape))


@lru_cache(maxsize=64)
def _small(dtype: str) -> tuple[Any, ...]:
    """Numbers whose sums differ with their order, for dtypes with more than a few."""
    if dtype == "i1" or is_narrow(dtype):
        return specials(dtype)
    kind = numpy_dtype(dtype)
    fraction = 1 if np.issubdtype(kind, np.integer) else 7
    return tuple(kind.type(each / fraction) for each in range(1, 100))


@lru_cache(maxsize=64)
def specials(dtype: str) -> tuple[Any, ...]:
    """The special values of a dtype, each once, as numpy's scalars."""
    kind = numpy_dtype(dtype)
    if is_complex(dtype):
        return tuple(kind.type(complex(one, two)) for one in _COMPLEX for two in _COMPLEX)
    if dtype == "i1":
        return np.True_, np.False_
    if is_float(dtype) or dtype.startswith("f"):
        ends = ml_dtypes.finfo(kind)
        wide = np.array([*_FLOATS, float(ends.max), float(ends.tiny), -float(ends.smallest_subnormal)])
        if is_narrow(dtype):
            wide = wide[np.isfinite(wide)]
    else:
        low, high = integer_range(dtype)
        wide = np.array([each for each in (*_INTEGERS, low, high, low + 1, high - 1) if low <= each <= high], object)
    with np.errstate(all="ignore"):
        found = {each.tobytes(): each for each in wide.astype(kind)}
    return tuple(kind.type(each) for each in found.values())
