"""Implicit broadcasting, made explicit: each operand is brought to the common shape by a ``broadcast_in_dim``, or
stands as it is where its shape has that form already. What cannot be decided is ``bcast(a, b)``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from egshape.dims import Dim, bcast
from egshape.frontends import shaping
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.shaping import joined_by_form
from egshape.ir.graph import Value


def joined_size(s: Scope, one: Dim, two: Dim) -> Dim:
    """The size of a broadcast axis. Raises EgshapeError for two numbers that do not broadcast."""
    known = joined_by_form(one, two)
    if known is not None:
        return known
    for whole, other in ((one, two), (two, one)):
        parts = s.program.joins.get(whole)
        if parts is not None and other in parts:
            return whole
    if s.decide("==", one, two) is True:
        return one
    for given, other in ((one, two), (two, one)):
        if s.decide("==", given, 1) is True:
            return other
        if s.implies_one(given, other):
            return given  # where it is 1, so is the other one; else the other one is 1 or equal to it
    size = bcast(one, two)
    joins = s.program.joins
    joins[size] = joins.get(one, frozenset((one,))) | joins.get(two, frozenset((two,)))
    return size


def joined(s: Scope, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape to which all of these broadcast, aligned at the last axis."""
    return shaping.joined(shapes, partial(joined_size, s))


def expand(s: Scope, value: Value, shape: Sequence[Dim]) -> Value:
    """A value brought to a shape to which it broadcasts; itself where its shape has that form."""
    target = tuple(shape)
    if value.type.dims == target:
        return value
    first = len(target) - value.type.rank
    return s.moved(value, s.one("broadcast_in_dim", (value,), dims=tuple(range(first, len(target))), shape=target))


def broadcast(s: Scope, *values: Value) -> tuple[Value, ...]:
    """Values of one common shape."""
    shape = joined(s, [value.type.dims for value in values])
    return tuple(expand(s, value, shape) for value in values)
