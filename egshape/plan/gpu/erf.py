"""erf that a model writes out as a rational function, found by what it computes; 1 + erf(x) and 1 - erf(x), which are
erfc(-x) and erfc(x)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import erf
from typing import Any, TypeAlias

import numpy as np

from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Call, Const, Expr, Let, Stmt, Var
from egshape.plan.ir.visit import Moved

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_OPS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "square": np.square,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}
"""With them come rational functions of what is bounded: two that agree at so many points, of so few ops, are one."""
_ENDS = ("divide", "clamp", "minimum", "maximum")
"""What such a function ends with."""
FEWEST, MOST = 10, 80
"""Ops of it: formulas with fewer are not as exact."""
TOLERANCE = 1e-6
"""How far from erf it may be, as a share of it: several ulp of f32, which formulas for f32 are exact to."""


def with_erf(launch: Launch) -> Launch:
    """The launch, and what runs where it does not fit, with erf where its values are computed. Only in f32, whose
    formulas are of so many ops; the results are as near to those of erf as the formula's own."""
    kernel = replace(launch.kernel, body=_Erf().body(launch.kernel.body))
    return replace(launch, kernel=kernel, otherwise=launch.otherwise and with_erf(launch.otherwise))


class _Erf(Moved):
    def __init__(self) -> None:
        super().__init__({})
        self.before, self.now = _Lets(), _Lets()

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed; of a name, its value is kept."""
        found = super().stmt(stmt)
        if isinstance(stmt, Let) and isinstance(found, Let):
            self.before.values[stmt.name], self.now.values[stmt.name] = stmt.value, found.value
        return found

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Call) and expr.dtype == "f32" and expr.op in _ENDS:
            argument = _argument(expr, self.before)
            if argument is not None:
                return Call("f32", "erf", (self.expr(argument),))
        found = super()._expr(expr)
        return _complement(found, self.now) if isinstance(found, Call) and found.dtype == "f32" else found


def _complement(expr: Call, lets: _Lets) -> Expr:
    """1 + erf(x) or 1 - erf(x) as erfc, to which that is no more than 1 is; anything else as it is."""
    if expr.op not in ("add", "subtract"):
        return expr
    one, other = expr.args if expr.op == "subtract" or _is_one(expr.args[0]) else expr.args[::-1]
    other = lets.value(other)
    if not _is_one(one) or not isinstance(other, Call) or other.op != "erf":
        return expr
    (x,) = other.args
    return Call("f32", "erfc", (x if expr.op == "subtract" else Call("f32", "negate", (x,)),), fast=True)


def _is_one(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 1


class _Lets:
    """Names that stand for values, and which expressions are one: those that are written alike."""

    def __init__(self) -> None:
        self.values: dict[str, Expr] = {}
        self._keys: dict[Expr, int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}

    def value(self, expr: Expr) -> Expr:
        """What a name stands for, else the expression."""
        while isinstance(expr, Var) and expr.name in self.values:
            expr = self.values[expr.name]
        return expr

    def key(self, expr: Expr) -> int:
        """The same for expressions that are written alike."""
        if expr not in self._keys:
            match expr:
                case Call(op=op, args=args) if op in _OPS:
                    text: tuple[Any, ...] = (op, *map(self.key, args))
                case Const():
                    text = ("number", expr.dtype, expr.value)
                case Var():
                    text = ("name", expr.name)
                case _:
                    text = ("other", expr)
            self._keys[expr] = self._numbers.setdefault(text, len(self._numbers))
        return self._keys[expr]


def _argument(root: Call, lets: _Lets) -> Expr | None:
    """Of what an expression is erf; None if it is not."""
    ops, known = _below(root, lets)
    if len(ops) < FEWEST or all(op.op != "divide" for op in ops):
        return None
    for each in _bounded(ops, lets):
        with np.errstate(all="ignore"):
            found = _values(root, {each: _grid()[0]}, lets)
        if each in known and found is not None and _is_erf(found):
            return known[each]
    return None


def _below(root: Call, lets: _Lets) -> tuple[list[Call], dict[int, Expr]]:
    """Ops of which an expression is made, the nearest ones, and by their keys all that may stand in its place: parts of
    its own, and names."""
    ops: dict[int, Call] = {}
    known: dict[int, Expr] = {}
    found: list[tuple[Expr, bool]] = [(root, True)]
    for expr, own in found:
        if own or (isinstance(expr, Var) and expr.name in lets.values):
            known.setdefault(lets.key(expr), expr)
        value = lets.value(expr)
        if isinstance(value, Call) and value.op in _OPS and len(ops) < MOST and lets.key(value) not in ops:
            ops[lets.key(value)] = value
            found += [(each, own and value is expr) for each in value.args]
    return list(ops.values()), known


def _bounded(ops: Sequence[Call], lets: _Lets) -> Iterator[int]:
    """What is bounded or squared among ops, by its key: of such a function, its argument."""
    found: dict[int, None] = {}
    for op in ops:
        keys = [lets.key(each) for each in op.args if not isinstance(each, Const)]
        if op.op in ("clamp", "maximum", "minimum", "square") or (op.op == "multiply" and keys[0] == keys[-1]):
            found.update(dict.fromkeys(keys))
    yield from found


def _values(expr: Expr, found: dict[int, Array], lets: _Lets) -> Array | None:
    """The values of an expression where those of a part of it are known; None where that is not enough."""
    key = lets.key(expr)
    if key not in found:
        value = lets.value(expr)
        if isinstance(value, Const):
            return np.float32(value.value) * np.ones_like(_grid()[0])
        if len(found) > MOST or not (isinstance(value, Call) and value.op in _OPS and value.dtype == "f32"):
            return None
        args = [_values(each, found, lets) for each in value.args]
        if any(each is None for each in args):
            return None
        found[key] = _OPS[value.op](*args)
    return found[key]


@cache
def _grid() -> tuple[Array, Array]:
    """Numbers of f32 and erf of them."""
    large = np.exp(np.linspace(-80, 88, 337))
    x = np.concatenate([np.linspace(-6, 6, 1201), large, -large, [-0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    return x, np.vectorize(erf, otypes=[np.float64])(x.astype(np.float64))


def _is_erf(found: Array) -> bool:
    wanted = _grid()[1]
    near = (np.abs(found - wanted) <= TOLERANCE * np.abs(wanted)) & (np.signbit(found) == np.signbit(wanted))
    return bool(np.all(near | (np.isnan(found) & np.isnan(wanted))))
