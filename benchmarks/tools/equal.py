"""Whether results are right, where nothing but numpy is installed: against the interpreter's, and against the same in
f64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
RELATIVE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}
SMALLEST = {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1.5e-45, "float64": 5e-324}
EPSILON = {"float16": 9.8e-4, "bfloat16": 7.9e-3, "float32": 1.2e-7, "float64": 2.3e-16}


def fault(
    found: Sequence[Array], narrow: Sequence[Array], wide: Sequence[Array] | None = None, relative: float | None = None
) -> str:
    """What is wrong with results, "" if nothing is. ``narrow``: what the interpreter gives; ``wide``: what it gives in
    f64, where that could be had; ``relative``: the tolerance, that of the dtype where none is given.

    An element is right if it is within the tolerance of the interpreter's, or of the f64 result, or is no further
    from that than three times the worst error of the interpreter in the tensor."""
    if len(found) != len(narrow):
        return f"{len(found)} results instead of {len(narrow)}"
    for number, (mine, near) in enumerate(zip(found, narrow, strict=True)):
        if mine.dtype != near.dtype or mine.shape != near.shape:
            return f"out{number} is {mine.dtype}{list(mine.shape)}, not {near.dtype}{list(near.shape)}"
        exact = None if wide is None else wide[number]
        wrong = ~_right(mine, near, exact, relative)
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            seen = "" if exact is None else f", in f64 {exact[place]!r}"
            return (
                f"out{number}{list(mine.shape)}: {int(wrong.sum())} of {wrong.size} elements are wrong, "
                f"the first at {list(place)} is {mine[place]!r}, not {near[place]!r}{seen}"
            )
    return ""


def distance(found: Array, exact: Array) -> float:
    """The length of the difference over the length of the exact result; not a number if one holds one that the other
    does not."""
    one, two = double(found).ravel(), double(exact).ravel()
    with np.errstate(invalid="ignore"):
        same = (np.isnan(one) & np.isnan(two)) | (one == two)
        apart = np.where(same, 0.0, one - two)
    length = float(np.linalg.norm(np.where(same & ~np.isfinite(two), 0.0, two)))
    return float(np.linalg.norm(apart)) / max(length, 1e-30)


def double(array: Array) -> Array:
    """Floats as f64, all else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def _right(mine: Array, narrow: Array, exact: Array | None, relative: float | None) -> Array:
    name = mine.dtype.name
    if name not in RELATIVE:
        return np.asarray(mine == narrow)
    limit = relative if relative is not None else RELATIVE[name]
    with np.errstate(all="ignore"):
        one, two = double(mine), double(narrow)
        right = (np.isnan(one) & np.isnan(two)) | (one == two)
        right |= np.abs(one - two) <= np.maximum(limit * np.abs(two), SMALLEST[name])
        if exact is None:
            return np.asarray(right)
        three = double(exact)
        errors = np.abs(two - three)
        worst = np.max(errors, where=np.isfinite(errors), initial=0.0)
        # A few roundings of the largest element: what a small tensor of luck, or f64 itself, cannot show.
        worst = max(worst, 3 * EPSILON[name] * np.max(np.abs(three), where=np.isfinite(three), initial=0.0))
        near = np.maximum(np.maximum(limit * np.abs(three), 3 * worst), SMALLEST[name])
        right |= (one == three) | (np.abs(one - three) <= near)
        # What f64 holds and f32 does not is no error of either.
        return np.asarray(right | (np.isnan(one) & np.isnan(three)))
