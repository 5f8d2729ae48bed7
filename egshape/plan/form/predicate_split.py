"""Loops cut where a test on their variable changes: concat and pad write each of their parts with a loop of its own,
which copies without a branch. Only loops that store are cut, at places that hang on sizes alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from egshape.dims import Dim, maximum, minimum, symbol
from egshape.plan.ir.loops import Choose, Expr, Let, LetIndex, Loop, Stmt, Store, Test
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions, statements

MOST = 16
"""Loops that one nest may become."""
DEEPEST = 8
"""Cuts one inside of another."""


def split_predicates(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements with such loops cut; the order of the rounds stays."""
    found: list[Stmt] = []
    for stmt in body:
        parts = _parts(stmt, 2**DEEPEST) if isinstance(stmt, Loop) and _only_stores(stmt) else [stmt]
        found += parts if sum(isinstance(each, Store) for each in statements(tuple(parts))) <= MOST else [stmt]
    return tuple(found)


def _only_stores(loop: Loop) -> bool:
    return all(isinstance(stmt, Loop | Store | Let | LetIndex) for stmt in statements(loop.body))


def _parts(loop: Loop, budget: int) -> list[Stmt]:
    places = (_place(test, loop) for test in _tests(loop.body))
    place = next((each for each in places if each is not None), None)
    if place is None or budget < 2:
        inner: list[Stmt] = []
        for stmt in loop.body:
            inner += _parts(stmt, budget // len(loop.body)) if isinstance(stmt, Loop) else [stmt]
        return [replace(loop, body=tuple(inner))]
    test, at, first = place
    found: list[Stmt] = []
    for lower, size in ((True, at), (False, loop.extent - at)):
        if size.const == 0:
            continue
        var = loop.var if lower else f"{loop.var}.{budget}"
        index = symbol(var) * (size.const != 1) + at * (not lower)
        part = _Part({} if index is symbol(loop.var) else {loop.var: index}, {test: first is lower}).body(loop.body)
        if size.const != 1:
            found += _parts(Loop(var, size, part), budget // 2)
            continue
        for stmt in part:
            found += _parts(stmt, budget // 2) if isinstance(stmt, Loop) else [stmt]
    return found


def _tests(body: Sequence[Stmt]) -> list[Dim]:
    return [
        dim
        for expr in expressions(tuple(body))
        if isinstance(expr, Choose) and isinstance(expr.condition, Test)
        for dim in expr.condition.dims
    ]


def _place(test: Dim, loop: Loop) -> tuple[Dim, Dim, bool] | None:
    """Where a test changes: (test, the first rounds' number, whether it holds in these)."""
    if loop.var not in test.symbols():
        return None
    var = symbol(loop.var)
    for sign in (1, -1):
        rest = test - var * sign
        if any(name.startswith("$") for name in rest.symbols()):
            continue
        limit = -rest if sign == 1 else rest + 1
        return test, minimum(maximum(limit, 0), loop.extent), sign == -1
    return None


class _Part(Moved):
    """Statements with another index, in which some tests are decided."""

    def __init__(self, env: Mapping[str, Dim], decided: Mapping[Dim, bool]) -> None:
        super().__init__(env)
        self.decided = decided

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Choose) and isinstance(expr.condition, Test):
            left = self._left(expr.condition.dims)
            if left is None:
                return self.expr(expr.other)
            if not left:
                return self.expr(expr.then)
            return Choose(expr.dtype, self.expr(Test(tuple(left))), self.expr(expr.then), self.expr(expr.other))
        return super()._expr(expr)

    def _left(self, dims: Sequence[Dim]) -> Collection[Dim] | None:
        """The tests that are still open; None if one of them fails."""
        if any(self.decided.get(dim) is False for dim in dims):
            return None
        return [dim for dim in dims if dim not in self.decided]
