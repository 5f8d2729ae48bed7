"""Products of f32 with a constant by tiles: both sides in parts (``plan/cpu/parts.py``).

The depth is cut into pieces, each a kernel that adds to the sums of those before, so that some rows' parts of a piece
stay in the cache while all packs of it pass by. Few rows are multiplied whole, which is decided when the function runs:
reading the packs takes longer then than multiplying them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import cast

import numpy as np

from egshape.dims import Dim, ceildiv, const, maximum, minimum, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import ZERO
from egshape.plan.cpu import parts
from egshape.plan.cpu.contraction import Operands
from egshape.plan.cpu.packing import Right, constant_matrices, packs
from egshape.plan.form.epilogue import Cluster
from egshape.plan.form.matrices import ONE, Axes, Dot, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Call, Const, Expr, Load, Matrix, Stmt, Store, Var
from egshape.plan.ir.packs import PAIR, TILE_DEPTH, TILE_ROW_GROUP, pack_step

DTYPE = "f32"
COUNT, KIND = parts.PARTS[DTYPE], parts.ELEMENTS[DTYPE]
NARROW, SHALLOW = 128, 192
"""Columns and depth from which tiles are faster than vectors."""
PIECE = 1024
"""The depth of a piece, at most."""
FEW, FEW_OF_LARGE, LARGE = 48, 96, 1 << 20
"""Rows up to which a product is one of vectors: of a constant of up to so many bytes in parts, which the nearer caches
hold, and of a larger one."""
TWICE = 1 << 22
"""Bytes up to which a constant lies in parts and whole, where both are needed."""


def constant_of(p: Steps, d: Dot, sides: Operands, wide: Matrix) -> np.ndarray | None:
    """The right operand (k, n), if it is a constant that is multiplied by tiles when rows are many; else None."""
    m, n, k = sides.m.const, sides.n.const, sides.k.const
    if not p.target.tiles or d.batch or n is None or k is None or n < NARROW or k < SHALLOW:
        return None
    if (n * k * itemsize(DTYPE) > TWICE) if m is None else m <= _most_whole(n, k):
        return None
    found = constant_matrices(wide, d.batch, sides.n, sides.k)
    if found is None or found[0].dtype != np.float32 or not parts.fits(found[0]):
        return None
    return found[0]


def few_rows(sides: Operands) -> Dim:
    """1 where rows are so few that they are multiplied whole, else 0."""
    assert sides.n.const is not None and sides.k.const is not None
    return minimum(ONE, maximum(const(_most_whole(sides.n.const, sides.k.const) + 1) - sides.m, 0))


def _most_whole(n: int, k: int) -> int:
    return FEW if n * k * COUNT * itemsize(parts.PART) <= LARGE else FEW_OF_LARGE


def emit(p: Steps, cluster: Cluster, d: Dot, sides: Operands, wide: Matrix, data: np.ndarray, out: Buffer) -> None:
    """Add the kernels for many rows. ``data``: the constant that ``wide`` is, ``out``: the result's buffer."""
    tile, k = TILE_DEPTH * PAIR, len(data)
    size = ceil(ceil(k / ceil(k / PIECE)) / tile) * tile
    _Pieces(p, cluster, d, sides, out, size, ONE - few_rows(sides)).emit(wide, data)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Writes the kernels of pieces of ``size``; ``many`` is 0 where rows are few."""

    p: Steps
    cluster: Cluster
    d: Dot
    sides: Operands
    out: Buffer
    size: int
    many: Dim

    def emit(self, wide: Matrix, data: np.ndarray) -> None:
        begins = range(0, len(data), self.size)
        left, sums = self.split(begins), None
        if len(begins) > 1:
            sums = self.p.scratch("sums", DTYPE, self.sides.m * self.sides.n * self.many)
        for begin in begins:
            last = begin == begins[-1]
            self.product(left, self.panels(wide, data, begin), begin, sums, None if last else sums)

    def row(self, number: int, row: Dim) -> Dim:
        """Where the parts of a piece of a row lie."""
        return (self.sides.m * number + row) * parts.apart(self.size)

    def split(self, begins: range) -> Buffer:
        """All rows in parts, piece after piece."""
        p, left, k = self.p, self.sides.left, self.sides.k
        p.start()
        room = self.row(len(begins), ZERO) * self.many + pack_step(DTYPE) * PAIR
        target, row, body = p.scratch("parts", parts.PART, room), symbol(p.name("i")), list[Stmt]()
        for number, begin in enumerate(begins):
            deep, rest, some = symbol(p.name("i")), symbol(p.name("i")), minimum(const(self.size), k - begin)
            at = left.offset + row * left.row + (deep + begin) * left.column
            lets, found = parts.split(p, DTYPE, Load(DTYPE, left.buffer, at))
            places = [self.row(number, row) + self.size * part for part in range(COUNT)]
            stores = [Store(target, place + deep, part) for place, part in zip(places, found, strict=True)]
            empty = [Store(target, place + some + rest, Const(parts.PART, 0)) for place in places]
            body += [*loops([(deep, some)], [*lets, *stores]), *loops([(rest, self.size - some)], empty)]
        p.run("split", loops([(row, self.sides.m * self.many)], body), (target,), once=True)
        return target

    def panels(self, wide: Matrix, data: np.ndarray, begin: int) -> Right:
        """A piece of the constant in parts."""
        key = ("parts", wide.buffer, wide.offset, wide.row, wide.column, self.sides.n, begin, self.size)
        if key not in self.p.packed:
            piece = np.zeros((self.size, data.shape[1]), np.float32)
            piece[: len(data) - begin] = data[begin : begin + self.size]
            found = packs(parts.arranged(piece), KIND)
            name = f"{wide.buffer.name}.parts.{len(self.p.packed)}"
            self.p.packed[key] = Buffer(name, "i32", const(found.size), "const", found)
        buffer, depth = self.p.packed[key], const(self.size * COUNT // PAIR)
        return Right(DTYPE, depth, self.sides.n, ZERO, Matrix(buffer, ZERO, ZERO, ZERO), buffer, ZERO, KIND)

    def product(self, rows: Buffer, right: Right, begin: int, before: Buffer | None, sums: Buffer | None) -> None:
        """A piece: what it adds to the sums ``before`` becomes ``sums``, or goes through the epilogue."""
        p, sides = self.p, self.sides
        p.start()
        i, j, group, value = *(symbol(p.name("i")) for _ in range(3)), Var(DTYPE, p.name("v"))
        panel, first = right.columns(p), group * TILE_ROW_GROUP
        row, column = first + i, panel * right.width + j
        place, added = row * sides.n + column, cast(Expr, value)
        if before is not None and begin:
            added = Call(DTYPE, "add", (Load(DTYPE, before, place), value))
        if sums is None:
            at = sides.at(self.d, row, column)
            p.locals[self.cluster.ops[0].result, at] = added
            store = Store(self.out, self.cluster.place(at), p.read(self.cluster.value, at))
        else:
            store = Store(sums, place, added)
        step = const(parts.apart(self.size) // PAIR)
        left = Matrix(rows, self.row(begin // self.size, first), step, ONE)
        many = minimum(const(TILE_ROW_GROUP), sides.m - first)
        body = right.product(panel, many, left, i, j, value.name, store)
        nest: Axes = [(group, ceildiv(sides.m, const(TILE_ROW_GROUP)) * self.many), (panel, right.count)]
        p.run(self.cluster.label, loops(nest, [body]), (sums or self.out,), once=True)
