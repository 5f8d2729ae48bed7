"""Embedding bags: rows of a table, folded over the bags that offsets part a list of places into."""

from __future__ import annotations

from egshape.dims import Dim, maximum
from egshape.facts import Relation
from egshape.frontends.torch.moves import (
    ONE,
    ZERO,
    against,
    compare,
    convert,
    expand,
    fold,
    line,
    reshape,
    running,
    select,
    spread_along,
    taken,
    window,
    with_axis,
    with_number,
)
from egshape.frontends.torch.ops.indexing import inside, put
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Scope
from egshape.ir.graph import Value
from egshape.ops.contraction import summed_in

SUM, MEAN, MAX = range(3)


@aten_op(
    "_embedding_bag.default",
    "_embedding_bag_forward_only.default",
    "embedding_bag.default",
    "embedding_bag.padding_idx",
    composite=True,
)
def embedding_bag(
    s: Scope,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Value | None]:
    """The sum, mean or maximum of rows over bags; what torch saves for gradients is left out. A bag ends where the next
    one begins, the last one with the list; zeros for an empty one."""
    if s.call.used - {0}:
        raise NoLowering("what is saved for gradients")
    count, rows = indices.type.dims[0], weight.type.dims[0]
    starts = _starts(s, offsets, count, last=include_last_offset, sorted_=mode != MAX)
    inside(s, indices, rows)
    bag = _bags(s, starts, count)
    kept = _kept(s, indices, padding_idx, rows)
    dtype = summed_in(s.dtype)
    held = convert(s, taken(s, weight, 0, indices), dtype)
    if per_sample_weights is not None:
        scale = spread_along(s, convert(s, per_sample_weights, dtype), (0,), held.type.dims)
        held = s.one("multiply", (held, scale))
    total = (starts.type.dims[0], *weight.type.dims[1:])
    if mode == MAX:
        found = _greatest(s, held, bag, kept, total)
    else:
        added = kept if not include_last_offset else s.one("and", (kept, _before_last(s, offsets, count)))
        zeros = s.spread(s.scalar(0, dtype), total)
        found = put(s, zeros, [0], [_among(s, bag, added)], held, "add")
        if mode == MEAN:
            number = with_number(s, "maximum", _counts(s, bag, kept, total[0], dtype), 1)
            found = s.one("divide", (found, spread_along(s, number, (0,), total)))
    return [convert(s, found, s.dtype), None, None, None]


def _starts(s: Scope, offsets: Value, count: Dim, *, last: bool, sorted_: bool) -> Value:
    """Where bags begin, which is checked as torch does: the first at 0, none behind the list, none before another."""
    size = offsets.type.dims[0]
    if last:
        s.check(Relation("<=", ONE, size), "include_last_offset: there are {1} offsets, there must be one at least")
    first = s.one("and", (against(s, "EQ", line(s, size, offsets.type.dtype), 0), against(s, "NE", offsets, 0)))
    s.check_value(s.one("not", (fold(s, "or", first, (0,)),)), f"{s.call.op}: the first offset is not 0")
    s.check_value(fold(s, "and", against(s, "LE", offsets, count), (0,)), f"{s.call.op}: an offset is behind the list")
    if sorted_:
        pairs = size - 1 if s.decide("<=", ONE, size) is True else maximum(size - 1, 0)
        one, two = window(s, offsets, 0, ZERO, pairs), window(s, offsets, 0, size - pairs, size)
        s.check_value(fold(s, "and", compare(s, "LE", one, two), (0,)), f"{s.call.op}: offsets are not in order")
    return window(s, offsets, 0, ZERO, size - 1) if last else offsets


def _bags(s: Scope, starts: Value, count: Dim) -> Value:
    """The bag of each place of the list; -1 where there is none."""
    zeros = s.spread(s.scalar(0, "i64"), (count + 1,))
    ones = s.spread(s.scalar(1, "i64"), starts.type.dims)
    begun = running(s, "add", put(s, zeros, [0], [convert(s, starts, "i64")], ones, "add"), 0)
    return with_number(s, "subtract", window(s, begun, 0, ZERO, count), 1)


def _kept(s: Scope, indices: Value, padding: int | None, rows: Dim) -> Value:
    """Whether a place of the list is no padding."""
    if padding is None or (padding < 0 and not s.call.op.startswith("embedding_bag")):
        return s.spread(s.scalar(True, "i1"), indices.type.dims)
    return against(s, "NE", indices, padding if padding >= 0 else rows + padding)


def _before_last(s: Scope, offsets: Value, count: Dim) -> Value:
    """Whether a place of the list comes before the last offset."""
    size = offsets.type.dims[0]
    end = reshape(s, window(s, offsets, 0, size - 1, size), ())
    return compare(s, "LT", line(s, count, offsets.type.dtype), s.spread(end, (count,)))


def _among(s: Scope, bag: Value, kept: Value) -> Value:
    """The bags of the places that count, -1 for the others, which no bag takes."""
    return select(s, kept, bag, s.full(-1, bag))


def _counts(s: Scope, bag: Value, kept: Value, total: Dim, dtype: str) -> Value:
    zeros, ones = s.spread(s.scalar(0, dtype), (total,)), s.spread(s.scalar(1, dtype), bag.type.dims)
    return put(s, zeros, [0], [_among(s, bag, kept)], ones, "add")


def _greatest(s: Scope, held: Value, bag: Value, kept: Value, total: tuple[Dim, ...]) -> Value:
    least = s.spread(s.scalar(float("-inf"), held.type.dtype), total)
    found = put(s, least, [0], [_among(s, bag, kept)], held, "maximum")
    some = against(s, "NE", _counts(s, bag, kept, total[0], "i64"), 0)
    some = expand(s, with_axis(s, some, 1), total)
    return select(s, some, found, s.full(0, found))
