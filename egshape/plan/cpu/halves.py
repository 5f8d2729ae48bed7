"""Products of bf16 and f16: dot_general whose sums are f32, rounded once where the result is narrower.

bf16 is multiplied by pairs (``loops.Product``): a row of the left operand, or a column of the right one, is two numbers
side by side after the other, a 0 behind an odd depth. f16 is widened first, and the product is one of f32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.contraction import Operands, packed_product, summed
from egshape.plan.cpu.packing import Right, constant_matrices, joined, packed, packs
from egshape.plan.form.dots import converted, dot
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, loops, matrix, operand, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Const, Expr, Matrix, Stmt, Store, Var, linear
from egshape.plan.ir.packs import PAIR, pack_columns, pack_step

HALVES = ("bf16", "f16")
_SUMS = "f32"
FEW = 8
"""Up to here rows are multiplied where they lie: making pairs, or widening, would cost more than it saves."""


def is_product(op: Op) -> bool:
    """Whether an op is a product of 16-bit floats with sums of f32."""
    kinds = {x.type.dtype for x in op.operands}
    return op.name == "dot_general" and len(kinds) == 1 and kinds <= {*HALVES} and op.attrs["dtype"] in (*kinds, _SUMS)


def emit(p: Steps, cluster: Cluster) -> None:
    """Add the kernels of a product of 16-bit floats and its epilogue."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    k, m, n = (total(size for _, size in axes) for axes in (d.deep, d.rows, d.columns))
    left, right = _Operand(p, op, d, 0), _Operand(p, op, d, 1)
    turned = n is ONE or (m is not ONE and left.constant and not right.constant)
    if turned:
        left, right, m, n = right, left, n, m

    def held(value: Var, at: Indices) -> Expr:
        return converted(op.attrs["dtype"], value)

    if not right.constant and m is ONE and right.along:
        one, two = left.place(), right.place()
        summed(p, cluster, d, Operands(left.free, right.free, m, n, k, one, turned), two, _SUMS, held)
    elif not right.constant and m.const is not None and m.const <= FEW:
        dot(p, op)
        p.buffer(cluster.result)
    elif left.dtype == "bf16":
        place, panel = left.pairs(k), replace(right.packs(k, n), few=m, elements="bf16")
        packed_product(p, cluster, d, Operands(left.free, right.free, m, n, k, place, turned), panel, held)
    else:
        place, wide = left.widened(), right.widened()
        panel = packed(p, _SUMS, Matrix(wide.buffer, wide.offset, wide.column, wide.row), d.batch, m, n, k)
        packed_product(p, cluster, d, Operands(left.free, right.free, m, n, k, place, turned), panel, held)


@dataclass(frozen=True, eq=False)
class _Operand:
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

    # -- f16 ----------------------------------------------------------------------------------------------------------

    def widened(self) -> Matrix:
        """The operand in f32: a constant now, else by a kernel."""
        found = self.matrix()
        if found is not None and found.buffer.data is not None:
            key = ("wide", found.buffer)
            if key not in self.p.packed:
                data = found.buffer.data.astype(np.float32)
                self.p.packed[key] = Buffer(f"{found.buffer.name}.f32", _SUMS, found.buffer.size, "const", data)
            return replace(found, buffer=self.p.packed[key])
        turned = found is not None and found.row is ONE  # what lies along memory stays so
        inner, outer = (self.free, self.d.deep) if turned else (self.d.deep, self.free)
        long, area = (total(size for _, size in axes) for axes in (inner, [*inner, *outer]))
        axes = [*self.d.batch, *outer, *inner]
        target = self.p.scratch("wide", _SUMS, total(size for _, size in axes))
        self.p.start()
        body = loops(axes, [Store(target, _flat(axes), converted(_SUMS, self.read()))])
        self.p.run("widen", body, (target,), once=True)
        row, column = (ONE, long) if turned else (long, ONE)
        return Matrix(target, _flat(self.d.batch) * area, row, column)

    # -- bf16 ---------------------------------------------------------------------------------------------------------

    def pairs(self, k: Dim) -> Matrix:
        """The operand as a matrix of pairs, where it lies if that will do."""
        found, depth = self.matrix(), ceildiv(k, const(PAIR))
        rows = total(size for _, size in self.free)
        if found is not None and found.column is ONE and (k % PAIR).const == 0:
            row = const(0) if rows is ONE else found.row
            if (row % PAIR).const == 0:
                return Matrix(found.buffer, found.offset, row // PAIR, ONE)
        target = self.p.scratch("pairs", self.dtype, total(size for _, size in self.places) * depth * PAIR)
        start, rest = _flat(self.places) * depth * PAIR, symbol(self.p.name("i"))
        self.p.start()
        body = [
            *loops(self.d.deep, [Store(target, start + _flat(self.d.deep), self.read())]),
            *loops([(rest, depth * PAIR - k)], [Store(target, start + k + rest, Const(self.dtype, 0.0))]),
        ]
        self.p.run("pairs", loops(self.places, body), (target,), once=True)
        return Matrix(target, _flat(self.d.batch) * rows * depth * PAIR, depth, ONE)

    def packs(self, k: Dim, n: Dim) -> Right:
        """The operand as panels of pairs, made now if it is constant."""
        step, depth = const(pack_step(_SUMS)), ceildiv(k, const(PAIR))
        area = depth * (ceildiv(n, step) * step)
        data = self._constant(k, n)
        if data is not None:
            return Right(_SUMS, depth, n, n, Matrix(data, ZERO, ZERO, ZERO), data, _flat(self.d.batch) * area)
        target = self.p.scratch("panels", self.dtype, total(size for _, size in self.d.batch) * area * PAIR)
        wide, at = Matrix(target, ZERO, ZERO, ZERO), _flat(self.d.batch) * area * PAIR
        right = Right(_SUMS, depth, n, n, wide, target, at, "bf16", PAIR)
        self.p.start()
        self.p.run("pack", loops(self.d.batch, self._packing(right, k, depth)), (target,))
        return right

    def _packing(self, right: Right, k: Dim, depth: Dim) -> tuple[Stmt, ...]:
        """Statements that store the panels of one place of the batch, zeros behind the depth."""
        panel, j, deep, odd = right.columns(self.p), *(symbol(self.p.name("i")) for _ in range(3))
        start, some, step = panel * pack_columns(_SUMS), right.some(panel), const(pack_step(_SUMS))
        width = ceildiv(some, step) * step
        base = right.offset + start * depth * PAIR

        def stored(row: Dim, half: int, element: Expr | None = None) -> Store:
            at = base + (row // PAIR * width + j) * PAIR + half
            return Store(right.buffer, at, self._at(row + half, start + j) if element is None else element)

        last = k - 1
        whole = loops([(deep, k // PAIR), (j, some)], [stored(deep * PAIR, half) for half in range(PAIR)])
        rest = loops([(odd, k % PAIR), (j, some)], [stored(last, 0), stored(last, 1, Const(self.dtype, 0.0))])
        return loops([(panel, right.count)], [*whole, *rest])

    def _at(self, deep: Dim, free: Dim) -> Expr:
        """The element at flat places."""
        env: dict[str, Dim] = {}
        for axes, flat in ((self.d.deep, deep), (self.free, free)):
            for (index, _), place in zip(axes, parts(flat, axes), strict=True):
                env |= dict.fromkeys(index.symbols(), place)
        return self.read(env)

    def _constant(self, k: Dim, n: Dim) -> Buffer | None:
        """The panels of a constant; None if the operand is none."""
        found = self.matrix()
        wide = None if found is None else Matrix(found.buffer, found.offset, found.column, found.row)
        whole = None if wide is None else constant_matrices(wide, self.d.batch, n, k)
        if wide is None or whole is None:
            return None
        sizes = (size for _, size in self.d.batch)
        key = ("pairs", wide.buffer, wide.offset, wide.row, wide.column, k, n, *sizes)
        if key not in self.p.packed:
            flat = joined([packs(paired(each)) for each in whole], np.dtype(np.int32))
            name = f"{wide.buffer.name}.panels.{len(self.p.packed)}"
            self.p.packed[key] = Buffer(name, "i32", const(flat.size), "const", flat)
        return self.p.packed[key]


def _flat(axes: Axes) -> Dim:
    """The number of an element among those of the axes."""
    return linear(tuple(index for index, _ in axes), tuple(size for _, size in axes))


def paired(array: np.ndarray) -> np.ndarray:
    """(k, n) bf16 as (k / 2, n) elements, each of two numbers of a column; a 0 behind an odd depth."""
    k, n = array.shape
    whole = np.zeros((-(-k // PAIR) * PAIR, n), np.uint16)
    whole[:k] = np.ascontiguousarray(array).view(np.uint16)
    return np.ascontiguousarray(whole.reshape(-1, PAIR, n).transpose(0, 2, 1)).reshape(-1).view("<i4").reshape(-1, n)
