"""Ops that order or find elements."""

from __future__ import annotations

from egshape.dims import Dim, product
from egshape.facts import Relation
from egshape.frontends.torch.moves import ONE, ZERO, axis_of, before, convert, fold, line, reshape, window
from egshape.frontends.torch.ops.elementwise import truth_of
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.frontends.torch.symbolic import dim as size_of
from egshape.ir.graph import Value


def _sorted(s: Scope, x: Value, axis: int, descending: bool) -> list[Value]:
    places = s.one("iota", dtype="i64", dim=axis, shape=x.type.dims)
    order = before(s, [x.type.dtype, "i64"], "GT" if descending else "LT")
    return list(s.add("sort", (x, places), {"dim": axis, "stable": True}, regions=(order,)))


@aten_op("sort.default", "sort.stable", composite=True)
def sort(s: Scope, x: Value, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> list[Value]:
    """The elements of an axis in order, and their places."""
    if not x.type.rank:
        return [x, s.scalar(0, "i64")]
    return _sorted(s, x, axis_of(dim, x.type.rank), descending)


@aten_op("topk.default", composite=True)
def top_k(s: Scope, x: Value, k: Number, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    """The k largest or smallest elements of an axis, and their places."""
    if not x.type.rank:
        raise NoLowering("a number")
    axis, count = axis_of(dim, x.type.rank), size_of(k)
    s.check(Relation("<=", count, x.type.dims[axis]), "topk takes {0} elements of an axis of size {1}")
    return [window(s, each, axis, ZERO, count) for each in _sorted(s, x, axis, largest)]


def true_places(s: Scope, mask: Value) -> Value:
    """The places at which a vector of i1 is true, in order; how many there are is a size that data tell."""
    total = fold(s, "add", convert(s, mask, "i64"), (0,))
    (count,) = s.sizes(reshape(s, total, (ONE,)), s.call.label, "count")
    keys = convert(s, s.one("not", (mask,)), "i64")
    order = before(s, ["i64", "i64"], "LT")
    ordered = s.add("sort", (keys, line(s, mask.type.dims[0])), {"dim": 0, "stable": True}, regions=(order,))[1]
    found = window(s, ordered, 0, ZERO, count)
    s.bounded(found, 0, mask.type.dims[0])
    return found


def columns_of(s: Scope, mask: Value) -> list[Value]:
    """The places at which a mask is true, by axis."""
    places = true_places(s, reshape(s, mask, (product(mask.type.dims),)))
    columns: list[Value] = []
    step: Dim = ONE
    for size in reversed(mask.type.dims):
        column = places
        if step.const != 1:
            column = s.one("divide", (column, s.full(step, column)))
        columns.append(s.one("remainder", (column, s.full(size, column))))
        step = step * size
    return columns[::-1]


@aten_op("nonzero.default")
def nonzero(s: Scope, x: Value) -> Value:
    """The places of all elements that are not 0, a row each."""
    if not x.type.rank:
        raise NoLowering("a number")
    columns = columns_of(s, truth_of(s, x))
    wide = [reshape(s, each, (*each.type.dims, ONE)) for each in columns]
    return wide[0] if len(wide) == 1 else s.one("concatenate", wide, dim=1)
