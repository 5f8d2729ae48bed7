"""Comparators of sorts, for every frontend."""

from __future__ import annotations

from collections.abc import Callable

from egshape.ir.graph import Value


def before(one: Callable[..., Value], a: Value, b: Value, direction: str, kind: str) -> Value:
    """Whether ``a`` stands before ``b``: is less (``LT``) or more (``GT``), NaN counting as the largest. ``one`` adds
    an op; ``kind`` is that of comparisons of the dtype."""
    less = one("compare", (a, b), direction=direction, kind=kind)
    if kind != "FLOAT":
        return less
    none = [one("compare", (each, each), direction="NE", kind=kind) for each in (a, b)]
    first, second = none if direction == "GT" else reversed(none)
    return one("or", (less, one("and", (first, one("not", (second,))))))
