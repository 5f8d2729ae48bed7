"""Bounds of size functions by those of their arguments, made from rulesets/size by
`python -m egshape.rulelang.at_once`. Not to be edited."""
# ruff: noqa: E501, RUF059

from __future__ import annotations

from egshape.dims.ends import Bounds, larger, smaller, truncated


def floordiv_bounds(h: Bounds, k: Bounds) -> Bounds:
    """Bounds of floordiv(h, k) by those of its parts."""
    h_lo, h_hi = h
    k_lo, k_hi = k
    lo: int | None = None
    hi: int | None = None
    if h_lo is not None and h_lo >= 0 and k_lo is not None and k_lo > 0 and k_hi is not None and k_hi != 0:  # size.floordiv/lo
        lo = larger(lo, truncated(h_lo, k_hi))
    if h_lo is not None and h_lo >= 0 and k_lo is not None and k_lo > 0:  # size.floordiv/nonnegative
        lo = larger(lo, 0)
    if h_lo is not None and h_lo < 0 and k_lo is not None and k_lo > 0:  # size.floordiv/lo-negative
        lo = larger(lo, (0 - truncated(((0 - h_lo) + (k_lo - 1)), k_lo)))
    if h_hi is not None and h_hi >= 0 and k_lo is not None and k_lo > 0:  # size.floordiv/hi
        hi = smaller(hi, truncated(h_hi, k_lo))
    if h_hi is not None and h_hi < 0 and k_lo is not None and k_lo > 0:  # size.floordiv/hi-negative
        hi = smaller(hi, -1)
    return lo, hi


def relu_bounds(h: Bounds) -> Bounds:
    """Bounds of relu(h) by those of its parts."""
    h_lo, h_hi = h
    lo: int | None = None
    hi: int | None = None
    # size.relu/lo-zero
    lo = larger(lo, 0)
    if h_hi is not None:  # size.relu/hi
        hi = smaller(hi, max(h_hi, 0))
    return lo, hi


def bcast_bounds(h: Bounds, k: Bounds) -> Bounds:
    """Bounds of bcast(h, k) by those of its parts."""
    h_lo, h_hi = h
    k_lo, k_hi = k
    lo: int | None = None
    hi: int | None = None
    if h_lo is not None and k_lo is not None:  # size.bcast/lo
        lo = larger(lo, min(h_lo, k_lo))
    if h_hi is not None and k_hi is not None and max(h_hi, k_hi) >= 0:  # size.bcast/hi
        hi = smaller(hi, max(h_hi, k_hi))
    return lo, hi


def float_of_bounds(h: Bounds, k: Bounds) -> Bounds:
    """Bounds of float_of(h, k) by those of its parts."""
    h_lo, h_hi = h
    k_lo, k_hi = k
    lo: int | None = None
    hi: int | None = None
    return lo, hi


def float_whole_bounds(h: Bounds, k: Bounds, x2: Bounds, x3: Bounds) -> Bounds:
    """Bounds of float_whole(h, k, x2, x3) by those of its parts."""
    h_lo, h_hi = h
    k_lo, k_hi = k
    x2_lo, x2_hi = x2
    x3_lo, x3_hi = x3
    lo: int | None = None
    hi: int | None = None
    return lo, hi
