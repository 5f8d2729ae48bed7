"""1 + erf(x) and 1 - erf(x), which are erfc(-x) and erfc(x): one formula, with a quick exponential, where a result near
1 is as exact as 1 is."""

from __future__ import annotations

from dataclasses import replace

from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Call, Const, Expr, Let, Load, Stmt, Var
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions


def complements(launch: Launch) -> Launch:
    """The launch, and what runs where it does not fit, with erfc for 1 and erf of f32."""
    kernel = replace(launch.kernel, body=_Complements().body(launch.kernel.body))
    return replace(launch, kernel=kernel, otherwise=launch.otherwise and complements(launch.otherwise))


class _Complements(Moved):
    def __init__(self) -> None:
        super().__init__({})
        self.values: dict[str, Expr] = {}
        """What names stand for."""

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed; of a name, its value is kept."""
        found = super().stmt(stmt)
        if isinstance(found, Let):
            self.values[found.name] = found.value
        return found

    def _expr(self, expr: Expr) -> Expr:
        found = super()._expr(expr)
        return self._complement(found) if isinstance(found, Call) and found.dtype == "f32" else found

    def _complement(self, expr: Call) -> Expr:
        if expr.op not in ("add", "subtract"):
            return expr
        one, other = expr.args if expr.op == "subtract" or _is_one(expr.args[0]) else expr.args[::-1]
        value = self.values.get(other.name, other) if isinstance(other, Var) else other
        if not _is_one(one) or not isinstance(value, Call) or value.op != "erf":
            return expr
        (x,) = value.args
        if value is not other and not self._stays(x):
            return expr
        return Call("f32", "erfc", (x if expr.op == "subtract" else Call("f32", "negate", (x,)),), fast=True)

    def _stays(self, expr: Expr) -> bool:
        """Whether an expression has the same value later on: it reads no memory and no variable that changes."""
        return not any(
            isinstance(each, Load) or (isinstance(each, Var) and each.name not in self.values)
            for each in expressions((Let("", expr),))
        )


def _is_one(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 1
