"""Dtypes: which one holds every value of another."""

from __future__ import annotations

import numpy as np
import pytest

from egshape.ir.types import (
    DTYPES,
    TEXT,
    dtype_name,
    holds,
    integer_range,
    is_float,
    is_integer,
    is_narrow,
    is_narrow_integer,
    numpy_dtype,
)
from egshape.ops import REGISTRY
from egshape.rulebook.trial.arrays import specials

ASKED = [dtype for dtype in DTYPES if dtype != TEXT and (not is_narrow(dtype) or is_narrow_integer(dtype))]


def values(dtype: str) -> np.ndarray:
    """All values of a dtype of two bytes at most; of another the special ones, and those next to powers of two."""
    kind = numpy_dtype(dtype)
    if dtype == "i1" or is_narrow(dtype):
        low, high = integer_range(dtype)
        return np.arange(low, high + 1).astype(kind)
    if kind.itemsize <= 2:
        return (
            np.arange(2**16, dtype=np.uint16).view(kind)
            if kind.itemsize == 2
            else np.arange(256, dtype=np.uint8).view(kind)
        )
    plain = np.array(specials(dtype)).astype(kind)
    if not is_integer(dtype):
        return plain
    low, high = integer_range(dtype)
    near = [sign * 2**power + step for power in range(65) for step in (-1, 0, 1) for sign in (-1, 1)]
    return np.concatenate([plain, np.array([each for each in near if low <= each <= high], kind)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", ASKED)
def test_what_is_held_comes_back_and_what_is_not_does_not(dtype: str) -> None:
    convert = REGISTRY["convert"].reference
    given = values(dtype)
    for wide in ASKED:
        there = convert(given, dtype=wide)
        back = convert(there, dtype=dtype)
        same = _same(back, given)
        if holds(wide, dtype):
            assert same, wide
        elif is_float(wide):
            assert not same, wide


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    """To the bit, but that any NaN is any NaN."""
    nan = np.isnan(one) & np.isnan(two) if is_float(dtype_name(one.dtype)) else np.zeros(one.shape, bool)
    return one[~nan].tobytes() == two[~nan].tobytes()
