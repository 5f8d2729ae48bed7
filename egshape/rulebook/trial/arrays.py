"""Numbers that rules go wrong at: zeros of both signs, NaN, infinities, ends of dtypes, what conversions lose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import ml_dtypes
import numpy as np

from egshape.ir.types import integer_range, is_complex, is_float, is_narrow, numpy_dtype

_FLOATS = (np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -1.5, 3.25, 0.1, -7.7, 2.5, 3e7, -300.0, 65520.0)
_EXPONENTS = (12.0, 88.0, 89.0, -110.0, 700.0, 710.0, -750.0)
"""Near where exponential functions of f16, f32 and f64 are too large or too small."""
_INTEGERS = (0, -1, 1, 7, 5, -3, 2, 8, 31, 32, 64, 127, -128, 255, 256, -129, 32768, 16777217, 3_000_000_001)
_COMPLEX = (0.0, -1.0, 1.0, 7.0, -0.0, 0.1, -3.0)


_HALVES = (2, 3, 7, 10, 23, 52)
"""Bits of the fractions of formats: a number between two of them, and a little more, is rounded otherwise in two steps
than in one."""
_MIXED = 0.5
"""How often a number is any of its dtype, where special values are mixed with such."""


def random_array(
    dtype: str, shape: Sequence[int], seed: int, kind: Literal["special", "mixed", "tame"] = "special"
) -> np.ndarray:
    """An array full of special values, in an order that depends on the seed; the first goes round with it.

    kind: mixed with numbers from all of the dtype's width; or tame, small numbers, most of them different, since NaN
    and infinities hide what else is wrong with a sum."""
    random = np.random.default_rng(seed)
    known = _small(dtype) if kind == "tame" else specials(dtype)
    places = np.array(random.integers(len(known), size=tuple(shape)))
    if places.size:
        places[(0,) * len(shape)] = seed % len(known)
    found = np.asarray(known[places])
    if kind != "mixed" or dtype == "i1" or is_narrow(dtype):
        return found
    return np.where(random.random(size=tuple(shape)) < _MIXED, _wide(dtype, tuple(shape), random), found)


def _wide(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Numbers of every size that a dtype has."""
    kind = numpy_dtype(dtype)
    if is_complex(dtype):
        part = {"c64": "f32", "c128": "f64"}[dtype]
        return np.asarray(_wide(part, shape, random) + 1j * _wide(part, shape, random), kind)
    if not is_float(dtype):
        low, high = integer_range(dtype)
        bits = random.integers(1, (high - low).bit_length() + 1, size=shape).astype(np.uint64)
        any_bits = random.integers(0, 2**64, size=shape, dtype=np.uint64) >> (np.uint64(64) - bits)
        signed = np.where(random.random(size=shape) < 0.5, any_bits, ~any_bits)
        return np.asarray(signed.astype(f"u{kind.itemsize}").view(kind))
    ends = ml_dtypes.finfo(kind)
    halves = [1.0 + 2.0 ** -(bits + 1) for bits in _HALVES if bits < ends.nmant]
    near = [half + step * float(ends.eps) for half in halves for step in (-1, 0, 1)]
    scale = np.exp2(random.uniform(ends.minexp, ends.maxexp - 1, size=shape))
    usual = np.exp2(np.floor(random.uniform(-4, 8, size=shape)))
    fraction = np.where(
        random.random(size=shape) < 0.5,
        1 + random.random(size=shape),
        np.asarray([*near, 1.0])[random.integers(len(near) + 1, size=shape)],
    )
    sign = np.where(random.random(size=shape) < 0.3, -1.0, 1.0)
    with np.errstate(all="ignore"):
        return np.asarray((sign * fraction * np.where(random.random(size=shape) < 0.5, usual, scale)).astype(kind))


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
        wide = np.array([*_FLOATS, *_EXPONENTS, float(ends.max), float(ends.tiny), -float(ends.smallest_subnormal)])
        if is_narrow(dtype):
            wide = wide[np.isfinite(wide)]
    else:
        low, high = integer_range(dtype)
        top = kind.itemsize * 8 - 2
        halves = [(1 << top) + (1 << top - bits - 1) + 1 for bits in _HALVES if bits + 1 < top]
        wide = np.array(
            [each for each in (*_INTEGERS, *halves, low, high, low + 1, high - 1) if low <= each <= high], object
        )
    with np.errstate(all="ignore"):
        found = wide.astype(kind)
    return found[sorted({each.tobytes(): place for place, each in enumerate(found)}.values())]
