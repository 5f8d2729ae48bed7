"""Operands of products of 16-bit floats, whose elements are pairs of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO
from egshape.plan.cpu.packing import Right
from egshape.plan.form.matrices import ONE, Axes, Dot, loops, matrix, operand, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Expr, Matrix, Pack, linear
from egshape.plan.ir.packs import PAIR, pack_columns, pack_step

SUMS = "f32"
_PAIRS = "i32"


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


def panels(side: Operand, depth: Dim, n: Dim) -> Right:
    """Room for an operand's panels of ``depth`` pairs."""
    step = const(pack_step(SUMS))
    area = depth * (ceildiv(n, step) * step)
    target = side.p.scratch("panels", _PAIRS, total(size for _, size in side.d.batch) * area)
    return Right(SUMS, depth, n, n, Matrix(target, ZERO, ZERO, ZERO), target, flat(side.d.batch) * area)


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
