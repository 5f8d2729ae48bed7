"""The fuzz finds a rule that has lost a guard: a few mutants here, all of them in the long run."""

from __future__ import annotations

import pytest

from tests.fuzz.mutation import caught, mutants

CHOSEN = (
    ("tensor.transpose/transpose-identity", "(identity p)"),
    ("tensor.neutral/right", "(neutral_right f c)"),
    ("tensor.slice/slice-full", "(= (ShapeOf (slice x a b t)) (ShapeOf x))"),
    ("tensor.broadcast/broadcast-identity", "(= s (ShapeOf x))"),
    ("tensor.slice/concatenate-empty-right", "(= (vec-get v k) (Num 0))"),
    ("tensor.neutral/involution", "(involution f)"),
)
PROGRAMS = 40


@pytest.mark.long_but("tensor.slice/*", "tensor.broadcast/*")
@pytest.mark.parametrize(("rule", "dropped"), CHOSEN)
def test_a_dropped_guard_is_found(rule: str, dropped: str) -> None:
    (mutant,) = [each for each in mutants() if (each.rule, each.dropped) == (rule, dropped)]
    found = caught(mutant, range(1, PROGRAMS))
    assert found and not found.startswith("load"), f"{mutant} lived"


def test_there_are_mutants_of_most_rules() -> None:
    assert len({mutant.rule for mutant in mutants()}) >= 25
