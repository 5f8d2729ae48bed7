"""Kernels mapped to blocks and threads: the same loop IR, with outer loops that are blocks and inner ones that are
threads of a block.

Run one after the other, the mapped loops compute what the kernel did, which is how a machine without a GPU tests
the mapping; what the CUDA printer adds is only that they run at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, relu, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.folds import LONG, Likely, along, apart, stages
from egshape.plan.gpu.wide import BYTES
from egshape.plan.loops import (
    Assign,
    Attend,
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
    statements,
)
from egshape.plan.parallel import independent, writes_only
from egshape.plan.visit import Moved

THREADS = 256
"""Threads of a block."""
WARP = 32
SHORT = 4
"""Elements of a row (at the likely sizes) up to which a thread takes it alone."""


@dataclass(frozen=True, eq=False, slots=True)
class Grid(Loop):
    """A loop over the blocks of a launch: its rounds may run in any order, or at the same time."""


@dataclass(frozen=True, eq=False, slots=True)
class Threads(Loop):
    """A loop over the threads of a block: its rounds may run in any order, or at the same time; where ``wait`` is
    set, none goes on to what follows before all are done."""

    wait: bool = True


@dataclass(frozen=True)
class Launch:
    """A mapped kernel. ``shared``: buffers of a block's own (static sizes); ``kernel.private`` buffers have become
    one piece for each block."""

    kernel: Kernel
    blocks: Dim
    threads: int
    shared: tuple[Buffer, ...] = ()
    registers: tuple[Buffer, ...] = ()
    """Those of ``shared`` that are registers: element thread * count + r is the thread's own."""
    over: tuple[Buffer, ...] = ()
    """Those of ``shared`` that lie where the others lie which are no registers: whichever are written, what was in the
    others is lost, and a barrier must stand between."""
    narrow: bool = False
    """Whether indices are computed in 32 bits."""
    fits: tuple[Dim, ...] = ()
    """What must be >= 0 for this launch; ``otherwise`` is the one for where it is not."""
    otherwise: Launch | None = None
    why: str = ""
    """What was chosen, and why."""

    def places(self) -> tuple[dict[Buffer, int], int]:
        """Where each buffer begins in a block's shared memory, and the bytes of that."""
        starts: dict[Buffer, int] = {}
        ends = {False: 0, True: 0}
        for buffer in self.shared:
            if buffer not in self.registers:
                over = buffer in self.over
                starts[buffer] = ends[over]
                ends[over] += -(-(buffer.size.const or 0) * itemsize(buffer.dtype) // BYTES) * BYTES
        return starts, max(ends.values())


def launch(kernel: Kernel, likely: Likely, threads: int = THREADS) -> Launch:
    """How a kernel runs on a grid: a block a row where rows are long, else a thread an iteration; what cannot be
    shown to be independent runs on one thread."""
    loops, body = _leading(kernel.body)
    likely = _first(likely)
    if len(body) == 1 and isinstance(body[0], Contract):
        from egshape.plan.gpu import blocks

        return blocks.contracted(kernel, loops, body[0], likely, threads)
    while loops and not (all(is_closed(loop.extent) for loop in loops) and
                         (all(isinstance(loop, Free) for loop in loops) or writes_only(kernel)
                          or independent(loops, kernel.private))):
        loops, body = loops[:-1], (loops[-1],)
    from egshape.plan.gpu import columns, elements, row_lanes, turned

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


def launches(kernel: Kernel, likely: Likely, threads: int = THREADS) -> tuple[Launch, ...]:
    """How a kernel runs, in one or more launches one behind the other."""
    from egshape.plan.gpu.narrow import narrowed

    loops, body = _leading(kernel.body)
    if len(body) == 1 and isinstance(body[0], Attend):
        from egshape.plan.gpu import flash_split

        return flash_split.launches(kernel, loops, body[0], _first(likely))
    parts = stages(kernel, *_leading(kernel.body), _first(likely))
    return tuple(narrowed(launch(each, likely, threads)) for each in parts)


def _first(likely: Likely) -> Likely:
    """Likely sizes, in the first round of the loops that they depend on."""
    return lambda dim: likely(dim.substitute({name: 0 for name in dim.symbols() if name.startswith("$")}))


def _leading(body: tuple[Stmt, ...]) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops around everything, and what is inside."""
    loops: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    return tuple(loops), body


def at_round(loops: Sequence[Loop], flat: Dim) -> dict[str, Dim]:
    """The loop variables of the flat number of an iteration."""
    env, size = {}, const(1)
    for number, loop in reversed(list(enumerate(loops))):
        quotient = floordiv(flat, size)
        env[loop.var] = quotient if number == 0 else quotient - floordiv(flat, size * loop.extent) * loop.extent
        size = size * loop.extent
    return env


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


Pieces = Mapping[Buffer, tuple[Buffer, Dim]]


def pieces(kernel: Kernel, count: Dim, number: Dim) -> Pieces:
    """A piece of each private buffer for each of ``count`` rounds."""
    return {buffer: (Buffer(buffer.name, buffer.dtype, buffer.size * count, buffer.kind), number * buffer.size)
            for buffer in kernel.private}


def with_pieces(kernel: Kernel, grid: Grid, own: Pieces) -> Kernel:
    """A mapped kernel in which private buffers are these pieces."""
    outputs = tuple(own[buffer][0] if buffer in own else buffer for buffer in kernel.outputs)
    return replace(kernel, body=(grid,), outputs=outputs, private=())


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
        block = symbol("$block")
        own = pieces(self.kernel, self.rows, block)
        grid = Grid("$block", self.rows, Moved(at_round(self.loops, block), own).body(tuple(inner)))
        return Launch(with_pieces(self.kernel, grid, own), self.rows, self.threads, why="a block for each line")

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


def is_closed(dim: Dim) -> bool:
    """Whether a size is known before the launch."""
    return not any(name.startswith("$") for name in dim.symbols())

