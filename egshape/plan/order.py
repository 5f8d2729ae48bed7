"""Sorting: a stable bottom-up merge sort of index rows, with the comparator inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from egshape.dims import Dim, symbol
from egshape.ir.graph import Op
from egshape.plan.loops import (
    Assign,
    Call,
    Const,
    Expr,
    If,
    Index,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
    While,
    linear,
)
from egshape.plan.reader import Indices

if TYPE_CHECKING:
    from egshape.plan.planner import Planner


def compare(one: Expr, direction: str, two: Expr) -> Expr:
    """A comparison of two signed integers."""
    return Call("i1", "compare", (one, two), (("direction", direction), ("kind", "SIGNED")))


def add(one: Expr, two: Expr | int) -> Expr:
    """The sum of two i64."""
    return Call("i64", "add", (one, Const("i64", two) if isinstance(two, int) else two))


def least(one: Expr, two: Expr) -> Expr:
    """The smaller of two i64."""
    return Call("i64", "minimum", (one, two))


def sort(p: Planner, op: Op) -> None:
    """Each line along ``dim``: an order of indices is merged, then the operands are read in this order."""
    for value in op.operands:
        p.buffer(value)
    p.start()
    dim, shape = op.attrs["dim"], op.operands[0].type.dims
    out = tuple(p.new_buffer(value) for value in op.results)
    length = shape[dim]
    now, then = (p.scratch(f"order{k}", "i64", length) for k in range(2))
    others = [size for axis, size in enumerate(shape) if axis != dim]
    outer, wrap = p.nest(others)

    def line(index: Dim) -> Indices:
        return (*outer[:dim], index, *outer[dim:])

    def less(one: Dim, two: Dim) -> Expr:
        pairs = [p.read(x, line(index)) for x in op.operands for index in (one, two)]
        return p.scalars(op, op.regions[0], pairs)[0]

    n = Index("i64", length)
    width = Var("i64", p.name("v"))
    i, k, slot = p.name("i"), p.name("i"), p.name("g")
    from egshape.plan.loops import Let

    merge = _merge(p, width, n, now, then, less)
    body: list[Stmt] = [
        Loop(i, length, (Store(now, symbol(i), Index("i64", symbol(i))),)),
        Local(width.name, Const("i64", 1)),
        While(compare(width, "LT", n), (*merge, Loop(k, length, (Store(now, symbol(k), Load("i64", then, symbol(k))),)),
                                        Assign(width.name, add(width, width)))),
    ]
    j = p.name("i")
    names = [p.name("v") for _ in out]
    reads = [Let(name, p.read(x, line(symbol(slot)))) for name, x in zip(names, op.operands, strict=True)]
    writes = [Store(buffer, linear(line(symbol(j)), shape), Var(buffer.dtype, name))
              for buffer, name in zip(out, names, strict=True)]
    body.append(Loop(j, length, (LetIndex(slot, Load("i64", now, symbol(j))), *reads, *writes)))
    p.run("sort", wrap(body), out)
    p.places.update(zip(op.results, out, strict=True))


def _merge(p: Planner, width: Var, n: Expr, now: object, then: object, less: object) -> list[Stmt]:
    """Merge all pairs of runs of ``width`` of ``now`` into ``then``; the left run wins ties."""
    from egshape.plan.loops import Buffer

    assert isinstance(now, Buffer) and isinstance(then, Buffer) and callable(less)
    lo, left, right, at = (Var("i64", p.name("v")) for _ in range(4))
    middle, high, pick = (Var("i64", p.name("v")) for _ in range(3))
    a, b, w, one, two = (p.name("g") for _ in range(5))
    from egshape.plan.loops import Let

    takes_right = If(compare(right, "LT", high), (
        LetIndex(a, left), LetIndex(b, right),
        LetIndex(one, Load("i64", now, symbol(a))), LetIndex(two, Load("i64", now, symbol(b))),
        If(less(symbol(two), symbol(one)), (Assign(pick.name, Const("i64", 1)),))))
    choose: list[Stmt] = [
        Local(pick.name, Const("i64", 0)),
        If(compare(left, "LT", middle), (takes_right,), (Assign(pick.name, Const("i64", 1)),)),
        LetIndex(w, at),
    ]
    c, d = p.name("g"), p.name("g")
    move = If(compare(pick, "EQ", Const("i64", 1)),
              (LetIndex(c, right), Store(then, symbol(w), Load("i64", now, symbol(c))),
               Assign(right.name, add(right, 1))),
              (LetIndex(d, left), Store(then, symbol(w), Load("i64", now, symbol(d))),
               Assign(left.name, add(left, 1))))
    inner = While(compare(at, "LT", high), (*choose, move, Assign(at.name, add(at, 1))))
    return [Local(lo.name, Const("i64", 0)), While(compare(lo, "LT", n), (
        Let(middle.name, least(add(lo, width), n)), Let(high.name, least(add(add(lo, width), width), n)),
        Local(left.name, lo), Local(right.name, middle), Local(at.name, lo), inner, Assign(lo.name, high)))]
