"""What attention does with the results of its rows: through shared memory, so that they are stored by 16 bytes, where
lines lie so; else from registers, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const, floordiv, symbol
from egshape.plan.gpu.attention.operands import nest, whole_tiles
from egshape.plan.gpu.attention.registers import Registers, State
from egshape.plan.gpu.attention.scores import ZERO, is_low
from egshape.plan.gpu.product.mma import COLUMNS, EACH, column_at, row_at
from egshape.plan.gpu.staged import STAGE_APART, taken_lines, together
from egshape.plan.gpu.wide import Lines, divides
from egshape.plan.ir.launch import Wide
from egshape.plan.ir.loops import (
    Attend,
    Bounds,
    Buffer,
    Call,
    Expr,
    If,
    Index,
    Let,
    LetIndex,
    Load,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    name_of,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions


def stage_bytes(stmt: Attend, rows: int) -> int:
    """Of shared memory, which queries, keys and values lay in before."""
    return 4 * rows * (whole_tiles(stmt.width) + STAGE_APART)


@dataclass(frozen=True)
class Chunk:
    """Of ``keys`` keys, of each round of ``loops``: where its sums, the peaks of rows and the totals go."""

    loops: tuple[Loop, ...]
    buffers: tuple[Buffer, ...]
    keys: int


class Results:
    """What a block of ``rows`` rows does with its results; ``chunk``: they are of some keys only. ``stage``: the shared
    memory that they go through, if any; ``registers``: what that takes."""

    def __init__(
        self, block: Registers, state: State, rows: int, bounds: Sequence[Bounds], chunk: Chunk | None
    ) -> None:
        self.block, self.state, self.rows, self.chunk = block, state, rows, chunk
        self.stmt, self.columns = block.stmt, state.wide // COLUMNS
        self.lines = None if chunk is not None else self._lines(bounds)
        self.pitch = state.wide + STAGE_APART
        self.stage = None if self.lines is None else Buffer("$stage", "f32", const(rows * self.pitch), "temp")
        self.registers: list[Buffer] = []

    def _lines(self, bounds: Sequence[Bounds]) -> Lines | None:
        stmt = self.stmt
        found, whole = taken_lines(Loop(stmt.place, stmt.width, stmt.body), bounds)
        names = {each.name for each in expressions(stmt.body) if isinstance(each, Var)}
        of_rows = names & {stmt.peak, stmt.total}  # which only who holds the row has
        return found if found is not None and divides(whole, found.lanes, bounds) and not of_rows else None

    def finish(self, coming: bool) -> tuple[Stmt, ...]:
        """All of it. ``coming``: keys and values may still be on their way."""
        block = self.block
        if self.lines is None or self.stage is None:
            return (block.section(lambda thread: self._each(thread, self._kept), landed=coming),)
        lines, stage = self.lines, self.stage
        # What lies where the stage does may have been read in the last round, or written when there was none.
        settled = block.section(lambda _: (), wait=True, landed=coming)
        put = block.section(lambda thread: self._each(thread, lambda *at: self._put(stage, *at)), wait=True)
        return settled, put, block.section(lambda thread: self._taken(lines, stage, thread))

    def _each(self, thread: Dim, body: Callable[[Dim, Dim, Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each row of a thread."""
        stmt, state = self.stmt, self.state

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            at = self.block.row(thread, i, half)
            line = symbol(at.name)
            known = [Let(stmt.peak, Load("f32", state.peak, place)), Let(stmt.total, Load("f32", state.total, place))]
            return [at, If(Test((stmt.m - 1 - line,)), (*known, *body(thread, i, half, line)))]

        return self.block.rows(thread, row)

    def _kept(self, thread: Dim, i: Dim, half: Dim, line: Dim) -> list[Stmt]:
        """Results of a row, one by one."""
        if self.chunk is not None:
            return self._partly(self.chunk, thread, i, half, line)
        stmt = self.stmt
        known, value = self._finished(line)

        def one(out: Dim, place: Dim) -> list[Stmt]:
            moved = Moved({stmt.row: line, stmt.place: place})
            return [Let(stmt.value, value(out)), *moved.body(stmt.body)]

        return [*known, *self._places(thread, i, half, one)]

    def _finished(self, line: Dim) -> tuple[list[Stmt], Callable[[Dim], Expr]]:
        """What is known of a row, and the result that a register stands for."""
        stmt, name, moved = self.stmt, name_of(self.block.names()), Moved({self.stmt.row: line})
        factor, live, none = (
            Var(dtype, f"{name}.{each}") for each, dtype in (("factor", "f32"), ("live", "i1"), ("none", "i1"))
        )
        known: list[Stmt] = [
            Let(factor.name, moved.expr(stmt.factor)),
            Let(live.name, moved.expr(stmt.live)),
            Let(none.name, is_low(Var("f32", stmt.peak))),
        ]
        return known, lambda out: finished(Load("f32", self.state.out, out), factor, live, none)

    def _places(self, thread: Dim, i: Dim, half: Dim, body: Callable[[Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each result of a row: its register and its place."""

        def one(out: Dim, j: Dim, odd: Dim) -> list[Stmt]:
            here = LetIndex(name_of(self.block.names()), Index("i64", column_at(thread, j, odd, self.columns)))
            inner = tuple(body(out, symbol(here.name)))
            whole = self.stmt.width.const == self.state.wide
            return [here, *inner] if whole else [here, If(Test((self.stmt.width - 1 - symbol(here.name),)), inner)]

        return self.block.line(self.state.out, thread, self.columns, i, half, one)

    # -- through shared memory ----------------------------------------------------------------------------------------

    def _put(self, stage: Buffer, thread: Dim, i: Dim, half: Dim, line: Dim) -> list[Stmt]:
        """A row's results into the stage, two at a time."""
        out, tiles = self.state.out, self.block.tiles
        known, value = self._finished(line)
        start = row_at(thread, i, half, tiles) * self.pitch
        first = thread * ((out.size.const or 0) // self.block.threads) + half * 2
        lane = self.block.names()

        def pair(j: Dim) -> list[Stmt]:
            mine = first + (i * self.columns + j) * EACH
            copy = Store(
                stage, start + column_at(thread, j, const(0), self.columns) + lane, Load("f32", out, mine + lane)
            )
            each = nest(self.block.names, 2, lambda odd: [Store(out, mine + odd, value(mine + odd))])
            return [each, Wide(name_of(lane), const(2), (copy,))]

        return [*known, nest(self.block.names, self.columns, pair)]

    def _taken(self, lines: Lines, stage: Buffer, thread: Dim) -> list[Stmt]:
        """What follows the results, by the threads side by side."""
        block, stmt, turn = self.block, self.stmt, self.block.names()
        each = self.state.wide // lines.lanes
        number = thread + turn * block.threads
        row = floordiv(number, each)
        at = (number - row * each) * lines.lanes
        line, count = block.first + row, self.rows * each
        body = together(
            lines, stmt.value, stage, row * self.pitch + at, at, thread, block.threads, self.registers, block.names
        )
        inside = [count - 1 - number] if count % block.threads else []
        tests = (stmt.m - 1 - line, stmt.width - 1 - at, *inside)
        rounds = -(-count // block.threads)
        return [Loop(name_of(turn), const(rounds), (If(Test(tests), Moved({stmt.row: line}).body(body)),))]

    # -- of some keys -------------------------------------------------------------------------------------------------

    def _partly(self, chunk: Chunk, thread: Dim, i: Dim, half: Dim, line: Dim) -> list[Stmt]:
        """Results of a chunk, its peak and its total."""
        stmt, (sums, peaks, totals) = self.stmt, chunk.buffers
        number = partial_row(chunk.loops, stmt, line) * ceildiv(stmt.n, chunk.keys) + symbol("$chunk")
        quad = thread - floordiv(thread, 4) * 4
        alone = If(
            Test((const(0) - quad,)),
            (Store(peaks, number, Var("f32", stmt.peak)), Store(totals, number, Var("f32", stmt.total))),
        )

        def one(out: Dim, place: Dim) -> list[Stmt]:
            return [Store(sums, number * stmt.width + place, Load("f32", self.state.out, out))]

        return [alone, *self._places(thread, i, half, one)]


def finished(value: Expr, factor: Expr, live: Expr, none: Expr) -> Expr:
    """A result, of the sum on the scale of its row's peak. Where that is not live it is the sum of values times 0: what
    was summed already if ``none`` of the scores is more than -inf."""
    dead = Call("f32", "select", (none, value, ZERO))
    return Call("f32", "select", (live, Call("f32", "multiply", (value, factor)), dead))


def partial_row(loops: Sequence[Loop], stmt: Attend, line: Dim) -> Dim:
    """The number of a row among those of all rounds."""
    flat = const(0)
    for loop in loops:
        flat = flat * loop.extent + symbol(loop.var)
    return flat * stmt.m + line
