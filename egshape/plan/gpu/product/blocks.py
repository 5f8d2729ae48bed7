"""Products on a grid: a block computes a tile of the result from tiles of both operands in shared memory, a thread a
few rows and columns of it in registers.

The operands are expressions, so that a convolution is a product like any other: its left operand is a patch that is
read, and padded, on the way into shared memory."""

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
    name_of,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions, statements

ENOUGH = 256
"""Blocks (at the likely sizes) from which larger tiles, which read less, are worth more than more blocks."""
LARGEST = 8
"""Rows and columns of a thread at most."""


def contracted(kernel: Kernel, loops: Sequence[Loop], stmt: Contract, likely: Likely, threads: int) -> Launch:
    """The launch of a product inside of loops over its batches."""
    stmt = _along_memory(stmt)
    return warp_tiles(kernel, loops, stmt, likely, threads) or _Tiles(kernel, loops, stmt, likely, threads).launch()


def _along_memory(stmt: Contract) -> Contract:
    """The product with columns that lie side by side in what it stores, if rows do: operands change places."""
    places = [each.index for each in statements(stmt.body) if isinstance(each, Store)]
    if any(steps(place, stmt.column) for place in places) or not any(steps(place, stmt.row) for place in places):
        return stmt
    return replace(stmt, m=stmt.n, n=stmt.m, row=stmt.column, column=stmt.row, left=stmt.right, right=stmt.left)


@dataclass(frozen=True)
class _Operand:
    """An operand's tile in shared memory: element (place, step) at step * pitch + place."""

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

    def pitch(self, operand: int) -> int:
        """Elements between two steps: one more than there are, so that a column lies in different banks."""
        return self.each * operand + 1


class _Tiles:
    def __init__(self, kernel: Kernel, loops: Sequence[Loop], stmt: Contract, likely: Likely, threads: int) -> None:
        self.kernel, self.loops, self.stmt = kernel, loops, stmt
        self.operand = isqrt(threads)
        self.threads = self.operand * self.operand
        self.fresh = 0
        batch = likely(product(loop.extent for loop in loops))
        m, n = likely(stmt.m), likely(stmt.n)
        rows, columns = self._each(m, LARGEST), self._each(n, LARGEST)
        if batch * m * n < ENOUGH * self.operand**2 * rows * columns:
            rows, columns = self._each(m, LARGEST // 2), self._each(n, LARGEST // 2)
        block_rows, block_columns = (
            Loop("$rows", ceildiv(stmt.m, rows * self.operand), ()),
            Loop("$columns", ceildiv(stmt.n, columns * self.operand), ()),
        )
        nest = (*loops, block_rows, block_columns)
        self.blocks = product(loop.extent for loop in nest)
        self.place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, symbol("$block")).items())
        self.left = self._operand("left", stmt.left, stmt.row, rows, stmt.m, symbol("$rows"))
        self.right = self._operand("right", stmt.right, stmt.column, columns, stmt.n, symbol("$columns"))
        self.sums = Buffer("$sums", stmt.dtype, const(self.threads * rows * columns), "temp")

    def _each(self, size: float, most: int) -> int:
        """Rows or columns of a thread: as few as reach over the size, at most some."""
        each = 1
        while each < most and each * self.operand < size:
            each *= 2
        return each

    def _operand(self, name: str, expr: Expr, place: str, each: int, size: Dim, block: Dim) -> _Operand:
        dtype, room = expr.dtype, (each * self.operand + 1) * self.operand
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
            block * (each * self.operand),
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
        rounds = Loop(name_of(step), ceildiv(self.stmt.k, self.operand), (self.fill(step), self.add()))
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
        """The tiles of a step, 0 outside of the operands."""
        thread = self.name()
        return self.section(thread, [self._filled(operand, thread, step) for operand in (self.left, self.right)])

    def _filled(self, operand: _Operand, thread: Dim, step: Dim) -> Stmt:
        each, width = self.name(), operand.each * self.operand
        number = thread + each * self.threads
        by = self.operand if operand.along else width
        line, rest = floordiv(number, by), number - floordiv(number, by) * by
        place, deep = (line, rest) if operand.along else (rest, line)
        whole, depth = operand.first + place, step * self.operand + deep
        value = Moved({operand.place: whole, self.stmt.deep: depth}).expr(operand.expr)
        inside = Test((operand.size - 1 - whole, self.stmt.k - 1 - depth))
        value = Choose(value.dtype, inside, value, _zero(value.dtype))
        store = Store(operand.board, deep * operand.pitch(self.operand) + place, value)
        return Loop(name_of(each), const(operand.each), (store,))

    def add(self) -> Stmt:
        """What a step adds to the sums."""
        thread, deep = self.name(), self.name()
        row, column = self._own(thread)
        loads: list[Stmt] = []
        for operand, mine in ((self.left, row), (self.right, column)):
            each = self.name()
            place = deep * operand.pitch(self.operand) + mine + each * self.operand
            loads.append(
                Loop(
                    name_of(each),
                    const(operand.each),
                    (
                        Store(
                            operand.own, thread * operand.each + each, Load(operand.board.dtype, operand.board, place)
                        ),
                    ),
                )
            )
        i, j, sums = self.name(), self.name(), self._sum
        dtype = self.stmt.dtype
        one, two = (
            Load(operand.own.dtype, operand.own, thread * operand.each + each)
            for operand, each in ((self.left, i), (self.right, j))
        )
        total = Load(dtype, self.sums, sums(thread, i, j))
        more = Call(dtype, "add", (total, Call(dtype, "multiply", (one, two))), fast=is_float(dtype))
        inner = Loop(name_of(j), const(self.right.each), (Store(self.sums, sums(thread, i, j), more),))
        return self.section(
            thread,
            (Loop(name_of(deep), const(self.operand), (*loads, Loop(name_of(i), const(self.left.each), (inner,)))),),
        )

    def _own(self, thread: Dim) -> tuple[Dim, Dim]:
        """The first row and column of a thread in the tile; the others follow an operand apart."""
        row = floordiv(thread, self.operand)
        return row, thread - row * self.operand

    def _sum(self, thread: Dim, i: Dim, j: Dim) -> Dim:
        return thread * (self.left.each * self.right.each) + i * self.right.each + j

    def finish(self) -> Stmt:
        """What is done with each sum."""
        thread, i, j = self.name(), self.name(), self.name()
        own = self._own(thread)
        row, column = (
            operand.first + mine + each * self.operand
            for operand, mine, each in ((self.left, own[0], i), (self.right, own[1], j))
        )
        value = Let(self.stmt.value, Load(self.stmt.dtype, self.sums, self._sum(thread, i, j)))
        body = Moved({self.stmt.row: row, self.stmt.column: column}).body(self.stmt.body)
        inside = If(Test((self.left.size - 1 - row, self.right.size - 1 - column)), (value, *body))
        inner = Loop(name_of(j), const(self.right.each), (inside,))
        return self.section(thread, (Loop(name_of(i), const(self.left.each), (inner,)),))


def _zero(dtype: str) -> Const:
    return Const(dtype, False if dtype == "i1" else 0.0 if is_float(dtype) else 0)
