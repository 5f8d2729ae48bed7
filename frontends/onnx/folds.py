"""Folds over axes by one of our binary ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import const
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.shaping import running_window, start_of
from egshape.ir.graph import Value


def fold(s: Scope, ours: str, x: Value, axes: Sequence[int], start: np.ndarray | None = None) -> Value:
    """x folded over axes by one of our binary ops; the axes go."""
    init = s.constant(start_of(ours, x.type.dtype) if start is None else start)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, one, two: inner.one(ours, (one, two)))
    return s.add("reduce", (x, init), {"dims": tuple(axes)}, regions=(body,))[0]


def running(s: Scope, ours: str, x: Value, axis: int, *, exclusive: bool = False, backwards: bool = False) -> Value:
    """What one of our binary ops makes of the elements up to each place of an axis, without the place itself if
    ``exclusive``, or of those from it on: a window that reaches to the end of the axis."""
    size, zero = x.type.dims[axis], const(0)
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, left, right: inner.one(ours, (left, right)))
    reach = [size, zero - 1] if exclusive else [size - 1, zero]
    attrs = running_window(x.type.dims, axis, reach[::-1] if backwards else reach)
    return s.add("reduce_window", (x, s.constant(start_of(ours, x.type.dtype))), dict(attrs), regions=(body,))[0]
