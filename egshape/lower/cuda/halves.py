"""Registers of f16 and bf16 that are moved by words: which ones a printer may hold, or read, in another way."""

from __future__ import annotations

from egshape.lower.cuda import scalar
from egshape.plan.ir.launch import LaneFold, Launch, Mma, Wide
from egshape.plan.ir.loops import Buffer, Call, Const, Load, Store
from egshape.plan.ir.walk import buffers, expressions, statements


def staged(launch: Launch) -> frozenset[Buffer]:
    """Registers that are computed and then only copied to memory by words: they may be f32, rounded two at a time where
    they are copied. What is only moved keeps the bits of a NaN, and is none of them."""
    body, wide = launch.kernel.body, _copies(launch)
    found = {store.value.buffer for store in wide if isinstance(store.value, Load)} & set(launch.registers)
    copied = {store.value for store in wide}
    for expr in expressions(body):
        if isinstance(expr, Load) and expr not in copied:
            found.discard(expr.buffer)
    for stmt in statements(body):
        if isinstance(stmt, Store) and (stmt in wide or not _is_computed(stmt)):
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


def _is_computed(store: Store) -> bool:
    value = store.value
    return not isinstance(value, Load | Const) and not (isinstance(value, Call) and value.op == "bitcast_convert")
