"""Constants, and ops that move elements, as calls of ATen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, const, maximum, product
from egshape.frontends.torch.emit import ONE, Emitter, dtype_of
from egshape.frontends.torch.emitting import emits
from egshape.ir.arrays import is_splat
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype

_END = 2**63 - 1
"""The end of an axis, as torch writes it."""

_FEW_BYTES = 512
"""Constants of up to so many bytes are held as they are."""


# -- placing axes ----------------------------------------------------------------------------------------------------


def placed(e: Emitter, node: Any, axes: Sequence[int], dims: Sequence[Dim], rank: int) -> Any:
    """A tensor whose axes become these of a larger one, with axes of size 1 between and behind them; torch adds those
    in front by itself."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    node = permuted(e, node, order)
    held = sorted(axes)
    if not held:
        return node
    for axis in range(held[0], rank):
        if axis not in held:
            node = e.call("unsqueeze.default", node, axis - held[0])
    return node


def permuted(e: Emitter, node: Any, order: Sequence[int]) -> Any:
    """A tensor with its axes in another order."""
    moved = [axis for axis, place in enumerate(order) if axis != place]
    if not moved:
        return node
    if len(moved) == 2:
        return e.call("transpose.int", node, *moved)
    return e.call("permute.default", node, list(order))


@emits("broadcast_in_dim")
def broadcast_in_dim(e: Emitter, op: Op) -> Any:
    """expand, which keeps the sizes that are there."""
    x = op.operands[0]
    shape = op.result.type.dims
    number = e.number(x)
    if number is not None and not x.type.shape:
        return e.call("full.default", e.sizes(shape), number, dtype=dtype_of(op.result.type.dtype))
    source = e.source(op.result)
    node = placed(e, source.write(), source.axes, source.dims, len(shape))
    here = dict(zip(source.axes, source.dims, strict=True))
    first = min(source.axes, default=len(shape))
    if first == 0 and all(here.get(axis, ONE) is size for axis, size in enumerate(shape)):
        return node
    kept = [-1 if axis >= first and here.get(axis, ONE) is size else e.size(size) for axis, size in enumerate(shape)]
    return e.call("expand.default", node, kept)


@emits("transpose")
def transpose(e: Emitter, op: Op) -> Any:
    """permute, or transpose of two axes."""
    return permuted(e, e.node(op.operands[0]), op.attrs["permutation"])


@emits("reshape")
def reshape(e: Emitter, op: Op) -> Any:
    """Of one place of an axis: select. Else by the axes that change."""
    x = op.operands[0]
    after = op.result.type.dims
    taken = e.producer(x, "slice")
    if taken is not None and x not in e.nodes:
        for axis, (start, limit) in enumerate(zip(taken.attrs["starts"], taken.attrs["limits"], strict=True)):
            rest = (*x.type.dims[:axis], *x.type.dims[axis + 1 :])
            if limit is start + 1 and after == rest:
                return e.call("select.int", _cut(e, taken, axis), axis, e.size(start))
    return reshaped(e, e.node(x), x.type.dims, after)


def reshaped(e: Emitter, node: Any, before: Sequence[Dim], after: Sequence[Dim]) -> Any:
    """A tensor in another shape; what stays in front and behind needs no sizes."""
    least = min(len(before), len(after))
    first = next((axis for axis in range(least) if before[axis] is not after[axis]), least)
    last = next((k for k in range(least - first) if before[-1 - k] is not after[-1 - k]), least - first)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    if [size for size in old if size is not ONE] == [size for size in new if size is not ONE]:
        return _without_units(e, node, first, old, new)
    if len(new) == 1 and len(old) > 1 and product(old) is new[0]:
        return e.call("flatten.using_ints", node, first, first + len(old) - 1)
    if len(old) == 1 and len(new) > 1 and product(new) is old[0]:
        return e.call("unflatten.int", node, first, _one_open(e, new))
    return e.call("reshape.default", node, _one_open(e, after))


def _without_units(e: Emitter, node: Any, first: int, old: Sequence[Dim], new: Sequence[Dim]) -> Any:
    """Axes of size 1 taken out and put in."""
    gone = [first + place for place, size in enumerate(old) if size is ONE]
    if len(gone) == 1:
        node = e.call("squeeze.dim", node, gone[0])
    elif gone:
        node = e.call("squeeze.dims", node, gone)
    for place, size in enumerate(new):
        if size is ONE:
            node = e.call("unsqueeze.default", node, first + place)
    return node


def _one_open(e: Emitter, shape: Sequence[Dim]) -> list[Any]:
    """The sizes of a shape; the only one that is no number is what is left, where torch can tell that."""
    rest = [size.const for size in shape if size.const is not None]
    if len(rest) == len(shape) - 1 and 0 not in rest:
        return [-1 if size.const is None else size.const for size in shape]
    return e.sizes(shape)


# -- parts -----------------------------------------------------------------------------------------------------------


@emits("slice")
def slice_(e: Emitter, op: Op) -> Any:
    """A slice of each axis that is not whole."""
    return _cut(e, op, None)


def _cut(e: Emitter, op: Op, but: int | None) -> Any:
    """A slice without one axis."""
    x = op.operands[0]
    node = e.node(x)
    rows = zip(x.type.dims, op.attrs["starts"], op.attrs["limits"], op.attrs["strides"], strict=True)
    for axis, (size, start, limit, stride) in enumerate(rows):
        if axis != but:
            node = part(e, node, axis, size, start, limit, stride)
    return node


def part(e: Emitter, node: Any, axis: int, size: Dim, start: Dim, limit: Dim, stride: Dim = ONE) -> Any:
    """Part of an axis."""
    if start.const == 0 and limit is size and stride.const == 1:
        return node
    end = _END if limit is size else e.size(limit)
    step = [] if stride.const == 1 else [e.size(stride)]
    return e.call("slice.Tensor", node, axis, e.size(start), end, *step)


@emits("reverse")
def reverse(e: Emitter, op: Op) -> Any:
    """flip."""
    return e.call("flip.default", e.node(op.operands[0]), list(op.attrs["dims"]))


@emits("concatenate")
def concatenate(e: Emitter, op: Op) -> Any:
    """cat."""
    return e.call("cat.default", [e.node(value) for value in op.operands], op.attrs["dim"])


# -- padding ---------------------------------------------------------------------------------------------------------


@emits("pad")
def pad(e: Emitter, op: Op) -> Any:
    """constant_pad_nd; of a number that is data, where there is padding."""
    x, value = op.operands[:2]
    low, high, interior = (op.attrs[key] for key in ("low", "high", "interior"))
    number = e.number(value)
    if isinstance(number, bool | int | float):
        return padded(e, e.node(x), x.type.dims, low, high, interior, number)
    if x.type.dtype.startswith("c"):
        raise e.unsupported(op, "padding with a complex number")
    ones = e.call("ones_like.default", e.node(x), dtype=dtype_of("i1"))
    inside = padded(e, ones, x.type.dims, low, high, interior, False)
    return e.call("where.self", inside, padded(e, e.node(x), x.type.dims, low, high, interior, 0), e.node(value))


def padded(
    e: Emitter,
    node: Any,
    dims: Sequence[Dim],
    low: Sequence[Dim],
    high: Sequence[Dim],
    interior: Sequence[Dim],
    number: bool | float,
) -> Any:
    """A tensor with a number around and between its elements; negative padding cuts off."""
    for axis, gap in enumerate(interior):
        if gap.const != 0:
            node = spaced(e, node, axis, dims[axis], gap, number)
    flat = [each for axis in reversed(range(len(dims))) for each in (low[axis], high[axis])]
    while flat and flat[-1].const == flat[-2].const == 0:
        flat = flat[:-2]
    return e.call("constant_pad_nd.default", node, e.sizes(flat), number) if flat else node


def spaced(e: Emitter, node: Any, axis: int, size: Dim, gap: Dim, number: bool | float) -> Any:
    """An axis with so many times a number between its elements: behind each, and those behind the last cut off."""
    wide = e.call("transpose.int", e.call("unsqueeze.default", node, axis + 1), axis + 1, -1)
    wide = e.call("constant_pad_nd.default", wide, [0, e.size(gap)], number)
    flat = e.call("flatten.using_ints", e.call("transpose.int", wide, axis + 1, -1), axis, axis + 1)
    return e.call("slice.Tensor", flat, axis, 0, e.size(maximum(size * (gap + 1) - gap, const(0))))


# -- numbers ---------------------------------------------------------------------------------------------------------


@emits("constant")
def constant(e: Emitter, op: Op) -> Any:
    """A tensor of the module; a large one of one number is made where it is read."""
    array = op.attrs["value"]
    if array.nbytes > _FEW_BYTES and is_splat(array):
        number = array.reshape(-1)[0].item()
        return e.call("full.default", list(array.shape), number, dtype=dtype_of(op.result.type.dtype))
    return e.constant(array, op.location.name or "constant")


@emits("iota")
def iota(e: Emitter, op: Op) -> Any:
    """arange, spread over the other axes."""
    shape, axis = op.attrs["shape"], op.attrs["dim"]
    node = placed(e, e.line(shape[axis], op.attrs["dtype"]), (axis,), (shape[axis],), len(shape))
    if len(shape) == 1:
        return node
    return e.call("expand.default", node, [-1 if place == axis else e.size(size) for place, size in enumerate(shape)])


@emits("dims")
def dims(e: Emitter, op: Op) -> Any:
    """Sizes as a tensor."""
    return _numbers(e, op.attrs["elements"], op.attrs["shape"], op.attrs["dtype"])


@emits("get_dimension_size")
def dimension_size(e: Emitter, op: Op) -> Any:
    """A size as a scalar."""
    return _numbers(e, [op.operands[0].type.dims[op.attrs["dim"]]], (), "i32")


def _numbers(e: Emitter, sizes: Sequence[Dim], shape: Sequence[int], dtype: str) -> Any:
    known = [size.const for size in sizes]
    if None not in known:
        return e.constant(np.array(known, numpy_dtype(dtype)).reshape(tuple(shape)), "sizes")
    parts = [e.call("scalar_tensor.default", e.size(size), dtype=dtype_of(dtype)) for size in sizes]
    if not shape:
        return parts[0]
    flat = e.call("stack.default", parts)
    return flat if len(shape) == 1 else e.call("reshape.default", flat, list(shape))
