"""Every shipped rule is good in form, does what its examples say, and is true as far as proofs and numbers go."""

from __future__ import annotations

import pytest

from egshape.egraph.engine import Engine
from egshape.egraph.program import preludes
from egshape.rulebook.trial import proofs
from egshape.rulebook.trial.run import try_rules
from egshape.rulelang.lint import check_rulesets
from egshape.rulelang.loader import shipped_rulesets

BY_SAMPLING = ("size.dim/at", "size.float/")
"""How names of rules over sizes begin that z3 does not prove: they speak of shapes, or of floats, whose rounding by
powers of two is too much for it."""


def test_no_shipped_file_breaks_the_law() -> None:
    checked = check_rulesets(shipped_rulesets(), preludes(), Engine)
    assert len(checked.rules) > 100
    assert checked.render() == ""


@pytest.mark.long_but("size.relu")
@pytest.mark.parametrize("ruleset", shipped_rulesets())
def test_every_rule_stands(ruleset: str) -> None:
    verdicts = try_rules([ruleset], thorough=False)
    assert verdicts
    for verdict in verdicts:
        assert verdict.good, f"{verdict.rule} ({verdict.where}): {verdict.result}: {verdict.why}"
        if verdict.road == "sizes" and proofs.available() and not verdict.rule.startswith(BY_SAMPLING):
            assert verdict.outcome.status == "proved", verdict.rule
        if verdict.road == "tensors":
            assert verdict.fired.graphs >= 2, verdict.rule
