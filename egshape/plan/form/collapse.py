"""Nested loops whose indices read as one: for i < a, for j < b with every index a function of i*b + j is a single loop
of a*b rounds. A vector then spans rows, and the rounds split evenly among threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egshape.dims import Dim, symbol
from egshape.plan.ir.loops import Assign, Free, If, Let, LetIndex, Local, Loop, Stmt, Store, While
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import dims, statements


def collapsed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements with such loops made one."""
    return tuple(map(_stmt, body))


def plain(body: Sequence[Stmt]) -> bool:
    """Whether statements are of the kinds whose indices may be changed."""
    return all(
        isinstance(stmt, Loop | Store | Let | Local | Assign | LetIndex | If | While)
        for stmt in statements(tuple(body))
    )


def _stmt(stmt: Stmt) -> Stmt:
    match stmt:
        case Loop():
            return _merged(replace(stmt, body=collapsed(stmt.body)))
        case While():
            return replace(stmt, body=collapsed(stmt.body))
        case If():
            return If(stmt.condition, collapsed(stmt.then), collapsed(stmt.other))
    return stmt


def _merged(loop: Loop) -> Loop:
    if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
        return loop
    inner = loop.body[0]
    if loop.var in inner.extent.symbols() or not plain(inner.body):
        return loop
    joint = symbol(loop.var) * inner.extent + symbol(inner.var)
    if all(_reads_joint(dim, loop.var, inner.var, joint) for dim in dims(inner.body)):
        kind = Free if isinstance(loop, Free) and isinstance(inner, Free) else Loop
        return kind(inner.var, loop.extent * inner.extent, Moved({loop.var: symbol(loop.var) * 0}).body(inner.body))
    return loop


def _reads_joint(dim: Dim, outer: str, inner: str, joint: Dim) -> bool:
    """Whether an index depends on both variables through ``joint`` alone: then it is the same with the outer one 0
    and the inner one ``joint``."""
    if not dim.symbols() & {outer, inner}:
        return True
    return dim.substitute({outer: 0}).substitute({inner: joint}) is dim
