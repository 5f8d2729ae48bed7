"""Matrices in memory: the axes of a product in groups, and operands as (free, deep) with two strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from egshape.dims import Dim, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Expr,
    Load,
    Loop,
    Matrix,
    Stmt,
    Store,
    linear,
    name_of,
)

Axes = list[tuple[Dim, Dim]]
"""Index and size of each axis of a group."""
ONE = const(1)


@dataclass(frozen=True, eq=False)
class Dot:
    """The axes of a dot_general: an index and a size each, and the indices of its operands."""

    batch: Axes
    rows: Axes
    columns: Axes
    deep: Axes
    operands: tuple[tuple[Value, Indices], tuple[Value, Indices]]

    def at(self, rows: Indices, columns: Indices) -> Indices:
        """The indices of an element of the result."""
        return tuple(index for index, _ in self.batch) + rows + columns


def axes_of(p: Steps, op: Op, batch: Axes | None = None) -> Dot:
    """The axes of a dot_general with new indices, those of the batch given if there are any."""
    a, (left, right) = op.attrs, op.operands
    at: dict[tuple[int, int], Dim] = {}
    """Index of an axis of a side; both sides may be one value."""

    def axes(side: int, chosen: Sequence[int], share: Sequence[Dim] | None = None) -> Axes:
        value, out = op.operands[side], []
        for k, axis in enumerate(chosen):
            size = value.type.dims[axis]
            index = share[k] if share else ZERO if size.const == 1 else symbol(p.name("i"))
            at[side, axis] = index
            out.append((index, size))
        return out

    batch = axes(0, a["lhs_batch"], None if batch is None else [index for index, _ in batch])
    axes(1, a["rhs_batch"], [index for index, _ in batch])
    deep = axes(0, a["lhs_contract"])
    axes(1, a["rhs_contract"], [index for index, _ in deep])
    rows = axes(0, [i for i in range(left.type.rank) if i not in (*a["lhs_batch"], *a["lhs_contract"])])
    columns = axes(1, [i for i in range(right.type.rank) if i not in (*a["rhs_batch"], *a["rhs_contract"])])
    one, two = [
        (value, tuple(at[side, axis] for axis in range(value.type.rank))) for side, value in enumerate((left, right))
    ]
    return Dot(batch, rows, columns, deep, (one, two))


def parts(index: Dim, axes: Axes) -> Indices:
    """The indices of a group of axes at a flat index of the group; they add up to it by their form."""
    found: list[Dim] = []
    for axis, size in reversed(axes):
        if axis is ZERO:
            found.append(ZERO)
        elif any(other is not ZERO for other, _ in axes[: len(axes) - len(found) - 1]):
            found.append(index - index // size * size)
            index = index // size
        else:
            found.append(index)
    return tuple(reversed(found))


def operand(p: Steps, op: Op, d: Dot, side: int) -> Matrix:
    """An operand as a matrix (free, deep): where it lies, else in a buffer of its own, else copied."""
    value, indices = d.operands[side]
    free = (d.rows, d.columns)[side]
    p.start()
    found = matrix(p.read(value, indices), d.batch, free, d.deep)
    if found is None:
        p.places.setdefault(p.resolved(value), p.buffer(value))
        p.start()
        found = matrix(p.read(value, indices), d.batch, free, d.deep)
    return copied(p, d, side) if found is None else found


def copied(p: Steps, d: Dot, side: int) -> Matrix:
    """A copy of an operand: batch after batch, the depth along memory."""
    value, indices = d.operands[side]
    free = (d.rows, d.columns)[side]
    p.start()
    axes = [*d.batch, *free, *d.deep]
    at, sizes = tuple(index for index, _ in axes), tuple(size for _, size in axes)
    target = p.scratch(value.name, value.type.dtype, total(sizes))
    p.run("copy", loops(axes, [Store(target, linear(at, sizes), p.read(value, indices))]), (target,))
    deep = total(size for _, size in d.deep)
    batch = linear(at[: len(d.batch)], sizes[: len(d.batch)]) * deep * total(size for _, size in free)
    return Matrix(target, batch, deep, ONE)


def coefficient(flat: Dim, index: Dim) -> tuple[Dim, Dim] | None:
    """(c, rest) with flat = c * index + rest where neither reads the index; None if there are no such."""
    if index is ZERO:
        return ZERO, flat
    name = name_of(index)
    rest = flat.substitute({name: 0})
    factor = flat.substitute({name: 1}) - rest
    if name in factor.symbols() or rest + factor * index is not flat:
        return None
    return factor, rest


def stride(flat: Dim, axes: Axes) -> tuple[Dim, Dim] | None:
    """The stride of a group of axes taken as one, and the rest of the index."""
    strides = []
    for index, size in axes:
        if size.const == 1:
            continue
        found = coefficient(flat, index)
        if found is None:
            return None
        factor, flat = found
        strides.append((factor, size))
    if not strides:
        return ONE, flat
    if any(one is not two * size for (one, _), (two, size) in pairwise(strides)):
        return None
    return strides[-1][0], flat


def matrix(expr: Expr, batch: Axes, free: Axes, deep: Axes) -> Matrix | None:
    """An operand as a matrix (free, deep) at an offset that depends on the batch only."""
    if not isinstance(expr, Load):
        return None
    found = stride(expr.index, free)
    inner = stride(found[1], deep) if found else None
    if found is None or inner is None:
        return None
    allowed = {name for index, _ in batch for name in index.symbols()}
    local = {name for axes in (free, deep) for index, _ in axes for name in index.symbols()} - allowed
    return None if local & inner[1].symbols() else Matrix(expr.buffer, inner[1], found[0], inner[0])


def loops(axes: Iterable[tuple[Dim, Dim]], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    for index, size in reversed(list(axes)):
        if index is not ZERO:
            body = (Loop(next(iter(index.symbols())), size, tuple(body)),)
    return tuple(body)
