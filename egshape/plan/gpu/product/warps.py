"""Products on a grid by warps: a block computes a tile of the result from tiles of both operands in shared memory, on
tensor cores where those are f16 or bf16, else by fused multiply-adds on the same registers (plan/gpu/product/mma.py).

There are two tiles of each operand: while one step of the depth is multiplied, the next one is on its way from memory
into registers. Sums go through shared memory too, so that what follows them reads and writes memory side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.product.mma import COLUMNS, EACH, ROWS, column_at, mma, padded, row_at
from egshape.plan.gpu.product.operands import Chunks, chunks, follows
from egshape.plan.gpu.staged import STAGE_APART, taken_lines, together
from egshape.plan.gpu.wide import Lines, divides, left, likely_divides
from egshape.plan.ir.launch import WARP, Grid, Launch, Threads, Wide, at_round, is_closed
from egshape.plan.ir.loops import (
    Buffer,
    Call,
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
    Matrix,
    Stmt,
    Store,
    Test,
    name_of,
)
from egshape.plan.ir.visit import Moved

DEEP_BYTES = 64
"""Bytes of the depth of a tile: 32 of f16 or bf16, 16 of f32."""
AT_ONCE = 132
"""Blocks that a GPU runs at once, for the choice of a shape."""
UNROLLED = 16
"""Rounds of a loop over registers, which printers write out."""
EDGE = 32
"""What an element of a tile's edge costs, which is read, in products."""


@dataclass(frozen=True)
class Shape:
    """A block's warps, down and across the tile, and each one's tiles of 16 by 8."""

    down: int
    across: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.down * self.across * WARP

    @property
    def m(self) -> int:
        """Rows of a block's tile."""
        return self.down * self.rows * ROWS

    @property
    def n(self) -> int:
        """Columns of a block's tile."""
        return self.across * self.columns * COLUMNS

    @property
    def registers(self) -> int:
        """Sums of a thread."""
        return self.rows * self.columns * EACH


SHAPES = (
    Shape(2, 4, 4, 4),
    Shape(4, 2, 2, 4),
    Shape(2, 4, 2, 4),
    Shape(2, 2, 2, 4),
    Shape(1, 4, 1, 2),
    Shape(4, 1, 1, 2),
)
"""Shapes of blocks, larger ones first: 128x128, 128x64, 64x128, 64x64, 16x64, 64x16."""
SMALLEST = Shape(1, 1, 1, 2)
"""Where a block may have one warp only."""


def warp_tiles(kernel: Kernel, loops: Sequence[Loop], stmt: Contract, likely: Likely, threads: int) -> Launch | None:
    """The launch of a product inside of loops over its batches; None if its sums are not f32, or a block may have less
    than a warp."""
    if stmt.dtype != "f32" or threads < WARP:
        return None
    count = likely(product(loop.extent for loop in loops))
    shape = chosen(count, likely(stmt.m), likely(stmt.n), threads)
    found = _Tiles(kernel, loops, stmt, shape, likely).launch()
    return replace(found, otherwise=_Tiles(kernel, loops, stmt, shape, None).launch()) if found.fits else found


def chosen(count: float, m: float, n: float, threads: int) -> Shape:
    """The shape that takes the least time at the likely sizes, the larger one of equals."""

    def cost(shape: Shape) -> float:
        blocks = max(1.0, count) * -(-max(m, 1.0) // shape.m) * -(-max(n, 1.0) // shape.n)
        return -(-blocks // AT_ONCE) * (shape.m * shape.n + EDGE * (shape.m + shape.n))

    return min((shape for shape in SHAPES if shape.threads <= threads), key=cost, default=SMALLEST)


@dataclass(frozen=True)
class _Operand:
    """An operand's two tiles in shared memory, line after line, and a thread's own part of the next one."""

    board: Buffer
    own: Buffer
    chunks: Chunks
    place: str
    size: Dim
    first: Dim
    lines: int
    length: int

    @property
    def along(self) -> bool:
        """Whether lines go along the depth."""
        return self.chunks.along

    @property
    def pitch(self) -> int:
        """From line to line."""
        return padded(self.length, self.board.dtype)

    @property
    def stage(self) -> int:
        """From one tile to the other."""
        return self.lines * self.pitch

    def at(self, number: Dim) -> tuple[Dim, Dim]:
        """The line of a chunk and where it begins in that."""
        each = self.length // self.chunks.lanes
        line = floordiv(number, each)
        return line, (number - line * each) * self.chunks.lanes


class _Tiles:
    def __init__(
        self, kernel: Kernel, loops: Sequence[Loop], stmt: Contract, shape: Shape, likely: Likely | None
    ) -> None:
        self.kernel, self.stmt, self.shape, self.likely = kernel, stmt, shape, likely
        self.threads = shape.threads
        self.fresh = 0
        self.fits: dict[Dim, None] = {}
        nest = (*loops, Loop("$rows", ceildiv(stmt.m, shape.m), ()), Loop("$columns", ceildiv(stmt.n, shape.n), ()))
        self.blocks = product(loop.extent for loop in nest)
        self.place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, symbol("$block")).items())
        self.dtype, one, two = operands(stmt)
        self.deep = DEEP_BYTES // itemsize(self.dtype)
        self.left = self._operand("left", one, stmt.row, stmt.m, symbol("$rows"), shape.m)
        self.right = self._operand("right", two, stmt.column, stmt.n, symbol("$columns"), shape.n)
        self.sums = Buffer("$sums", "f32", const(self.threads * shape.registers), "temp")
        self.registers = [self.sums, self.left.own, self.right.own]
        self.lines = self._lines()

    def _operand(self, name: str, expr: Expr, place: str, size: Dim, block: Dim, extent: int) -> _Operand:
        along = follows(expr, self.stmt.deep, place)
        var, whole = (self.stmt.deep, self.stmt.k) if along else (place, size)
        found = chunks(expr, var, whole, along, self.kernel.bounds, self.likely)
        self.fits.update(dict.fromkeys(found.fits))
        lines, length = (extent, self.deep) if along else (self.deep, extent)
        each = -(-(lines * length) // (self.threads * found.lanes)) * found.lanes
        return _Operand(
            Buffer(f"$tile.{name}", self.dtype, const(2 * lines * padded(length, self.dtype)), "temp"),
            Buffer(f"$own.{name}", self.dtype, const(self.threads * each), "temp"),
            found,
            place,
            size,
            block * extent,
            lines,
            length,
        )

    def _lines(self) -> Lines | None:
        """How what follows the sums takes columns several at a time; None for one by one."""
        bounds = self.kernel.bounds
        found, whole = taken_lines(Loop(self.stmt.column, self.stmt.n, self.stmt.body), bounds)
        if found is None or divides(whole, found.lanes, bounds):
            return found
        if self.likely is None or not is_closed(whole) or not likely_divides(whole, found.lanes, self.likely):
            return None
        self.fits[left(whole, found.lanes)] = None
        return found

    def name(self) -> Dim:
        """A new variable."""
        self.fresh += 1
        return symbol(f"$t{self.fresh}")

    def section(self, thread: Dim, body: Sequence[Stmt], wait: bool = True) -> Threads:
        """What all threads do, and then wait if others need it."""
        return Threads(name_of(thread), const(self.threads), tuple(body), wait)

    # -- the launch -----------------------------------------------------------------------------------------------

    def launch(self) -> Launch:
        """All of it."""
        step = self.name()
        now, then = ((each - floordiv(each, 2) * 2) for each in (step, step + 1))
        sums = self.multiplied(now)
        rounds = Loop(name_of(step), ceildiv(self.stmt.k, self.deep), (self.fetch(step + 1), sums, self.keep(then)))
        stage, ends = self.finish()
        body = (*self.place, self.clear(), self.fetch(const(0)), self.keep(const(0)), rounds, ends)
        kernel = replace(self.kernel, body=(Grid("$block", self.blocks, body),), private=())
        shared = (self.left.board, self.right.board, stage, *self.registers)
        return Launch(
            kernel,
            self.blocks,
            self.threads,
            shared,
            tuple(self.registers),
            over=(stage,),
            fits=tuple(self.fits),
            why=self.why(),
        )

    def why(self) -> str:
        """What was chosen."""
        units = "by fused multiply-adds" if self.dtype == "f32" else "on tensor cores"
        one, two = (operand.chunks.lanes * itemsize(self.dtype) for operand in (self.left, self.right))
        many = 1 if self.lines is None else self.lines.lanes
        return (
            f"tiles of {self.shape.m} by {self.shape.n}, {self.deep} deep, {units}; operands are read by {one} and "
            f"{two} bytes, {many} results are stored at once"
        )

    def clear(self) -> Stmt:
        """Sums of 0."""
        thread, i, j, r = (self.name() for _ in range(4))
        store = Store(self.sums, self._sum(thread, i, j, r), Const("f32", 0.0))
        return self.section(thread, self._each(i, j, r, (store,)), wait=False)

    def _sum(self, thread: Dim, i: Dim, j: Dim, r: Dim) -> Dim:
        return thread * self.shape.registers + (i * self.shape.columns + j) * EACH + r

    def _each(self, i: Dim, j: Dim, r: Dim, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for var, extent in ((r, EACH), (j, self.shape.columns), (i, self.shape.rows)):
            body = (Loop(name_of(var), const(extent), body),)
        return body

    # -- operands ----------------------------------------------------------------------------------------------------

    def fetch(self, step: Dim) -> Stmt:
        """A thread's part of the tiles of a step from memory into registers, 0 outside of the operands."""
        thread = self.name()
        return self.section(
            thread,
            [
                self._chunks(operand, thread, lambda operand, *at: self._fetched(operand, step, *at))
                for operand in (self.left, self.right)
            ],
            wait=False,
        )

    def keep(self, stage: Dim) -> Stmt:
        """From registers into shared memory."""
        thread = self.name()

        def kept(operand: _Operand, number: Dim, mine: Dim) -> tuple[Stmt, ...]:
            line, at = operand.at(number)
            lane = self.name()
            copy = Store(
                operand.board,
                stage * operand.stage + line * operand.pitch + at + lane,
                Load(self.dtype, operand.own, mine + lane),
            )
            return (Wide(name_of(lane), const(operand.chunks.lanes), (copy,)),)

        return self.section(thread, [self._chunks(operand, thread, kept) for operand in (self.left, self.right)])

    def _chunks(self, operand: _Operand, thread: Dim, body: Callable[[_Operand, Dim, Dim], tuple[Stmt, ...]]) -> Stmt:
        """What a thread does with each of its chunks of a tile: number and registers."""
        count, lanes = operand.lines * operand.length // operand.chunks.lanes, operand.chunks.lanes
        each = -(-count // self.threads)
        turn, group = self.name(), self.name()
        whole = turn + group * UNROLLED
        number = thread + whole * self.threads
        inner = body(operand, number, thread * (each * lanes) + whole * lanes)
        if count % self.threads:
            inner = (If(Test((count - 1 - number,)), inner),)
        groups = -(-each // UNROLLED)
        return Loop(name_of(group), const(groups), (Loop(name_of(turn), const(each // groups), inner),))

    def _fetched(self, operand: _Operand, step: Dim, number: Dim, mine: Dim) -> tuple[Stmt, ...]:
        line, at = operand.at(number)
        place, deep = (line, at) if operand.along else (at, line)
        whole, depth = operand.first + place, step * self.deep + deep
        lane = self.name()
        zero = Loop(
            name_of(lane), const(operand.chunks.lanes), (Store(operand.own, mine + lane, Const(self.dtype, 0.0)),)
        )
        inside = Test((operand.size - 1 - whole, self.stmt.k - 1 - depth))
        taken = operand.chunks.taken(
            operand.own, mine, {operand.place: whole, self.stmt.deep: depth}, zero, self.name()
        )
        return (If(inside, taken, (zero,)),)

    def multiplied(self, stage: Dim) -> Stmt:
        """What a step adds to the sums."""
        (left, right) = (
            Matrix(operand.board, stage * operand.stage, *(each if first else each[::-1]))
            for operand, first in ((self.left, self.left.along), (self.right, not self.right.along))
            for each in ((const(operand.pitch), const(1)),)
        )
        shape = self.shape
        return mma(
            name_of(self.name()),
            self.threads,
            self.dtype,
            self.sums,
            left,
            right,
            rows=shape.rows,
            columns=shape.columns,
            depth=self.deep,
            across=shape.across,
            wait=False,
        )

    # -- what follows ---------------------------------------------------------------------------------------------

    def finish(self) -> tuple[Buffer, Stmt]:
        """What is done with each sum: a row of tiles of all warps at a time goes through shared memory."""
        shape = self.shape
        pitch = shape.n + STAGE_APART
        height = shape.down * ROWS
        stage = Buffer("$stage", "f32", const(min(shape.rows, 2) * height * pitch), "temp")
        i, thread, j, r = (self.name() for _ in range(4))
        start = (i - floordiv(i, 2) * 2) * (height * pitch)
        half = floordiv(r, 2)
        line = row_at(thread, const(0), half, 1, shape.across)
        column = column_at(thread, j, r - half * 2, shape.columns, shape.across)
        put: tuple[Stmt, ...] = (
            Store(stage, start + line * pitch + column, Load("f32", self.sums, self._sum(thread, i, j, r))),
        )
        for var, extent in ((r, EACH), (j, shape.columns)):
            put = (Loop(name_of(var), const(extent), put),)
        whole = Loop(name_of(i), const(shape.rows), (self.section(thread, put), self._taken(stage, start, pitch, i)))
        return stage, whole

    def _taken(self, stage: Buffer, start: Dim, pitch: int, i: Dim) -> Stmt:
        """What follows the sums of a row of tiles, by the threads side by side."""
        shape, stmt = self.shape, self.stmt
        lanes = 1 if self.lines is None else self.lines.lanes
        thread, turn = self.name(), self.name()
        each, height = shape.n // lanes, shape.down * ROWS
        number = thread + turn * self.threads
        line = floordiv(number, each)
        at = (number - line * each) * lanes
        warp = floordiv(line, ROWS)
        row = self.left.first + (warp * shape.rows + i) * ROWS + line - warp * ROWS
        first = self.right.first + at
        place = start + line * pitch + at
        if self.lines is None:
            value: Stmt = Let(stmt.value, Load("f32", stage, place))
            body = (value, *Moved({stmt.row: row, stmt.column: first}).body(stmt.body))
        else:
            rest = together(
                self.lines, stmt.value, stage, place, first, thread, self.threads, self.registers, self.name
            )
            body = Moved({stmt.row: row}).body(rest)
        inside: Stmt = If(Test((stmt.m - 1 - row, stmt.n - 1 - first)), body)
        count = height * each
        if count % self.threads:
            inside = If(Test((count - 1 - number,)), (inside,))
        return self.section(thread, (Loop(name_of(turn), const(-(-count // self.threads)), (inside,)),), wait=False)


def operands(stmt: Contract) -> tuple[str, Expr, Expr]:
    """The dtype of both operands as tiles hold them, and these: of 16 bits where both are no more than converted."""
    found = [
        each.args[0] if isinstance(each, Call) and each.op == "convert" else each for each in (stmt.left, stmt.right)
    ]
    one, two = found
    return (
        (one.dtype, one, two)
        if one.dtype == two.dtype and one.dtype in ("f16", "bf16")
        else ("f32", stmt.left, stmt.right)
    )
