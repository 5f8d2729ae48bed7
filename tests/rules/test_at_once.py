"""Rules over sizes as Python: made from the text as it is, none needed by another, as strong as in the engine."""

from __future__ import annotations

import pytest

from egshape.egraph.program import program
from egshape.prove import prove
from egshape.rulebook.trial.answers import answer, answer_at_once
from egshape.rulebook.without import without
from egshape.rulelang.at_once import FOLDER, RULESETS, generated, rules
from egshape.rulelang.loader import load_rulesets
from egshape.rulelang.size_examples import SizeQuestion

SIZES = [rule for rule in load_rulesets(RULESETS, provenance=False).rules if rule.ruleset in RULESETS]
NAMES = sorted(rules())
IN_THE_ENGINE_ONLY = {"size.floordiv/nested"}
"""A rule of divisors that are symbols: at once it would change how sizes are written that facts say nothing of."""
THEORY = ("a*b == b*a", "a*(b + 1) == a*b + a", "a + b >= a")
# Divisors past those whose remainders the search tries one by one: that n % k is one of 0..k-1 is congruence, theory.
ABOUT = {
    "size.floordiv": ("(2*a)//2 == a", "(a//100)*100 <= a", "(a//9)//90 == a//810", "(a//b)*b <= a given b >= 1"),
    "size.relu": ("max(a, b) >= b", "max(a, a + 1) == a + 1", "min(a, b) <= a"),
    "size.bcast": (
        "bcast(a, b) == a given a == b",
        "bcast(a, 1) <= a",
        "bcast(a, b) == bcast(b, a) given a*b >= 4; bcast(a, b) >= 0",
        "bcast(a, b) <= 900 given a <= 700; b <= 900; bcast(a, b) >= 0",
    ),
}


@pytest.mark.parametrize("name", ["at_once.py", "bounds.py"])
def test_what_runs_is_made_from_the_rules(name: str) -> None:
    assert (FOLDER / name).read_text() == generated()[name], "run `python -m egshape.rulelang.at_once`"


def status(question: str) -> str:
    goal, _, given = question.partition(" given ")
    return prove(goal, given=[given] if given else []).status


@pytest.mark.parametrize("ruleset", sorted(ABOUT))
def test_without_the_rules_of_a_function_nothing_is_known_of_it(ruleset: str) -> None:
    others = [question for other in ABOUT if other != ruleset for question in ABOUT[other]]
    assert {status(question) for questions in ABOUT.values() for question in questions} == {"proved"}
    with without([rule.name for rule in SIZES if rule.ruleset == ruleset]):
        assert [status(question) for question in ABOUT[ruleset]] == ["unknown"] * len(ABOUT[ruleset])
        assert [question for question in (*others, *THEORY) if status(question) != "proved"] == []


def test_every_rule_that_runs_at_once_is_told_apart() -> None:
    assert set(NAMES) <= {rule.name for rule in SIZES}
    assert len(NAMES) > 20


@pytest.mark.long
@pytest.mark.parametrize("rule", SIZES, ids=lambda rule: rule.name)
def test_engine_and_python_agree(rule) -> None:  # type: ignore[no-untyped-def]
    """What the rules derive in the e-graph Python knows too, and neither derives a counter-example's conclusion."""
    loaded = program()
    for example in rule.examples:
        in_engine, _, _ = answer(SizeQuestion(example), loaded.rules, loaded.pieces, loaded.size_phases)
        at_once_too, _ = answer_at_once(example)
        assert at_once_too or rule.name in IN_THE_ENGINE_ONLY, example
        assert in_engine or rule.name in NAMES, example
    for example in rule.counters:
        assert not (example.after and answer_at_once(example)[0]), example
