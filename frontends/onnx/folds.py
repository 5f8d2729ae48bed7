"""Folds over axes by one of our binary ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import const
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value
from egshape.ir.types import integer_range, is_integer, numpy_dtype


def start_of(ours: str, dtype: str) -> np.ndarray:
    """The number from which a reduction starts: its neutral element."""
    if ours in ("add", "multiply"):
        number: float = 1 if ours == "multiply" else 0
    elif ours == "or":
        number = 0
    elif dtype == "i1" or is_integer(dtype):
        number = integer_range(dtype)[0 if ours == "maximum" else 1]
    else:
        number = -np.inf if ours == "maximum" else np.inf
    return np.array(number).astype(numpy_dtype(dtype))


def fold(s: Scope, ours: str, x: Value, axes: Sequence[int], start: np.ndarray | None = None) -> Value:
    """x folded over axes by one of our binary ops; the axes go."""
    init = s.constant(start_of(ours, x.type.dtype) if start is None else start)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    return s.add("reduce", (x, init), {"dims": tuple(axes)}, regions=(body,))[0]


def running(s: Scope, ours: str, x: Value, axis: int, *, exclusive: bool = False, backwards: bool = False) -> Value:
    """What one of our binary ops makes of the elements up to each place of an axis, without the place itself if
    ``exclusive``, or of those from it on: a window that reaches to the end of the axis."""
    size, zero, one = x.type.dims[axis], const(0), const(1)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, left, right: inner.one(ours, (left, right)))
    reach = [size, zero - 1] if exclusive else [size - 1, zero]
    if backwards:
        reach.reverse()
    ones = (one,) * x.type.rank
    padding = [zero] * (2 * x.type.rank)
    padding[2 * axis : 2 * axis + 2] = reach
    attrs = {
        "window": (*ones[:axis], size, *ones[axis + 1 :]),
        "strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": tuple(padding),
    }
    return s.add("reduce_window", (x, s.constant(start_of(ours, x.type.dtype))), attrs, regions=(body,))[0]
