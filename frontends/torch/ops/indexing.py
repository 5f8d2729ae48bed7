"""Elements taken from and put at places that are data. torch stops at a place outside of its axis, so it is checked."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, product
from egshape.frontends.torch.moves import (
    ONE,
    against,
    broadcast,
    convert,
    expand,
    fold,
    joined,
    reshape,
    select,
    single,
    taken,
    tensor,
    window,
    wrapped,
)
from egshape.frontends.torch.ops.ordering import columns_of, true_places
from egshape.frontends.torch.registry import NoLowering, aten_op
from egshape.frontends.torch.scope import Number, Scope
from egshape.ir.graph import Value


def inside(s: Scope, places: Value, size: Dim) -> None:
    """A check that places lie within an axis."""
    found = s.numbers(places)
    if found is not None and all(0 <= place < (size.const or 0) for place in found):
        return
    whole = s.spread(s.scalar(size, places.type.dtype), places.type.dims)
    fits = s.one("and", (against(s, "GE", places, 0), s.one("compare", (places, whole), direction="LT", kind="SIGNED")))
    fits = fold(s, "and", fits, tuple(range(places.type.rank)))
    s.check_value(fits, f"{s.call.op}: an index is out of range")


@aten_op("embedding.default", composite=True)
def embedding(
    s: Scope,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Rows of a table."""
    inside(s, indices, weight.type.dims[0])
    return taken(s, weight, 0, indices)


@aten_op("index_select.default", composite=True)
def index_select(s: Scope, x: Value, dim: int, index: Value) -> Value:
    """Places of an axis."""
    if not x.type.rank or index.type.rank != 1:
        raise NoLowering("a number")
    axis = dim % x.type.rank
    inside(s, index, x.type.dims[axis])
    return taken(s, x, axis, index)


@aten_op("index.Tensor", "_unsafe_index.Tensor", composite=True)
def index(s: Scope, x: Value, indices: Sequence[Value | None]) -> Value:
    """numpy's advanced indexing: the named axes become those of the places."""
    axes, places = _places(s, x, indices)
    if len(axes) == 1:
        return taken(s, x, axes[0], places[0])
    first, inner, outer = _first(axes), places[0].type.rank, x.type.rank - len(axes)
    return s.one(
        "gather",
        (x, _vectors(s, places)),
        offset_dims=(*range(first), *range(first + inner, outer + inner)),
        collapsed=tuple(sorted(axes)),
        start_index_map=tuple(axes),
        index_vector_dim=inner,
        sizes=tuple(single(s, size) if axis in axes else size for axis, size in enumerate(x.type.dims)),
    )


def _places(s: Scope, x: Value, indices: Sequence[Value | None]) -> tuple[list[int], list[Value]]:
    """The named axes, and the places along each, of one shape; a mask names as many axes as it has."""
    axes: list[int] = []
    found: list[Value] = []
    at = 0
    for each in indices:
        if each is None:
            at += 1
        elif each.type.dtype in ("i1", "ui8"):
            mask = convert(s, each, "i1")
            columns = columns_of(s, mask)
            axes += range(at, at + len(columns))
            found += columns
            at += len(columns)
        else:
            places = wrapped(s, convert(s, each, "i64"), x.type.dims[at])
            inside(s, places, x.type.dims[at])
            axes.append(at)
            found.append(places)
            at += 1
    return axes, list(broadcast(s, *found))


def _vectors(s: Scope, places: Sequence[Value]) -> Value:
    wide = [reshape(s, each, (*each.type.dims, ONE)) for each in places]
    return wide[0] if len(wide) == 1 else s.one("concatenate", wide, dim=wide[0].type.rank - 1)


def _first(axes: Sequence[int]) -> int:
    """How many of the other axes stand before those of the places: these are where the first named axis was if the
    named ones stand side by side, else in front."""
    return axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0


@aten_op("index_put.default", "_unsafe_index_put.default", composite=True)
def index_put(s: Scope, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """x with elements put at, or added to those at, places."""
    masks = [each for each in indices if each is not None and each.type.dtype == "i1"]
    one = all(size.const == 1 for size in values.type.dims)
    if len(masks) == 1 and indices[0] is masks[0] and len(indices) == 1 and one and not accumulate:
        mask = reshape(s, masks[0], (*masks[0].type.dims, *(ONE,) * (x.type.rank - masks[0].type.rank)))
        return select(s, mask, reshape(s, convert(s, values, x.type.dtype), ()), x)
    axes, places = _places(s, x, indices)
    return put(s, x, axes, places, values, "add" if accumulate else "")


def put(s: Scope, x: Value, axes: Sequence[int], places: Sequence[Value], values: Value, ours: str = "") -> Value:
    """x with values at places along axes, of one shape; or with what an op makes of the old ones and these."""
    shape, first = places[0].type.dims, _first(axes)
    whole = [size for axis, size in enumerate(x.type.dims) if axis not in axes]
    given = expand(s, convert(s, values, x.type.dtype), (*whole[:first], *shape, *whole[first:]))
    attrs: dict[str, object] = {
        "update_window_dims": (*range(first), *range(first + len(shape), len(whole) + len(shape))),
        "inserted_window_dims": tuple(sorted(axes)),
        "scatter_dims_to_operand_dims": tuple(axes),
        "index_vector_dim": len(shape),
    }
    return _scattered(s, x, _vectors(s, places), given, ours, attrs)


def _scattered(s: Scope, x: Value, places: Value, values: Value, ours: str, attrs: dict[str, object]) -> Value:
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, old, new: inner.one(ours, (old, new)) if ours else new)
    return s.add("scatter", (x, places, values), attrs, regions=(body,))[0]


# -- along one axis ------------------------------------------------------------------------------------------------


def _cut_to(s: Scope, x: Value, like: Value, but: int) -> Value:
    """The first elements along all axes but one, as many as another tensor has."""
    for axis, size in enumerate(like.type.dims):
        if axis != but and size is not x.type.dims[axis]:
            x = window(s, x, axis, size * 0, size)
    return x


@aten_op("gather.default", composite=True)
def gather(s: Scope, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """Along one axis the elements at places, which each place of the other axes has for itself."""
    if not x.type.rank or not index.type.rank:
        raise NoLowering("a number")
    axis = dim % x.type.rank
    places = convert(s, index, "i64")
    inside(s, places, x.type.dims[axis])
    x = _cut_to(s, x, index, axis)
    others = tuple(place for place in range(x.type.rank) if place != axis)
    sizes = tuple(single(s, size) for size in x.type.dims)
    return s.one(
        "gather",
        (x, places),
        offset_dims=(),
        collapsed=(axis,),
        operand_batch=others,
        indices_batch=others,
        start_index_map=(axis,),
        index_vector_dim=x.type.rank,
        sizes=sizes,
    )


_REDUCED = {
    "sum": "add",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
    "add": "add",
    "multiply": "multiply",
}


@aten_op(
    "scatter.src",
    "scatter.value",
    "scatter_add.default",
    "scatter_reduce.two",
    "scatter.reduce",
    "scatter.value_reduce",
    composite=True,
)
def scatter(
    s: Scope,
    x: Value,
    dim: int,
    index: Value,
    src: Value | Number,
    reduce: str = "",
    *,
    include_self: bool = True,
) -> Value:
    """x with elements put at, or combined with those at, places along one axis."""
    if not x.type.rank or not index.type.rank or not include_self or reduce == "mean":
        raise NoLowering("a number, or the old elements are left out")
    axis = dim % x.type.rank
    ours = "add" if s.call.op.startswith("scatter_add") else _REDUCED[reduce] if reduce else ""
    places = convert(s, index, "i64")
    inside(s, places, x.type.dims[axis])
    given = tensor(s, src, x.type.dtype)
    given = s.spread(given, index.type.dims) if not given.type.rank else _cut_to(s, given, index, -1)
    coordinates = [
        places if place == axis else s.one("iota", dtype="i64", dim=place, shape=places.type.dims)
        for place in range(x.type.rank)
    ]
    every = tuple(range(x.type.rank))
    attrs: dict[str, object] = {
        "update_window_dims": (),
        "inserted_window_dims": every,
        "scatter_dims_to_operand_dims": every,
        "index_vector_dim": x.type.rank,
    }
    return _scattered(s, x, _vectors(s, coordinates), given, ours, attrs)


@aten_op("masked_select.default")
def masked_select(s: Scope, x: Value, mask: Value) -> Value:
    """The elements where a mask holds, in order; how many is data."""
    shape = joined(s, [x.type.dims, mask.type.dims])
    count = product(shape)
    x, mask = (reshape(s, expand(s, each, shape), (count,)) for each in (x, mask))
    return taken(s, x, 0, true_places(s, mask))
