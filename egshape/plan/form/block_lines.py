"""Lines that a block of a GPU works on together: running folds, and sorting.

A running fold goes in parts of a line, a block each, and in pieces of a part, a thread each: each folds its own, totals
run over pieces and parts, and each goes over its own again with what stands before it. Sorting merges runs as on a processor, but each element finds its place by a
search in the other run, all at once. All is loop IR, in loops whose rounds may run at the same time (``Free``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, product, relu, symbol
from egshape.ir.graph import Op
from egshape.plan.form import sort as order
from egshape.plan.form.sort import add, compare, least
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    Free,
    If,
    Index,
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
        p.run("scan_parts", _inside([*around, (part, behind)], body), (totals,), once=True)

        def place_of(index: Dim) -> Dim:
            return line * behind + index

        running, own = _running(
            p, fold, behind, lambda at: Load(dtype, totals, place_of(at)), place_of, (init, init), carried
        )
        p.run("scan_totals", _inside([*around, (alone, minimum(behind, 1))], running), (carried,), own, once=True)
        start = Choose(dtype, Test((part - 1,)), Load(dtype, carried, place_of(part - 1)), init)
    first = part * PART
    length = minimum(PART, relu(n - first))
    running, own = _running(
        p, fold, length, lambda at: item(first + at), lambda at: place(first + at), (init, start), out
    )
    p.run("scan", _inside([*around, (part, behind + 1)], running), (out,), own, once=True)


def _count(around: Sequence[tuple[Dim, Dim]]) -> Dim:
    return product(size for _, size in around)


def _inside(around: Sequence[tuple[Dim, Dim]], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
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


def sort(p: Steps, op: Op) -> None:
    """Each line along ``dim``. Equal elements keep their order; a comparator that contradicts itself gives some order
    of elements that are there."""
    lines = order.Lines(p, op)
    now, then, length = lines.now, lines.then, lines.length
    width = Var("i64", p.name("v"))
    first, back, j = (symbol(p.name("i")) for _ in range(3))
    start = tuple(Store(buffer, first, Index("i64", first)) for buffer in (now, then))
    body: list[Stmt] = [
        Free(name_of(first), length, start),
        Local(width.name, Const("i64", 1)),
        While(
            compare(width, "LT", Index("i64", length)),
            (
                _merged(p, width, length, now, then, lines.less),
                Free(name_of(back), length, (Store(now, back, Load("i64", then, back)),)),
                Assign(width.name, add(width, width)),
            ),
        ),
        Free(name_of(j), length, lines.ordered(j)),
    ]
    p.run("sort", lines.wrap(body), lines.out, (now, then), once=True)
    p.places.update(zip(op.results, lines.out, strict=True))


def _merged(p: Steps, width: Var, length: Dim, now: Buffer, then: Buffer, less: Callable[[Dim, Dim], Expr]) -> Stmt:
    """Each element of two runs of ``width`` goes to its own place plus those of the other run that come before it."""
    i = symbol(p.name("i"))
    pair, middle, high, begin, end, own, low, up, half = (Var("i64", p.name("v")) for _ in range(9))
    right = Var("i1", p.name("v"))
    me, at, other, target = (symbol(p.name("g")) for _ in range(4))
    n, place, twice = Index("i64", length), Index("i64", i), add(width, width)

    def either(one: Expr, two: Expr) -> Expr:
        return Call("i64", "select", (right, one, two))

    def let(var: Var, value: Expr) -> Let:
        return Let(var.name, value)

    whole = Call("i64", "multiply", (Call("i64", "divide", (place, twice)), twice))
    # Of equal elements those of the left run come first.
    before = Choose("i1", right, Call("i1", "not", (less(me, other),)), less(other, me))
    search = While(
        compare(low, "LT", up),
        (
            let(half, Call("i64", "divide", (add(low, up), Const("i64", 2)))),
            LetIndex(name_of(at), half),
            LetIndex(name_of(other), Load("i64", now, at)),
            If(before, (Assign(low.name, add(half, 1)),), (Assign(up.name, half),)),
        ),
    )
    goal = Call("i64", "subtract", (add(add(pair, place), low), add(own, begin)))
    return Free(
        name_of(i),
        length,
        (
            let(pair, whole),
            let(middle, least(add(pair, width), n)),
            let(high, least(add(pair, twice), n)),
            let(right, compare(place, "GE", middle)),
            let(begin, either(pair, middle)),
            let(end, either(middle, high)),
            let(own, either(middle, pair)),
            LetIndex(name_of(me), Load("i64", now, i)),
            Local(low.name, begin),
            Local(up.name, end),
            search,
            LetIndex(name_of(target), goal),
            Store(then, target, Load("i64", now, i)),
        ),
    )
