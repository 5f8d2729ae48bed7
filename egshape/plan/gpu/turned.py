"""Transposed copies on a grid: a block reads a square along the axis of what it loads, and writes it along that of what
it stores, with a tile in shared memory between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.streams import Rounds, Streams
from egshape.plan.gpu.wide import divides, left, likely_divides, loads
from egshape.plan.ir.launch import BYTES, Grid, Launch, Threads, at_round
from egshape.plan.ir.loops import Buffer, Expr, Index, Kernel, Let, LetIndex, Load, Loop, Stmt, Store
from egshape.plan.ir.visit import Moved

SIDE, NARROW_SIDE, PLAIN_SIDE = 32, 64, 64
"""Elements of a side of a tile: a warp moves whole lines of memory, of 16 bits and less too. Where lines do not divide,
elements are taken one by one, and their lines begin anywhere: longer ones have less at their ends that others move
too."""
THREADS = 256
"""Of a block for such tiles; fewer have small ones."""
SHARED = 36 << 10
"""Bytes of shared memory up to which tiles of a block may be of that size."""
BANK = 4
"""Bytes of a bank of shared memory."""


def turned(
    kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int
) -> Launch | None:
    """The launch of a nest that stores along its last loop and loads along another one; None if it does not."""
    if len(loops) < 2 or kernel.private or not all(isinstance(stmt, Let | Store) for stmt in body):
        return None
    last = loops[-1]
    stores = [stmt for stmt in body if isinstance(stmt, Store)]
    stored = {store.buffer for store in stores}
    if not all(coefficient(store.index, last.var) is const(1) for store in stores) or _few(last):
        return None
    found = [load for load, always in loads(body) if always and load.buffer not in stored]
    if stored & {load.buffer for load, _ in loads(body)}:
        return None
    for across in loops[:-1]:
        crossing = [load for load in found if not _few(across) and _crosses(load, across.var, last.var)]
        if crossing:
            return _versions(kernel, loops, across, body, crossing, likely, threads)
    return None


def _few(loop: Loop) -> bool:
    return loop.extent.const is not None and loop.extent.const < SIDE // 4


def _crosses(load: Load, along: str, other: str) -> bool:
    step = coefficient(load.index, other)
    return coefficient(load.index, along) is const(1) and step is not None and (step.const is None or step.const > 4)


def _versions(
    kernel: Kernel,
    loops: Sequence[Loop],
    across: Loop,
    body: tuple[Stmt, ...],
    crossing: Sequence[Load],
    likely: Likely,
    threads: int,
) -> Launch:
    """A version with accesses of 16 bytes where both sides divide, shown or likely, and one for where they do not."""
    dtypes = [load.dtype for load in crossing] + [stmt.buffer.dtype for stmt in body if isinstance(stmt, Store)]
    size = max(map(itemsize, dtypes))
    side = (SIDE if size >= BANK else NARROW_SIDE) if threads >= THREADS else 8
    large = threads >= THREADS and PLAIN_SIDE**2 * sum(itemsize(load.dtype) for load in crossing) <= SHARED
    lanes = min(BYTES // size, side * side // threads)
    extents = across.extent, loops[-1].extent
    open_ = [extent for extent in extents if not divides(extent, lanes, kernel.bounds)]
    plain = _Tile(PLAIN_SIDE if large else side, 1, threads)
    if lanes > 1 and all(likely_divides(extent, lanes, likely) for extent in open_):
        made = _mapped(kernel, loops, across, body, crossing, _Tile(side, lanes, threads))
        if not open_:
            return made
        return replace(
            made,
            fits=tuple(left(extent, lanes) for extent in open_),
            otherwise=_mapped(kernel, loops, across, body, crossing, plain),
        )
    return _mapped(kernel, loops, across, body, crossing, plain)


@dataclass(frozen=True)
class _Tile:
    """``side`` x ``side`` elements, of which a thread takes ``lanes`` side by side at once."""

    side: int
    lanes: int
    most: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return min(self.most, self.side * self.side // self.lanes)

    @property
    def high(self) -> int:
        """Lines that the threads take at once."""
        return self.threads * self.lanes // self.side

    def pitch(self, dtype: str) -> int:
        """Elements from line to line in shared memory: an odd number of banks, so that a column lies in all of them."""
        return self.side + max(1, BANK // itemsize(dtype))


def _mapped(
    kernel: Kernel, loops: Sequence[Loop], across: Loop, body: tuple[Stmt, ...], crossing: Sequence[Load], tile: _Tile
) -> Launch:
    last, side = loops[-1], tile.side
    rest = tuple(loop for loop in loops[:-1] if loop is not across)
    nest = (*rest, Loop("$across", ceildiv(across.extent, side), ()), Loop("$last", ceildiv(last.extent, side), ()))
    blocks = product(loop.extent for loop in nest)
    place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, symbol("$block")).items())
    first, second = symbol("$across") * side, symbol("$last") * side
    boards = {
        load: Buffer(f"$square{number}", load.dtype, const(side * tile.pitch(load.dtype)), "temp")
        for number, load in enumerate(crossing)
    }
    column, line = symbol(across.var) - first, symbol(last.var) - second
    held = {load: Load(load.dtype, board, line * tile.pitch(load.dtype) + column) for load, board in boards.items()}
    fill = tuple(Store(board, held[load].index, load) for load, board in boards.items())
    write = _Held({}, held).body(body)
    registers: list[Buffer] = []
    sections: list[Stmt] = []
    ways = ((across, last, first, second, fill, True), (last, across, second, first, write, False))
    for number, (along, other, begin, base, inner, wait) in enumerate(ways):
        thread = symbol(f"$t{number}")
        rounds = _rounds(tile, thread, along, other, begin, base)
        streams = Streams(f"$s{number}", rounds, registers, kernel.bounds, along.extent, own=frozenset(boards.values()))
        sections.append(
            Threads(
                f"$t{number}",
                const(tile.threads),
                (*streams.read(inner, along.var), *streams.run(inner, along.var)),
                wait=wait,
            )
        )
    whole = replace(kernel, body=(Grid("$block", blocks, (*place, *sections)),))
    return Launch(
        whole,
        blocks,
        tile.threads,
        (*boards.values(), *registers),
        tuple(registers),
        why=f"tiles of {side} x {side}, {tile.lanes} elements an access",
    )


def _rounds(tile: _Tile, thread: Dim, along: Loop, other: Loop, begin: Dim, base: Dim) -> Rounds:
    """Rounds of threads along one axis of the tile, lines of it along the other one."""
    groups = tile.side // tile.lanes
    row = floordiv(thread, groups)
    first = begin + (thread - row * groups) * tile.lanes

    def index(at: Dim) -> Dim:
        return base + row + at * tile.high

    return Rounds(
        tile.side // tile.high,
        tile.lanes,
        thread,
        tile.threads,
        lambda _: first,
        lambda at: (along.extent - 1 - first, other.extent - 1 - index(at)),
        lambda at: (LetIndex(other.var, Index("i64", index(at))),),
        frozenset((other.var,)),
    )


class _Held(Moved):
    """Statements with other expressions in the place of loads."""

    def __init__(self, env: dict[str, Dim], held: dict[Load, Load]) -> None:
        super().__init__(env)
        self.held = held

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr in self.held:
            return self.held[expr]
        return super()._expr(expr)
