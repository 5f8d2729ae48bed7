"""Products of bytes: dot_general of i32 whose operands are i8 or ui8 elements, or these minus zero points.

With a zero point ``za`` of each row and ``zb`` of each column, the sum of (a - za) * (b - zb) over the depth k is
S - za * B - zb * A + k * za * zb, where S is the sum of a * b, B that of b and A that of a: S is computed by quads of
bytes (``loops.Product``), A and B only where the zero point that they go with may not be 0. One side must be i8 and the
other ui8; a byte of the other kind is moved by 128, and its zero point too. All sums wrap, so that the result is that
of the op whatever the numbers are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from egshape.dims import Dim, ceildiv, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Value
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.byte_elements import (
    _MOVE,
    Element,
    called,
    element,
    moved_byte,
    number_of,
    widened,
)
from egshape.plan.cpu.contraction import Operands, packed_product
from egshape.plan.cpu.packing import Right, constant_matrices, joined, packs
from egshape.plan.form.dots import dot
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, loops, matrix, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Buffer, Const, Expr, Index, Let, Load, Local, Matrix, Stmt, Store, Var, linear
from egshape.plan.ir.packs import QUAD, pack_columns, pack_step

# -- the kernels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Operand:
    """An operand on one side of the product. ``dtype``: of the bytes that are multiplied; ``free``: its rows or
    columns."""

    p: Steps
    d: Dot
    value: Value
    indices: Indices
    free: Axes
    dtype: str

    def element(self, free: Indices | None = None) -> Element:
        """The element as it is multiplied, at other rows or columns if such are given."""
        env = (
            {}
            if free is None
            else {name: place for (index, _), place in zip(self.free, free, strict=True) for name in index.symbols()}
        )
        expr = self.p.read(self.value, tuple(index.substitute(env) for index in self.indices))
        found = element(self.p, expr, self.d.deep)
        assert found is not None
        return found.moved(self.dtype)

    @property
    def zero(self) -> bool:
        """Whether the zero point is 0."""
        self.p.start()
        found = self.element().zero
        return found is None or number_of(found) == 0

    @property
    def places(self) -> Axes:
        """The batch and the rows or columns."""
        return [*self.d.batch, *self.free]

    def place(self, free: Indices | None = None) -> Dim:
        """The number of a row or column among all of the batch."""
        at = tuple(index for index, _ in self.free) if free is None else free
        return linear((*(index for index, _ in self.d.batch), *at), tuple(size for _, size in self.places))


def emit(p: Steps, cluster: Cluster) -> None:
    """Add the kernels of a product of bytes and its epilogue."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    p.start()
    found = [element(p, p.read(*side), d.deep) for side in d.operands]
    bytes_ = [each.byte for each in found if each is not None]
    if len(bytes_) < 2:  # an operand got a buffer of i32 in the meantime
        dot(p, op)
        p.buffer(cluster.result)
        return
    turned = _is_constant(bytes_[0]) and not _is_constant(bytes_[1])
    order = (1, 0) if turned else (0, 1)
    one, two = (bytes_[k].dtype for k in order)
    elements, kinds = ("s8u8", ("i8", "ui8")) if (one, two) == ("i8", "ui8") else ("u8s8", ("ui8", "i8"))
    free = (d.rows, d.columns)
    left, right = (_Operand(p, d, *d.operands[k], free[k], kind) for k, kind in zip(order, kinds, strict=True))
    k, m, n = (total(size for _, size in axes) for axes in (d.deep, left.free, right.free))
    place, row_sums = _left(left, k, sums=not right.zero)
    panel, column_sums = _right(right, k, n, sums=not left.zero)

    def held(value: Var, at: Indices) -> Expr:
        batch = len(d.batch)
        split = batch + len(d.rows)
        rows, columns = (at[split:], at[batch:split]) if turned else (at[batch:split], at[split:])
        return _corrected(left, right, k, value, rows, columns, row_sums, column_sums)

    packed_product(
        p,
        cluster,
        d,
        Operands(left.free, right.free, m, n, k, place, turned),
        replace(panel, few=m, elements=elements),
        held,
    )


def _is_constant(byte: Expr) -> bool:
    return isinstance(byte, Const) or (isinstance(byte, Load) and byte.buffer.data is not None)


def _corrected(
    left: _Operand,
    right: _Operand,
    k: Dim,
    value: Expr,
    rows: Indices,
    columns: Indices,
    row_sums: Buffer | None,
    column_sums: Buffer | None,
) -> Expr:
    """The element of the result: the sum of products of bytes without what the zero points add."""
    za, zb = left.element(rows).zero, right.element(columns).zero
    if column_sums is not None and za is not None:
        sums = Load("i32", column_sums, right.place(columns))
        value = called("subtract", value, called("multiply", za, sums))
    if row_sums is not None and zb is not None:
        rest: Expr = Load("i32", row_sums, left.place(rows))
        if column_sums is not None and za is not None:
            rest = called("subtract", rest, called("multiply", za, Index("i32", k)))
        value = called("subtract", value, called("multiply", zb, rest))
    return value


def _left(side: _Operand, k: Dim, sums: bool) -> tuple[Matrix, Buffer | None]:
    """The left operand as a matrix of quads, where it lies if that will do; and the sums of its rows."""
    p, d = side.p, side.d
    p.start()
    byte = side.element().byte
    m = total(size for _, size in side.free)
    found = matrix(byte, d.batch, side.free, d.deep)
    row = ZERO if m is ONE or found is None else found.row
    quads = all((each % QUAD).const == 0 for each in (k, row))
    plain = found if found is not None and quads and found.column is ONE else None
    depth = ceildiv(k, const(QUAD))
    count = total(size for _, size in side.places)
    target = None if plain is not None else p.scratch("bytes", side.dtype, count * depth * QUAD)
    totals = p.scratch("sums", "i32", count) if sums else None
    if target is not None or totals is not None:
        p.run(
            "bytes",
            loops(side.places, _row(side, byte, target, totals, depth * QUAD)),
            tuple(each for each in (target, totals) if each is not None),
            once=True,
        )
    if plain is not None:
        return Matrix(plain.buffer, plain.offset, row // QUAD, ONE), totals
    assert target is not None
    offset = linear(tuple(index for index, _ in d.batch), tuple(size for _, size in d.batch)) * m * depth * QUAD
    return Matrix(target, offset, depth, ONE), totals


def _row(side: _Operand, byte: Expr, target: Buffer | None, totals: Buffer | None, room: Dim) -> list[Stmt]:
    """Statements that copy a row of bytes to ``room`` bytes and add it up."""
    p, deep = side.p, side.d.deep
    inside = linear(tuple(index for index, _ in deep), tuple(size for _, size in deep))
    name, held = p.name("v"), Var(byte.dtype, p.name("v"))
    total_of = Var("i32", name)
    inner: list[Stmt] = [Let(held.name, byte)]
    if target is not None:
        inner.append(Store(target, side.place() * room + inside, held))
    if totals is None:
        return [*loops(deep, inner)]
    inner.append(Assign(name, called("add", total_of, widened(held))))
    return [Local(name, Const("i32", 0)), *loops(deep, inner), Store(totals, side.place(), total_of)]


def _right(side: _Operand, k: Dim, n: Dim, sums: bool) -> tuple[Right, Buffer | None]:
    """The right operand as panels of quads, made now if it is constant; and the sums of its columns."""
    p, d = side.p, side.d
    step, depth = const(pack_step("i32")), ceildiv(k, const(QUAD))
    area = depth * (ceildiv(n, step) * step)
    batch = linear(tuple(index for index, _ in d.batch), tuple(size for _, size in d.batch))
    made = _constant_right(side, k, n, sums)
    if made is not None:
        wide = Matrix(made[0], ZERO, ZERO, ZERO)
        return Right("i32", depth, n, n, wide, made[0], batch * area), made[1]
    count = total(size for _, size in d.batch)
    target = p.scratch("panels", side.dtype, count * area * QUAD)
    right = Right("i32", depth, n, n, Matrix(target, ZERO, ZERO, ZERO), target, batch * area * QUAD, "u8s8", QUAD)
    p.run("pack", loops(d.batch, _packing(side, right, k, depth)), (target,))
    return right, _column_sums(side) if sums else None


def _packing(side: _Operand, right: Right, k: Dim, depth: Dim) -> list[Stmt]:
    """Statements that store the panels of one place of the batch, zeros behind the depth."""
    p, d = side.p, side.d
    panel, j, deep, rest = right.columns(p), symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
    start = panel * pack_columns("i32")
    some, step = right.some(panel), const(pack_step("i32"))
    width = ceildiv(some, step) * step
    free = parts(start + j, side.free)
    env = {
        name: place for (index, _), place in zip(d.deep, parts(deep, d.deep), strict=True) for name in index.symbols()
    }
    env |= {name: place for (index, _), place in zip(side.free, free, strict=True) for name in index.symbols()}
    byte = element(p, p.read(side.value, tuple(index.substitute(env) for index in side.indices)), d.deep)
    assert byte is not None
    found = byte.byte if byte.byte.dtype == side.dtype else moved_byte(byte.byte, side.dtype)
    base = right.offset + start * depth * QUAD

    def place(row: Dim) -> Dim:
        return base + (row // QUAD * width + j) * QUAD + row % QUAD

    copy = loops([(deep, k), (j, some)], [Store(right.buffer, place(deep), found)])
    zero = loops([(rest, depth * QUAD - k), (j, some)], [Store(right.buffer, place(k + rest), Const(side.dtype, 0))])
    return [*loops([(panel, right.count)], [*copy, *zero])]


def _column_sums(side: _Operand) -> Buffer:
    """The sums of the columns, in a buffer."""
    p, d = side.p, side.d
    p.start()
    target = p.scratch("sums", "i32", total(size for _, size in side.places))
    at = side.place()
    more = Store(target, at, called("add", Load("i32", target, at), widened(side.element().byte)))
    p.run(
        "sums",
        loops(
            d.batch, [*loops(side.free, [Store(target, at, Const("i32", 0))]), *loops(d.deep, loops(side.free, [more]))]
        ),
        (target,),
    )
    return target


def _constant_right(side: _Operand, k: Dim, n: Dim, sums: bool) -> tuple[Buffer, Buffer | None] | None:
    """The panels of a constant and the sums of its columns; None if the operand is none."""
    p, d = side.p, side.d
    found = element(p, p.read(side.value, side.indices), d.deep)
    assert found is not None
    byte = found.byte
    if isinstance(byte, Const):
        single = Buffer("one", byte.dtype, ONE, "const", np.asarray([byte.value], np.dtype(_NUMPY[byte.dtype])))
        wide: Matrix | None = Matrix(single, ZERO, ZERO, ZERO)
    else:
        wide = matrix(byte, d.batch, side.free, d.deep)
    wide = None if wide is None else Matrix(wide.buffer, wide.offset, wide.column, wide.row)
    whole = None if wide is None else constant_matrices(wide, d.batch, n, k)
    if wide is None or whole is None:
        return None
    key = ("quads", wide.buffer, wide.offset, wide.row, wide.column, k, n, side.dtype, *(size for _, size in d.batch))
    if key not in p.packed:
        moved = [_as(each, side.dtype) for each in whole]
        flat = joined([packs(quads(each)) for each in moved], np.dtype(np.int32))
        added = np.concatenate([np.zeros(0, np.int32), *(each.sum(0, dtype=np.int32) for each in moved)])
        name = f"{wide.buffer.name}.panels.{len(p.packed)}"
        p.packed[key] = Buffer(name, "i32", const(flat.size), "const", flat)
        p.packed["sums", key] = Buffer(f"{name}.sums", "i32", const(added.size), "const", added)
    return p.packed[key], p.packed["sums", key] if sums else None


_NUMPY = {"i8": "int8", "ui8": "uint8"}


def _as(array: np.ndarray, dtype: str) -> np.ndarray:
    """Bytes as those of the other kind, moved by 128, if they are not of this one."""
    target = np.dtype(_NUMPY[dtype])
    return array if array.dtype == target else (array.view(target) ^ target.type(-_MOVE if dtype == "i8" else _MOVE))


def quads(array: np.ndarray) -> np.ndarray:
    """(k, n) bytes as (k / 4, n) elements, each of four bytes of a column; zeros behind the depth."""
    k, n = array.shape
    whole = np.zeros((-(-k // QUAD) * QUAD, n), array.dtype)
    whole[:k] = array
    return np.ascontiguousarray(whole.reshape(-1, QUAD, n).transpose(0, 2, 1)).reshape(-1).view("<i4").reshape(-1, n)
