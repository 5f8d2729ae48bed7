"""Rows in the order of their lengths, the longest first: those that have a step are the first ones at each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egshape.dims import Dim, const, symbol
from egshape.ir.graph import Value
from egshape.plan.form.dots import converted
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    Index,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Var,
)
from egshape.plan.ir.program import BindSize

_Inner = Callable[[Dim, Dim], tuple[Stmt, ...]]
_NONE, _ONE = Const("i64", 0), Const("i64", 1)


@dataclass(frozen=True, eq=False)
class Order:
    """``rows``: which row stands at a place. ``live``: how many have a step at a time. ``before``: how many steps there
    are at earlier times. ``longest``: the length of the first row. ``total``: the steps of all rows."""

    rows: Buffer
    live: Buffer
    before: Buffer
    longest: Dim
    total: Dim


def ordered(p: Steps, name: str, lengths: Value, batch: Dim, count: Dim) -> Order:
    """Add the kernel that orders rows, by counting: its time and memory go by rows plus times. Rows of one length keep
    their order; lengths outside of 0 to ``count`` count as the nearer of these."""
    p.start()
    sizes = {"rows": batch, **dict.fromkeys(("live", "before", "places"), count + 1), "told": const(2)}
    rows, live, before, places, told = made = [p.scratch(f"{name}.{k}", "i64", size) for k, size in sizes.items()]
    t, total, longest, held = (p.name(kind) for kind in "ivvv")
    time = symbol(t)
    back = count - time
    body: list[Stmt] = [
        Loop(t, count + 1, (Store(live, time, _NONE),)),
        _each(p, lengths, batch, count, lambda row, at: (_more(live, at),)),
        # how many rows of each length there are becomes how many are longer
        Local(total, _NONE),
        Loop(
            t,
            count + 1,
            (
                Let(held, Load("i64", live, back)),
                Store(live, back, Var("i64", total)),
                Store(places, back, Var("i64", total)),
                Assign(total, _sum(Var("i64", total), Var("i64", held))),
            ),
        ),
        _each(p, lengths, batch, count, lambda row, at: _placed(p, rows, places, row, at)),
        Local(total, _NONE),
        Local(longest, _NONE),
        Loop(
            t,
            count,
            (
                Store(before, time, Var("i64", total)),
                Let(held, Load("i64", live, time)),
                Assign(total, _sum(Var("i64", total), Var("i64", held))),
                Assign(longest, _sum(Var("i64", longest), Call("i64", "minimum", (Var("i64", held), _ONE)))),
            ),
        ),
        Store(told, const(0), Var("i64", longest)),
        Store(told, const(1), Var("i64", total)),
    ]
    p.run("rows_by_length", body, tuple(made))
    names = f"{name}.longest", f"{name}.steps"
    p.steps += [BindSize(each, told, at, 0) for at, each in enumerate(names)]
    return Order(rows, live, before, symbol(names[0]), symbol(names[1]))


def _each(p: Steps, lengths: Value, batch: Dim, count: Dim, inner: _Inner) -> Loop:
    """A loop over rows: ``inner`` of the row and its length."""
    row, length = p.name("i"), p.name("g")
    given = converted("i64", p.read(lengths, (symbol(row),)))
    within = Call("i64", "maximum", (Call("i64", "minimum", (given, Index("i64", count))), _NONE))
    return Loop(row, batch, (LetIndex(length, within), *inner(symbol(row), symbol(length))))


def _placed(p: Steps, rows: Buffer, places: Buffer, row: Dim, at: Dim) -> tuple[Stmt, ...]:
    """The next place of rows of a length is this row's."""
    place = p.name("g")
    return LetIndex(place, Load("i64", places, at)), Store(rows, symbol(place), Index("i64", row)), _more(places, at)


def _more(counts: Buffer, at: Dim) -> Stmt:
    return Store(counts, at, _sum(Load("i64", counts, at), _ONE))


def _sum(one: Expr, two: Expr) -> Expr:
    return Call("i64", "add", (one, two))
