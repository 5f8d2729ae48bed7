"""Attention on a grid (FlashAttention-2, Dao 2023): a block takes some rows of queries, goes over blocks of keys and
values in shared memory, and keeps scores, the largest of them, sums and results of its rows in registers.

A warp has whole rows, 16 of them or more, in the layout of tensor cores (plan/gpu/product/mma.py): the four lanes that
hold a row fold over each other. What earlier keys gave is scaled where a larger score comes. Few rows and many keys are
split: a block takes a chunk of the keys, and a second kernel joins what the chunks gave (Flash-Decoding)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.attention.operands import Names, Operand, whole_tiles
from egshape.plan.gpu.attention.registers import Registers, State
from egshape.plan.gpu.attention.results import Chunk, Results, stage_bytes
from egshape.plan.gpu.attention.scores import ZERO, Scores
from egshape.plan.gpu.attention.skip import Flags, Skip, found_lines
from egshape.plan.gpu.folds import BLOCKS, Likely
from egshape.plan.gpu.lanes import lane_fold
from egshape.plan.gpu.product.mma import COLUMNS, DEPTH, EACH, ROWS, mma, padded
from egshape.plan.ir.launch import WARP, Grid, Launch, at_round
from egshape.plan.ir.loops import (
    Attend,
    Bounds,
    Buffer,
    If,
    Index,
    Kernel,
    LetIndex,
    Loop,
    Matrix,
    Stmt,
    Store,
    name_of,
)

WARPS = 8
"""Warps of a block at most: each takes rows of its own, and all of them the keys that lie in shared memory."""
KEYS = 64
"""Keys and values that lie in shared memory at a time, if there is room."""
ROOM, MOST = 48 << 10, 99 << 10
"""Bytes of shared memory of a block: what is taken for larger blocks, and what every device from sm_80 on has."""
FEW_WARPS, FEW_KEYS = 4, 32
"""From here on smaller blocks are worse than fewer of them at a time."""
AHEAD = 64
"""Registers of a thread for keys and values that are fetched while those before them are computed with."""
TWICE = 80 << 10
"""Bytes of shared memory of a block up to which keys and values have two places: the next ones are on their way to one
while those in the other are computed with, which takes no registers and one barrier."""
PAIR, PAIRED = 2, 160
"""Row tiles of a warp that multiply the same keys and values, so that these are read half as often from shared memory;
and registers of a thread for scores and results up to which there are so many."""
THREE, LARGE = 128, 227 << 10
"""Registers of a thread for scores and results up to which three blocks of two tiles a warp are better than two, though
a few indices then lie in memory; and shared memory of a multiprocessor that has so much room."""


@dataclass(frozen=True)
class Shape:
    """Of a block: warps, row tiles of a warp, keys at a time; ``chunk``: keys of a block, None for all."""

    warps: int
    tiles: int
    keys: int
    chunk: int | None = None

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.warps * WARP

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.warps * self.tiles * ROWS


def shape(stmt: Attend, heads: Dim, likely: Likely) -> Shape:
    """The shape of a block: few rows and keys where there likely are few, many if blocks are many then, so that keys
    are read less often, and as many keys at a time as fit. On tensor cores each of many warps has two tiles of rows, as
    what limits products there is how fast shared memory is read."""
    warps = WARPS
    while warps > 1 and likely(stmt.m) <= (warps // 2) * ROWS:
        warps //= 2
    while warps > max(1, WARPS // 2) and likely(heads) * likely(stmt.m) < BLOCKS * warps * ROWS:
        warps //= 2
    keys = KEYS
    while keys > DEPTH and likely(stmt.n) <= keys // 2:
        keys //= 2
    if (pair := _pair(stmt, warps, keys)) is not None:
        return pair
    for room, least_keys, least_warps in ((ROOM, FEW_KEYS, FEW_WARPS), (MOST, DEPTH, 1)):
        while keys > least_keys and _room(stmt, Shape(warps, 1, keys)) > room:
            keys //= 2
        while warps > least_warps and _room(stmt, Shape(warps, 1, keys)) > room:
            warps //= 2
    return Shape(warps, 1, keys)


def _pair(stmt: Attend, warps: int, keys: int) -> Shape | None:
    """The shape of as many rows by warps of two tiles; None where these are too few, or it does not fit."""
    if stmt.dtype == "f32" or warps < PAIR * FEW_WARPS:
        return None
    for count in (keys, keys // 2):
        found = Shape(warps // PAIR, PAIR, count)
        sums = PAIR * (count + whole_tiles(stmt.width)) // COLUMNS * EACH
        if count >= min(keys, FEW_KEYS) and sums <= PAIRED and _room(stmt, found, 2) <= TWICE:
            return found
    return None


def _room(stmt: Attend, shape: Shape, places: int = 1) -> int:
    """Bytes of shared memory, where keys and values have so many places."""
    deep, wide = (padded(whole_tiles(size), stmt.dtype) for size in (stmt.k, stmt.width))
    boards = (shape.rows * deep + places * shape.keys * (deep + wide)) * itemsize(stmt.dtype)
    return max(boards, stage_bytes(stmt, shape.rows))


class Tiles(Registers):
    """Writes the launch of one shape of block. ``partial``: buffers for what a chunk gives; ``flags``: says whether
    values are finite, which lets a block leave out keys that are masked."""

    def __init__(
        self,
        kernel: Kernel,
        loops: Sequence[Loop],
        stmt: Attend,
        shape: Shape,
        partial: tuple[Buffer, ...] = (),
        flags: Flags | None = None,
    ) -> None:
        super().__init__(stmt, shape.threads, shape.tiles, symbol("$rows") * shape.rows)
        self.kernel, self.shape, self.partial = kernel, shape, partial
        chunks = (Loop("$chunk", ceildiv(stmt.n, shape.chunk), ()),) if shape.chunk else ()
        nest = (*loops, Loop("$rows", ceildiv(stmt.m, shape.rows), ()), *chunks)
        self.blocks = product(loop.extent for loop in nest)
        lines = found_lines(stmt)
        ends = [line for line in lines if line.ends and line.low is not None]
        env = at_round(nest, symbol("$block"))
        if ends:  # the last rows have most keys: they begin first
            env["$rows"] = ceildiv(stmt.m, shape.rows) - 1 - env["$rows"]
        self.place = tuple(LetIndex(var, Index("i64", at)) for var, at in env.items())
        self.deep, wide = whole_tiles(stmt.k), whole_tiles(stmt.width)
        common = self.threads, self.names, kernel.bounds
        self.queries = Operand(
            "queries", stmt.dtype, stmt.left, stmt.row, stmt.m, stmt.deep, stmt.k, shape.rows, *common
        )
        self.keys, self.values = self._moving(1, common)
        direct = self.keys.direct and self.values.direct
        many = shape.chunk is None and shape.warps >= FEW_WARPS
        self.twice = direct and many and _room(stmt, shape, 2) <= TWICE
        if self.twice:
            self.keys, self.values = self._moving(2, common)
        columns = shape.keys // COLUMNS
        self.state = State(
            columns,
            wide,
            self.own("scores", "f32", shape.tiles * columns * EACH),
            self.own("out", "f32", shape.tiles * wide // COLUMNS * EACH),
            *(self.own(name, "f32", shape.tiles * 2) for name in ("peak", "base", "total", "top")),
        )
        self.scores = Scores(self, self.state, shape.rows, shape.keys, lines)
        chunk = None if shape.chunk is None else Chunk(tuple(loops), partial, shape.chunk)
        self.results = Results(self, self.state, shape.rows, kernel.bounds, chunk)
        self.skip = Skip(self, self.state.base, self.scores.area, flags, ends) if flags is not None and ends else None
        ahead = sum(each.accesses * each.wide * itemsize(stmt.dtype) // 4 for each in (self.keys, self.values))
        self.ahead = bool(ahead) and ahead <= AHEAD and not self.twice

    def _moving(self, boards: int, common: tuple[int, Names, tuple[Bounds, ...]]) -> tuple[Operand, Operand]:
        """Keys and values."""
        stmt, lines = self.stmt, self.shape.keys
        keys = Operand("keys", stmt.dtype, stmt.right, stmt.column, stmt.n, stmt.deep, stmt.k, lines, *common, boards)
        return keys, Operand(
            "values", stmt.dtype, stmt.values, stmt.column, stmt.n, stmt.place, stmt.width, lines, *common, boards
        )

    def launch(self) -> Launch:
        """All of it."""
        stmt, shape, step, state = self.stmt, self.shape, self.names(), self.state
        many, start = stmt.n, const(0)
        if shape.chunk:
            start = symbol("$chunk") * shape.chunk
            many = minimum(const(shape.chunk), stmt.n - start)
        key = start + step * shape.keys
        moving = (self.keys, self.values)
        begin: list[Stmt] = []
        if self.ahead:
            begin.append(self.section(lambda t: [s for each in moving for s in each.fetch(t, start)]))
        if self.twice:
            begin.append(self.section(lambda t: [s for each in moving for s in each.copy(t, start, const(0))]))
        begin += [self.section(lambda t: self.queries.fill(t, self.first)), self.section(self.scores.clear)]
        board = step - floordiv(step, 2) * 2 if self.twice else const(0)
        inner = tuple(self.round(moving, key, board))
        if self.skip is not None:
            begin += self.skip.begin()
            inner = (If(self.skip.masked(key), (), inner),)
        rounds: Stmt = Loop(name_of(step), ceildiv(many, shape.keys), inner)
        ends = (
            self.section(self.scores.settle),
            lane_fold(name_of(self.names()), "add", state.total, self.threads, 4),
            *self.results.finish(self.twice),
        )
        body: tuple[Stmt, ...] = (*self.place, *begin, rounds, *ends)
        outputs = self.partial or self.kernel.outputs
        kernel = replace(self.kernel, body=(Grid("$block", self.blocks, body),), private=(), outputs=outputs)
        held = (each.held for each in (self.queries, *(() if self.twice else moving)) if each.wide)
        registers: tuple[Buffer, ...] = (*state.all, *self.scores.registers, *held, *self.results.registers)
        boards: tuple[Buffer, ...] = (self.queries.board, self.keys.board, self.values.board)
        if self.skip is not None:
            registers, boards = (*registers, *self.skip.registers), (*boards, self.skip.board.places)
        over = () if self.results.stage is None else (self.results.stage,)
        found = Launch(kernel, self.blocks, self.threads, (*boards, *over, *registers), registers, over=over)
        return replace(found, resident=3) if self._three(found) else found

    def _three(self, found: Launch) -> bool:
        """Whether three blocks fit, each with registers enough: what is read for a mask takes some too."""
        sums = ((self.state.scores.size + self.state.out.size).const or 0) // self.threads
        few = self.twice and self.shape.tiles == PAIR and sums <= THREE and not self.scores.loads
        return few and 3 * (found.places()[1] + 1024) <= LARGE

    def round(self, moving: Sequence[Operand], key: Dim, board: Dim) -> Iterator[Stmt]:
        """What a block does with some keys and values from ``key`` on, which lie in the place ``board``."""
        stmt, shape, threads, state, scores = self.stmt, self.shape, self.threads, self.state, self.scores
        columns = state.columns

        def fill(t: Dim) -> list[Stmt]:
            return [s for each in moving for s in (each.put(t) if self.ahead and each.wide else each.fill(t, key))]

        if self.twice:  # which also waits for those who still read what lay in the other place
            yield self.section(lambda _: (), wait=True, landed=True)
            yield self.section(lambda t: [s for each in moving for s in each.copy(t, key + shape.keys, 1 - board)])
        else:
            yield self.section(fill, wait=True)
        if self.ahead:
            yield self.section(lambda t: [s for each in moving for s in each.fetch(t, key + shape.keys)])
        yield self.section(
            lambda t: self.each(state.scores, t, columns, lambda place, *_: [Store(state.scores, place, ZERO)])
        )
        yield mma(
            name_of(self.names()),
            threads,
            stmt.dtype,
            state.scores,
            Matrix(self.queries.board, const(0), const(self.queries.pitch), const(1)),
            Matrix(self.keys.board, board * shape.keys * self.keys.pitch, const(1), const(self.keys.pitch)),
            rows=shape.tiles,
            columns=columns,
            depth=self.deep,
            wait=False,
        )
        yield If(
            scores.open(key),
            (self.section(lambda t: scores.score(t, key, True)),),
            (self.section(lambda t: scores.score(t, key, False)),),
        )
        yield lane_fold(name_of(self.names()), "maximum", state.top, threads, 4)
        yield self.section(scores.weigh)
        if self.skip is not None:
            yield from self.skip.decide()
        yield mma(
            name_of(self.names()),
            threads,
            stmt.dtype,
            state.out,
            Matrix(state.scores, const(0), const(EACH * columns), const(EACH)),
            Matrix(self.values.board, board * shape.keys * self.values.pitch, const(self.values.pitch), const(1)),
            rows=shape.tiles,
            columns=state.wide // COLUMNS,
            depth=shape.keys,
            held=True,
            wait=not self.twice or (self.skip is not None and self.skip.decides),
        )
