"""Operands of products of 16-bit floats, whose elements are pairs of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype
from egshape.plan.analysis.elements import ZERO
from egshape.plan.cpu.packing import Right, constant_matrices, joined, packs
from egshape.plan.form.matrices import ONE, Axes, Dot, loops, matrix, operand, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Call, Const, Expr, Matrix, Pack, Stmt, Store, linear
from egshape.plan.ir.packs import PAIR, pack_columns, pack_step

SUMS = "f32"
BITS = "i32"
"""Of a pair, or of an f32."""
KEPT, SHIFT = -65536, 16
"""The bits of an f32 that a bf16 has, and how many it has not."""


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a product; ``number``: 0 is the op's left one."""

    p: Steps
    op: Op
    d: Dot
    number: int

    @property
    def dtype(self) -> str:
        return self.op.operands[self.number].type.dtype

    @property
    def free(self) -> Axes:
        """The rows or columns."""
        return (self.d.rows, self.d.columns)[self.number]

    @property
    def places(self) -> Axes:
        """The batch and the rows or columns."""
        return [*self.d.batch, *self.free]

    def read(self, env: Mapping[str, Dim] | None = None) -> Expr:
        """The element, at other places if such are given."""
        value, indices = self.d.operands[self.number]
        return self.p.read(value, tuple(index.substitute(env or {}) for index in indices))

    def matrix(self) -> Matrix | None:
        """The operand where it lies, as (free, deep)."""
        self.p.start()
        return matrix(self.read(), self.d.batch, self.free, self.d.deep)

    @property
    def constant(self) -> bool:
        """Whether it is a constant where it lies."""
        found = self.matrix()
        return found is not None and found.buffer.data is not None

    @property
    def along(self) -> bool:
        """Whether the depth lies along memory."""
        found = self.matrix()
        return found is not None and found.column is ONE

    def place(self) -> Matrix:
        """The operand where it lies, or copied."""
        return operand(self.p, self.op, self.d, self.number)

    def at(self, deep: Dim, free: Dim) -> Expr:
        """The element at flat places."""
        env: dict[str, Dim] = {}
        for axes, flat in ((self.d.deep, deep), (self.free, free)):
            for (index, _), place in zip(axes, parts(flat, axes), strict=True):
                env |= dict.fromkeys(index.symbols(), place)
        return self.read(env)


def flat(axes: Axes) -> Dim:
    """The number of an element among those of the axes."""
    return linear(tuple(index for index, _ in axes), tuple(size for _, size in axes))


def panels(side: Operand, depth: Dim, n: Dim, data: Buffer | None = None) -> Right:
    """An operand's panels of ``depth`` pairs: ``data``, or room for them."""
    step = const(pack_step(SUMS))
    area = depth * (ceildiv(n, step) * step)
    if data is None:
        data = side.p.scratch("panels", BITS, total(size for _, size in side.d.batch) * area)
    return Right(SUMS, depth, n, n, Matrix(data, ZERO, ZERO, ZERO), data, flat(side.d.batch) * area)


def constant(
    side: Operand, k: Dim, n: Dim, made: Callable[[np.ndarray], np.ndarray], dtype: str = BITS
) -> Buffer | None:
    """The panels of a constant, of which ``made`` makes elements of ``dtype``; None if the operand is none."""
    found, p = side.matrix(), side.p
    wide = None if found is None else Matrix(found.buffer, found.offset, found.column, found.row)
    whole = None if wide is None else constant_matrices(wide, side.d.batch, n, k)
    if wide is None or whole is None:
        return None
    sizes = (size for _, size in side.d.batch)
    key = (made, wide.buffer, wide.offset, wide.row, wide.column, k, n, *sizes)
    if key not in p.packed:
        flat_panels = joined([packs(made(each), SUMS) for each in whole], numpy_dtype(dtype))
        name = f"{wide.buffer.name}.panels.{len(p.packed)}"
        p.packed[key] = Buffer(name, dtype, const(flat_panels.size), "const", flat_panels)
    return p.packed[key]


def packed_along(side: Operand, wide: Matrix, depth: Dim, n: Dim) -> Right:
    """An operand in panels whose pairs lie along memory, as (column, pair)."""
    right = panels(side, depth, n)
    side.p.start()
    panel = right.columns(side.p)
    start = panel * pack_columns(SUMS)
    source = Matrix(wide.buffer, wide.offset + start * wide.row * PAIR, ONE, wide.row)
    body = Pack(SUMS, depth, right.some(panel), source, right.buffer, right.offset + start * depth)
    nest: Axes = [*side.d.batch, (panel, right.count)]
    side.p.run("pack", loops(nest, [body]), (right.buffer,), once=True)
    return right


def packed_pairs(
    side: Operand, k: Dim, n: Dim, room: Dim, count: int, split: Callable[[Expr], tuple[list[Stmt], list[Expr]]]
) -> Right:
    """An operand in panels of ``room`` pairs of each of ``count`` parts, zeros behind the depth. ``split``: the parts
    of an element, as f32 that bf16 have all bits of, and the statements before them."""
    right = panels(side, room * count, n)
    side.p.start()
    panel, j, deep, odd, rest = right.columns(side.p), *(symbol(side.p.name("i")) for _ in range(4))
    start, some, step = panel * pack_columns(SUMS), right.some(panel), const(pack_step(SUMS))
    width = ceildiv(some, step) * step
    base = right.offset + start * right.k

    def stored(pair: Dim, words: list[Expr]) -> list[Stmt]:
        return [
            Store(right.buffer, base + (pair + room * number) * width + j, word) for number, word in enumerate(words)
        ]

    def pair(number: Dim, each: int) -> list[Stmt]:
        lets, words = list[Stmt](), list[Expr]()
        for half in range(each):
            more, found = split(side.at(number * PAIR + half, start + j))
            lets += more
            words = (
                [Call(BITS, "or", (low, kept(part))) for low, part in zip(words, found, strict=True)]
                if half
                else [high(part) for part in found]
            )
        return [*lets, *stored(number, words)]

    whole = loops([(deep, k // PAIR), (j, some)], pair(deep, PAIR))
    last = loops([(odd, k % PAIR), (j, some)], pair(k // PAIR, 1))
    pairs = ceildiv(k, const(PAIR))
    empty = loops([(rest, room - pairs), (j, some)], stored(pairs + rest, [Const(BITS, 0)] * count))
    body = loops([(panel, right.count)], [*whole, *last, *(empty if room != pairs else ())])
    side.p.run("pack", loops(side.d.batch, body), (right.buffer,))
    return right


def bits(number: Expr) -> Expr:
    """Those of an f32."""
    return Call(BITS, "bitcast_convert", (number,))


def kept(number: Expr) -> Expr:
    """The bits of an f32 that a bf16 has, where they are."""
    return Call(BITS, "and", (bits(number), Const(BITS, KEPT)))


def high(number: Expr) -> Expr:
    """The same as the lower half."""
    return Call(BITS, "shift_right_logical", (bits(number), Const(BITS, SHIFT)))
