"""Blocks of keys that attention leaves out because a mask ends them, where that changes no bit of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from egshape.dims import Dim, ceildiv, const, floordiv, symbol
from egshape.plan.gpu.attention.masks import Area, Line, both, lines
from egshape.plan.gpu.attention.registers import Registers
from egshape.plan.gpu.boards import Board, step, tell
from egshape.plan.ir.launch import WARP
from egshape.plan.ir.loops import (
    Assign,
    Attend,
    Buffer,
    Call,
    Const,
    Expr,
    If,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    name_of,
)

MOST_LINES = 3
"""Comparisons of a mask that are told apart."""
MARGIN = 110.0
"""exp of minus that is 0 in f32."""


def found_lines(stmt: Attend) -> tuple[Line, ...]:
    """The comparisons by which scores are masked."""
    return lines(stmt.scores, stmt.row, stmt.column, (stmt.m, stmt.n))[:MOST_LINES]


@dataclass(frozen=True, eq=False)
class Flags:
    """Whether values are finite: an i32 for each of ``count`` parts of the keys of each round of ``loops``, where all
    of ``known`` are >= 0. A value that is not counts even where its weight is 0."""

    buffer: Buffer
    loops: tuple[Loop, ...]
    count: Dim
    known: tuple[Dim, ...]

    def first(self) -> Dim:
        """The place of a round's first flag."""
        flat = const(0)
        for loop in self.loops:
            flat = flat * loop.extent + symbol(loop.var)
        return flat * self.count


class Skip:
    """Leaves out blocks of keys that are masked for all rows of a block, where that changes no bit: all values are
    finite, and the exponentials of masked scores are 0, because they are -inf or far below the base of each row.
    ``area``: the rows of the block, and the keys from one on."""

    def __init__(
        self, tiles: Registers, base: Buffer, area: Callable[[Dim], Area], flags: Flags, ends: Sequence[Line]
    ) -> None:
        self.tiles, self.base, self.area, self.flags, self.ends = tiles, base, area, flags, tuple(ends)
        self.low = max(line.low for line in ends if line.low is not None)
        self.board = Board("$settled", tiles.threads, "and", Const("i32", 1))
        self.finite, self.sure = (
            Buffer(f"$own.{name}", "i32", const(tiles.threads), "temp") for name in ("finite", "sure")
        )
        self.registers = (self.finite, self.sure)
        """Whether values are finite; whether besides rows have a base that makes masked scores count nothing."""

    def masked(self, key: Dim) -> Expr:
        """i1: the keys from ``key`` on need not be looked at."""
        found = reduce(
            lambda one, two: Call("i1", "or", (one, two)), (line.masked(self.area(key)) for line in self.ends)
        )
        for warp in range(self.board.places.size.const or 0):
            found = both(found, _is_set(Load("i32", self.board.places, const(warp))))
        return found

    def begin(self) -> Iterator[Stmt]:
        """Read the flags; no row has a base yet."""
        tiles, flags = self.tiles, self.flags

        def read(thread: Dim) -> list[Stmt]:
            ok, turn = f"{name_of(tiles.names())}.ok", tiles.names()
            place = thread - floordiv(thread, WARP) * WARP + turn * WARP
            more = step("and", ok, Load("i32", flags.buffer, flags.first() + place))
            rounds = Loop(name_of(turn), ceildiv(flags.count, WARP), (If(Test((flags.count - 1 - place,)), (more,)),))
            return [
                Local(ok, Const("i32", 0)),
                If(Test(flags.known), (Assign(ok, Const("i32", 1)), rounds)),
                Store(self.finite, thread, Var("i32", ok)),
            ]

        yield tiles.section(read)
        yield self.board.lanes(self.finite, tiles.names)
        first = (lambda t: Load("i32", self.finite, t)) if self.low == float("-inf") else (lambda _: Const("i32", 0))
        yield tiles.section(lambda t: [tell(t, {self.board.places: first(t)})], wait=True)

    @property
    def decides(self) -> bool:
        """Whether it hangs on the scores."""
        return self.low != float("-inf")

    def decide(self) -> Iterator[Stmt]:
        """Tell from the bases; the block waits before anyone asks."""
        tiles = self.tiles
        if not self.decides:
            return

        def body(thread: Dim) -> list[Stmt]:
            ok = Var("i32", f"{name_of(tiles.names())}.ok")

            def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
                at = tiles.row(thread, i, half)
                gap = Call("f32", "subtract", (Load("f32", self.base, place), Const("f32", self.low)))
                far = Call("i1", "compare", (gap, Const("f32", MARGIN)), (("direction", "GE"), ("kind", "FLOAT")))
                fine = Call("i1", "or", (Test((symbol(at.name) - tiles.stmt.m,)), far))
                return [at, Assign(ok.name, Call("i32", "select", (fine, ok, Const("i32", 0))))]

            return [
                Local(ok.name, Load("i32", self.finite, thread)),
                *tiles.rows(thread, row),
                Store(self.sure, thread, ok),
            ]

        yield tiles.section(body)
        yield self.board.lanes(self.sure, tiles.names)
        yield tiles.section(lambda t: [tell(t, {self.board.places: Load("i32", self.sure, t)})])


def _is_set(value: Expr) -> Expr:
    return Call("i1", "compare", (value, Const("i32", 0)), (("direction", "NE"), ("kind", "SIGNED")))
