"""Sorting on a GPU: a block sorts a part of a line in shared memory, then launches merge runs that double, all elements
of all lines at once. Each element finds its place by a search in the other run, so that equal ones keep their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, ceildiv, const, floordiv, minimum, relu, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.form import sort as order
from egshape.plan.form.block_lines import inside
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
    Stmt,
    Store,
    Test,
    Var,
    While,
    linear,
    name_of,
)

PART = 2048
"""Elements that a block sorts."""
PASSES = 11
"""Launches that merge at most; what is longer than PART << PASSES is merged by a block a line from there on."""


def sort(p: Steps, op: Op) -> None:
    """Each line along ``dim``. A comparator that contradicts itself gives some order of elements that are there. Lines
    of one part take one launch: the others have no blocks then, and are not launched."""
    lines = order.Lines(p, op)
    n = lines.length
    sizes = [size for axis, size in enumerate(lines.shape) if axis != lines.dim]
    around = list(zip(lines.outer, sizes, strict=True))
    line, count = linear(lines.outer, tuple(sizes)), total(sizes)
    widths = [PART << k for k in range(PASSES) if n.const is None or n.const > PART << k]
    halves = p.scratch("order", "i64", 2 * count * n if widths else const(0))

    def half(number: Dim, index: Dim) -> Dim:
        return number * count * n + line * n + index

    _parts(p, lines, around, _Orders(halves, half))
    for number, width in enumerate(widths):
        i, now, then = symbol(p.name("i")), const(number % 2), const(1 - number % 2)
        runs = _Run(halves, lambda at, of=now: half(of, at), lambda at, of=then: half(of, at))  # type: ignore[misc]
        body = _placed(p, i, Const("i64", width), n, runs, lines.less)
        p.run("sort_merge", inside([*around, (i, n * _longer(n, width))], body), (halves,), once=True)
    if not widths:
        return
    if len(widths) == PASSES:
        _rest(p, lines, around, halves, half)
    j, passes = symbol(p.name("i")), sum((_longer(n, width) for width in widths), const(0))
    last = passes - 2 * floordiv(passes, 2)
    body = lines.ordered(j, Load("i64", halves, half(last, j)))
    p.run("sort", inside([*around, (j, n * _longer(n, PART))], body), lines.out, once=True)


def _longer(n: Dim, width: int) -> Dim:
    """1 where a line is longer, else 0."""
    return minimum(1, relu(n - width))


@dataclass(frozen=True)
class _Orders:
    """Two orders of each line, in one buffer, so that which of them is the last one may hang on sizes."""

    buffer: Buffer
    half: Callable[[Dim, Dim], Dim]


@dataclass(frozen=True)
class _Run:
    """Where an order is read and where the next one is written."""

    buffer: Buffer
    read: Callable[[Dim], Dim]
    write: Callable[[Dim], Dim]
    target: Buffer | None = None


def _parts(p: Steps, lines: order.Lines, around: Sequence[tuple[Dim, Dim]], orders: _Orders) -> None:
    """A block sorts a part, and writes its elements where that is the line."""
    n, part = lines.length, symbol(p.name("i"))
    base = part * PART
    length = minimum(PART, relu(n - base))
    now, then = (p.scratch(f"part{k}", "i64", const(PART)) for k in range(2))
    first, back, j, i = (symbol(p.name("i")) for _ in range(4))
    width = Var("i64", p.name("v"))
    runs = _Run(now, lambda at: at, lambda at: at, then)
    start = tuple(Store(buffer, first, Index("i64", base + first)) for buffer in (now, then))
    mine = Load("i64", now, j)
    kept = tuple(Store(orders.buffer, orders.half(const(number), base + j), mine) for number in range(2))
    alone = lines.ordered(j, mine)
    only = n.const is not None and n.const <= PART
    ends: tuple[Stmt, ...] = alone if only else (If(Test((PART - n,)), alone, kept),)
    body: tuple[Stmt, ...] = (
        Free(name_of(first), length, start),
        Local(width.name, Const("i64", 1)),
        While(
            compare(width, "LT", Index("i64", length)),
            (
                Free(name_of(i), length, _placed(p, i, width, length, runs, lines.less)),
                Free(name_of(back), length, (Store(now, back, Load("i64", then, back)),)),
                Assign(width.name, add(width, width)),
            ),
        ),
        Free(name_of(j), length, ends),
    )
    outputs = lines.out if only else (*lines.out, orders.buffer)
    p.run(
        "sort" if only else "sort_parts", inside([*around, (part, ceildiv(n, PART))], body), outputs, (now, then), True
    )
    p.places.update(zip(lines.op.results, lines.out, strict=True))


def _rest(
    p: Steps, lines: order.Lines, around: Sequence[tuple[Dim, Dim]], halves: Buffer, half: Callable[[Dim, Dim], Dim]
) -> None:
    """Of longer lines a block merges what is left, and leaves it where it was."""
    n, alone, back, i = lines.length, symbol(p.name("i")), symbol(p.name("i")), symbol(p.name("i"))
    now, then = const(PASSES % 2), const(1 - PASSES % 2)
    width = Var("i64", p.name("v"))
    runs = _Run(halves, lambda at: half(now, at), lambda at: half(then, at))
    copy = Store(halves, half(now, back), Load("i64", halves, half(then, back)))
    body: tuple[Stmt, ...] = (
        Local(width.name, Const("i64", PART << PASSES)),
        While(
            compare(width, "LT", Index("i64", n)),
            (
                Free(name_of(i), n, _placed(p, i, width, n, runs, lines.less)),
                Free(name_of(back), n, (copy,)),
                Assign(width.name, add(width, width)),
            ),
        ),
    )
    p.run("sort_rest", inside([*around, (alone, _longer(n, PART << PASSES))], body), (halves,), once=True)


def _placed(
    p: Steps, i: Dim, width: Expr, length: Dim, runs: _Run, less: Callable[[Dim, Dim], Expr]
) -> tuple[Stmt, ...]:
    """The element at ``i`` of two runs of ``width`` goes to its own place plus those of the other run that come before
    it."""
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
            LetIndex(name_of(other), Load("i64", runs.buffer, runs.read(at))),
            If(before, (Assign(low.name, add(half, 1)),), (Assign(up.name, half),)),
        ),
    )
    goal = Call("i64", "subtract", (add(add(pair, place), low), add(own, begin)))
    mine = Load("i64", runs.buffer, runs.read(i))
    return (
        let(pair, whole),
        let(middle, least(add(pair, width), n)),
        let(high, least(add(pair, twice), n)),
        let(right, compare(place, "GE", middle)),
        let(begin, either(pair, middle)),
        let(end, either(middle, high)),
        let(own, either(middle, pair)),
        LetIndex(name_of(me), mine),
        Local(low.name, begin),
        Local(up.name, end),
        search,
        LetIndex(name_of(target), goal),
        Store(runs.target or runs.buffer, runs.write(target), mine),
    )
