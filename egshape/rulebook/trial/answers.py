"""Questions about sizes, answered by the rules alone: equations, orders and divisors go in, what follows is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from egshape.decide.context import Context
from egshape.decide.reason import Given
from egshape.dims import Dim, at_once, const
from egshape.dims.functions import SHIPPED
from egshape.dims.text import DECLARED
from egshape.dims.theory import Law
from egshape.egraph.budget import Budget
from egshape.egraph.engine import POOL, Engine
from egshape.egraph.exchange import ExchangeState
from egshape.facts import Relation
from egshape.rulebook.without import fresh_sizes
from egshape.rulelang.loader import LoadedRules
from egshape.rulelang.piece import Piece
from egshape.rulelang.rulefile import Example
from egshape.rulelang.size_examples import SizeFact, SizeQuestion


def answer(
    question: SizeQuestion, rules: LoadedRules, pieces: tuple[Piece, ...], phases: tuple[str, ...]
) -> tuple[bool, Mapping[str, int], str]:
    """Whether the rules derive the conclusion, how often each rule matched, and the budget's status."""
    with POOL.lend(pieces) as engine:
        state = ExchangeState(engine, rules, phases)
        state.add_dims((question.subject, *question.dims()))
        if question.shapes:
            _equal_shapes(question, engine)
        for fact in () if question.shapes else question.given:
            if fact.op == "==":
                state.add_equation(fact.left, fact.right, Given())
            elif fact.op == "divides":
                state.add_divisor(fact.left, fact.right, Given())
            else:
                _order(state, fact)
        for fact in question.wanted:
            if fact.op == "divides":
                state.add_dims((fact.right // fact.left,))
            elif fact.op != "==":
                state.add_goal(fact.left - fact.right)
        state.run(Budget(seconds=5, steps=300))
        known = bool(question.wanted) and all(_shown(state, fact) for fact in question.wanted)
        return known, dict(state.matches), state.status


def answer_at_once(example: Example) -> tuple[bool, Mapping[str, int]]:
    """Whether the rules that run at once show the conclusion, with the theory, and how often each was used."""
    with noting() as used:
        question = SizeQuestion(example)
        context = Context()
        context.assume_all([(relation(fact), None) for fact in question.given])
        context.normal_form(question.subject)
        known = bool(question.wanted) and all(context.decide(relation(fact)) == "proved" for fact in question.wanted)
    return known, used


def relation(fact: SizeFact) -> Relation:
    """What a line states, as a relation between sizes."""
    if fact.op == "divides":
        return Relation("==", fact.right % fact.left, const(0))
    return Relation(fact.op, fact.left, fact.right) if fact.op != ">=" else Relation("<=", fact.right, fact.left)


@contextmanager
def noting() -> Iterator[Counter[str]]:
    """Count the rules that run at once inside."""
    used: Counter[str] = Counter()

    def simplifying(real: Callable[..., tuple[Any, str] | None]) -> Callable[..., tuple[Any, str] | None]:
        def noted(*args: Any) -> tuple[Any, str] | None:
            found = real(*args)
            if found is not None:
                used[found[1]] += 1
            return found

        return noted

    def stating(real: Callable[..., Iterable[tuple[Dim, str]]]) -> Callable[..., Law]:
        def noted(*args: Any) -> Law:
            for law in real(*args):
                used[law[1]] += 1
                yield law

        return noted

    with fresh_sizes(), ExitStack() as stack:  # what is known of sizes that are there is not asked
        for name in ("floordiv", "relu"):  # the others are functions that know their rules
            stack.enter_context(patch.object(at_once, name, simplifying(getattr(at_once, name))))
            stack.enter_context(patch.object(at_once, f"{name}_laws", stating(getattr(at_once, f"{name}_laws"))))
        for function in (*SHIPPED.values(), *DECLARED.get().values()):
            stack.enter_context(patch.object(function, "simplify", simplifying(function.simplify)))
            stack.enter_context(patch.object(function, "laws", stating(function.laws)))
        yield used


def _equal_shapes(question: SizeQuestion, engine: Engine) -> None:
    """Tell the engine that two shapes are one, and nothing of their sizes."""
    one, two = (f"(Sh (vec-of {' '.join(f'(P {dim.id})' for dim in shape)}))" for shape in question.shapes)
    engine.load_table("axis", [(axis,) for axis in range(len(question.shapes[0]))])
    engine.command(f"(union {one} {two})")


def _order(state: ExchangeState, fact: SizeFact) -> None:
    small, large = (fact.left, fact.right) if fact.op == "<=" else (fact.right, fact.left)
    state.add_order(small, large)
    bound = fact.right.const
    if bound is not None:
        state.add_bounds(fact.left, bound if fact.op == ">=" else None, bound if fact.op == "<=" else None)


def _shown(state: ExchangeState, fact: SizeFact) -> bool:
    if fact.op == "==":
        return state.normal_form(fact.left) is state.normal_form(fact.right)
    if fact.op == "divides":
        return state.reduce(fact.left * (fact.right // fact.left)) is state.reduce(fact.right) and (
            fact.left.const != 0 or fact.right.const == 0
        )
    lo, hi = state.bounds(fact.left - fact.right)
    return (lo is not None and lo >= 0) if fact.op == ">=" else (hi is not None and hi <= 0)
