"""How a kernel is mapped to blocks and threads: which kernels take which kind of launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import ceildiv, const, product, relu, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import independent, writes_only
from egshape.plan.gpu import columns, elements, turned
from egshape.plan.gpu.folds import LONG, Likely, along, apart
from egshape.plan.gpu.product import blocks
from egshape.plan.gpu.rows import lanes as row_lanes
from egshape.plan.ir.launch import Grid, Launch, Threads, at_round, is_closed, pieces, with_pieces
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Contract,
    Free,
    If,
    Kernel,
    Let,
    LetIndex,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    While,
    name_of,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import statements

THREADS = 256
"""Threads of a block."""
ROOM = 40 << 10
"""Bytes of shared memory for what the rounds of a block share."""
SHORT = 4
"""Elements of a row (at the likely sizes) up to which a thread takes it alone."""


def launch(kernel: Kernel, likely: Likely, threads: int = THREADS) -> Launch:
    """How a kernel runs on a grid: a block a row where rows are long, else a thread an iteration; what cannot be
    shown to be independent runs on one thread."""
    loops, body = leading(kernel.body)
    likely = first_round(likely)
    if len(body) == 1 and isinstance(body[0], Contract):
        return blocks.contracted(kernel, loops, body[0], likely, threads)
    while loops and not (
        all(is_closed(loop.extent) for loop in loops)
        and (all(isinstance(loop, Free) for loop in loops) or writes_only(kernel) or independent(loops, kernel.private))
    ):
        loops, body = loops[:-1], (loops[-1],)
    folded = columns.columns(kernel, loops, body, likely, threads)
    if folded is not None:
        return folded
    if any(isinstance(stmt, Free) for stmt in statements(body)):
        together = _Together(kernel, loops, threads).mapped(body)
        if together is not None:
            return together
    longest = max((likely(stmt.extent) for stmt in body if isinstance(stmt, Loop)), default=0.0)
    if (longest >= LONG and not along(loops, body)) or (longest > SHORT and apart(loops, body)):
        found = row_lanes.rows(kernel, loops, body, likely, threads)
        if found is not None:
            return found
    across = turned.turned(kernel, loops, body, likely, threads)
    if across is not None:
        return across
    return elements.elements(kernel, loops, body, likely, threads) or _flat(kernel, loops, body, threads)


def first_round(likely: Likely) -> Likely:
    """Likely sizes, in the first round of the loops that they depend on."""
    return lambda dim: likely(dim.substitute({name: 0 for name in dim.symbols() if name.startswith("$")}))


def leading(body: tuple[Stmt, ...]) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops around everything, and what is inside."""
    loops: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    return tuple(loops), body


def _flat(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], threads: int) -> Launch:
    """A thread an iteration."""
    total = product(loop.extent for loop in loops)
    if total.const == 1:
        threads = 1
    blocks, block, thread = ceildiv(total, threads), symbol("$block"), symbol("$thread")
    flat = block * threads + thread
    own = pieces(kernel, total, flat)
    inner = Moved(at_round(loops, flat), own).body(body)
    if total.const != 1:
        inner = (If(Test((total - 1 - flat,)), inner),)
    mapped = Grid("$block", blocks, (Threads("$thread", const(threads), inner, wait=False),))
    return Launch(with_pieces(kernel, mapped, own), blocks, threads)


class _Together:
    """A block an iteration: loops whose rounds may run at the same time are shared by the threads, which wait for each
    other behind each."""

    def __init__(self, kernel: Kernel, loops: Sequence[Loop], threads: int) -> None:
        self.kernel, self.loops, self.threads = kernel, loops, threads
        self.rows = product(loop.extent for loop in loops)
        self.fresh = 0

    def mapped(self, body: tuple[Stmt, ...]) -> Launch | None:
        """The launch; None where a loop is not of that kind."""
        inner: list[Stmt] = []
        for stmt in body:
            found = self.stmt(stmt)
            if found is None:
                return None
            inner += found
        block, shared = symbol("$block"), self._shared()
        kernel = replace(self.kernel, private=tuple(each for each in self.kernel.private if each not in shared))
        own = pieces(kernel, self.rows, block)
        grid = Grid("$block", self.rows, Moved(at_round(self.loops, block), own).body(tuple(inner)))
        whole = with_pieces(kernel, grid, own)
        return Launch(whole, self.rows, self.threads, shared, why="a block for each line, or part of one")

    def _shared(self) -> tuple[Buffer, ...]:
        """Scratch of a known size, as long as there is room for it in shared memory."""
        found, room = list[Buffer](), ROOM
        for each in self.kernel.private:
            if each.size.const is not None and each.size.const * itemsize(each.dtype) <= room:
                room -= each.size.const * itemsize(each.dtype)
                found.append(each)
        return tuple(found)

    def name(self) -> str:
        """A new name."""
        self.fresh += 1
        return f"$r{self.fresh}"

    def stmt(self, stmt: Stmt) -> list[Stmt] | None:
        """A statement that all threads of a block run together; None if they cannot."""
        match stmt:
            case Let() | Local() | LetIndex() | Assign():
                return [stmt]
            case Store():
                return [Threads(self.name(), const(1), (stmt,))]
            case Free():
                return self._free(stmt)
            case While():
                inner = [self.stmt(each) for each in stmt.body]
                return None if None in inner else [replace(stmt, body=tuple(s for each in inner for s in each or ()))]
        return None

    def _free(self, loop: Free) -> list[Stmt]:
        """A loop whose rounds the threads share, whatever is in them."""
        thread, step = symbol(self.name()), symbol(self.name())
        inner = Moved({loop.var: thread + step * self.threads}).body(loop.body)
        rounds = Loop(name_of(step), ceildiv(relu(loop.extent - thread), self.threads), inner)
        return [Threads(name_of(thread), const(self.threads), (rounds,))]
