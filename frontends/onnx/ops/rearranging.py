"""Elements put to places that data tell: ReverseSequence, TensorScatter, Col2Im."""

from __future__ import annotations

import numpy as np

from egshape.dims import const, floordiv, product
from egshape.frontends.onnx.folds import fold
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import convert
from egshape.frontends.onnx.ops.movement import not_empty
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of, equal, of_length
from egshape.ir.graph import Value
from egshape.ir.types import numpy_dtype

_ONE = const(1)


def _by_line(s: Scope, x: Value, lines: int, axis: int, places: Value) -> Value:
    """Elements of an axis at places of their own for each place of the axis ``lines``: ``places`` is a matrix of the
    two, in this order."""
    x = not_empty(s, x, (lines, axis), np.zeros((), numpy_dtype(x.type.dtype)))
    line = s.one("iota", dtype="i64", dim=0, shape=places.type.dims)
    shape = (*places.type.dims, _ONE)
    vectors = s.one("concatenate", (reshape(s, line, shape), reshape(s, places, shape)), dim=2)
    rest = tuple(place for place in range(x.type.rank) if place not in (lines, axis))
    sizes = tuple(_ONE if place in (lines, axis) else size for place, size in enumerate(x.type.dims))
    found = s.one(
        "gather",
        (x, vectors),
        offset_dims=tuple(range(2, x.type.rank)),
        collapsed=tuple(sorted((lines, axis))),
        start_index_map=(lines, axis),
        index_vector_dim=2,
        sizes=sizes,
    )
    order = (lines, axis, *rest)
    return s.one("transpose", (found,), permutation=tuple(order.index(place) for place in range(x.type.rank)))


def _compared(s: Scope, one: Value, direction: str, two: Value) -> Value:
    return s.one("compare", (one, two), direction=direction, kind="SIGNED")


@onnx_op("ReverseSequence", composite=True)
def reverse_sequence(s: Scope, node: Node, x: Value, lengths: Value) -> Value:
    """The first elements of each line, as many as its length says, in reverse order; the others as they are."""
    lines, time = node.int("batch_axis", 1), node.int("time_axis", 0)
    if x.type.rank < 2 or {lines, time} != {0, 1}:
        raise node.error(f"of {x.type} takes the axes {lines} and {time}")
    equal(s, node, lengths.type.dims[0], x.type.dims[lines], "has {0} lengths for {1} lines")
    shape = (x.type.dims[lines], x.type.dims[time])
    place = s.one("iota", dtype="i64", dim=1, shape=shape)
    lengths = convert(s, lengths, "i64")
    whole = s.spread(s.vector([shape[1]], "i64", ()), shape[:1])
    beyond = s.one("or", (_compared(s, lengths, "LT", s.full(0, lengths)), _compared(s, lengths, "GT", whole)))
    message = {"message": f"{node.op} has a length outside of 0 to {{0}}", "args": shape[1:]}
    s.add("check", (s.one("not", (fold(s, "or", beyond, (0,)),)),), message)
    length = s.one("broadcast_in_dim", (lengths,), dims=(0,), shape=shape)
    back = s.one("subtract", (s.one("subtract", (length, s.full(1, length))), place))
    return _by_line(s, x, lines, time, s.one("select", (_compared(s, place, "LT", length), back, place)))


@onnx_op("TensorScatter", composite=True)
def tensor_scatter(s: Scope, node: Node, cache: Value, update: Value, starts: Value | None = None) -> Value:
    """A cache with the elements from a place of each line on replaced; ``circular``: behind the end from 0 on."""
    axis = axis_of(node, node.int("axis", -2), cache.type.rank)
    if axis == 0 or update.type.rank != cache.type.rank:
        raise node.error(f"of {cache.type} and {update.type} along axis {axis}")
    for other, (one, two) in enumerate(zip(cache.type.dims, update.type.dims, strict=True)):
        if other != axis:
            equal(s, node, one, two, "has a cache of {0} and an update of {1} along another axis")
    shape = (cache.type.dims[0], cache.type.dims[axis])
    whole, count = (s.spread(s.vector([each.type.dims[axis]], "i64", ()), shape) for each in (cache, update))
    if starts is None:
        starts = s.spread(s.scalar(0, "i64"), shape[:1])
    start = s.one("broadcast_in_dim", (convert(s, starts, "i64"),), dims=(0,), shape=shape)
    zero = s.full(0, start)
    place = s.one("subtract", (s.one("iota", dtype="i64", dim=1, shape=shape), start))
    fits = _compared(s, count, "LE", whole)
    if node.text("mode", "linear") == "circular":
        place = s.one("remainder", (place, whole))
        place = s.one("select", (_compared(s, place, "LT", zero), s.one("add", (place, whole)), place))
    else:
        last = s.one("add", (start, count))
        fits = s.one("and", (_compared(s, start, "GE", zero), _compared(s, last, "LE", whole)))
    wrong = fold(s, "or", s.one("not", (fits,)), (0, 1))
    s.add("check", (s.one("not", (wrong,)),), {"message": "TensorScatter writes outside of its cache"})
    inside = s.one("and", (_compared(s, place, "GE", zero), _compared(s, place, "LT", count)))
    wide = s.one("broadcast_in_dim", (inside,), dims=(0, axis), shape=cache.type.dims)
    return s.one("select", (wide, _by_line(s, update, 0, axis, place), cache))


@onnx_op("Col2Im", composite=True)
def col2im(s: Scope, node: Node, x: Value, image: Value, block: Value) -> Value:
    """Blocks of an image, a column each, added where they were taken."""
    rank = image.type.dims[0].const or (s.known_rank(node.outputs[0]) or 2) - 2
    if rank < 1 or x.type.rank != 3:
        raise NoLowering("how many axes the image has is data")
    sizes, kernel = (
        s.sizes(of_length(s, each, rank), f"{node.outputs[0]}.{name}")
        for each, name in ((image, "image"), (block, "block"))
    )
    steps, gaps = (node.ints(name, None) or (1,) * rank for name in ("strides", "dilations"))
    pads = node.ints("pads", None) or (0,) * (2 * rank)
    counts = [
        floordiv(size + pads[k] + pads[k + rank] - (kernel[k] - 1) * gaps[k] - 1, steps[k]) + 1
        for k, size in enumerate(sizes)
    ]
    shape = (*kernel, *counts)
    features = floordiv(x.type.dims[1], product(kernel))
    updates = reshape(s, x, (x.type.dims[0], features, *shape))
    places = []
    for k in range(rank):
        tap, column = (s.one("iota", dtype="i64", dim=axis, shape=shape) for axis in (k, rank + k))
        at = s.one(
            "add",
            (s.one("multiply", (tap, s.full(gaps[k], tap))), s.one("multiply", (column, s.full(steps[k], column)))),
        )
        places.append(reshape(s, s.one("subtract", (at, s.full(pads[k], at))), (*shape, _ONE)))
    vectors = places[0] if rank == 1 else s.one("concatenate", places, dim=2 * rank)
    spatial = tuple(range(2, rank + 2))
    attrs = {
        "update_window_dims": (0, 1),
        "inserted_window_dims": spatial,
        "operand_batch": (),
        "indices_batch": (),
        "scatter_dims_to_operand_dims": spatial,
        "index_vector_dim": 2 * rank,
    }
    body = s.region([(x.type.dtype, ())] * 2, lambda inner, old, new: inner.one("add", (old, new)))
    zeros = s.spread(s.scalar(0, x.type.dtype), (x.type.dims[0], features, *sizes))
    return s.add("scatter", (zeros, vectors, updates), attrs, regions=(body,))[0]
