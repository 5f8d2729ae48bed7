"""The two ends of what a size may be, and the arithmetic of rules about them."""

from __future__ import annotations

Bounds = tuple[int | None, int | None]
"""The least and the largest value, inclusive; None where there is no bound."""


def larger(one: int | None, two: int) -> int:
    """The tighter of two lower bounds."""
    return two if one is None or two > one else one


def smaller(one: int | None, two: int) -> int:
    """The tighter of two upper bounds."""
    return two if one is None or two < one else one


def truncated(num: int, den: int) -> int:
    """Division rounded towards 0, as the engine divides."""
    return abs(num) // abs(den) * (1 if (num < 0) == (den < 0) else -1)
