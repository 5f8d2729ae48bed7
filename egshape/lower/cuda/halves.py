"""Registers of f16 and bf16 that are moved by words: which ones a printer may hold, or read, in another way."""

from __future__ import annotations

from collections.abc import Mapping

from egshape.lower.cuda import scalar
from egshape.plan.ir.launch import LaneFold, Launch, Mma, Wide
from egshape.plan.ir.loops import Buffer, Call, Const, Expr, Let, Load, Store, Var
from egshape.plan.ir.walk import buffers, expressions, statements

NATIVE = frozenset(("add", "subtract", "multiply"))
"""Ops of f16 that devices have; of bf16 only new ones have them."""


def staged(launch: Launch) -> frozenset[Buffer]:
    """Registers that are computed and then only copied to memory by words: they may be f32, rounded two at a time where
    they are copied. What is only moved keeps the bits of a NaN, and is none of them."""
    body, wide = launch.kernel.body, _copies(launch)
    found = {store.value.buffer for store in wide if isinstance(store.value, Load)} & set(launch.registers)
    copied = {store.value for store in wide}
    for expr in expressions(body):
        if isinstance(expr, Load) and expr not in copied:
            found.discard(expr.buffer)
    lets = {stmt.name: stmt.value for stmt in statements(body) if isinstance(stmt, Let)}
    for stmt in statements(body):
        if isinstance(stmt, Store) and (stmt in wide or not _is_computed(stmt.value, lets)):
            found.discard(stmt.buffer)
        elif isinstance(stmt, LaneFold | Mma):
            found.difference_update(buffers((stmt,)))
    return frozenset(each for each in found if scalar.is_half(each.dtype))


def filled(launch: Launch) -> frozenset[Buffer]:
    """Registers of bf16 that words of memory fill: an element is half of a word."""
    found = {store.buffer for store in _copies(launch)} & set(launch.registers)
    return frozenset(
        each for each in found if each.dtype == "bf16" and (each.size.const or 0) // launch.threads % 2 == 0
    )


def _copies(launch: Launch) -> frozenset[Store]:
    """The statements of copies by words."""
    wide = [stmt for stmt in statements(launch.kernel.body) if isinstance(stmt, Wide)]
    return frozenset(store for stmt in wide for store in stmt.body if isinstance(store, Store))


def _is_computed(value: Expr, lets: Mapping[str, Expr]) -> bool:
    """Whether a value comes to be in f32."""
    while isinstance(value, Var) and value.name in lets:
        value = lets[value.name]
    if isinstance(value, Call):
        return value.op != "bitcast_convert" and not (value.dtype == "f16" and value.op in NATIVE)
    return not isinstance(value, Load | Const)
