"""The registers of a block of attention: which rows and columns of the scores, and of the results, are a thread's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, const
from egshape.plan.gpu.attention.operands import Names, nest
from egshape.plan.gpu.product.mma import EACH, row_at
from egshape.plan.ir.launch import Threads
from egshape.plan.ir.loops import Attend, Buffer, Index, LetIndex, Stmt, name_of


class Registers:
    """A warp has whole rows, ``tiles`` times 16 of them, in the layout of tensor cores; ``first`` is the block's first
    row."""

    def __init__(self, stmt: Attend, threads: int, tiles: int, first: Dim) -> None:
        self.stmt, self.threads, self.tiles, self.first = stmt, threads, tiles, first
        self.names = Names()

    def own(self, name: str, dtype: str, count: int) -> Buffer:
        """New registers, ``count`` of each thread."""
        return Buffer(f"$own.{name}", dtype, const(self.threads * count), "temp")

    def section(self, body: Callable[[Dim], Sequence[Stmt]], wait: bool = False, landed: bool = False) -> Threads:
        """What all threads do."""
        thread = self.names()
        return Threads(name_of(thread), const(self.threads), tuple(body(thread)), wait=wait, landed=landed)

    def each(
        self, sums: Buffer, thread: Dim, columns: int, body: Callable[[Dim, Dim, Dim], Sequence[Stmt]]
    ) -> list[Stmt]:
        """For each register of sums: its place, its column tile, and which of the two columns there it is."""
        return [
            nest(
                self.names,
                self.tiles,
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
        first = thread * (self.tiles * columns * EACH) + i * (columns * EACH) + half * 2
        return [
            nest(self.names, columns, lambda j: [nest(self.names, 2, lambda odd: body(first + j * EACH + odd, j, odd))])
        ]

    def rows(self, thread: Dim, body: Callable[[Dim, Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each row of a thread: its tile, its half, and the place of its peak and total."""
        return [
            nest(
                self.names,
                self.tiles,
                lambda i: [nest(self.names, 2, lambda half: body(i, half, thread * (self.tiles * 2) + i * 2 + half))],
            )
        ]

    def row(self, thread: Dim, i: Dim, half: Dim) -> LetIndex:
        """A row of a thread, as a new index."""
        return LetIndex(name_of(self.names()), Index("i64", self.first + row_at(thread, i, half, self.tiles)))


@dataclass(frozen=True, eq=False)
class State:
    """What the registers hold: scores of ``columns`` tiles of keys, results of ``wide`` places, and of each row the
    largest score until now, what exponentials are relative to, their sum, and the largest score of these keys."""

    columns: int
    wide: int
    scores: Buffer
    out: Buffer
    peak: Buffer
    base: Buffer
    total: Buffer
    top: Buffer

    @property
    def all(self) -> tuple[Buffer, ...]:
        """The buffers."""
        return self.scores, self.out, self.peak, self.base, self.total, self.top
