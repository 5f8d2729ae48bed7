"""One condition, one meaning: at which sizes an op is rejected is the same to the reference, to the optimizer (what the
op implies becomes a check), to compiled code, which is watched between red zones, and to XLA."""

from __future__ import annotations

from unittest import mock

import pytest

from egshape.egraph import saturate
from egshape.ops import REGISTRY
from egshape.plan.form import planner
from tests.conditions.drawn import DRAWN, ELSEWHERE, drawn
from tests.conditions.judges import disagreements, judges, trials, writable, xla
from tests.lower.opcases import ELEMENTWISE

OPS = sorted(DRAWN)
SIMPLE = {decl.name for decl in REGISTRY if decl.family in ELEMENTWISE} - {"bitcast_convert"}
"""Ops with one condition, that operands have one shape: one graph of each is enough."""


def found(name: str, seeds: range, *, with_xla: bool = False) -> list[str]:
    """What the judges do not agree on, with the graph."""
    out = []
    for seed in seeds:
        graph = drawn(name, seed)
        if with_xla and not writable(graph):
            continue
        wrong = disagreements(graph, seed, {"XLA": xla(graph)} if with_xla else None)
        out += [f"{name}, seed {seed}: {each}\n{graph}" for each in wrong]
    return out


def test_every_op_is_drawn() -> None:
    declared = {decl.name for decl in REGISTRY if not decl.custom}  # other tests declare ops of their own
    assert set(DRAWN) | set(ELSEWHERE) == declared, "say in drawn.py how the op is drawn"


@pytest.mark.parametrize("name", OPS)
def test_one_condition(name: str) -> None:
    wrong = found(name, range(1 if name in SIMPLE else 4))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_one_condition_in_many_graphs(name: str) -> None:
    wrong = found(name, range(4, 7 if name in SIMPLE else 40))
    assert not wrong, "\n".join(wrong)


NOT_IN_XLA = {"host_call": "calls Python"}
WRITTEN = [name for name in OPS if name not in NOT_IN_XLA]
"""Ops that XLA has."""
NOT_PLANNED = {
    **dict.fromkeys(("complex", "conj", "imag", "real"), "no machine code holds a complex number; pairs are compiled"),
    "digamma": "no library of C has it",
}


@pytest.mark.parametrize("name", ["iota", "check", "case", "while", "composite", "concatenate", "dot_general", "clamp"])
def test_xla_has_the_same_conditions(name: str) -> None:
    """One of each family; the others are long."""
    _with_xla(name, range(1))


@pytest.mark.long
def test_each_op_has_all_judges() -> None:
    """What the contract says against the reference, compiled code and XLA, or a reason why not."""
    assert set(WRITTEN) | NOT_IN_XLA.keys() | ELSEWHERE.keys() == {decl.name for decl in REGISTRY if not decl.custom}
    for name in OPS:
        assert set(judges(drawn(name, 0))) == ({"obligations"} if name in NOT_PLANNED else {"obligations", "plan"})


@pytest.mark.long
@pytest.mark.parametrize("name", WRITTEN)
def test_xla_has_the_same_conditions_for_each_op(name: str) -> None:
    _with_xla(name, range(1 if name in SIMPLE else 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_xla_has_the_same_conditions_in_many_graphs(name: str) -> None:
    _with_xla(name, range(2, 6))


def _with_xla(name: str, seeds: range) -> None:
    pytest.importorskip("jax")
    wrong = found(name, seeds, with_xla=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["slice", "gather", "concatenate", "dot_general"])
def test_trials_hold_both_kinds(name: str) -> None:
    (seed,) = rejecting(name)
    assert {trial.accepted for trial in trials(drawn(name, seed), seed)} == {True, False}


def rejecting(name: str) -> range:
    """The first seed whose graph is rejected at some sizes."""
    first = next(seed for seed in range(50) if not all(each.accepted for each in trials(drawn(name, seed), seed)))
    return range(first, first + 1)


def test_a_condition_that_the_plan_lacks_is_found() -> None:
    with mock.patch.object(planner, "conditions", lambda op: ()):
        wrong = found("dynamic_update_slice", rejecting("dynamic_update_slice"))
    assert any("plan at" in each for each in wrong)


def test_a_condition_that_nothing_implies_is_found() -> None:
    with mock.patch.object(saturate, "required", lambda block, registry: ()):
        wrong = found("scatter", rejecting("scatter"))
    assert any("obligations at" in each for each in wrong)
