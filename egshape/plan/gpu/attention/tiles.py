"""Attention on a grid (FlashAttention-2, Dao 2023): a block takes some rows of queries, goes over blocks of keys and
values in shared memory, and keeps scores, the largest of them, sums and results of its rows in registers.

A warp has whole rows, 16 of them or more, in the layout of tensor cores (plan/gpu/product/mma.py): the four lanes that
hold a row fold over each other. What earlier keys gave is scaled where a larger score comes. Few rows and many keys are
split: a block takes a chunk of the keys, and a second kernel joins what the chunks gave (Flash-Decoding)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.attention.masks import Area, both, opened
from egshape.plan.gpu.attention.operands import Names, Side, nest, whole_tiles
from egshape.plan.gpu.attention.skip import Flags, Skip, found_lines
from egshape.plan.gpu.folds import BLOCKS, Likely
from egshape.plan.gpu.lanes import lane_fold
from egshape.plan.gpu.product.mma import COLUMNS, DEPTH, EACH, ROWS, column_at, mma, padded, row_at
from egshape.plan.ir.launch import WARP, Grid, Launch, Threads, at_round
from egshape.plan.ir.loops import (
    Assign,
    Attend,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    expressions,
    name_of,
)
from egshape.plan.ir.visit import Moved

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
_LOW = Const("f32", float("-inf"))
_ZERO = Const("f32", 0.0)


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
    are read less often, and as many keys at a time as fit."""
    warps = WARPS
    while warps > 1 and likely(stmt.m) <= (warps // 2) * ROWS:
        warps //= 2
    while warps > max(1, WARPS // 2) and likely(heads) * likely(stmt.m) < BLOCKS * warps * ROWS:
        warps //= 2
    keys = KEYS
    while keys > DEPTH and likely(stmt.n) <= keys // 2:
        keys //= 2
    for room, least_keys, least_warps in ((ROOM, FEW_KEYS, FEW_WARPS), (MOST, DEPTH, 1)):
        while keys > least_keys and _room(stmt, Shape(warps, 1, keys)) > room:
            keys //= 2
        while warps > least_warps and _room(stmt, Shape(warps, 1, keys)) > room:
            warps //= 2
    return Shape(warps, 1, keys)


def _room(stmt: Attend, shape: Shape) -> int:
    """Bytes of shared memory."""
    deep, wide = (padded(whole_tiles(size), stmt.dtype) for size in (stmt.k, stmt.width))
    return (shape.rows * deep + shape.keys * (deep + wide)) * itemsize(stmt.dtype)


class Tiles:
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
        self.kernel, self.stmt, self.shape, self.partial = kernel, stmt, shape, partial
        self.threads, self.names = shape.threads, Names()
        chunks = (Loop("$chunk", ceildiv(stmt.n, shape.chunk), ()),) if shape.chunk else ()
        self.loops = tuple(loops)
        nest = (*loops, Loop("$rows", ceildiv(stmt.m, shape.rows), ()), *chunks)
        self.blocks = product(loop.extent for loop in nest)
        env = at_round(nest, symbol("$block"))
        self.place = tuple(LetIndex(var, Index("i64", at)) for var, at in env.items())
        self.first = symbol("$rows") * shape.rows
        self.deep, self.wide = whole_tiles(stmt.k), whole_tiles(stmt.width)
        common = self.threads, self.names, kernel.bounds
        self.queries = Side("queries", stmt.dtype, stmt.left, stmt.row, stmt.m, stmt.deep, stmt.k, shape.rows, *common)
        self.keys = Side("keys", stmt.dtype, stmt.right, stmt.column, stmt.n, stmt.deep, stmt.k, shape.keys, *common)
        self.values = Side(
            "values", stmt.dtype, stmt.values, stmt.column, stmt.n, stmt.place, stmt.width, shape.keys, *common
        )
        self.scores = self._registers("scores", "f32", shape.tiles * shape.keys // COLUMNS * EACH)
        self.out = self._registers("out", "f32", shape.tiles * self.wide // COLUMNS * EACH)
        self.peak, self.total, self.top = (
            self._registers(name, "f32", shape.tiles * 2) for name in ("peak", "total", "top")
        )
        self.lines = found_lines(stmt)
        ends = [line for line in self.lines if line.ends and line.low is not None]
        self.skip = Skip(self, flags, ends) if flags is not None and ends else None
        ahead = sum(side.accesses * side.wide * itemsize(stmt.dtype) // 4 for side in (self.keys, self.values))
        self.ahead = bool(ahead) and ahead <= AHEAD

    def _registers(self, name: str, dtype: str, count: int) -> Buffer:
        return Buffer(f"$own.{name}", dtype, const(self.threads * count), "temp")

    def section(self, body: Callable[[Dim], Sequence[Stmt]], wait: bool = False) -> Threads:
        """What all threads do."""
        thread = self.names()
        return Threads(name_of(thread), const(self.threads), tuple(body(thread)), wait=wait)

    # -- the launch ---------------------------------------------------------------------------------------------------

    def launch(self) -> Launch:
        """All of it."""
        stmt, shape, step = self.stmt, self.shape, self.names()
        many, start = stmt.n, const(0)
        if shape.chunk:
            start = symbol("$chunk") * shape.chunk
            many = minimum(const(shape.chunk), stmt.n - start)
        key = start + step * shape.keys
        sides = (self.keys, self.values)
        begin: list[Stmt] = [self.section(lambda t: self.queries.fill(t, self.first))]
        if self.ahead:
            begin.append(self.section(lambda t: [s for side in sides for s in side.fetch(t, start)]))
        begin.append(self.section(self.clear))
        inner = tuple(self.round(sides, key))
        if self.skip is not None:
            begin += self.skip.begin()
            inner = (If(self.skip.masked(key), (), inner),)
        rounds: Stmt = Loop(name_of(step), ceildiv(many, shape.keys), inner)
        ends = (lane_fold(name_of(self.names()), "add", self.total, self.threads, 4), self.section(self.finish))
        body: tuple[Stmt, ...] = (*self.place, *begin, rounds, *ends)
        outputs = self.partial or self.kernel.outputs
        kernel = replace(self.kernel, body=(Grid("$block", self.blocks, body),), private=(), outputs=outputs)
        held = (side.held for side in (self.queries, *sides) if side.wide)
        registers: tuple[Buffer, ...] = (self.scores, self.out, self.peak, self.total, self.top, *held)
        boards: tuple[Buffer, ...] = (self.queries.board, self.keys.board, self.values.board)
        if self.skip is not None:
            registers, boards = (*registers, *self.skip.registers), (*boards, self.skip.board)
        return Launch(kernel, self.blocks, self.threads, (*boards, *registers), registers)

    def round(self, sides: Sequence[Side], key: Dim) -> Iterator[Stmt]:
        """What a block does with some keys and values from ``key`` on."""
        stmt, shape, threads = self.stmt, self.shape, self.threads
        columns = shape.keys // COLUMNS

        def fill(t: Dim) -> list[Stmt]:
            return [s for side in sides for s in (side.put(t) if self.ahead and side.wide else side.fill(t, key))]

        yield self.section(fill, wait=True)
        if self.ahead:
            yield self.section(lambda t: [s for side in sides for s in side.fetch(t, key + shape.keys)])
        yield self.section(
            lambda t: self.each(self.scores, t, columns, lambda place, *_: [Store(self.scores, place, _ZERO)])
        )
        yield mma(
            name_of(self.names()),
            threads,
            stmt.dtype,
            self.scores,
            Matrix(self.queries.board, const(0), const(self.queries.pitch), const(1)),
            Matrix(self.keys.board, const(0), const(1), const(self.keys.pitch)),
            rows=shape.tiles,
            columns=columns,
            depth=self.deep,
            wait=False,
        )
        plain = opened(stmt.scores, self.lines)
        yield If(
            self.open(key, plain),
            (self.section(lambda t: self.score(t, key, columns, plain)),),
            (self.section(lambda t: self.score(t, key, columns, None)),),
        )
        yield lane_fold(name_of(self.names()), "maximum", self.top, threads, 4)
        yield self.section(lambda t: self.weigh(t, columns))
        if self.skip is not None:
            yield from self.skip.decide()
        yield mma(
            name_of(self.names()),
            threads,
            stmt.dtype,
            self.out,
            Matrix(self.scores, const(0), const(EACH * columns), const(EACH)),
            Matrix(self.values.board, const(0), const(self.values.pitch), const(1)),
            rows=shape.tiles,
            columns=self.wide // COLUMNS,
            depth=shape.keys,
            held=True,
        )

    # -- registers ----------------------------------------------------------------------------------------------------

    def each(
        self, sums: Buffer, thread: Dim, columns: int, body: Callable[[Dim, Dim, Dim], Sequence[Stmt]]
    ) -> list[Stmt]:
        """For each register of sums: its place, its column tile, and which of the two columns there it is."""
        return [
            nest(
                self.names,
                self.shape.tiles,
                lambda i: [nest(self.names, 2, lambda half: self.line(sums, thread, columns, i, half, body))],
            )
        ]

    def line(
        self,
        sums: Buffer,
        thread: Dim,
        columns: int,
        i: Dim,
        half: Dim,
        body: Callable[[Dim, Dim, Dim], Sequence[Stmt]],
    ) -> list[Stmt]:
        """The same, for one row of a thread."""
        first = thread * (self.shape.tiles * columns * EACH) + i * (columns * EACH) + half * 2
        return [
            nest(self.names, columns, lambda j: [nest(self.names, 2, lambda odd: body(first + j * EACH + odd, j, odd))])
        ]

    def rows(self, thread: Dim, body: Callable[[Dim, Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each row of a thread: its tile, its half, and the place of its peak and total."""
        return [
            nest(
                self.names,
                self.shape.tiles,
                lambda i: [
                    nest(self.names, 2, lambda half: body(i, half, thread * (self.shape.tiles * 2) + i * 2 + half))
                ],
            )
        ]

    def row(self, thread: Dim, i: Dim, half: Dim) -> LetIndex:
        """A row of a thread, as a new index."""
        return LetIndex(name_of(self.names()), Index("i64", self.first + row_at(thread, i, half, self.shape.tiles)))

    def clear(self, thread: Dim) -> list[Stmt]:
        """Nothing is known yet."""
        return [
            *self.each(self.out, thread, self.wide // COLUMNS, lambda place, *_: [Store(self.out, place, _ZERO)]),
            *self.rows(thread, lambda i, half, place: [Store(self.peak, place, _LOW), Store(self.total, place, _ZERO)]),
        ]

    def area(self, key: Dim) -> Area:
        """The rows of a block, and the keys from ``key`` on."""
        return Area((self.first, self.first + self.shape.rows - 1), (key, key + self.shape.keys - 1))

    def open(self, key: Dim, plain: Expr) -> Expr:
        """Whether none of these keys is masked, all of them are there, and so are rows where others are read."""
        inside = [self.stmt.n - key - self.shape.keys]
        if _loads(plain):
            inside.append(self.stmt.m - self.first - self.shape.rows)
        found: Expr = Test(tuple(inside))
        return reduce(both, (line.open(self.area(key)) for line in self.lines), found)

    def score(self, thread: Dim, key: Dim, columns: int, plain: Expr | None) -> list[Stmt]:
        """What is done to the scores; -inf behind the last key; the largest score of each row of a thread. ``plain``:
        what is done where nothing is masked."""
        stmt, loads = self.stmt, _loads(self.stmt.scores)

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            at, best = self.row(thread, i, half), Var("f32", f"{name_of(self.names())}.best")

            def one(score: Dim, j: Dim, odd: Dim) -> list[Stmt]:
                here = LetIndex(name_of(self.names()), Index("i64", key + column_at(thread, j, odd, columns)))
                line, column = symbol(at.name), symbol(here.name)
                value = Moved({stmt.row: line, stmt.column: column}).expr(plain or stmt.scores)
                inside = Test((stmt.n - 1 - column, stmt.m - 1 - line) if loads else (stmt.n - 1 - column,))
                kept: Expr = (
                    value
                    if plain
                    else Choose("f32", inside, value, _LOW)
                    if loads
                    else Call("f32", "select", (inside, value, _LOW))
                )
                new = Var("f32", f"{here.name}.score")
                return [
                    here,
                    Let(stmt.score, Load("f32", self.scores, score)),
                    Let(new.name, kept),
                    Store(self.scores, score, new),
                    Assign(best.name, Call("f32", "maximum", (best, new))),
                ]

            return [
                at,
                Local(best.name, _LOW),
                *self.line(self.scores, thread, columns, i, half, one),
                Store(self.top, place, best),
            ]

        return self.rows(thread, row)

    def exponential(self, x: Expr, base: Expr) -> Expr:
        """exp(x - base); where results are rounded to 16 bits by the unit of a GPU for powers of two. The difference
        comes first: a base may be a number that masks, of which a product is not exact."""
        gap = Call("f32", "subtract", (x, base))
        if self.stmt.dtype == "f32":
            return Call("f32", "exponential", (gap,))
        power = Call("f32", "multiply", (gap, Const("f32", 1 / math.log(2))))
        return Call("f32", "exp2", (power,), fast=True)

    def weigh(self, thread: Dim, columns: int) -> list[Stmt]:
        """The exponentials in the place of scores; totals and results on the scale of the largest score until now."""

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            name = name_of(self.names())
            old, new, base, scale, total = (
                Var("f32", f"{name}.{each}") for each in ("old", "new", "base", "scale", "total")
            )

            def one(score: Dim, _: Dim, __: Dim) -> list[Stmt]:
                weight = Var("f32", f"{name}.weight")
                return [
                    Let(weight.name, self.exponential(Load("f32", self.scores, score), base)),
                    Store(self.scores, score, weight),
                    Assign(total.name, Call("f32", "add", (total, weight))),
                ]

            def scaled(out: Dim, _: Dim, __: Dim) -> list[Stmt]:
                return [Store(self.out, out, Call("f32", "multiply", (Load("f32", self.out, out), scale)))]

            return [
                Let(old.name, Load("f32", self.peak, place)),
                Let(new.name, Call("f32", "maximum", (old, Load("f32", self.top, place)))),
                *based(new, base),
                Let(scale.name, self.exponential(old, base)),
                Store(self.peak, place, new),
                Local(total.name, Call("f32", "multiply", (Load("f32", self.total, place), scale))),
                *self.line(self.scores, thread, columns, i, half, one),
                Store(self.total, place, total),
                *self.line(self.out, thread, self.wide // COLUMNS, i, half, scaled),
            ]

        return self.rows(thread, row)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self, thread: Dim) -> list[Stmt]:
        """What is done with the results of each row."""
        stmt = self.stmt

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            at = self.row(thread, i, half)
            line = symbol(at.name)
            known = [Let(stmt.peak, Load("f32", self.peak, place)), Let(stmt.total, Load("f32", self.total, place))]
            inner = self.partly(thread, i, half, line) if self.partial else self.whole(thread, i, half, line)
            return [at, If(Test((stmt.m - 1 - line,)), (*known, *inner))]

        return self.rows(thread, row)

    def places(self, thread: Dim, i: Dim, half: Dim, body: Callable[[Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each result of a row: its register and its place."""

        def one(out: Dim, j: Dim, odd: Dim) -> list[Stmt]:
            here = LetIndex(name_of(self.names()), Index("i64", column_at(thread, j, odd, self.wide // COLUMNS)))
            inner = tuple(body(out, symbol(here.name)))
            whole = self.stmt.width.const == self.wide
            return [here, *inner] if whole else [here, If(Test((self.stmt.width - 1 - symbol(here.name),)), inner)]

        return self.line(self.out, thread, self.wide // COLUMNS, i, half, one)

    def whole(self, thread: Dim, i: Dim, half: Dim, line: Dim) -> list[Stmt]:
        """Results of all keys."""
        stmt, name = self.stmt, name_of(self.names())
        moved = Moved({stmt.row: line})
        factor, live, none = (
            Var(dtype, f"{name}.{each}") for each, dtype in (("factor", "f32"), ("live", "i1"), ("none", "i1"))
        )

        def one(out: Dim, place: Dim) -> list[Stmt]:
            value = finished(Load("f32", self.out, out), factor, live, none)
            return [Let(stmt.value, value), *Moved({stmt.row: line, stmt.place: place}).body(stmt.body)]

        return [
            Let(factor.name, moved.expr(stmt.factor)),
            Let(live.name, moved.expr(stmt.live)),
            Let(none.name, is_low(Var("f32", stmt.peak))),
            *self.places(thread, i, half, one),
        ]

    def partly(self, thread: Dim, i: Dim, half: Dim, line: Dim) -> list[Stmt]:
        """Results of a chunk, its peak and its total."""
        stmt, (sums, peaks, totals) = self.stmt, self.partial
        assert self.shape.chunk is not None
        number = partial_row(self.loops, stmt, line) * ceildiv(stmt.n, self.shape.chunk) + symbol("$chunk")
        quad = thread - floordiv(thread, 4) * 4
        alone = If(
            Test((const(0) - quad,)),
            (Store(peaks, number, Var("f32", stmt.peak)), Store(totals, number, Var("f32", stmt.total))),
        )
        return [
            alone,
            *self.places(
                thread,
                i,
                half,
                lambda out, place: [Store(sums, number * stmt.width + place, Load("f32", self.out, out))],
            ),
        ]


def _loads(expr: Expr) -> bool:
    return any(isinstance(each, Load) for each in expressions((Let("", expr),)))


def based(peak: Var, base: Var) -> list[Stmt]:
    """The base of exponentials: the peak, or 0 where no score is more than -inf."""
    return [Let(base.name, Call("f32", "select", (is_low(peak), _ZERO, peak)))]


def is_low(peak: Expr) -> Expr:
    """i1: no score of a row is more than -inf."""
    return Call("i1", "compare", (peak, _LOW), (("direction", "EQ"), ("kind", "FLOAT")))


def finished(value: Expr, factor: Expr, live: Expr, none: Expr) -> Expr:
    """A result, of the sum on the scale of its row's peak. Where that is not live it is the sum of values times 0: what
    was summed already if ``none`` of the scores is more than -inf."""
    dead = Call("f32", "select", (none, value, _ZERO))
    return Call("f32", "select", (live, Call("f32", "multiply", (value, factor)), dead))


def partial_row(loops: Sequence[Loop], stmt: Attend, line: Dim) -> Dim:
    """The number of a row among those of all rounds."""
    flat = const(0)
    for loop in loops:
        flat = flat * loop.extent + symbol(loop.var)
    return flat * stmt.m + line
