"""Elementwise kernels on a grid: a thread takes some rounds of elements, so that enough bytes are under way, and takes
them by 16 bytes where lines divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu import folds as policy
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.rows.choice import ROOM
from egshape.plan.gpu.streams import Place, Rounds, Streams, lanes_of, places, wide
from egshape.plan.gpu.wide import divides, left, likely_divides
from egshape.plan.ir.launch import BYTES, Grid, Launch, Threads, at_round
from egshape.plan.ir.loops import Buffer, If, Index, Kernel, Let, LetIndex, Load, Loop, Stmt, Store, Test
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import buffers, dims, expressions

AHEAD = 32
"""Bytes of each array that a thread has under way, where there are threads enough."""
ROUNDS = 8
"""Of a thread at most."""
WORTH = 0.85
"""The part of the threads of blocks which has elements, from which on a block stays within a line."""


def elements(
    kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int
) -> Launch | None:
    """The launch of a nest around an elementwise body; None where it is none."""
    before, body = _split(loops, body)
    kept = _kept(loops, body)
    if kept is None or kernel.private or product(loop.extent for loop in loops).const == 1:
        return None
    if likely(product(loop.extent for loop in loops)) <= threads:
        return None  # a thread for each
    last, known = loops[-1], {each.name: each.divisor for each in kernel.bounds}
    outer = frozenset(loop.var for loop in loops[:-1])
    found = [place for part in places(body, last.var, outer) for place in part]
    lanes, whole = lanes_of(found), const(0) if len(loops) == 1 else last.extent
    stored = places(body, last.var, outer)[1]
    if lanes > 1 and not (stored and all(wide(place, lanes, whole, known) for place in stored)):
        lanes = 1
    shown = lanes == 1 or len(loops) == 1 or divides(last.extent, lanes, kernel.bounds)
    if not shown and not likely_divides(last.extent, lanes, likely):
        lanes, shown = 1, True
    made = _mapped(kernel, loops, before, body, _Shape(lanes, kept, found, likely, threads))
    if shown:
        return made
    plain = _mapped(kernel, loops, before, body, _Shape(1, kept, found, likely, threads))
    return replace(made, fits=(left(last.extent, lanes),), otherwise=plain)


def _split(loops: Sequence[Loop], body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """The indices at the beginning that are the same for all elements, and the rest."""
    names, count = {loop.var for loop in loops}, 0
    written = {stmt.buffer for stmt in body if isinstance(stmt, Store)}
    for stmt in body:
        if (
            not isinstance(stmt, LetIndex)
            or written & set(buffers((stmt,)))
            or any(dim.symbols() & names for dim in dims((stmt,)))
        ):
            break
        count += 1
    return body[:count], body[count:]


def _kept(loops: Sequence[Loop], body: tuple[Stmt, ...]) -> frozenset[Buffer] | None:
    """The buffers that are read and written, each element by its own round; None where that is not shown, or the body
    is not elementwise."""
    if not loops or not all(isinstance(stmt, Let | LetIndex | Store) for stmt in body):
        return None
    stores = [(stmt.buffer, stmt.index) for stmt in body if isinstance(stmt, Store)]
    found = [(expr.buffer, expr.index) for expr in expressions(body) if isinstance(expr, Load)]
    kept = {buffer for buffer, _ in stores} & {buffer for buffer, _ in found}
    inner = {stmt.name for stmt in body if isinstance(stmt, LetIndex)}
    touched = {buffer: {index for each, index in (*stores, *found) if each is buffer} for buffer in kept}
    alone = all(len(indices) == 1 and not inner & next(iter(indices)).symbols() for indices in touched.values())
    return frozenset(kept) if alone else None


class _Shape:
    """``lanes`` elements of an access, ``count`` rounds of a thread."""

    def __init__(
        self, lanes: int, kept: frozenset[Buffer], found: Sequence[Place], likely: Likely, threads: int
    ) -> None:
        self.lanes, self.kept, self.likely, self.threads = lanes, kept, likely, threads
        sizes = [itemsize(buffer.dtype) for buffer, _ in found]
        self.most = min(ROUNDS, max(1, AHEAD // (lanes * max(sizes, default=BYTES))))
        while self.most > 1 and self.most * lanes * sum(max(1, size // 4) for size in sizes) > ROOM:
            self.most //= 2

    def count(self, total: Dim) -> int:
        """Rounds of a thread, fewer where there are not many elements."""
        rounds, each = self.most, self.likely(total) / self.lanes
        while rounds > 1 and each < rounds * policy.BUSY:
            rounds //= 2
        return rounds

    def within(self, line: Dim, count: int) -> int:
        """Rounds of a thread where a block takes elements of one line only, which needs no division for each; 0 where
        too many threads would have none."""
        groups = self.likely(line) / self.lanes
        while count:
            block = count * self.threads
            if groups >= WORTH * block * -(-groups // block):
                return count
            count //= 2
        return 0


def _mapped(
    kernel: Kernel, loops: Sequence[Loop], before: tuple[Stmt, ...], body: tuple[Stmt, ...], shape: _Shape
) -> Launch:
    last, lanes, threads = loops[-1], shape.lanes, shape.threads
    groups = floordiv(last.extent, lanes)
    count = shape.count(product(loop.extent for loop in loops))
    line = shape.within(last.extent, count) if len(loops) > 1 else 0
    thread, block, group = symbol("$thread"), symbol("$block"), symbol("$group")
    if line:
        count, piece = line, symbol("$piece")
        nest = (*loops[:-1], Loop("$piece", ceildiv(groups, threads * count), ()))
        blocks = product(loop.extent for loop in nest)
        above = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(nest, block).items())
        rounds = Rounds(
            count,
            lanes,
            thread,
            threads,
            lambda at: ((piece * count + at) * threads + thread) * lanes,
            lambda at: (groups - 1 - (piece * count + at) * threads - thread,),
        )
    else:
        nest = (*loops[:-1], replace(last, extent=groups))
        total = product(loop.extent for loop in nest)
        blocks, above = ceildiv(total, threads * count), ()

        def flat(at: Dim) -> Dim:
            return (block * count + at) * threads + thread

        def place(at: Dim) -> tuple[Stmt, ...]:
            env = at_round(nest, flat(at))
            env["$group"] = env.pop(last.var)
            return tuple(LetIndex(var, Index("i64", index)) for var, index in env.items())

        rounds = Rounds(
            count,
            lanes,
            thread,
            threads,
            lambda _: group * lanes,
            lambda at: (total - 1 - flat(at),),
            place,
            frozenset(loop.var for loop in loops[:-1]),
        )
    registers: list[Buffer] = []
    whole = const(0) if len(loops) == 1 else last.extent
    streams = Streams("$e", rounds, registers, kernel.bounds, whole, shape.kept)
    inner = [*streams.read(body, last.var), *streams.run(body, last.var)]
    if lanes > 1 and len(loops) == 1:
        inner.append(_rest(last, body, groups * lanes, block * threads + thread))
        blocks = ceildiv(last.extent, threads * count * lanes)
    grid = Grid("$block", blocks, (*before, *above, Threads("$thread", const(threads), tuple(inner), wait=False)))
    why = f"{count} rounds of {lanes} elements a thread" if count * lanes > 1 else "a thread an element"
    return Launch(
        replace(kernel, body=(grid,)),
        blocks,
        threads,
        tuple(registers),
        tuple(registers),
        why=f"{why}, a block within a line" if line else why,
    )


def _rest(loop: Loop, body: tuple[Stmt, ...], first: Dim, number: Dim) -> Stmt:
    """What is left behind the last whole access, an element for each of the first threads."""
    inside = Test((loop.extent - 1 - first - number,))
    return If(inside, Moved({loop.var: first + number}).body(body))
