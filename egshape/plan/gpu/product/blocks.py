"""Products on a grid: a block computes a tile of the result from tiles of both sides in shared memory, a thread a few
rows and columns of it in registers.

The sides are expressions, so that a convolution is a product like any other: its left side is a patch that is read, and
padded, on the way into shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.ir.types import is_float
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.product.operands import steps
from egshape.plan.gpu.product.warps import warp_tiles
from egshape.plan.ir.launch import Grid, Launch, Threads, at_round
from egshape.plan.ir.loops import (
    Buffer,
    Call,
    Choose,
    Const,
    Contract,
    Expr,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Loop,
    Stmt,
    Store,
    Test,
    expressions,
    name_of,
    statements,
)
from egshape.plan.ir.visit import Moved

ENOUGH = 256
"""Blocks (at the likely sizes) from which larger tiles, which read less, are worth more than more blocks."""
LARGEST = 8
"""Rows and columns of a thread at most."""


def contracted(kernel: Kernel, loops: Sequence[Loop], stmt: Contract, likely: Likely, threads: int) -> Launch:
    """The launch of a product inside of loops over its batches."""
    stmt = _along_memory(stmt)
    return warp_tiles(kernel, loops, stmt, likely, threads) or _Tiles(kernel, loops, stmt, likely, threads).launch()


def _along_memory(stmt: Contract) -> Contract:
    """The product with columns that lie side by side in what it stores, if rows do: sides change places."""
    places = [each.index for each in statements(stmt.body) if isinstance(each, Store)]
    if any(steps(place, stmt.column) for place in places) or not any(steps(place, stmt.row) for place in places):
        return stmt
    return replace(stmt, m=stmt.n, n=stmt.m, row=stmt.column, column=stmt.row, left=stmt.right, right=stmt.left)


@dataclass(frozen=True)
class _Operand:
    """A side's tile in shared memory: element (place, step) at step * pitch + place."""

    board: Buffer
    own: Buffer
    expr: Expr
    place: str
    each: int
    """Elements of a thread: its own rows or columns."""
    size: Dim
    first: Dim
    along: bool
    """Whether neighbours in memory follow the depth."""

    def pitch(self, side: int) -> int:
        """Elements between two steps: one more than there are, so that a column lies in different banks."""
        return self.each * side + 1


class _Tiles:
    def __init__(self, kernel: Kernel, loops: Sequence[Loop], stmt: Contract, likely: Likely, threads: int) -> None:
        self.kernel, self.loops, self.stmt = kernel, loops, stmt
        self.side = isqrt(threads)
        self.threads = self.side * self.side
        self.fresh = 0
        batch = likely(product(loop.extent for loop in loops))
        m, n = likely(stmt.m), likely(stmt.n)
        rows, columns = self._each(m, LARGEST), self._each(n, LARGEST)
        if batch * m * n < ENOUGH * self.side**2 * rows * columns:
            rows, columns = self._each(m, LARGEST // 2), self._each(n, LARGEST // 2)
        block_rows, block_columns = (
            Loop("$rows", ceildiv(stmt.m, rows * self.side), ()),
            Loop("$columns", ceildiv(stmt.n, columns * self.side), ()),
        )
        nest = (*loops, block_rows, block_columns)
        self.blocks = product(loop.extent for loop in nest)
        self.place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, symbol("$block")).items())
        self.left = self._side("left", stmt.left, stmt.row, rows, stmt.m, symbol("$rows"))
        self.right = self._side("right", stmt.right, stmt.column, columns, stmt.n, symbol("$columns"))
        self.sums = Buffer("$sums", stmt.dtype, const(self.threads * rows * columns), "temp")

    def _each(self, size: float, most: int) -> int:
        """Rows or columns of a thread: as few as reach over the size, at most some."""
        each = 1
        while each < most and each * self.side < size:
            each *= 2
        return each

    def _side(self, name: str, expr: Expr, place: str, each: int, size: Dim, block: Dim) -> _Operand:
        dtype, room = expr.dtype, (each * self.side + 1) * self.side
        along = any(
            isinstance(load, Load) and coefficient(load.index, self.stmt.deep) is const(1)
            for load in expressions((Let("", expr),))
        )
        return _Operand(
            Buffer(f"$tile.{name}", dtype, const(room), "temp"),
            Buffer(f"$own.{name}", dtype, const(self.threads * each), "temp"),
            expr,
            place,
            each,
            size,
            block * (each * self.side),
            along,
        )

    def name(self) -> Dim:
        """A new variable."""
        self.fresh += 1
        return symbol(f"$t{self.fresh}")

    def section(self, thread: Dim, body: Sequence[Stmt]) -> Threads:
        """What all threads do, and then wait."""
        return Threads(name_of(thread), const(self.threads), tuple(body))

    # -- the launch -----------------------------------------------------------------------------------------------

    def launch(self) -> Launch:
        """All of it."""
        step = self.name()
        rounds = Loop(name_of(step), ceildiv(self.stmt.k, self.side), (self.fill(step), self.add()))
        body = (*self.place, self.clear(), rounds, self.finish())
        kernel = replace(self.kernel, body=(Grid("$block", self.blocks, body),), private=())
        registers = (self.sums, self.left.own, self.right.own)
        return Launch(kernel, self.blocks, self.threads, (self.left.board, self.right.board, *registers), registers)

    def clear(self) -> Stmt:
        """Sums of 0."""
        thread, each = self.name(), self.name()
        count = self.left.each * self.right.each
        store = Store(self.sums, thread * count + each, _zero(self.stmt.dtype))
        return self.section(thread, (Loop(name_of(each), const(count), (store,)),))

    def fill(self, step: Dim) -> Stmt:
        """The tiles of a step, 0 outside of the sides."""
        thread = self.name()
        return self.section(thread, [self._filled(side, thread, step) for side in (self.left, self.right)])

    def _filled(self, side: _Operand, thread: Dim, step: Dim) -> Stmt:
        each, width = self.name(), side.each * self.side
        number = thread + each * self.threads
        by = self.side if side.along else width
        line, rest = floordiv(number, by), number - floordiv(number, by) * by
        place, deep = (line, rest) if side.along else (rest, line)
        whole, depth = side.first + place, step * self.side + deep
        value = Moved({side.place: whole, self.stmt.deep: depth}).expr(side.expr)
        inside = Test((side.size - 1 - whole, self.stmt.k - 1 - depth))
        value = Choose(value.dtype, inside, value, _zero(value.dtype))
        store = Store(side.board, deep * side.pitch(self.side) + place, value)
        return Loop(name_of(each), const(side.each), (store,))

    def add(self) -> Stmt:
        """What a step adds to the sums."""
        thread, deep = self.name(), self.name()
        row, column = self._own(thread)
        loads: list[Stmt] = []
        for side, mine in ((self.left, row), (self.right, column)):
            each = self.name()
            place = deep * side.pitch(self.side) + mine + each * self.side
            loads.append(
                Loop(
                    name_of(each),
                    const(side.each),
                    (Store(side.own, thread * side.each + each, Load(side.board.dtype, side.board, place)),),
                )
            )
        i, j, sums = self.name(), self.name(), self._sum
        dtype = self.stmt.dtype
        one, two = (
            Load(side.own.dtype, side.own, thread * side.each + each)
            for side, each in ((self.left, i), (self.right, j))
        )
        total = Load(dtype, self.sums, sums(thread, i, j))
        more = Call(dtype, "add", (total, Call(dtype, "multiply", (one, two))), fast=is_float(dtype))
        inner = Loop(name_of(j), const(self.right.each), (Store(self.sums, sums(thread, i, j), more),))
        return self.section(
            thread,
            (Loop(name_of(deep), const(self.side), (*loads, Loop(name_of(i), const(self.left.each), (inner,)))),),
        )

    def _own(self, thread: Dim) -> tuple[Dim, Dim]:
        """The first row and column of a thread in the tile; the others follow a side apart."""
        row = floordiv(thread, self.side)
        return row, thread - row * self.side

    def _sum(self, thread: Dim, i: Dim, j: Dim) -> Dim:
        return thread * (self.left.each * self.right.each) + i * self.right.each + j

    def finish(self) -> Stmt:
        """What is done with each sum."""
        thread, i, j = self.name(), self.name(), self.name()
        own = self._own(thread)
        row, column = (
            side.first + mine + each * self.side
            for side, mine, each in ((self.left, own[0], i), (self.right, own[1], j))
        )
        value = Let(self.stmt.value, Load(self.stmt.dtype, self.sums, self._sum(thread, i, j)))
        body = Moved({self.stmt.row: row, self.stmt.column: column}).body(self.stmt.body)
        inside = If(Test((self.left.size - 1 - row, self.right.size - 1 - column)), (value, *body))
        inner = Loop(name_of(j), const(self.right.each), (inside,))
        return self.section(thread, (Loop(name_of(i), const(self.left.each), (inner,)),))


def _zero(dtype: str) -> Const:
    return Const(dtype, False if dtype == "i1" else 0.0 if is_float(dtype) else 0)
