"""Lines of which a block of a GPU takes a part: running folds. All is loop IR, in loops whose rounds may run at the
same time (``Free``).

A running fold goes in parts of a line, a block each, and in pieces of a part, a thread each: each folds its own, totals
run over pieces and parts, and each goes over its own again with what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, relu, symbol
from egshape.ir.graph import Op
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Choose,
    Expr,
    Free,
    Let,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    linear,
    name_of,
)

CHUNKS = 256
"""Pieces of a part of a line, one for each thread of a block."""
PART = 4096
"""Elements of a line that a block takes."""

Read = Callable[[Dim], Expr]
"""An element of a line."""
Fold = Callable[[Expr, Expr], Expr]
"""A step of a fold, of what comes before and what comes next."""
At = Callable[[Dim], Dim]
"""The place of an element of a line."""


def scan(
    p: Steps, op: Op, around: Sequence[tuple[Dim, Dim]], n: Dim, item: Read, place: At, init: Expr, out: Buffer
) -> None:
    """The running folds of lines inside of the loops ``around``: ``item`` reads an element, ``place`` is where its
    result goes; ``init`` changes nothing (``scan.is_neutral``).

    Three launches: the fold of each part of a line but the last, the running fold of these, and that of each part from
    what stands before it. Of lines of one part the first two have no blocks, and are not launched."""

    def fold(old: Expr, new: Expr) -> Expr:
        (found,) = p.scalars(op, op.regions[0], [old, new], fast=True)
        return found

    dtype, part, start = out.dtype, symbol(p.name("i")), init
    behind = floordiv(relu(n - 1), PART)  # parts that another one follows
    if behind.const != 0:
        line, count = linear(*map(tuple, zip(*around, strict=True))) if around else const(0), _count(around)
        totals, carried = (p.scratch(name, dtype, count * behind) for name in ("totals", "carried"))
        total, step, alone = Var(dtype, p.name("v")), symbol(p.name("i")), symbol(p.name("i"))
        more = Assign(total.name, fold(total, item(part * PART + step)))
        sums = Loop(name_of(step), const(PART), (more,))
        body = (Local(total.name, init), sums, Store(totals, line * behind + part, total))
        p.run("scan_parts", inside([*around, (part, behind)], body), (totals,), once=True)

        def place_of(index: Dim) -> Dim:
            return line * behind + index

        running, own = _running(
            p, fold, behind, lambda at: Load(dtype, totals, place_of(at)), place_of, (init, init), carried
        )
        p.run("scan_totals", inside([*around, (alone, minimum(behind, 1))], running), (carried,), own, once=True)
        start = Choose(dtype, Test((part - 1,)), Load(dtype, carried, place_of(part - 1)), init)
    first = part * PART
    length = minimum(PART, relu(n - first))
    running, own = _running(
        p, fold, length, lambda at: item(first + at), lambda at: place(first + at), (init, start), out
    )
    p.run("scan", inside([*around, (part, behind + 1)], running), (out,), own, once=True)


def _count(around: Sequence[tuple[Dim, Dim]]) -> Dim:
    return product(size for _, size in around)


def inside(around: Sequence[tuple[Dim, Dim]], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements inside of loops whose rounds are blocks."""
    for index, size in reversed(around):
        if index.const is None:
            body = (Free(name_of(index), size, body),)
    return body


def _running(
    p: Steps, fold: Fold, n: Dim, item: Read, place: At, begin: tuple[Expr, Expr], out: Buffer
) -> tuple[tuple[Stmt, ...], tuple[Buffer, ...]]:
    """The running fold of a block: the fold of each piece, that of all pieces up to each, at distances that double
    (Hillis and Steele 1986), and the pieces again. ``begin``: what a piece begins with, and what the line does. Gives
    the statements and the scratch that they need."""
    dtype = out.dtype
    init, start = begin
    now, then = (p.scratch("sums", dtype, const(CHUNKS)) for _ in range(2))
    own = now, then
    part, held, before = (Var(dtype, p.name("v")) for _ in range(3))
    one, two, step, again = (symbol(p.name("i")) for _ in range(4))
    length = ceildiv(n, CHUNKS)

    def rounds(of: Dim, index: Dim, state: Var, *behind: Stmt) -> Loop:
        more = Assign(state.name, fold(state, item(of * length + index)))
        return Loop(name_of(index), minimum(length, relu(n - of * length)), (more, *behind))

    folds = Free(name_of(one), const(CHUNKS), (Local(part.name, init), rounds(one, step, part), Store(now, one, part)))
    doubled: list[Stmt] = []
    distance = 1
    while distance < CHUNKS:
        at, mine = symbol(p.name("i")), Var(dtype, p.name("v"))
        both = fold(Load(dtype, now, at - distance), mine)
        joined = Choose(dtype, Test((at - distance,)), both, mine)
        doubled.append(
            Free(name_of(at), const(CHUNKS), (Let(mine.name, Load(dtype, now, at)), Store(then, at, joined)))
        )
        now, then, distance = then, now, 2 * distance
    earlier = Choose(dtype, Test((two - 1,)), fold(before, Load(dtype, now, two - 1)), before)
    last = Store(out, place(two * length + again), held)
    ends = (Let(before.name, start), Local(held.name, earlier), rounds(two, again, held, last))
    return (folds, *doubled, Free(name_of(two), const(CHUNKS), ends)), own
