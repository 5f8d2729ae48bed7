"""Scores of attention: masks, the largest of each row, exponentials, all in registers."""

from __future__ import annotations

import math
from functools import reduce

from egshape.dims import Dim, symbol
from egshape.plan.gpu.attention.masks import Area, Line, both
from egshape.plan.gpu.attention.registers import Registers, State
from egshape.plan.gpu.product.mma import COLUMNS, column_at
from egshape.plan.ir.loops import (
    Assign,
    Call,
    Choose,
    Const,
    Expr,
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


class Scores:
    """What a block of ``rows`` rows does with its scores over ``keys`` keys. ``lines``: comparisons that mask."""

    def __init__(self, block: Registers, state: State, rows: int, keys: int, lines: tuple[Line, ...]) -> None:
        self.block, self.state, self.rows, self.keys, self.lines = block, state, rows, keys, lines
        self.stmt = block.stmt

    def clear(self, thread: Dim) -> list[Stmt]:
        """Nothing is known yet."""
        out, peak, total = self.state.out, self.state.peak, self.state.total
        return [
            *self.block.each(out, thread, self.state.wide // COLUMNS, lambda place, *_: [Store(out, place, ZERO)]),
            *self.block.rows(thread, lambda i, half, place: [Store(peak, place, LOW), Store(total, place, ZERO)]),
        ]

    def area(self, key: Dim) -> Area:
        """The rows of a block, and the keys from ``key`` on."""
        return Area((self.block.first, self.block.first + self.rows - 1), (key, key + self.keys - 1))

    def open(self, key: Dim, plain: Expr) -> Expr:
        """Whether none of these keys is masked, all of them are there, and so are rows where others are read."""
        inside = [self.stmt.n - key - self.keys]
        if _loads(plain):
            inside.append(self.stmt.m - self.block.first - self.rows)
        found: Expr = Test(tuple(inside))
        return reduce(both, (line.open(self.area(key)) for line in self.lines), found)

    def score(self, thread: Dim, key: Dim, plain: Expr | None) -> list[Stmt]:
        """What is done to the scores; -inf behind the last key; the largest score of each row of a thread. ``plain``:
        what is done where nothing is masked."""
        stmt, loads = self.stmt, _loads(self.stmt.scores)

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            at, best = self.block.row(thread, i, half), Var("f32", f"{name_of(self.block.names())}.best")

            def one(score: Dim, j: Dim, odd: Dim) -> list[Stmt]:
                place = key + column_at(thread, j, odd, self.state.columns)
                here = LetIndex(name_of(self.block.names()), Index("i64", place))
                line, column = symbol(at.name), symbol(here.name)
                value = Moved({stmt.row: line, stmt.column: column}).expr(plain or stmt.scores)
                inside = Test((stmt.n - 1 - column, stmt.m - 1 - line) if loads else (stmt.n - 1 - column,))
                kept: Expr = (
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
                    Let(new.name, kept),
                    Store(self.state.scores, score, new),
                    Assign(best.name, Call("f32", "maximum", (best, new))),
                ]

            return [
                at,
                Local(best.name, LOW),
                *self.block.line(self.state.scores, thread, self.state.columns, i, half, one),
                Store(self.state.top, place, best),
            ]

        return self.block.rows(thread, row)

    def exponential(self, x: Expr, base: Expr) -> Expr:
        """exp(x - base); where results are rounded to 16 bits by the unit of a GPU for powers of two. The difference
        comes first: a base may be a number that masks, of which a product is not exact."""
        gap = Call("f32", "subtract", (x, base))
        if self.stmt.dtype == "f32":
            return Call("f32", "exponential", (gap,))
        power = Call("f32", "multiply", (gap, Const("f32", 1 / math.log(2))))
        return Call("f32", "exp2", (power,), fast=True)

    def weigh(self, thread: Dim) -> list[Stmt]:
        """The exponentials in the place of scores; totals and results on the scale of the largest score until now."""

        def row(i: Dim, half: Dim, place: Dim) -> list[Stmt]:
            name = name_of(self.block.names())
            old, new, base, scale, total = (
                Var("f32", f"{name}.{each}") for each in ("old", "new", "base", "scale", "total")
            )

            def one(score: Dim, _: Dim, __: Dim) -> list[Stmt]:
                weight = Var("f32", f"{name}.weight")
                return [
                    Let(weight.name, self.exponential(Load("f32", self.state.scores, score), base)),
                    Store(self.state.scores, score, weight),
                    Assign(total.name, Call("f32", "add", (total, weight))),
                ]

            def scaled(out: Dim, _: Dim, __: Dim) -> list[Stmt]:
                return [Store(self.state.out, out, Call("f32", "multiply", (Load("f32", self.state.out, out), scale)))]

            return [
                Let(old.name, Load("f32", self.state.peak, place)),
                Let(new.name, Call("f32", "maximum", (old, Load("f32", self.state.top, place)))),
                *based(new, base),
                Let(scale.name, self.exponential(old, base)),
                Store(self.state.peak, place, new),
                Local(total.name, Call("f32", "multiply", (Load("f32", self.state.total, place), scale))),
                *self.block.line(self.state.scores, thread, self.state.columns, i, half, one),
                Store(self.state.total, place, total),
                *self.block.line(self.state.out, thread, self.state.wide // COLUMNS, i, half, scaled),
            ]

        return self.block.rows(thread, row)


def _loads(expr: Expr) -> bool:
    return any(isinstance(each, Load) for each in expressions((Let("", expr),)))


def based(peak: Var, base: Var) -> list[Stmt]:
    """The base of exponentials: the peak, or 0 where no score is more than -inf."""
    return [Let(base.name, Call("f32", "select", (is_low(peak), ZERO, peak)))]


def is_low(peak: Expr) -> Expr:
    """i1: no score of a row is more than -inf."""
    return Call("i1", "compare", (peak, LOW), (("direction", "EQ"), ("kind", "FLOAT")))
