"""Lists of disjoint integer intervals, inclusive, ascending; None is unbounded."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TypeAlias

Interval: TypeAlias = tuple[int | None, int | None]
Ranges: TypeAlias = tuple[Interval, ...]

EVERYTHING: Ranges = ((0, None),)  # all sizes
INTEGERS: Ranges = ((None, None),)


def normalized(intervals: Iterable[Interval]) -> Ranges:
    """Sorted, disjoint, neighbours joined, empty ones dropped."""
    kept = [(lo, hi) for lo, hi in intervals if lo is None or hi is None or lo <= hi]
    kept.sort(key=lambda iv: (iv[0] is not None, iv[0] or 0))
    merged: list[Interval] = []
    for lo, hi in kept:
        if merged:
            last_lo, last_hi = merged[-1]
            if last_hi is None or lo is None or lo <= last_hi + 1:
                top = None if last_hi is None or hi is None else max(last_hi, hi)
                merged[-1] = (last_lo, top)
                continue
        merged.append((lo, hi))
    return tuple(merged)


def intersect(one: Ranges, two: Ranges) -> Ranges:
    """The integers in both."""
    out: list[Interval] = []
    for lo1, hi1 in one:
        for lo2, hi2 in two:
            lo = lo2 if lo1 is None else lo1 if lo2 is None else max(lo1, lo2)
            hi = hi2 if hi1 is None else hi1 if hi2 is None else min(hi1, hi2)
            out.append((lo, hi))
    return normalized(out)


def complement(ranges: Ranges) -> Ranges:
    """The integers in none of the intervals (which are normalized)."""
    out: list[Interval] = []
    low: int | None = None
    open_below = True
    for lo, hi in ranges:
        if lo is not None:
            out.append((None if open_below else low, lo - 1))
        open_below = False
        if hi is None:
            return normalized(out)
        low = hi + 1
    out.append((None if open_below else low, None))
    return normalized(out)


def contains(ranges: Ranges, value: int) -> bool:
    """Whether the value lies in one of the intervals."""
    return any((lo is None or lo <= value) and (hi is None or value <= hi) for lo, hi in ranges)


def hull(ranges: Ranges) -> Interval:
    """The smallest interval around a list that is not empty."""
    return ranges[0][0], ranges[-1][1]


def count(ranges: Ranges) -> int | None:
    """How many integers; None for infinitely many."""
    total = 0
    for lo, hi in ranges:
        if lo is None or hi is None:
            return None
        total += hi - lo + 1
    return total


def preimage(ranges: Ranges, scale: int, offset: int) -> Ranges:
    """The integers x with scale*x + offset in the list (scale is not 0)."""
    out: list[Interval] = []
    for lo, hi in ranges:
        low = None if lo is None else lo - offset
        high = None if hi is None else hi - offset
        if scale < 0:
            low, high = (None if high is None else -high), (None if low is None else -low)
        k = abs(scale)
        out.append((None if low is None else -((-low) // k), None if high is None else high // k))
    return normalized(out)


def image(ranges: Ranges, scale: int, offset: int) -> Ranges:
    """Intervals around scale*x + offset for the integers x in the list, one for each interval (scale is not 0)."""
    ends = [[None if end is None else scale * end + offset for end in each] for each in ranges]
    return normalized((one, two) if scale > 0 else (two, one) for one, two in ends)


def clip_to_class(ranges: Ranges, divisor: int, remainder: int) -> Ranges:
    """Move the ends of each interval to the nearest integers that are remainder modulo divisor."""
    if divisor == 1:
        return ranges
    out: list[Interval] = []
    for lo, hi in ranges:
        low = None if lo is None else lo + (remainder - lo) % divisor
        high = None if hi is None else hi - (hi - remainder) % divisor
        out.append((low, high))
    return normalized(out)


def combine_classes(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int] | None:
    """(divisor, remainder) of the integers in both residue classes; None if there are none (CRT)."""
    (d1, r1), (d2, r2) = one, two
    g = gcd(d1, d2)
    if (r2 - r1) % g:
        return None
    whole = d1 // g * d2
    step = (r2 - r1) // g * pow(d1 // g, -1, d2 // g) if d2 // g > 1 else 0
    return whole, (r1 + d1 * step) % whole


def to_text(ranges: Ranges) -> str:
    """`[1,32] or [64,96]`, `{16, 64}`; an open end is `inf`."""
    if ranges and all(lo is not None and lo == hi for lo, hi in ranges):
        return "{" + ", ".join(str(lo) for lo, _ in ranges) + "}"
    return " or ".join(f"[{'-inf' if lo is None else lo},{'inf' if hi is None else hi}]" for lo, hi in ranges)
