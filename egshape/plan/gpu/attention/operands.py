"""Queries, keys and values on their way to shared memory: by 16 bytes, and ahead of time, where lines allow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from egshape.dims import Dim, const, floordiv, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.product.mma import DEPTH, padded
from egshape.plan.gpu.product.operands import Chunks, chunks, follows
from egshape.plan.ir.launch import BYTES, Ahead, Wide
from egshape.plan.ir.loops import (
    Bounds,
    Buffer,
    Choose,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Stmt,
    Store,
    Test,
    name_of,
)
from egshape.plan.ir.visit import Moved

UNROLLED = 16
"""Rounds of a loop whose registers have fixed numbers."""


@dataclass
class Names:
    """Gives new variables."""

    count: int = 0

    def __call__(self) -> Dim:
        """A new one."""
        self.count += 1
        return symbol(f"$f{self.count}")


def nest(names: Names, count: int, body: Callable[[Dim], Sequence[Stmt]]) -> Stmt:
    """A loop of a known number of rounds, in as many loops as it takes to write all of them out."""
    one = names()
    if count <= UNROLLED or count % UNROLLED:
        return Loop(name_of(one), const(count), tuple(body(one)))
    two = names()
    inner = Loop(name_of(two), const(UNROLLED), tuple(body(one * UNROLLED + two)))
    return Loop(name_of(one), const(count // UNROLLED), (inner,))


def whole_tiles(size: Dim) -> int:
    """A size that is known, rounded up to whole tiles."""
    assert size.const is not None, size
    return -(-size.const // DEPTH) * DEPTH


@dataclass(frozen=True, eq=False)
class Operand:
    """Some lines of an operand in shared memory, of element ``deep`` < depth of line ``line`` < size of an expression.
    ``threads``: how many fill it together; ``boards``: for how many times so many lines there is room."""

    name: str
    dtype: str
    expr: Expr
    line: str
    size: Dim
    deep: str
    depth: Dim
    lines: int
    threads: int
    names: Names
    bounds: tuple[Bounds, ...]
    boards: int = 1
    along: bool = field(init=False)
    """Whether neighbours in memory are neighbours of a line."""
    read: Chunks = field(init=False)
    wide: int = field(init=False)
    """Elements that a thread copies at once, 0 where it is one."""
    board: Buffer = field(init=False)
    held: Buffer = field(init=False)
    """Registers of what is fetched."""

    def __post_init__(self) -> None:
        found = chunks(self.expr, self.deep, self.depth, True, self.bounds, None)
        object.__setattr__(self, "along", follows(self.expr, self.deep, self.line))
        object.__setattr__(self, "read", found)
        object.__setattr__(self, "wide", found.lanes if self.along and found.lanes > 1 else 0)
        for kind, size in (
            ("board", self.boards * self.lines * self.pitch),
            ("held", self.threads * self.accesses * self.wide),
        ):
            object.__setattr__(self, kind, Buffer(f"${kind}.{self.name}", self.dtype, const(size), "temp"))

    @property
    def length(self) -> int:
        """Elements of a line, with what is padding."""
        return whole_tiles(self.depth)

    @property
    def pitch(self) -> int:
        """Elements from line to line."""
        return padded(self.length, self.dtype)

    @property
    def accesses(self) -> int:
        """Of a thread, where they are wide."""
        return -(-self.lines * self.length // (self.wide * self.threads)) if self.wide else 0

    @property
    def direct(self) -> bool:
        """Whether it may be copied from memory to shared memory as it is."""
        return self.wide * itemsize(self.dtype) == BYTES and isinstance(self.expr, Load)

    def copy(self, thread: Dim, first: Dim, board: Dim) -> list[Stmt]:
        """The lines from ``first`` on, on their way to a board, 0 outside of the operand. Only where ``direct``."""

        def body(each: Dim, some: Dim, line: Dim, deep: Dim) -> list[Stmt]:
            value = Moved({self.line: first + line, self.deep: deep}).expr(self.expr)
            assert isinstance(value, Load)
            lane, at = self.names(), (board * self.lines + line) * self.pitch + deep
            inside = Test((some, self.size - 1 - first - line, self.depth - 1 - deep))
            element = Load(value.dtype, value.buffer, value.index + lane)
            found = Choose(self.dtype, inside, element, Const(self.dtype, 0.0))
            copy = Ahead(name_of(lane), const(self.wide), (Store(self.board, at + lane, found),))
            return [copy] if self._whole else [If(Test((some,)), (copy,))]

        return self._each(thread, body)

    @property
    def _whole(self) -> bool:
        return self.lines * self.length % (self.wide * self.threads) == 0

    def fetch(self, thread: Dim, first: Dim) -> list[Stmt]:
        """The lines from ``first`` on, to registers, 0 outside of the operand; nothing if not wide."""
        if not self.wide:
            return []

        def body(each: Dim, some: Dim, line: Dim, deep: Dim) -> list[Stmt]:
            lane, other = self.names(), self.names()
            mine = thread * (self.accesses * self.wide) + each * self.wide
            none = Loop(name_of(other), const(self.wide), (Store(self.held, mine + other, Const(self.dtype, 0.0)),))
            env = {self.line: first + line, self.deep: deep}
            return [
                If(
                    Test((some, self.size - 1 - first - line, self.depth - 1 - deep)),
                    self.read.taken(self.held, mine, env, none, lane),
                    (none,),
                )
            ]

        return self._each(thread, body)

    def put(self, thread: Dim) -> list[Stmt]:
        """What was fetched, to shared memory."""

        def body(each: Dim, some: Dim, line: Dim, deep: Dim) -> list[Stmt]:
            lane = self.names()
            mine = thread * (self.accesses * self.wide) + each * self.wide
            copy = Wide(
                name_of(lane),
                const(self.wide),
                (Store(self.board, line * self.pitch + deep + lane, Load(self.dtype, self.held, mine + lane)),),
            )
            return [copy] if self._whole else [If(Test((some,)), (copy,))]

        return self._each(thread, body)

    def _each(self, thread: Dim, body: Callable[[Dim, Dim, Dim, Dim], Sequence[Stmt]]) -> list[Stmt]:
        """For each access of a thread: its number, whether it is one (>= 0), its line and element."""

        def one(each: Dim) -> Sequence[Stmt]:
            number = thread + each * self.threads
            by = self.length // self.wide
            line = floordiv(number, by)
            return body(each, self.lines - 1 - line, line, (number - line * by) * self.wide)

        return [nest(self.names, self.accesses, one)]

    def fill(self, thread: Dim, first: Dim) -> list[Stmt]:
        """The lines from ``first`` on, to shared memory, 0 outside of the operand."""
        if self.wide:
            return [*self.fetch(thread, first), *self.put(thread)]
        each, by = self.names(), self.length if self.along else self.lines
        number = thread + each * self.threads
        other, mine = floordiv(number, by), number - floordiv(number, by) * by
        line, deep = (other, mine) if self.along else (mine, other)
        value = Moved({self.line: first + line, self.deep: deep}).expr(self.expr)
        inside = Test((self.size - 1 - first - line, self.depth - 1 - deep))
        store = Store(self.board, line * self.pitch + deep, Choose(value.dtype, inside, value, Const(value.dtype, 0.0)))
        count = self.lines * self.length
        body: tuple[Stmt, ...] = (store,)
        if count % self.threads:
            body = (If(Test((count - 1 - number,)), body),)
        return [Loop(name_of(each), const(-(-count // self.threads)), body)]
