"""Rules over sizes: the sampling is sharp enough to miss every guard, and catches wrong rules.

That the shipped rules are true and do what their examples say is test_shipped_rules.py's matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from egshape.decide.reason import Given
from egshape.dims import const, parse
from egshape.egraph.engine import POOL
from egshape.egraph.exchange import ExchangeState, shape_phases, shape_program
from egshape.rulebook.trial.soundness import CannotSample, check_rule
from egshape.rulelang.loader import Rule
from egshape.rulelang.provenance import PlainRule, desugar
from egshape.rulelang.sexpr import read_lists

RULES = shape_program()
OVER_SHAPES = {"size.dim/at"}


def plain(rule: Rule) -> PlainRule:
    return desugar(rule.command, rule.name, rule.ruleset)[0]


# Guards that a rule would be true without: they keep the search finite, or leave alone, as the law
# of divisions asks, what may divide by 0.
CAUTIOUS = {
    ("size.order/chain", "(!= u y)"),
    ("size.floordiv/negative-divisor", "(< b 0)"),
    ("size.floordiv/whole", "(> b 0)"),
    ("size.floordiv/nested-in-sum", "(> e 0)"),
    ("size.floordiv/nested", "(> x 0)"),
    ("size.floordiv/nested", "(!= p h)"),
    ("size.floordiv/remainder-hi-numerator", "(> a 0)"),
}


def guards() -> Iterator[object]:
    for rule in RULES.rules:
        for guard in rule.guards:
            if rule.name not in OVER_SHAPES and (rule.name, guard) not in CAUTIOUS:
                yield pytest.param(rule, guard, id=f"{rule.name} without {guard}")


@pytest.mark.parametrize(("rule", "guard"), list(guards()))
def test_every_guard_is_needed(rule: Rule, guard: str) -> None:
    whole = plain(rule)
    body = tuple(fact for fact in whole.body if str(fact) != guard)
    assert len(body) == len(whole.body) - 1
    assert check_rule(replace(whole, body=body)).violation is not None


@pytest.mark.parametrize(
    "text",
    [
        "(rule ((= q (FloorDiv h k))) ((union (Mul k q) h)))",
        "(rule ((= q (FloorDiv h k)) (= a (lo k)) (> a 0)) ((union (Mul k q) h)))",
        "(rule ((= q (FloorDiv k k))) ((union q (Num 1))))",
        "(rule ((= q (FloorDiv h k)) (= a (lo h)) (>= a 0)) ((set (lo q) 0)))",
        "(rule ((= d (Relu p)) (= a (lo p))) ((union d p)))",
        "(rule ((= d (Relu p)) (= a (hi p))) ((set (hi d) a)))",
        "(rule ((term d c h t) (= a (lo h)) (= b (lo t)) (= v (+ (* c a) b))) ((set (lo d) v)))",
        "(rule ((factor d a r) (= x (lo a)) (= y (lo r)) (= v (* x y))) ((set (lo d) v)))",
        "(rule ((term d c h t) (Dvd k h)) ((Dvd k d)))",
        "(rule ((= q (FloorDiv p b)) (= p (FloorDiv h a))) ((union q (FloorDiv h (Mul a b)))))",
        "(rule ((term d c h t) (> c 0) (= a (lo d)) (= b (hi t)) (= r (+ (- a b) (- c 1))) (= v (/ r c)))"
        " ((set (lo h) v)))",
        "(rule ((= w (far y z)) (edge u z v) (= s (+ w v))) ((set (far y u) s)))",
    ],
)
def test_the_checker_catches_wrong_rules(text: str) -> None:
    wrong = desugar(read_lists(text)[0], "wrong", "wrong")[0]
    violation = check_rule(wrong).violation
    assert violation is not None
    assert "wrong: at " in str(violation)


def test_a_rule_over_tensors_is_not_sampled_as_numbers() -> None:
    wrong = desugar(read_lists("(rewrite (F x) x)")[0], "x", "x")[0]
    with pytest.raises(CannotSample):
        check_rule(wrong)


def test_zero_is_not_divided_away() -> None:
    with POOL.lend(RULES.pieces) as engine:
        state = ExchangeState(engine, RULES, shape_phases(RULES))
        quotient = parse("(h//k)*x")
        state.add_equation(parse("x"), const(0), Given())
        state.add_dims((quotient,))
        state.run()
        assert state.normal_form(quotient) is quotient
