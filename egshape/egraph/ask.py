"""Questions about sizes answered by the rules in the engine alone, each in an e-graph of its own.

Slow: it is there to compare who decides what (`benchmarks/who_decides.py`), and to try rules over sizes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from egshape.decide.context import Answer, Context, Verdict
from egshape.decide.reason import ENGINE, Reason
from egshape.dims import Definedness, Dim, const
from egshape.egraph.budget import Budget
from egshape.egraph.engine import POOL
from egshape.egraph.exchange import ExchangeState
from egshape.egraph.program import Program
from egshape.facts import Relation

Decide = Literal["both", "rules", "engine"]
"""Who decides about sizes: the compiled rules with the theory while a program is walked, and the rules in the engine
what is equal; or one of them alone."""

_BUDGET = Budget(seconds=2.0, steps=400)


class EngineContext(Context):
    """What is known at one point of a program, where only the engine is asked."""

    def __init__(self, program: Program, symbol_order: Callable[[str], Any]) -> None:
        super().__init__(symbol_order=symbol_order)
        self._program = program

    def copy(self) -> EngineContext:
        """A context with the same assumptions; changes do not leak."""
        new = super().copy()
        assert isinstance(new, EngineContext)
        new._program = self._program
        return new

    def _verdict(self, relation: Relation, budget: int) -> Verdict:
        with POOL.lend(self._program.pieces) as engine:
            state = ExchangeState(engine, self._program.rules, self._program.size_phases, self.world.symbol_order)
            for each in self.assumptions:
                believe(state, each.relation, each.reason or ENGINE)
            state.add_dims((relation.lhs, relation.rhs, *relation.lhs.divisors_maybe_zero()))
            state.add_goal(relation.rhs - relation.lhs)
            state.run(_BUDGET)
            return Verdict(_answer(state, relation), ENGINE, (1 << len(self.assumptions)) - 1)

    def holds_condition(self, condition: Definedness, budget: int = 24) -> int | None:
        """The assumptions by which the condition holds, or None."""
        if condition.kind != "nonzero":
            return None
        found = self.verdict(Relation("<=", const(1), condition.one))
        return found.why if found.answer == "proved" else None


def _answer(state: ExchangeState, relation: Relation) -> Answer:
    if any(need.kind != "nonzero" or not state.is_positive(need.one) for need in relation.conditions()):
        return "unknown"
    if _holds(state, relation):
        return "proved"
    return "refuted" if _holds(state, relation.negated()) else "unknown"


def _holds(state: ExchangeState, relation: Relation) -> bool:
    """Whether bounds or equal forms show a relation that has a value."""
    if relation.kind == "in":
        low, high = state.bounds(relation.lhs)
        least = any(a is None or (low is not None and a <= low) for a, _ in relation.ranges[:1])
        return least and len(relation.ranges) == 1 and _within(high, relation.ranges[0][1])
    if relation.kind == "==" and state.normal_form(relation.lhs) is state.normal_form(relation.rhs):
        return True
    low, high = state.bounds(relation.rhs - relation.lhs)
    match relation.kind:
        case "<=":
            return low is not None and low >= 0
        case "<":
            return low is not None and low >= 1
        case "!=":
            return (low is not None and low >= 1) or (high is not None and high <= -1)
    return low == high == 0


def _within(high: int | None, most: int | None) -> bool:
    return most is None or (high is not None and high <= most)


def believe(state: ExchangeState, relation: Relation, reason: Reason) -> None:
    """Tell the rules over sizes what holds, as far as they have words for it."""
    sides = (relation.lhs, relation.rhs)
    if relation.kind == "==":
        state.add_equation(*sides, reason)
    elif relation.kind == "in" and relation.ranges:
        state.add_bounds(relation.lhs, relation.ranges[0][0], relation.ranges[-1][1])
    elif relation.kind in ("<=", "<"):
        step = 1 if relation.kind == "<" else 0
        low, high = relation.lhs.const, relation.rhs.const
        if low is not None:
            state.add_bounds(relation.rhs, low + step, None)
        elif high is not None:
            state.add_bounds(relation.lhs, None, high - step)
        else:
            state.add_order(relation.lhs + step, relation.rhs)


def equate(state: ExchangeState, context: Context, dims: list[Dim]) -> None:
    """Tell the exchange which of some sizes the compiled rules make one, in the place of facts."""
    for divisor in dict.fromkeys(d for dim in dims for d in dim.divisors_maybe_zero()):
        if context.decide(Relation("<=", const(1), divisor)) == "proved":
            state.add_bounds(divisor, 1, None)
    for dim in dims:
        form = context.normal_form(dim)
        if form is not dim:
            state.add_equation(dim, form, context.verdict(Relation("==", dim, form)).rule)
