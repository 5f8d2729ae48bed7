"""Transposed copies on a grid: a block reads a square along the axis of what it loads, and writes it along that of what
it stores, with a tile in shared memory between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from egshape.dims import Dim, ceildiv, const, floordiv, symbol
from egshape.plan.loops import Buffer, Expr, If, Let, Load, Loop, Stmt, Store, Test
from egshape.plan.parallel import coefficient
from egshape.plan.visit import Moved
from egshape.plan.wide import loads

SIDE = 32
"""Elements of a side of a tile: a warp reads and writes one line of it."""


@dataclass(frozen=True)
class Turned:
    """``nest``: the loops of the grid; ``sections``: what threads do, with the number of the thread in ``$t``, before
    all go on."""

    nest: tuple[Loop, ...]
    sections: tuple[tuple[Stmt, ...], ...]
    shared: tuple[Buffer, ...]
    threads: int


def turned(loops: Sequence[Loop], body: Sequence[Stmt], threads: int) -> Turned | None:
    """A nest that stores along its last loop and loads along another one; None if it does not."""
    if len(loops) < 2 or not all(isinstance(stmt, Let | Store) for stmt in body):
        return None
    last = loops[-1]
    stores = [stmt for stmt in body if isinstance(stmt, Store)]
    stored = {store.buffer for store in stores}
    if not all(coefficient(store.index, last.var) is const(1) for store in stores) or _few(last):
        return None
    found = [load for load, always in loads(body) if always and load.buffer not in stored]
    for across in loops[:-1]:
        crossing = [load for load in found if not _few(across) and _crosses(load, across.var, last.var)]
        if crossing:
            return _mapped(loops, across, body, crossing, threads)
    return None


def _few(loop: Loop) -> bool:
    return loop.extent.const is not None and loop.extent.const < SIDE // 4


def _crosses(load: Load, along: str, other: str) -> bool:
    step = coefficient(load.index, other)
    return coefficient(load.index, along) is const(1) and step is not None and (step.const is None or step.const > 4)


def _mapped(loops: Sequence[Loop], across: Loop, body: Sequence[Stmt], crossing: Sequence[Load], threads: int
            ) -> Turned:
    last = loops[-1]
    side, high = (SIDE, threads // SIDE) if threads >= SIDE * 8 else (isqrt(threads), isqrt(threads))
    rest = tuple(loop for loop in loops[:-1] if loop is not across)
    nest = (*rest, Loop("$across", ceildiv(across.extent, side), ()), Loop("$last", ceildiv(last.extent, side), ()))
    thread, step = symbol("$t"), symbol("$step")
    line, rank = floordiv(thread, side) + step * high, thread - floordiv(thread, side) * side
    boards = [Buffer(f"$square{number}", load.dtype, const(side * (side + 1)), "temp")
              for number, load in enumerate(crossing)]
    first, second = symbol("$across") * side, symbol("$last") * side

    def section(one: Dim, two: Dim, inner: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Rounds in which ``one`` and ``two`` are the places of a thread in the tile along across and last."""
        inside = Test((across.extent - 1 - first - one, last.extent - 1 - second - two))
        return (Loop("$step", const(side // high), (If(inside, tuple(inner)),)),)

    read = Moved({across.var: first + rank, last.var: second + line})
    fill = [Store(board, line * (side + 1) + rank, read.expr(load))
            for load, board in zip(crossing, boards, strict=True)]
    held = {load: Load(load.dtype, board, rank * (side + 1) + line)
            for load, board in zip(crossing, boards, strict=True)}
    write = _Held({across.var: first + line, last.var: second + rank}, held)
    return Turned(nest, (section(rank, line, fill), section(line, rank, write.body(tuple(body)))), tuple(boards),
                  side * high)


class _Held(Moved):
    """Statements with other expressions in the place of loads."""

    def __init__(self, env: dict[str, Dim], held: dict[Load, Load]) -> None:
        super().__init__(env)
        self.held = held

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr in self.held:
            return self.held[expr]
        return super()._expr(expr)
