"""Ops that move elements, or make them of indices: how an element of their results is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from egshape.dims import Dim, const, minimum, symbol
from egshape.ir.graph import Op, Value
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import (
    ZERO,
    Indices,
    reshape_groups,
    reshape_is_affine,
    scalar_constant,
    unsupported,
)
from egshape.plan.form.reader import Movements, Reader
from egshape.plan.ir.loops import Bind, Call, Choose, Const, Expr, Index, Load, Test, linear


def _broadcast(r: Reader, op: Op, at: Indices) -> Expr:
    x = op.operands[0]
    indices = []
    for axis, target in enumerate(op.attrs["dims"]):
        size, whole = x.type.dims[axis], op.result.type.dims[target]
        if r.known.is_one(size):
            indices.append(ZERO)
        elif size.const is not None or r.known.equal(size, whole):
            indices.append(at[target])
        else:
            indices.append(at[target] * minimum(size - 1, 1))
    return r.read(x, tuple(indices))


def _reshape(r: Reader, op: Op, at: Indices) -> Expr:
    x = op.operands[0]
    if not reshape_is_affine(x.type.dims, op.result.type.dims):
        assert r.regroup is not None, f"{op.result}: axes that do not stay apart are read in a buffer"
        found = r.read_flat(x, linear(at, op.result.type.dims))
        return found if found is not None else r.read(x, r.regroup.indices(op, at))
    groups = reshape_groups(x.type.dims, op.result.type.dims) or []
    indices = [ZERO] * x.type.rank
    for left, right in groups:
        flat = linear(tuple(at[axis] for axis in right), tuple(op.result.type.dims[axis] for axis in right))
        indices[left[0]] = flat
    return r.read(x, tuple(indices))


def _transpose(r: Reader, op: Op, at: Indices) -> Expr:
    indices = [ZERO] * len(at)
    for target, axis in enumerate(op.attrs["permutation"]):
        indices[axis] = at[target]
    return r.read(op.operands[0], tuple(indices))


def _slice(r: Reader, op: Op, at: Indices) -> Expr:
    return r.read(
        op.operands[0],
        tuple(
            start + index * stride
            for start, index, stride in zip(op.attrs["starts"], at, op.attrs["strides"], strict=True)
        ),
    )


def _reverse(r: Reader, op: Op, at: Indices) -> Expr:
    x = op.operands[0]
    return r.read(
        x, tuple(x.type.dims[axis] - 1 - index if axis in op.attrs["dims"] else index for axis, index in enumerate(at))
    )


def _pad(r: Reader, op: Op, at: Indices) -> Expr:
    x, value = op.operands[:2]
    tests: list[Dim] = []
    indices = []
    for axis, index in enumerate(at):
        low, high, gap = (op.attrs[key][axis] for key in ("low", "high", "interior"))
        position = index - low
        if gap.const != 0:
            whole = position // (gap + 1)
            tests += [whole * (gap + 1) - position]
            position = whole
        if low.const != 0:
            tests.append(position)
        if high.const != 0 or gap.const != 0:
            tests.append(x.type.dims[axis] - 1 - position)
        indices.append(position)
    inside = r.read(x, tuple(indices))
    if not tests:
        return inside
    return Choose(x.type.dtype, Test(tuple(tests)), inside, r.read(value, ()))


def _concatenate(r: Reader, op: Op, at: Indices) -> Expr:
    dim = op.attrs["dim"]
    ends = list(accumulate(x.type.dims[dim] for x in op.operands))

    def part(k: int) -> Expr:
        begin = ends[k - 1] if k else ZERO
        here = r.read(op.operands[k], (*at[:dim], at[dim] - begin, *at[dim + 1 :]))
        if k == len(ends) - 1:
            return here
        return Choose(here.dtype, Test((ends[k] - 1 - at[dim],)), here, part(k + 1))

    return part(0)


def _constant(r: Reader, op: Op, at: Indices) -> Expr:
    array = op.attrs["value"]
    if array.size:
        raw = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
        # A few elements tell nearly every large array from one whose elements are all the same.
        if (raw[:: len(raw) // 64 + 1] == raw[0]).all() and (raw == raw[0]).all():
            return scalar_constant(array)
    return Load(op.result.type.dtype, r.constant(op), linear(at, op.result.type.dims))


def _iota(r: Reader, op: Op, at: Indices) -> Expr:
    return Index(op.result.type.dtype, at[op.attrs["dim"]])


def _dims(r: Reader, op: Op, at: Indices) -> Expr:
    elements = op.attrs["elements"]
    dtype = op.result.type.dtype
    flat = linear(at, op.result.type.dims)

    def part(k: int) -> Expr:
        here = Index(dtype, elements[k])
        if flat.const is not None:
            return Index(dtype, elements[flat.const])
        return here if k == len(elements) - 1 else Choose(dtype, Test((const(k) - flat,)), here, part(k + 1))

    return part(0) if elements else Const(dtype, 0)


def _size(r: Reader, op: Op, at: Indices) -> Expr:
    return Index("i32", op.operands[0].type.dims[op.attrs["dim"]])


def _same(r: Reader, op: Op, at: Indices) -> Expr:
    return r.read(op.operands[0], at)


# -- indices from data ------------------------------------------------------------------------------------------------


def bind(r: Reader, value: Expr, upper: Dim, body: Callable[[Dim], Expr]) -> Expr:
    """``body`` of an integer value clamped to [0, upper]."""
    if upper.const == 0:
        return body(ZERO)
    name = r.name("g")
    inner = body(symbol(name))
    return Bind(inner.dtype, name, value, upper, inner)


def bind_all(r: Reader, values: Sequence[tuple[Expr, Dim]], body: Callable[[Indices], Expr]) -> Expr:
    """``body`` of several clamped values."""

    def step(k: int, found: Indices) -> Expr:
        if k == len(values):
            return body(found)
        value, upper = values[k]
        return bind(r, value, upper, lambda index: step(k + 1, (*found, index)))

    return step(0, ())


def _dynamic_slice(r: Reader, op: Op, at: Indices) -> Expr:
    x, *starts = op.operands
    limits = [
        (r.read(start, ()), size - taken)
        for start, size, taken in zip(starts, x.type.dims, op.attrs["sizes"], strict=True)
    ]
    return bind_all(r, limits, lambda found: r.read(x, tuple(a + b for a, b in zip(found, at, strict=True))))


def _dynamic_update_slice(r: Reader, op: Op, at: Indices) -> Expr:
    x, update, *starts = op.operands
    limits = [
        (r.read(start, ()), size - taken)
        for start, size, taken in zip(starts, x.type.dims, update.type.dims, strict=True)
    ]

    def body(found: Indices) -> Expr:
        inside = tuple(index - first for index, first in zip(at, found, strict=True))
        tests: list[Dim] = []
        for axis, index in enumerate(inside):
            if found[axis] is not ZERO:
                tests.append(index)
            if update.type.dims[axis] is not x.type.dims[axis]:
                tests.append(update.type.dims[axis] - 1 - index)
        new = r.read(update, inside)
        return Choose(new.dtype, Test(tuple(tests)), new, r.read(x, at)) if tests else new

    return bind_all(r, limits, body)


def index_vector(r: Reader, op: Op, indices: Value, batch: Indices, k: int) -> Expr:
    """Entry k of the index vector at a batch position."""
    dim = op.attrs["index_vector_dim"]
    return r.read(indices, batch if dim == indices.type.rank else (*batch[:dim], const(k), *batch[dim:]))


def _gather(r: Reader, op: Op, at: Indices) -> Expr:
    x, indices = op.operands[:2]
    a = op.attrs
    dropped = (*a["collapsed"], *a["operand_batch"])
    batch = tuple(index for axis, index in enumerate(at) if axis not in a["offset_dims"])
    offsets = iter([at[axis] for axis in a["offset_dims"]])
    inside = [ZERO if axis in dropped else next(offsets) for axis in range(x.type.rank)]
    for left, right in zip(a["operand_batch"], a["indices_batch"], strict=True):
        inside[left] = batch[right - (right > a["index_vector_dim"])]
    axes = a["start_index_map"]
    limits = [
        (index_vector(r, op, indices, batch, k), x.type.dims[axis] - a["sizes"][axis]) for k, axis in enumerate(axes)
    ]

    def body(found: Indices) -> Expr:
        full = list(inside)
        for axis, index in zip(axes, found, strict=True):
            full[axis] = full[axis] + index
        return r.read(x, tuple(full))

    return bind_all(r, limits, body)


def _bitcast(r: Reader, op: Op, at: Indices) -> Expr:
    """An element of another width: a part of one, the lowest bits first, or several, which the last axis counts."""
    x, target = op.operands[0], op.result.type.dtype
    wide, narrow = sorted((8 * itemsize(x.type.dtype), 8 * itemsize(target)), reverse=True)
    if "i1" in (x.type.dtype, target):
        raise unsupported(op, "changes the width of i1")
    whole, part = f"ui{wide}", f"ui{narrow}"

    def converted(dtype: str, expr: Expr) -> Expr:
        return Call(dtype, "convert", (expr,), (("dtype", dtype),))

    if narrow == 8 * itemsize(target):
        bits = Call(whole, "bitcast_convert", (r.read(x, at[:-1]),))
        moved = Call(whole, "shift_right_logical", (bits, Index(whole, at[-1] * narrow)))
        return Call(target, "bitcast_convert", (converted(part, moved),))
    total: Expr = Const(whole, 0)
    for k in range(wide // narrow):
        bits = Call(part, "bitcast_convert", (r.read(x, (*at, const(k))),))
        moved = Call(whole, "shift_left", (converted(whole, bits), Const(whole, k * narrow)))
        total = Call(whole, "or", (total, moved))
    return Call(target, "bitcast_convert", (total,))


READERS: Movements = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "pad": _pad,
    "concatenate": _concatenate,
    "constant": _constant,
    "iota": _iota,
    "dims": _dims,
    "get_dimension_size": _size,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "bitcast_convert": _bitcast,
    "optimization_barrier": _same,
}
