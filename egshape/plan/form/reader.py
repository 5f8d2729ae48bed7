"""Values as expressions: what an element of a value is, in terms of buffers and indices.

``Reader.read`` pulls an element through producers that have no buffer; movement ops only change the index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from egshape.dims import Dim, const, minimum, symbol
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import is_complex, itemsize
from egshape.plan.analysis.elements import (
    ZERO,
    Indices,
    is_elementwise,
    reshape_groups,
    reshape_is_affine,
    scalar_call,
    scalar_constant,
    unsupported,
)
from egshape.plan.analysis.known import Known
from egshape.plan.form.folding import Arrays
from egshape.plan.ir.loops import Bind, Buffer, Call, Choose, Const, Expr, Index, Load, Test, linear

_FOLDS = frozenset(("add", "multiply", "maximum", "minimum"))


@dataclass(frozen=True)
class Frame:
    """Where a value lies within a larger one of ``sizes``, from ``low`` on along each axis."""

    buffer: Buffer
    sizes: tuple[Dim, ...]
    low: tuple[Dim, ...]

    def place(self, at: Indices) -> Dim:
        """Where an element lies."""
        return linear(tuple(low + index for low, index in zip(self.low, at, strict=True)), self.sizes)


class Regroup(ABC):
    """How the kernel in the making reads through reshapes that merge or regroup axes."""

    @abstractmethod
    def indices(self, op: Op, at: Indices) -> Indices:
        """The indices of a reshape's operand for those of its result."""


class Reader:
    """Reads elements of values. ``places`` holds the values that lie in buffers."""

    def __init__(self, facts: str = "all") -> None:
        self.known = Known(facts)
        self.places: dict[Value, Buffer] = {}
        self.frames: dict[Value, Frame] = {}
        """Values that lie padded."""
        self.producers: dict[Value, Op] = {}
        self.same: dict[Value, Value] = {}
        self.constants: dict[Value, Buffer] = {}
        self.arrays = Arrays(self.producers, self.same)
        self.locals: dict[tuple[Value, Indices], Expr] = {}
        """Elements that the kernel in the making holds in locals."""
        self.memo: dict[tuple[Value, Indices], Expr] = {}
        self.scratch_axes = 1
        """Axes of a row."""
        self.scratch_rows: dict[Value, Buffer] = {}
        """Values of which the kernel in the making holds the current row in a buffer."""
        self.regroup: Regroup | None = None
        self.fresh = 0

    def name(self, kind: str) -> str:
        """A new name for a loop variable (``i``), index (``g``) or local (``v``)."""
        self.fresh += 1
        return f"${kind}{self.fresh}"

    def start(self) -> None:
        """Begin a new kernel."""
        self.memo.clear()
        self.locals.clear()

    def resolved(self, value: Value) -> Value:
        """The value that another name of it stands for."""
        while value in self.same:
            value = self.same[value]
        return value

    def read(self, value: Value, at: Indices) -> Expr:
        """The element of ``value`` at the indices."""
        value = self.resolved(value)
        key = (value, at)
        if key in self.locals:
            return self.locals[key]
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._read(value, at)
        return found

    def _read(self, value: Value, at: Indices) -> Expr:
        buffer = self.places.get(value)
        if buffer is not None:
            return Load(value.type.dtype, buffer, linear(at, value.type.dims))
        if value in self.frames:
            return Load(value.type.dtype, self.frames[value].buffer, self.frames[value].place(at))
        if value in self.scratch_rows:
            first = len(at) - self.scratch_axes
            return Load(value.type.dtype, self.scratch_rows[value], linear(at[first:], value.type.dims[first:]))
        op = self.producers[value]
        if is_elementwise(op):
            return scalar_call(op, tuple(self.read(x, at if x.type.shape else ()) for x in op.operands))
        return READERS[op.name](self, op, at)

    def read_flat(self, value: Value, at: Dim) -> Expr | None:
        """The element at a flat place, where all between it and buffers is elementwise."""
        value = self.resolved(value)
        if not value.type.dims:
            return self.read(value, ())
        if value in self.places:
            return Load(value.type.dtype, self.places[value], at)
        op = self.producers[value]
        if op.name == "broadcast_in_dim" and not op.operands[0].type.dims:
            return self.read(op.operands[0], ())
        if op.name != "reshape" and not is_elementwise(op):
            return None
        args = [self.read_flat(operand, at) for operand in op.operands]
        found = tuple(arg for arg in args if arg is not None)
        if len(found) < len(args):
            return None
        return found[0] if op.name == "reshape" else scalar_call(op, found)

    def constant(self, op: Op) -> Buffer:
        """The buffer of an array constant."""
        if is_complex(op.result.type.dtype):
            raise unsupported(op, "complex constants are not compiled")
        return self.folded(op.result)

    def folded(self, value: Value) -> Buffer:
        """The buffer of a value that hangs on constants only."""
        if value not in self.constants:
            data = np.ascontiguousarray(self.arrays.of(value))
            self.constants[value] = Buffer(value.name, value.type.dtype, const(data.size), "const", data)
        return self.constants[value]

    def scalars(self, op: Op, block: Block, args: Sequence[Expr], fast: bool = False) -> list[Expr]:
        """The results of a region of scalars for the arguments. ``fast``: let a lone float op be reassociated."""
        env: dict[Value, Expr] = dict(zip(block.args, args, strict=True))

        def get(value: Value) -> Expr:
            return env[value] if value in env else self.read(value, ())

        for inner in block.ops:
            if is_elementwise(inner):
                call = scalar_call(inner, tuple(get(x) for x in inner.operands))
                if fast and isinstance(call, Call) and len(block.ops) == 1 and inner.name in _FOLDS:
                    call = Call(call.dtype, call.op, call.args, call.attrs, fast=True)
                env[inner.result] = call
            elif inner.name == "constant" and not inner.attrs["value"].shape:
                env[inner.result] = scalar_constant(inner.attrs["value"])
            elif inner.name in ("broadcast_in_dim", "reshape") and inner.result.type.shape == ():
                env[inner.result] = get(inner.operands[0])
            else:
                raise unsupported(op, f"has a region with {inner.name}, only scalar arithmetic is compiled there")
        return [get(value) for value in block.results]


# -- movement ---------------------------------------------------------------------------------------------------------


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
    if r.regroup is not None and not reshape_is_affine(x.type.dims, op.result.type.dims):
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


READERS: dict[str, Callable[[Reader, Op, Indices], Expr]] = {
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
"""Ops that need no loop of their own: how an element of the (first) result is read."""
