"""Rules switched off, in the engine and where they run at once; the benchmark that does so with each."""

from __future__ import annotations

from collections import Counter

import pytest

import egshape
from benchmarks import rules_matter
from egshape.egraph.program import shipped
from egshape.ir.text import parse_graph
from egshape.rulebook.without import fresh_sizes, without
from egshape.rulelang.at_once import rules as at_once_rules
from tests.cases.test_cases import CASES

TWICE = """graph twice(%x: f32[a]) {
  symbols a = size(%x, 0)
  %0: f32[a] = reverse(%x) {dims=[0]}
  %1: f32[a] = reverse(%0) {dims=[0]}
  return %1 as y
}"""


def reverses() -> int:
    result = egshape.optimize(parse_graph(TWICE), validate=False)
    return sum(op.name == "reverse" for op in result.graph.ops)


def test_a_rule_of_the_engine_is_off_inside() -> None:
    with without(["tensor.slice/reverse-reverse"]):
        assert reverses() == 2
    assert reverses() == 0


def test_a_rule_that_runs_at_once_is_off_inside() -> None:
    def status() -> str:
        return egshape.prove("(a//100)*100 <= a").status

    with without(["size.floordiv/remainder-lo"]):
        assert status() == "unknown"
    assert status() == "proved"


def test_sizes_made_inside_are_not_met_outside() -> None:
    with without(["size.relu/turned"]):
        inside = egshape.prove("max(b - a, 0) == b - a + max(a - b, 0)").status
    assert (inside, egshape.prove("max(b - a, 0) == b - a + max(a - b, 0)").status) == ("proved", "proved")


def test_what_is_used_is_noted_wherever_it_runs() -> None:
    with rules_matter.used() as found:
        reverses()
        egshape.prove("(a//100)*100 <= a")
    assert isinstance(found, Counter)
    assert {"tensor.slice/reverse-reverse", "size.floordiv/remainder-lo"} <= set(found)
    assert set(found) & at_once_rules()


@pytest.mark.parametrize("name", ["reverse_twice", "sum_between_reshapes"])
def test_a_case_is_tried_without_a_rule(name: str) -> None:
    rule = {"reverse_twice": "tensor.slice/reverse-reverse", "sum_between_reshapes": "tensor.reshape/below-binary"}[
        name
    ]
    case = f"golden {next(path.stem for path in CASES if path.stem == name)}"
    before = rules_matter.cases()[case]()
    assert rules_matter.run_without([rule], [case])[case] != before
    assert rules_matter.run_without(["tensor.slice/pad-nothing"], [case])[case] == before


BOTH_WAYS = {
    "tensor.reshape/insert-axes": "broadcast_of_reshape",
    "tensor.transpose/into-broadcast": "broadcast_of_a_transpose",
    "tensor.broadcast/as-reshape": "broadcast_that_only_adds_axes",
}
"""Rules that another one undoes, by goldens: it makes both sides of their examples one where both are there."""


@pytest.mark.long
@pytest.mark.parametrize("ruleset", shipped())
def test_every_rule_matters_to_its_own_examples(ruleset: str) -> None:
    """An example that comes out the same without its rule shows nothing of it: the rule is not needed, or not shown."""
    every, idle = rules_matter.cases(), []
    for name in (name for name, rule in rules_matter.shipped_rules().items() if rule.ruleset == ruleset):
        case = f"golden {BOTH_WAYS[name]}" if name in BOTH_WAYS else f"example {name}"
        with fresh_sizes():
            before = every[case]()
        if rules_matter.run_without([name], [case])[case] == before:
            idle.append(name)
    assert idle == []
