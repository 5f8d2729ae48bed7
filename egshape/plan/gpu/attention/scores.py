"""Scores of attention: masks, the largest of each row, exponentials, all in registers.

Exponentials are relative to a base of each row, which follows the largest score only where that is ``SLACK`` above it:
so what was summed is seldom scaled, and in the end it is scaled to the largest score once. Where scores are a product
times a number, that number is multiplied into the exponent, together with what makes a power of two of it."""

from __future__ import annotations

import math
from functools import reduce

from egshape.dims import Dim, symbol
from egshape.plan.gpu.attention.masks import Area, Line, both, opened
from egshape.plan.gpu.attention.registers import Registers, State
from egshape.plan.gpu.product.mma import COLUMNS, column_at
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
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
    name_of,
)
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions

LOW = Const("f32", float("-inf"))
ZERO = Const("f32", 0.0)
SLACK = 5.0
"""Above the base of a row its largest score may be, by which exponentials are at most 149: f16 holds 65504."""
CALM = 256.0
"""Up to here a base times log2(e) is exact enough for the exponent to be one rounded product and sum."""
_LOG2E = 1 / math.log(2)


class Scores:
    """What a block of ``rows`` rows does with its scores over ``keys`` keys. ``lines``: comparisons that mask."""

    def __init__(self, block: Registers, state: State, rows: int, keys: int, lines: tuple[Line, ...]) -> None:
        self.block, self.state, self.rows, self.keys, self.lines = block, state, rows, keys, lines
        self.stmt = block.stmt
        self.plain = opened(self.stmt.scores, lines)
        self.factor = _factor(self.plain, self.stmt.score)
        """The number that products are multiplied by to give scores that are not masked, None if that is not all."""
        apart = self.factor is not None and self.factor != 1 and _factor(self.stmt.scores, self.stmt.score) is None
        self.unit = block.own("unit", "f32", 1) if apart else None
        """What is left to multiply scores with, where some keep the products and others, which masks changed, do
        not."""

    def clear(self, thread: Dim) -> list[Stmt]:
        """Nothing is known yet."""
        out, state = self.state.out, self.state
        return [
            *self.block.each(out, thread, state.wide // COLUMNS, lambda place, *_: [Store(out, place, ZERO)]),
            *self.block.rows(
                thread,
                lambda i, half, place: [
                    *(Store(each, place, LOW) for each in (state.peak, state.base)),
                    Store(state.total, place, ZERO),
                ],
            ),
        ]

    @property
    def loads(self) -> bool:
        """Whether scores hang on what lies in memory."""
        return _loads(self.stmt.scores)

    @property
    def registers(self) -> tuple[Buffer, ...]:
        """Besides those of the state."""
        return () if self.unit is None else (self.unit,)

    def area(self, key: Dim) -> Area:
        """The rows of a block, and the keys from ``key`` on."""
        return Area((self.block.first, self.block.first + self.rows - 1), (key, key + self.keys - 1))

    def open(self, key: Dim) -> Expr:
        """Whether none of these keys is masked, all of them are there, and so are rows where others are read."""
        inside = [self.stmt.n - key - self.keys]
        if _loads(self.plain):
            inside.append(self.stmt.m - self.block.first - self.rows)
        found: Expr = Test(tuple(inside))
        return reduce(both, (line.open(self.area(key)) for line in self.lines), found)

    def score(self, thread: Dim, key: Dim, plain: bool) -> list[Stmt]:
        """What is done to the scores; -inf behind the last key; the largest score of each row of a thread. ``plain``:
        nothing is masked."""
        stmt, loads = self.stmt, self.loads
        kept = self.factor is not None and (plain or _factor(stmt.scores, stmt.score) is not None)
        whole: Expr = Var("f32", stmt.score) if kept else self.plain if plain else stmt.scores

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            at, best = self.block.row(thread, i, half), Var("f32", f"{name_of(self.block.names())}.best")

            def one(score: Dim, j: Dim, odd: Dim) -> list[Stmt]:
                place = key + column_at(thread, j, odd, self.state.columns)
                here = LetIndex(name_of(self.block.names()), Index("i64", place))
                line, column = symbol(at.name), symbol(here.name)
                value = Moved({stmt.row: line, stmt.column: column}).expr(whole)
                inside = Test((stmt.n - 1 - column, stmt.m - 1 - line) if loads else (stmt.n - 1 - column,))
                found: Expr = (
                    value
                    if plain
                    else Choose("f32", inside, value, LOW)
                    if loads
                    else Call("f32", "select", (inside, value, LOW))
                )
                new = Var("f32", f"{here.name}.score")
                return [
                    here,
                    Let(stmt.score, Load("f32", self.state.scores, score)),
                    Let(new.name, found),
                    *([] if plain and kept else [Store(self.state.scores, score, new)]),
                    Assign(best.name, Call("f32", "maximum", (best, new))),
                ]

            return [
                at,
                Local(best.name, LOW),
                *self.block.line(self.state.scores, thread, self.state.columns, i, half, one),
                Store(self.state.top, place, best),
            ]

        unit = (
            []
            if self.unit is None
            else [Store(self.unit, thread, Const("f32", (self.factor or 1.0) if plain else 1.0))]
        )
        return [*unit, *self.block.rows(thread, row)]

    def exponential(self, x: Expr, base: Expr) -> Expr:
        """exp(x - base); where results are rounded to 16 bits by the unit of a GPU for powers of two. The difference
        comes first: a base may be a number that masks, of which a product is not exact."""
        gap = Call("f32", "subtract", (x, base))
        if self.stmt.dtype == "f32":
            return Call("f32", "exponential", (gap,))
        return Call("f32", "exp2", (_times(gap, _LOG2E),), fast=True)

    def weigh(self, thread: Dim) -> list[Stmt]:
        """The exponentials in the place of scores; what was summed on the scale of the base, where that is a new
        one."""
        state, name = self.state, name_of(self.block.names())
        kept, calm, unit = Var("i1", f"{name}.kept"), Var("i1", f"{name}.calm"), Var("f32", f"{name}.unit")

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            name = name_of(self.block.names())
            old, new, base = (Var("f32", f"{name}.{each}") for each in ("old", "new", "base"))
            near = Var("i1", f"{name}.near")
            top = Call("f32", "multiply", (Load("f32", state.top, place), unit))
            above = Call("f32", "add", (old, Const("f32", SLACK)))
            small = _less(Call("f32", "abs", (base,)), Const("f32", CALM))
            return [
                Let(old.name, Load("f32", state.base, place)),
                Let(new.name, Call("f32", "maximum", (Load("f32", state.peak, place), top))),
                Let(near.name, _less(new, above)),
                Let(base.name, Call("f32", "select", (near, old, new))),
                Store(state.peak, place, new),
                Store(state.base, place, base),
                Store(state.top, place, old),
                Assign(kept.name, both(kept, near)),
                Assign(calm.name, both(calm, small)),
            ]

        def moved(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            return self._scaled(thread, i, half, place, Load("f32", state.top, place), Load("f32", state.base, place))

        plain = Const("f32", 1.0 if self.factor is None else self.factor)
        left: Expr = plain if self.unit is None else Load("f32", self.unit, thread)
        slow = tuple(self._weights(thread, unit, False))
        return [
            *(Local(each.name, Const("i1", True)) for each in (kept, calm)),
            Let(unit.name, left),
            *self.block.rows(thread, row),
            If(Call("i1", "not", (kept,)), tuple(self.block.rows(thread, moved))),
            *(slow if self.stmt.dtype == "f32" else [If(calm, tuple(self._weights(thread, unit, True)), slow)]),
        ]

    def _weights(self, thread: Dim, unit: Expr, calm: bool) -> list[Stmt]:
        """The exponentials and the totals. ``calm``: bases are small numbers."""
        state = self.state

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            name = name_of(self.block.names())
            low, base, less, total = (Var("f32", f"{name}.{each}") for each in ("low", "base", "less", "total"))

            def one(score: Dim, _: Dim, __: Dim) -> list[Stmt]:
                weight, x = Var("f32", f"{name}.weight"), Load("f32", state.scores, score)
                power = Call("f32", "fma", (x, _times(unit, _LOG2E), less))
                value = (
                    Call("f32", "exp2", (power,), fast=True)
                    if calm
                    else self.exponential(Call("f32", "multiply", (x, unit)), base)
                )
                return [
                    Let(weight.name, value),
                    Store(state.scores, score, weight),
                    Assign(total.name, Call("f32", "add", (total, weight))),
                ]

            given = Load("f32", state.base, place)
            return [
                *([Let(less.name, _times(given, -_LOG2E))] if calm else [Let(low.name, given), *based(low, base)]),
                Local(total.name, Load("f32", state.total, place)),
                *self.block.line(state.scores, thread, state.columns, i, half, one),
                Store(state.total, place, total),
            ]

        return self.block.rows(thread, row)

    def settle(self, thread: Dim) -> list[Stmt]:
        """What was summed, on the scale of the largest scores."""
        state = self.state

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            return self._scaled(thread, i, half, place, Load("f32", state.base, place), Load("f32", state.peak, place))

        return self.block.rows(thread, row)

    def _scaled(self, thread: Dim, i: Dim, half: Dim, place: Dim, old: Expr, new: Expr) -> list[Stmt]:
        """What was summed of a row, on the scale of another base."""
        state, name = self.state, name_of(self.block.names())
        low, base, scale = (Var("f32", f"{name}.{each}") for each in ("low", "base", "scale"))

        def by(buffer: Buffer, at: Dim) -> Stmt:
            return Store(buffer, at, Call("f32", "multiply", (Load("f32", buffer, at), scale)))

        return [
            Let(low.name, new),
            *based(low, base),
            Let(scale.name, self.exponential(old, base)),
            by(state.total, place),
            *self.block.line(
                state.out, thread, state.wide // COLUMNS, i, half, lambda out, _, __: [by(state.out, out)]
            ),
        ]


def _times(x: Expr, number: float) -> Expr:
    return Call("f32", "multiply", (x, Const("f32", number)))


def _less(one: Expr, two: Expr) -> Expr:
    """i1: one is at most the other; not if one is NaN."""
    return Call("i1", "compare", (one, two), (("direction", "LE"), ("kind", "FLOAT")))


def _factor(scores: Expr, score: str) -> float | None:
    """The positive number that scores are of a product; None if they are more than that."""
    match scores:
        case Var(name=name) if name == score:
            return 1.0
        case (
            Call(op="multiply", dtype="f32", args=(Var(name=name), Const(value=value)))
            | Call(op="multiply", dtype="f32", args=(Const(value=value), Var(name=name)))
        ) if name == score and 0 < value < math.inf:
            return float(value)
    return None


def _loads(expr: Expr) -> bool:
    return any(isinstance(each, Load) for each in expressions((Let("", expr),)))


def based(peak: Var, base: Var) -> list[Stmt]:
    """The base of exponentials: the peak, or 0 where no score is more than -inf."""
    return [Let(base.name, Call("f32", "select", (is_low(peak), ZERO, peak)))]


def is_low(peak: Expr) -> Expr:
    """i1: no score of a row is more than -inf."""
    return Call("i1", "compare", (peak, LOW), (("direction", "EQ"), ("kind", "FLOAT")))
