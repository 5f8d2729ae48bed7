"""Transposed copies in tiles: where a nest stores along one axis and loads along another, it runs over blocks in which
the lines that it loads stay in the cache."""

from __future__ import annotations

from dataclasses import replace

from egshape.dims import ceildiv, const, minimum, symbol
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.ir.loops import Load, Loop, Stmt, Store
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions

ALONG_LOAD, ALONG_STORE = 32, 8
"""Sizes of a block: whole lines of the cache along what is loaded, and so few lines that they stay even where their
distance is a power of two, which puts them all in one set of the cache."""


def tiled(stmt: Stmt) -> Stmt:
    """A nest around one store, each element of which is stored once, over blocks if it transposes."""
    loops: list[Loop] = []
    inner = stmt
    while isinstance(inner, Loop) and len(inner.body) == 1:
        loops.append(inner)
        inner = inner.body[0]
    if not isinstance(inner, Store) or len(loops) < 2 or _is(loops[-1].extent.const, ALONG_LOAD):
        return stmt
    names = {loop.var for loop in loops}
    if any(loop.extent.symbols() & names for loop in loops):
        return stmt
    last = loops[-1]
    if coefficient(inner.index, last.var) is not const(1):
        return stmt
    across = next(
        (
            loop
            for loop in loops[:-1]
            if not _is(loop.extent.const, ALONG_LOAD // 2)
            and any(_crosses(load, loop.var, last.var) for load in expressions((inner,)))
        ),
        None,
    )
    if across is None:
        return stmt
    rest = [loop for loop in loops[:-1] if loop is not across]
    return _blocks(rest, across, last, inner)


def _is(size: int | None, most: int) -> bool:
    """Whether a size is known to be at most ``most``."""
    return size is not None and size <= most


def _crosses(expr: object, along: str, other: str) -> bool:
    if not isinstance(expr, Load) or coefficient(expr.index, along) is not const(1):
        return False
    step = coefficient(expr.index, other)
    return step is not None and not _is(step.const, 4)


def _blocks(rest: list[Loop], across: Loop, last: Loop, store: Store) -> Stmt:
    rows, columns = symbol(f"{across.var}.block"), symbol(f"{last.var}.block")
    env = {across.var: rows * ALONG_LOAD + symbol(across.var), last.var: columns * ALONG_STORE + symbol(last.var)}
    body: Stmt = Moved(env).stmt(store)
    body = Loop(last.var, minimum(ALONG_STORE, last.extent - columns * ALONG_STORE), (body,))
    body = Loop(across.var, minimum(ALONG_LOAD, across.extent - rows * ALONG_LOAD), (body,))
    body = Loop(f"{last.var}.block", ceildiv(last.extent, ALONG_STORE), (body,))
    body = Loop(f"{across.var}.block", ceildiv(across.extent, ALONG_LOAD), (body,))
    for loop in reversed(rest):
        body = replace(loop, body=(body,))
    return body
