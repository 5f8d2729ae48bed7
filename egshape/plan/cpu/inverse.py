"""Division by numbers that a loop does not change, as multiplication by their inverses (at most 1.5 ulp).

A loop that rounds to whole numbers, or compares quotients, divides: there their last bit may decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from egshape.ir.types import is_float
from egshape.plan.ir.loops import Assign, Call, Const, Expr, If, Let, LetIndex, Local, Loop, Stmt, Var, While
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions, statements

_LARGEST = {"f32": 2.0**126, "f64": 2.0**1022}
"""Numbers up to here, and their inverses, are normal numbers."""
_DECIDE = frozenset(("compare", "sign", "is_finite"))
_STEPS = frozenset(("floor", "ceil", "round_nearest_even", "round_nearest_afz"))


def with_inverses(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements with two versions of each innermost loop that divides by locals from outside: one multiplies by
    their inverses and runs where these lose nothing, the other divides."""
    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Loop() if not any(isinstance(inner, Loop | While) for inner in statements(stmt.body)):
                found += _versions(stmt)
            case Loop() | While():
                found.append(replace(stmt, body=with_inverses(stmt.body)))
            case If():
                found.append(If(stmt.condition, with_inverses(stmt.then), with_inverses(stmt.other)))
            case _:
                found.append(stmt)
    return tuple(found)


def _versions(loop: Loop) -> list[Stmt]:
    if _rounds(loop.body) or _compares(loop.body):
        return [loop]
    plain = replace(loop, body=_Products({}).body(loop.body))
    found = _divisors(loop.body)
    if not found:
        return [plain]
    inverses = {var.name: Var(var.dtype, f"{var.name}.inverse") for var in found}
    first = [Let(inverses[var.name].name, Call(var.dtype, "divide", (Const(var.dtype, 1.0), var))) for var in found]
    quick = replace(loop, body=_Products(inverses).body(loop.body))
    fits = reduce(lambda one, two: Call("i1", "and", (one, two)), [_invertible(var) for var in found])
    return [*first, If(fits, (quick,), (plain,))]


def _rounds(body: Sequence[Stmt]) -> bool:
    """Whether statements round to whole numbers: by an op, or by a convert to integers."""
    calls = [expr for expr in expressions(tuple(body)) if isinstance(expr, Call)]
    return any(
        call.op in _STEPS or (call.op == "convert" and is_float(call.args[0].dtype) and not is_float(call.dtype))
        for call in calls
    )


def _compares(body: Sequence[Stmt]) -> bool:
    """Whether statements compare what they divide, or take its sign."""
    divided: set[str] = set()

    def is_divided(expr: Expr) -> bool:
        return any(
            (isinstance(each, Call) and each.op == "divide") or (isinstance(each, Var) and each.name in divided)
            for each in expressions((Let("", expr),))
        )

    for stmt in (*statements(tuple(body)), *statements(tuple(body))):  # twice, for locals that are assigned later
        if isinstance(stmt, Let | Local | Assign) and is_divided(stmt.value):
            divided.add(stmt.name)
    calls = [expr for expr in expressions(tuple(body)) if isinstance(expr, Call) and expr.op in _DECIDE]
    return any(is_float(arg.dtype) and is_divided(arg) for call in calls for arg in call.args)


def _divisors(body: Sequence[Stmt]) -> tuple[Var, ...]:
    """Locals from outside of these statements by which they divide f32 or f64."""
    own = {stmt.name for stmt in statements(tuple(body)) if isinstance(stmt, Let | Local | LetIndex | Assign)}
    found = {}
    for expr in expressions(tuple(body)):
        if isinstance(expr, Call) and expr.op == "divide" and expr.dtype in _LARGEST:
            by = expr.args[1]
            if isinstance(by, Var) and by.name not in own:
                found[by.name] = by
    return tuple(found.values())


def _invertible(var: Var) -> Call:
    """Whether the inverse loses nothing; false for NaN."""
    size, limit = Call(var.dtype, "abs", (var,)), _LARGEST[var.dtype]
    attrs = (("direction", "LE"), ("kind", "FLOAT"))
    small = Call("i1", "compare", (size, Const(var.dtype, limit)), attrs)
    return Call("i1", "and", (small, Call("i1", "compare", (Const(var.dtype, 1 / limit), size), attrs)))


class _Products(Moved):
    """Products by inverses in the place of divisions by these locals and by numbers."""

    def __init__(self, inverses: Mapping[str, Var]) -> None:
        super().__init__({})
        self.inverses = inverses

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.op == "divide" and expr.dtype in _LARGEST:
            by = self._inverse(expr.args[1])
            if by is not None:
                return Call(expr.dtype, "multiply", (self.expr(expr.args[0]), by))
        return super()._expr(expr)

    def _inverse(self, by: Expr) -> Expr | None:
        if isinstance(by, Var):
            return self.inverses.get(by.name)
        if isinstance(by, Const):
            size = abs(float(by.value))
            if math.isfinite(size) and 1 / _LARGEST[by.dtype] <= size <= _LARGEST[by.dtype]:
                return Const(by.dtype, 1 / float(by.value))
        return None
