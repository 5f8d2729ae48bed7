"""dot_general as panels of packed products with an epilogue, or as loops; and convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from egshape.dims import Dim, ceildiv, const, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.form.dots import converted, zero
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, loops, operand, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Call, Expr, If, Load, Local, Matrix, Stmt, Store, Test, Var
from egshape.plan.ir.packs import GROUPS, ROW_GROUP, TILE_ROW_GROUP

FEW_PACKS = 4
Held: TypeAlias = Callable[[Var, Indices], Expr]
"""The element of a product, of the sum and the element's indices."""


# -- dot --------------------------------------------------------------------------------------------------------------


def is_product(op: Op) -> bool:
    """Whether an op is a product of f32 or f64 matrices."""
    dtype = op.attrs.get("dtype")
    return op.name == "dot_general" and dtype in ("f32", "f64") and all(x.type.dtype == dtype for x in op.operands)


def product(p: Steps, cluster: Cluster) -> None:
    """A product with its epilogue: panels of columns, all rows of one together; or one sum after the other."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    left = operand(p, op, d, 0)
    right = operand(p, op, d, 1)
    rows, columns = d.rows, d.columns
    k, m, n = (total(size for _, size in axes) for axes in (d.deep, rows, columns))
    turned = n is ONE or (m is not ONE and left.buffer.kind == "const" != right.buffer.kind)
    if turned:
        left, right, rows, columns, m, n = right, left, columns, rows, n, m
    dtype = op.attrs["dtype"]
    along = left.column is ONE
    sums = m is ONE and not along and right.column is ONE and right.buffer.kind != "const"
    wide = Matrix(right.buffer, right.offset, right.column, right.row)
    side = None if sums else packed(p, dtype, wide, d.batch, m, n, k, along=along)
    sides = Operands(rows, columns, m, n, k, left, turned)
    if side is not None:
        packed_product(p, cluster, d, sides, side)
    else:
        summed(p, cluster, d, sides, right, dtype)


@dataclass(frozen=True, eq=False)
class Operands:
    """Rows, columns and depth of a product as it is computed: ``turned`` if its columns are the op's rows."""

    rows: Axes
    columns: Axes
    m: Dim
    n: Dim
    k: Dim
    left: Matrix
    turned: bool

    def at(self, d: Dot, row: Dim, column: Dim) -> Indices:
        """The indices of an element of the op's result."""
        one, two = parts(row, self.rows), parts(column, self.columns)
        return d.at(two, one) if self.turned else d.at(one, two)


@dataclass(frozen=True, eq=False)
class Few:
    """How up to ``rows`` rows are multiplied, where more are in another way."""

    rows: int
    left: Matrix
    right: Right


def packed_product(
    p: Steps,
    cluster: Cluster,
    d: Dot,
    sides: Operands,
    side: Right,
    held: Held | None = None,
    few: Few | None = None,
) -> None:
    """The kernel of a product and its epilogue: panels of columns, all rows of one, or a group of them, together.
    ``held``: the element of the product, of the sum and the element's indices."""
    p.start()
    out = p.new_buffer(cluster.result)
    m, n, dtype = sides.m, sides.n, side.dtype
    i, j, value = symbol(p.name("i")), symbol(p.name("i")), Var(dtype, p.name("v"))
    panel = side.columns(p)
    rows = _rows_of_group(p, side, m, n)
    group = ZERO if rows is None else symbol(p.name("i"))
    first = group * (rows or 0)
    at = sides.at(d, first + i, panel * side.width + j)
    p.locals[cluster.ops[0].result, at] = value if held is None else held(value, at)
    store = Store(out, cluster.place(at), p.read(cluster.value, at))
    many = m if rows is None else minimum(const(rows), m - first)
    left = sides.left
    place = Matrix(left.buffer, left.offset + first * left.row * GROUPS[side.elements], left.row, left.column)
    body = (*side.widened(p, panel), side.product(panel, many, place, i, j, value.name, store))
    if few is not None:
        other = few.right.product(panel, many, few.left, i, j, value.name, store)
        body = (If(Test((m - few.rows - 1,)), body, (other,)),)
    nest: Axes = [*d.batch, (group, ceildiv(m, const(rows or 1))), (panel, side.count)]
    private = (side.buffer,) if side.narrow is not None else ()
    p.run(cluster.label, loops(nest, body), (out,), private, once=True)
    p.places[cluster.result] = out


def summed(
    p: Steps, cluster: Cluster, d: Dot, sides: Operands, right: Matrix, dtype: str, held: Held | None = None
) -> None:
    """The kernel of a row times a matrix whose columns lie in memory and its epilogue, with sums of ``dtype``;
    ``held``: as for ``packed_product``."""
    p.start()
    out = p.new_buffer(cluster.result)
    j, value = symbol(p.name("i")), Var(dtype, p.name("v"))
    at = sides.at(d, ZERO, j)
    p.locals[cluster.ops[0].result, at] = value if held is None else held(value, at)
    store = Store(out, cluster.place(at), p.read(cluster.value, at))
    nest = sums_of(p, value, sides.left, right, j, sides.n, sides.k, store)
    p.run(cluster.label, loops(d.batch, nest), (out,), once=True)
    p.places[cluster.result] = out


def sums_of(
    p: Steps, value: Var, left: Matrix, right: Matrix, j: Dim, n: Dim, k: Dim, store: Store
) -> tuple[Stmt, ...]:
    """A row times a matrix whose columns lie in memory: one sum after the other."""
    deep = symbol(p.name("i"))
    one = converted(value.dtype, Load(left.buffer.dtype, left.buffer, left.offset + deep * left.column))
    at = right.offset + j * right.row + deep * right.column
    two = converted(value.dtype, Load(right.buffer.dtype, right.buffer, at))
    more = Call(value.dtype, "add", (value, Call(value.dtype, "multiply", (one, two))), fast=True)
    return loops(
        [(j, n)], (Local(value.name, zero(value.dtype)), *loops([(deep, k)], [Assign(value.name, more)]), store)
    )


def _rows_of_group(p: Steps, side: Right, m: Dim, n: Dim) -> int | None:
    """The rows that are multiplied with all panels before the next ones are: where panels are few, so that rows are
    shared out too; and where tiles multiply, which are faster than the far caches. None if all are."""
    few = n.const is not None and n.const <= FEW_PACKS * side.width
    rows = ROW_GROUP if few else TILE_ROW_GROUP if side.elements and p.target.tiles else None
    return rows if rows is None or m.const is None or m.const > rows else None
