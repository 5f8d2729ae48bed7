"""Kernels mapped to blocks and threads: the same loop IR, with outer loops that are blocks and inner ones that are
threads of a block.

Run one after the other, the mapped loops compute what the kernel did, which is how a machine without a GPU tests
the mapping; what the CUDA printer adds is only that they run at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, relu, symbol
from egshape.plan.folds import LONG, Likely, along, columns, identity, joined, stages, totals
from egshape.plan.loops import (
    Assign,
    Buffer,
    Call,
    Contract,
    Free,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    While,
    statements,
)
from egshape.plan.parallel import independent, writes_only
from egshape.plan.turned import turned
from egshape.plan.visit import Moved
from egshape.plan.wide import divides, left, likely_divides, line, lines

THREADS = 256
"""Threads of a block."""
WARP = 32
EACH = 4
"""Elements of a row for each of its threads, before there are more threads."""


@dataclass(frozen=True, eq=False, slots=True)
class Grid(Loop):
    """A loop over the blocks of a launch: its rounds may run in any order, or at the same time."""


@dataclass(frozen=True, eq=False, slots=True)
class Threads(Loop):
    """A loop over the threads of a block: its rounds may run in any order, or at the same time; where ``wait`` is
    set, none goes on to what follows before all are done, or with ``warp`` before those of the first warp are done,
    which then are the only ones that have something to do until all wait."""

    wait: bool = True
    warp: bool = False


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
    narrow: bool = False
    """Whether indices are computed in 32 bits."""
    fits: tuple[Dim, ...] = ()
    """What must be >= 0 for this launch; ``otherwise`` is the one for where it is not."""
    otherwise: Launch | None = None


def launch(kernel: Kernel, likely: Likely, threads: int = THREADS) -> Launch:
    """How a kernel runs on a grid: a block a row where rows are long, else a thread an iteration; what cannot be
    shown to be independent runs on one thread."""
    loops, body = _leading(kernel.body)
    likely = _first(likely)
    if len(body) == 1 and isinstance(body[0], Contract):
        from egshape.plan import blocks

        return blocks.contracted(kernel, loops, body[0], likely, threads)
    while loops and not (all(_is_closed(loop.extent) for loop in loops) and
                         (all(isinstance(loop, Free) for loop in loops) or writes_only(kernel)
                          or independent(loops, kernel.private))):
        loops, body = loops[:-1], (loops[-1],)
    folded = None if kernel.private else columns(loops, body, likely, threads)
    if folded is not None:
        return _sections(kernel, folded.nest, folded.body, folded.shared)
    longest = max((likely(stmt.extent) for stmt in body if isinstance(stmt, Loop)), default=0.0)
    together = any(isinstance(stmt, Free) for stmt in statements(body))
    if together or (longest >= LONG and not along(loops, body)):
        row = threads if together else _for_row(longest, threads)
        found = _Rows(kernel, loops, row, likely).mapped(body)
        if found is not None:
            return replace(found, otherwise=_Rows(kernel, loops, row, None).mapped(body)) if found.fits else found
    across = None if kernel.private else turned(loops, body, threads)
    if across is not None:
        return _sections(kernel, across.nest, [(across.threads, part) for part in across.sections], across.shared)
    wide = _wide(kernel, loops, body, likely, threads)
    if wide is None or wide.fits:
        plain = _flat(kernel, loops, body, threads)
        return plain if wide is None else replace(wide, otherwise=plain)
    return wide


def launches(kernel: Kernel, likely: Likely, threads: int = THREADS) -> tuple[Launch, ...]:
    """How a kernel runs, in one or more launches one behind the other."""
    from egshape.plan.narrow import narrowed

    parts = stages(kernel, *_leading(kernel.body), _first(likely))
    return tuple(narrowed(launch(each, likely, threads)) for each in parts)


def _first(likely: Likely) -> Likely:
    """Likely sizes, in the first round of the loops that they depend on."""
    return lambda dim: likely(dim.substitute({name: 0 for name in dim.symbols() if name.startswith("$")}))


def _sections(kernel: Kernel, nest: Sequence[Loop], sections: Sequence[tuple[int, tuple[Stmt, ...]]],
              shared: tuple[Buffer, ...]) -> Launch:
    """Blocks in which so many threads do one thing after the other, with barriers between."""
    blocks = product(loop.extent for loop in nest)
    env = at_round(nest, symbol("$block"))
    place = tuple(LetIndex(var, Index("i64", at)) for var, at in env.items())
    body = []
    for number, (count, inner) in enumerate(sections):
        thread = f"$t{number}"
        body.append(Threads(thread, const(count), Moved({"$t": symbol(thread)}).body(inner)))
    grid = Grid("$block", blocks, (*place, *body))
    return Launch(replace(kernel, body=(grid,)), blocks, max(count for count, _ in sections), shared)


def _leading(body: tuple[Stmt, ...]) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops around everything, and what is inside."""
    loops: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    return tuple(loops), body


def _for_row(length: float, most: int) -> int:
    """Threads for a row: a warp at least, and some elements for each."""
    threads = WARP
    while threads < most and threads * EACH < length:
        threads *= 2
    return min(threads, most)


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
    own = _pieces(kernel, total, flat)
    inner = Moved(at_round(loops, flat), own).body(body)
    if total.const != 1:
        inner = (If(Test((total - 1 - flat,)), inner),)
    mapped = Grid("$block", blocks, (Threads("$thread", const(threads), inner, wait=False),))
    return Launch(_with_pieces(kernel, mapped, own), blocks, threads)


def _wide(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int
          ) -> Launch | None:
    """A thread for some iterations side by side; None where that is no gain or the likely sizes are no multiples."""
    if not loops or kernel.private:
        return None
    if len(loops) == 1:
        return _wide_line(kernel, replace(loops[0], body=body), threads)
    found = lines(replace(loops[-1], body=body), kernel.bounds)
    if found is None:
        return None
    extent, lanes = loops[-1].extent, found.lanes
    shown = divides(extent, lanes, kernel.bounds)
    if not shown and not likely_divides(extent, lanes, likely):
        return None
    nest = (*loops[:-1], replace(loops[-1], extent=floordiv(extent, lanes)))
    total = product(loop.extent for loop in nest)
    blocks, thread = ceildiv(total, threads), symbol("$thread")
    flat = symbol("$block") * threads + thread
    env = at_round(nest, flat)
    registers: list[Buffer] = []
    inner = found.body(env.pop(loops[-1].var) * lanes, thread, threads, registers, "$")
    inside = If(Test((total - 1 - flat,)), Moved(env).body(inner))
    mapped = Grid("$block", blocks, (Threads("$thread", const(threads), (inside,), wait=False),))
    return Launch(replace(kernel, body=(mapped,)), blocks, threads, tuple(registers), tuple(registers),
                  fits=() if shown else (left(extent, lanes),))


def _wide_line(kernel: Kernel, loop: Loop, threads: int) -> Launch | None:
    """A thread for some iterations of the only loop; the last one may have fewer, and takes them one by one."""
    found = lines(loop, kernel.bounds, whole=const(0))
    if found is None:
        return None
    lanes, thread, rest = found.lanes, symbol("$thread"), symbol("$rest")
    total = ceildiv(loop.extent, lanes)
    blocks = ceildiv(total, threads)
    first = (symbol("$block") * threads + thread) * lanes
    registers: list[Buffer] = []
    inner = found.body(first, thread, threads, registers, "$")
    alone = Loop("$rest", relu(loop.extent - first), Moved({loop.var: first + rest}).body(loop.body))
    both = If(Test((loop.extent - first - lanes,)), inner, (alone,))
    mapped = Grid("$block", blocks, (Threads("$thread", const(threads), (both,), wait=False),))
    return Launch(replace(kernel, body=(mapped,)), blocks, threads, tuple(registers), tuple(registers))


Pieces = Mapping[Buffer, tuple[Buffer, Dim]]


def _pieces(kernel: Kernel, count: Dim, number: Dim) -> Pieces:
    """A piece of each private buffer for each of ``count`` rounds."""
    return {buffer: (Buffer(buffer.name, buffer.dtype, buffer.size * count, buffer.kind), number * buffer.size)
            for buffer in kernel.private}


def _with_pieces(kernel: Kernel, grid: Grid, own: Pieces) -> Kernel:
    outputs = tuple(own[buffer][0] if buffer in own else buffer for buffer in kernel.outputs)
    return replace(kernel, body=(grid,), outputs=outputs, private=())


class _Rows:
    """A block a row: loops over the row are shared by the threads. ``likely``: None for one element at a time."""

    def __init__(self, kernel: Kernel, loops: Sequence[Loop], threads: int, likely: Likely | None) -> None:
        self.kernel = kernel
        self.loops = loops
        self.threads = threads
        self.rows = product(loop.extent for loop in loops)
        self.likely = likely
        self.shared: list[Buffer] = []
        self.registers: list[Buffer] = []
        self.fits: dict[Dim, None] = {}
        self.fresh = 0
        self.fixed = Moved({loop.var: symbol(f"row{loop.var}") for loop in loops})

    def mapped(self, body: tuple[Stmt, ...]) -> Launch | None:
        """The launch; None where a loop over the row keeps its order."""
        inner: list[Stmt] = []
        for stmt in body:
            found = self.stmt(stmt)
            if found is None:
                return None
            inner += found
        block = symbol("$block")
        own = _pieces(self.kernel, self.rows, block)
        grid = Grid("$block", self.rows, Moved(at_round(self.loops, block), own).body(tuple(inner)))
        return Launch(_with_pieces(self.kernel, grid, own), self.rows, self.threads,
                      (*self.shared, *self.registers), tuple(self.registers), fits=tuple(self.fits))

    def name(self) -> str:
        """A new name."""
        self.fresh += 1
        return f"$r{self.fresh}"

    def stmt(self, stmt: Stmt) -> list[Stmt] | None:
        """A statement that all threads of a row's block run together; None if they cannot."""
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
            case Loop():
                folds, fixed = totals(stmt), self.fixed.stmt(stmt)
                assert isinstance(fixed, Loop)
                if folds is None or not independent((fixed,)):
                    return None
                return self._shared_loop(stmt, folds)
        return None

    def _free(self, loop: Free) -> list[Stmt]:
        """A loop whose rounds the threads share, whatever is in them."""
        thread, step = symbol(self.name()), symbol(self.name())
        inner = Moved({loop.var: thread + step * self.threads}).body(loop.body)
        rounds = Loop(_name(step), ceildiv(relu(loop.extent - thread), self.threads), inner)
        return [self._threads(thread, self.threads, (rounds,))]

    def _shared_loop(self, loop: Loop, folds: Mapping[str, Call]) -> list[Stmt]:
        """The loop with a thread for every ``threads``th round; totals are folded by thread, then over threads."""
        thread, step = symbol(self.name()), symbol(self.name())
        parts = {name: f"{self.name()}{name}" for name in folds}
        body: list[Stmt] = []
        for stmt in loop.body:
            if isinstance(stmt, Assign):
                call, part = folds[stmt.name], parts[stmt.name]
                body.append(Assign(part, replace(call, args=(Var(call.dtype, part), call.args[1]))))
            else:
                body.append(stmt)
        rounds, inner = self._rounds(replace(loop, body=tuple(body)), thread, step)
        first = [Local(parts[name], identity(call)) for name, call in folds.items()]
        boards = {name: Buffer(f"shared{self.name()}", call.dtype, const(self.threads), "temp")
                  for name, call in folds.items()}
        self.shared += boards.values()
        last = [Store(boards[name], thread, Var(call.dtype, parts[name])) for name, call in folds.items()]
        out: list[Stmt] = [self._threads(thread, self.threads, (*first, Loop(_name(step), rounds, inner), *last))]
        width = self.threads // 2
        while width and folds:
            halves = tuple(Store(boards[name], thread, _halved(call, boards[name], thread, width))
                           for name, call in folds.items())
            out.append(replace(self._threads(thread, width, halves), warp=1 < width <= WARP // 2))
            width //= 2
        for name, call in folds.items():
            total = Load(call.dtype, boards[name], const(0))
            out.append(Assign(name, replace(call, args=(Var(call.dtype, name), total))))
        return out

    def _rounds(self, loop: Loop, thread: Dim, step: Dim) -> tuple[Dim, tuple[Stmt, ...]]:
        """How many rounds of a loop a thread has, and what it does in each; several elements where they divide."""
        found = lines(loop, self.kernel.bounds, self.kernel.private) if self.likely is not None else None
        if found is not None and self.likely is not None:
            whole, lanes = line(loop), found.lanes
            shown = divides(whole, lanes, self.kernel.bounds)
            if shown or (_is_closed(whole) and likely_divides(whole, lanes, self.likely)):
                if not shown:
                    self.fits[left(whole, lanes)] = None
                first = (thread + step * self.threads) * lanes
                inner = found.body(first, thread, self.threads, self.registers, self.name())
                return ceildiv(relu(floordiv(loop.extent, lanes) - thread), self.threads), inner
        inner = Moved({loop.var: thread + step * self.threads}).body(loop.body)
        return ceildiv(relu(loop.extent - thread), self.threads), inner

    def _threads(self, thread: Dim, count: int, body: tuple[Stmt, ...]) -> Threads:
        return Threads(_name(thread), const(count), body)


def _is_closed(dim: Dim) -> bool:
    """Whether a size is known before the launch."""
    return not any(name.startswith("$") for name in dim.symbols())


def _name(one: Dim) -> str:
    (name,) = one.symbols()
    return name


def _halved(call: Call, board: Buffer, thread: Dim, width: int) -> Call:
    return joined(call, Load(call.dtype, board, thread), Load(call.dtype, board, thread + width))
