"""Random programs, before and after optimize: a short run; ``python -m tests.fuzz.run`` is the long one."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings

from egshape.egraph.program import program as rules_program
from egshape.ir.graph import Graph
from tests.fuzz.engine import Tally, differences, program, try_seed
from tests.fuzz.maker import Maker
from tests.fuzz.patterns import PATTERNS
from tests.fuzz.run import rules
from tests.fuzz.strategies import programs

SECONDS = 15
"""Of this process's own, so that others on the machine do not matter."""


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(made=programs())
def test_a_random_program_means_the_same(made: tuple[Maker, Graph]) -> None:
    maker, graph = made
    assert not differences(maker, graph, 1, Tally())


@pytest.mark.long_but("0")
@pytest.mark.parametrize("start", [0, 20, 40])
def test_seeded_programs_mean_the_same(start: int) -> None:
    tally = Tally()
    end = time.process_time() + SECONDS
    for seed in range(start, start + 20):
        if time.process_time() > end:
            break
        assert not try_seed(seed, tally)
    assert tally.compared["equal"] > 16 and not tally.compared["different"]


def test_a_seed_gives_one_program() -> None:
    assert [str(program(7)[1])] * 2 == [str(program(7)[1]) for _ in range(2)]


def test_every_pattern_is_of_a_rule_and_every_rule_has_a_pattern() -> None:
    shipped = {rule.name for rule in rules_program().rules.rules}
    assert set(PATTERNS) <= shipped
    assert set(rules()) <= set(PATTERNS), "write a left side in tests/fuzz/patterns.py"


@pytest.mark.parametrize("rule", sorted(PATTERNS))
def test_a_pattern_fires_its_rule(rule: str) -> None:
    tally = Tally()
    for seed in range(200):
        assert not try_seed(seed, tally, (rule,), most=3)
        if tally.fired[rule]:
            return
    raise AssertionError(f"{rule} has not fired")
