"""Products of bf16 and f16: dot_general whose sums are f32, rounded once where the result is narrower.

bf16 is multiplied by pairs (``loops.Product``): a row of the left operand, or a column of the right one, is two numbers
side by side after the other, a 0 behind an odd depth. f16 is two bf16 where a CPU multiplies these by tiles
(``parts``); else it is widened first, and the product is one of f32.

Where a CPU widens f16 by an instruction, constants of f16 stay so in their packs, which few rows, that take as long as
reading these, meet as they are; of more rows each pack is widened once before they meet it. Tiles meet packs of
parts instead: there is one of both kinds unless the number of rows is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from egshape.dims import Dim, ceildiv, const, minimum, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.cpu import parts
from egshape.plan.cpu.contraction import Few, Operands, packed_product, summed
from egshape.plan.cpu.half_operands import SUMS as _SUMS
from egshape.plan.cpu.half_operands import Operand, constant, flat, packed_along, packed_pairs, panels
from egshape.plan.cpu.packing import Right, packed
from egshape.plan.form.dots import converted, dot
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, axes_of, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Const, Expr, Matrix, Store, Var
from egshape.plan.ir.packs import PAIR, pack_room

HALVES = ("bf16", "f16")
FEW = 8
"""Up to here rows are multiplied where they lie: making pairs, or widening, would cost more than it saves."""
NARROW = "f32f16"
"""``Product.elements`` of f32 rows and packs of f16."""
ALONE, BESIDE_TILES = 32, 16
"""Up to how many rows meet these as they are: where more meet widened packs, or parts by tiles."""


def is_product(op: Op) -> bool:
    """Whether an op is a product of 16-bit floats with sums of f32."""
    kinds = {x.type.dtype for x in op.operands}
    return op.name == "dot_general" and len(kinds) == 1 and kinds <= {*HALVES} and op.attrs["dtype"] in (*kinds, _SUMS)


def emit(p: Steps, cluster: Cluster) -> None:
    """Add the kernels of a product of 16-bit floats and its epilogue."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    k, m, n = (total(size for _, size in axes) for axes in (d.deep, d.rows, d.columns))
    left, right = Operand(p, op, d, 0), Operand(p, op, d, 1)
    most = BESIDE_TILES if "f16" in p.target.tiles else ALONE
    turned = n is ONE or (m is not ONE and left.constant and not right.constant)
    if turned:
        left, right, m, n = right, left, n, m

    def held(value: Var, at: Indices) -> Expr:
        return converted(op.attrs["dtype"], value)

    def panels_of(place: Matrix, side: Right, few: Few | None = None) -> None:
        packed_product(p, cluster, d, Operands(left.free, right.free, m, n, k, place, turned), side, held, few)

    if not right.constant and m is ONE and right.along:
        one, two = left.place(), right.place()
        summed(p, cluster, d, Operands(left.free, right.free, m, n, k, one, turned), two, _SUMS, held)
    elif not right.constant and m.const is not None and m.const <= FEW:
        dot(p, op)
        p.buffer(cluster.result)
    elif (narrow := _narrow(right, k, n, m, most)) is not None and m.const is not None and m.const <= most:
        panels_of(_widened(left), narrow)
    elif left.dtype == "f16" and "f16" in p.target.tiles:
        some = None if narrow is None else Few(most, _first_rows(left, minimum(m, most), k), narrow)
        panels_of(parts.rows(left, k), replace(parts.panels(right, k, n), few=m, elements="f16"), some)
    elif left.dtype == "bf16":
        panels_of(_pairs(left, k), replace(_panels(right, k, n), few=m, elements="bf16"))
    elif narrow is not None:
        place, panel = _widened(left), p.scratch("panel", _SUMS, k * pack_room(_SUMS))
        wide = Right(_SUMS, k, n, m, Matrix(panel, ZERO, ZERO, ZERO), panel, ZERO, narrow=narrow)
        panels_of(place, wide, Few(most, place, narrow) if m.const is None else None)
    else:
        place, matrix = _widened(left), _widened(right)
        lying = Matrix(matrix.buffer, matrix.offset, matrix.column, matrix.row)
        panels_of(place, packed(p, _SUMS, lying, d.batch, m, n, k))


def _narrow(side: Operand, k: Dim, n: Dim, m: Dim, most: int) -> Right | None:
    """The panels of a constant of f16, as it is, if they are of use for ``m`` rows, of which ``most`` meet them so."""
    target = side.p.target
    many = m.const is not None and m.const > most
    if side.dtype != "f16" or not target.widens or ("f16" in target.tiles and many):
        return None
    data = constant(side, k, n, np.asarray, "f16")
    return None if data is None else replace(panels(side, k, n, data), few=m, elements=NARROW)


def _first_rows(side: Operand, rows: Dim, k: Dim) -> Matrix:
    """The first rows of an operand, in f32."""
    i, deep = symbol(side.p.name("i")), symbol(side.p.name("i"))
    target = side.p.scratch("wide", _SUMS, total(size for _, size in side.d.batch) * rows * k)
    side.p.start()
    place = (flat(side.d.batch) * rows + i) * k + deep
    nest = [*side.d.batch, (i, rows), (deep, k)]
    body = loops(nest, [Store(target, place, converted(_SUMS, side.at(deep, i)))])
    side.p.run("widen", body, (target,), once=True)
    return Matrix(target, flat(side.d.batch) * rows * k, k, ONE)


def _widened(side: Operand) -> Matrix:
    """The operand in f32: a constant now, else by a kernel."""
    found = side.matrix()
    if found is not None and found.buffer.data is not None:
        key = ("wide", found.buffer)
        if key not in side.p.packed:
            data = found.buffer.data.astype(np.float32)
            side.p.packed[key] = Buffer(f"{found.buffer.name}.f32", _SUMS, found.buffer.size, "const", data)
        return replace(found, buffer=side.p.packed[key])
    turned = found is not None and found.row is ONE  # what lies along memory stays so
    inner, outer = (side.free, side.d.deep) if turned else (side.d.deep, side.free)
    long, area = (total(size for _, size in axes) for axes in (inner, [*inner, *outer]))
    axes = [*side.d.batch, *outer, *inner]
    target = side.p.scratch("wide", _SUMS, total(size for _, size in axes))
    side.p.start()
    body = loops(axes, [Store(target, flat(axes), converted(_SUMS, side.read()))])
    side.p.run("widen", body, (target,), once=True)
    row, column = (ONE, long) if turned else (long, ONE)
    return Matrix(target, flat(side.d.batch) * area, row, column)


def _pairs(side: Operand, k: Dim) -> Matrix:
    """The operand as a matrix of pairs, where it lies if that will do."""
    found, depth = side.matrix(), ceildiv(k, const(PAIR))
    rows = total(size for _, size in side.free)
    if found is not None and found.column is ONE and (k % PAIR).const == 0:
        row = const(0) if rows is ONE else found.row
        if (row % PAIR).const == 0:
            return Matrix(found.buffer, found.offset, row // PAIR, ONE)
    target = side.p.scratch("pairs", side.dtype, total(size for _, size in side.places) * depth * PAIR)
    start, rest = flat(side.places) * depth * PAIR, symbol(side.p.name("i"))
    side.p.start()
    body = [
        *loops(side.d.deep, [Store(target, start + flat(side.d.deep), side.read())]),
        *loops([(rest, depth * PAIR - k)], [Store(target, start + k + rest, Const(side.dtype, 0.0))]),
    ]
    side.p.run("pairs", loops(side.places, body), (target,), once=True)
    return Matrix(target, flat(side.d.batch) * rows * depth * PAIR, depth, ONE)


def _panels(side: Operand, k: Dim, n: Dim) -> Right:
    """The operand as panels of pairs, made now if it is constant."""
    depth = ceildiv(k, const(PAIR))
    data = constant(side, k, n, paired)
    if data is not None:
        return panels(side, depth, n, data)
    if side.along:
        return packed_along(side, _pairs(side, k), depth, n)
    return packed_pairs(side, k, n, depth, 1, lambda element: ([], [converted(_SUMS, element)]))


def paired(array: np.ndarray) -> np.ndarray:
    """(k, n) bf16 as (k / 2, n) elements, each of two numbers of a column; a 0 behind an odd depth."""
    k, n = array.shape
    whole = np.zeros((-(-k // PAIR) * PAIR, n), np.uint16)
    whole[:k] = np.ascontiguousarray(array).view(np.uint16)
    return np.ascontiguousarray(whole.reshape(-1, PAIR, n).transpose(0, 2, 1)).reshape(-1).view("<i4").reshape(-1, n)
