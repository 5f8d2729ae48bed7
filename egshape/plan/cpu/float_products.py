"""dot_general of f32 and f64."""

from __future__ import annotations

from egshape.dims import product as total
from egshape.plan.cpu import tile_products
from egshape.plan.cpu.contraction import Operands, packed_product, summed
from egshape.plan.cpu.packing import packed
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, axes_of, operand
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Matrix


def emit(p: Steps, cluster: Cluster) -> None:
    """A product with its epilogue: panels of columns, all rows of one together, by tiles where rows are many; or one
    sum after the other."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    left, right = operand(p, op, d, 0), operand(p, op, d, 1)
    rows, columns = d.rows, d.columns
    k, m, n = (total(size for _, size in axes) for axes in (d.deep, rows, columns))
    turned = n is ONE or (m is not ONE and left.buffer.kind == "const" != right.buffer.kind)
    if turned:
        left, right, rows, columns, m, n = right, left, columns, rows, n, m
    dtype = op.attrs["dtype"]
    along = left.column is ONE
    wide = Matrix(right.buffer, right.offset, right.column, right.row)
    sides = Operands(rows, columns, m, n, k, left, turned)
    if m is ONE and not along and right.column is ONE and right.buffer.kind != "const":
        summed(p, cluster, d, sides, right, dtype)
        return
    data = tile_products.constant_of(p, d, sides, wide) if dtype == "f32" else None
    if data is None:
        packed_product(p, cluster, d, sides, packed(p, dtype, wide, d.batch, m, n, k, along=along))
        return
    few, out = tile_products.few_rows(sides), p.new_buffer(cluster.result)
    tile_products.emit(p, cluster, d, sides, wide, data, out)
    if m.const is None:
        side = packed(p, dtype, wide, d.batch, m, n, k, along=along)
        packed_product(p, cluster, d, sides, side, out=out, rounds=few)
    p.places[cluster.result] = out
