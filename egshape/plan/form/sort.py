"""Sorting: a stable bottom-up merge sort of index rows, with the comparator inlined."""

from __future__ import annotations

from collections.abc import Callable

from egshape.dims import Dim, symbol
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import Indices
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
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
    linear,
    name_of,
)


def compare(one: Expr, direction: str, two: Expr) -> Expr:
    """A comparison of two signed integers."""
    return Call("i1", "compare", (one, two), (("direction", direction), ("kind", "SIGNED")))


def add(one: Expr, two: Expr | int) -> Expr:
    """The sum of two i64."""
    return Call("i64", "add", (one, Const("i64", two) if isinstance(two, int) else two))


def least(one: Expr, two: Expr) -> Expr:
    """The smaller of two i64."""
    return Call("i64", "minimum", (one, two))


class Lines:
    """The lines of a sort: where they lie, in which loops, and how two elements of one compare."""

    def __init__(self, p: Steps, op: Op) -> None:
        for value in op.operands:
            p.buffer(value)
        p.start()
        self.p, self.op, self.dim, self.shape = p, op, op.attrs["dim"], op.operands[0].type.dims
        self.out = tuple(p.new_buffer(value) for value in op.results)
        self.length = self.shape[self.dim]
        self.outer, self.wrap = p.nest([size for axis, size in enumerate(self.shape) if axis != self.dim])

    def at(self, index: Dim) -> Indices:
        """The place of an element of the line."""
        return (*self.outer[: self.dim], index, *self.outer[self.dim :])

    def less(self, one: Dim, two: Dim) -> Expr:
        """Whether one element comes before another one."""
        pairs = [self.p.read(x, self.at(index)) for x in self.op.operands for index in (one, two)]
        return self.p.scalars(self.op, self.op.regions[0], pairs)[0]

    def ordered(self, j: Dim, place: Expr) -> tuple[Stmt, ...]:
        """Write the element at ``place`` of the line to ``j``."""
        p = self.p
        slot = symbol(p.name("g"))
        names = [p.name("v") for _ in self.out]
        reads = [Let(name, p.read(x, self.at(slot))) for name, x in zip(names, self.op.operands, strict=True)]
        writes = [
            Store(buffer, linear(self.at(j), self.shape), Var(buffer.dtype, name))
            for buffer, name in zip(self.out, names, strict=True)
        ]
        return LetIndex(name_of(slot), place), *reads, *writes


def sort(p: Steps, op: Op) -> None:
    """Each line along ``dim``: an order of indices is merged, then the operands are read in this order."""
    lines = Lines(p, op)
    length = lines.length
    now, then = (p.scratch(f"order{k}", "i64", length) for k in range(2))
    n, width = Index("i64", length), Var("i64", p.name("v"))
    i, j, k = (symbol(p.name("i")) for _ in range(3))
    merge = _merge(p, width, n, now, then, lines.less)
    body: list[Stmt] = [
        Loop(name_of(i), length, (Store(now, i, Index("i64", i)),)),
        Local(width.name, Const("i64", 1)),
        While(
            compare(width, "LT", n),
            (
                *merge,
                Loop(name_of(k), length, (Store(now, k, Load("i64", then, k)),)),
                Assign(width.name, add(width, width)),
            ),
        ),
        Loop(name_of(j), length, lines.ordered(j, Load("i64", now, j))),
    ]
    p.run("sort", lines.wrap(body), lines.out)
    p.places.update(zip(op.results, lines.out, strict=True))


def _merge(p: Steps, width: Var, n: Expr, now: Buffer, then: Buffer, less: Callable[[Dim, Dim], Expr]) -> list[Stmt]:
    """Merge all pairs of runs of ``width`` of ``now`` into ``then``; the left run wins ties."""
    lo, left, right, at = (Var("i64", p.name("v")) for _ in range(4))
    middle, high, pick = (Var("i64", p.name("v")) for _ in range(3))
    a, b, w, one, two = (p.name("g") for _ in range(5))
    takes_right = If(
        compare(right, "LT", high),
        (
            LetIndex(a, left),
            LetIndex(b, right),
            LetIndex(one, Load("i64", now, symbol(a))),
            LetIndex(two, Load("i64", now, symbol(b))),
            If(less(symbol(two), symbol(one)), (Assign(pick.name, Const("i64", 1)),)),
        ),
    )
    choose: list[Stmt] = [
        Local(pick.name, Const("i64", 0)),
        If(compare(left, "LT", middle), (takes_right,), (Assign(pick.name, Const("i64", 1)),)),
        LetIndex(w, at),
    ]
    c, d = p.name("g"), p.name("g")
    move = If(
        compare(pick, "EQ", Const("i64", 1)),
        (LetIndex(c, right), Store(then, symbol(w), Load("i64", now, symbol(c))), Assign(right.name, add(right, 1))),
        (LetIndex(d, left), Store(then, symbol(w), Load("i64", now, symbol(d))), Assign(left.name, add(left, 1))),
    )
    inner = While(compare(at, "LT", high), (*choose, move, Assign(at.name, add(at, 1))))
    return [
        Local(lo.name, Const("i64", 0)),
        While(
            compare(lo, "LT", n),
            (
                Let(middle.name, least(add(lo, width), n)),
                Let(high.name, least(add(add(lo, width), width), n)),
                Local(left.name, lo),
                Local(right.name, middle),
                Local(at.name, lo),
                inner,
                Assign(lo.name, high),
            ),
        ),
    ]
