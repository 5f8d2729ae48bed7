"""Lines that a block of a GPU works on together: running folds, and sorting.

A running fold goes in chunks: each thread folds one, one thread runs over the totals, and each thread goes over its
chunk again with what stands before it. Sorting merges runs as on a processor, but each element finds its place by a
search in the other run, all at once. All is loop IR, in loops whose rounds may run at the same time (``Free``)."""

from __future__ import annotations

from collections.abc import Callable

from egshape.dims import Dim, ceildiv, const, minimum, relu, symbol
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
    Var,
    While,
    name_of,
)

CHUNKS = 256
"""Pieces of a line, one for each thread of a block."""


def scan(
    p: Steps, op: Op, n: Dim, item: Callable[[Dim], Expr], place: Callable[[Dim], Dim], init: Expr, out: Buffer
) -> tuple[tuple[Stmt, ...], Buffer]:
    """The running fold of a line: ``item`` reads an element, ``place`` is where its result goes. Gives the statements
    and the scratch that a line needs."""
    dtype = out.dtype
    sums = p.scratch("sums", dtype, const(CHUNKS))
    part, run, held, kept = (Var(dtype, p.name("v")) for _ in range(4))
    one, two, single, chunk, step, again = (symbol(p.name("i")) for _ in range(6))
    length = ceildiv(n, CHUNKS)

    def folded(old: Expr, new: Expr) -> Expr:
        (found,) = p.scalars(op, op.regions[0], [old, new], fast=True)
        return found

    def rounds(of: Dim, index: Dim, state: Var, *behind: Stmt) -> Loop:
        more = Assign(state.name, folded(state, item(of * length + index)))
        return Loop(name_of(index), minimum(length, relu(n - of * length)), (more, *behind))

    shift = (Let(kept.name, Load(dtype, sums, chunk)), Store(sums, chunk, run), Assign(run.name, folded(run, kept)))
    last = Store(out, place(two * length + again), held)
    return (
        Free(name_of(one), const(CHUNKS), (Local(part.name, init), rounds(one, step, part), Store(sums, one, part))),
        Free(name_of(single), const(1), (Local(run.name, init), Loop(name_of(chunk), const(CHUNKS), shift))),
        Free(name_of(two), const(CHUNKS), (Local(held.name, Load(dtype, sums, two)), rounds(two, again, held, last))),
    ), sums


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
