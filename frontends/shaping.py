"""What lowerings of every format shape alike: the sizes of a broadcast, the start of a fold, a window that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import EgshapeError
from egshape.ir.types import numpy_dtype
from egshape.ops.regions import neutral

_ZERO, _ONE = const(0), const(1)


def joined_by_form(one: Dim, two: Dim) -> Dim | None:
    """The size of a broadcast axis where the form of the sizes tells it. Raises EgshapeError for two numbers that do
    not broadcast."""
    if one is two or two.const == 1:
        return one
    if one.const == 1:
        return two
    if one.const is not None and two.const is not None:
        raise EgshapeError(f"sizes {one} and {two} do not broadcast", code="invalid-model")
    return next((each for each in (one, two) if each.const is not None), None)  # the other one is 1 or equal to it


def joined(shapes: Sequence[Sequence[Dim]], join: Callable[[Dim, Dim], Dim]) -> tuple[Dim, ...]:
    """The shape to which all of these broadcast, aligned at the last axis; ``join`` gives the size of an axis."""
    out = []
    for column in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=_ONE):
        size = column[0]
        for other in column[1:]:
            size = join(size, other)
        out.append(size)
    return tuple(reversed(out))


def start_of(ours: str, dtype: str) -> np.ndarray:
    """The number from which a fold by one of our binary ops starts: its neutral element."""
    return np.array(neutral(ours, dtype)).astype(numpy_dtype(dtype))


def running_window(dims: Sequence[Dim], axis: int, reach: Sequence[Dim]) -> dict[str, tuple[Dim, ...]]:
    """The attributes of windows along one axis, as long as it, that reach so far out in front and behind."""
    ones = (_ONE,) * len(dims)
    padding = [_ZERO] * (2 * len(dims))
    padding[2 * axis : 2 * axis + 2] = reach
    return {
        "window": (*ones[:axis], dims[axis], *ones[axis + 1 :]),
        "strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": tuple(padding),
    }
