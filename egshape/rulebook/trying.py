"""Check and test rules, with results as JSON models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.egraph.engine import Engine
from egshape.egraph.program import preludes, program
from egshape.rulebook.models import CheckReport, Problem, TestReport
from egshape.rulebook.trial import proofs
from egshape.rulebook.trial.run import try_rules
from egshape.rulebook.trial.verdict import Verdict
from egshape.rulelang.lint import Checked, check_rulesets
from egshape.rulelang.loader import find_rulesets, shipped_rulesets
from egshape.rulelang.python_names import declared
from egshape.rulelang.size_functions import size_functions


def check(*items: str) -> Checked:
    """Check rule files and rulesets, all shipped ones if none are given: every mistake at once, none of them raised.

    Raises EgshapeError for a file that cannot be read and for an unknown name."""
    found = [each for item in items for each in find_rulesets(str(item))] or list(shipped_rulesets())
    return check_rulesets(found, preludes(), Engine)


def check_report(checked: Checked) -> CheckReport:
    """What was found, as JSON."""
    return CheckReport(
        rules=len(checked.rules),
        problems=tuple(
            Problem(
                code=each.code,
                severity="error" if each.severity == "error" else "warning",
                file=each.at.file,
                line=each.at.line,
                column=each.at.column,
                length=each.length,
                message=each.message,
                hint=each.hint,
                rule=each.rule,
            )
            for each in checked.problems
        ),
    )


def test(
    *items: str, rule: str = "", prove: bool = True, seed: int = 0, progress: Callable[[str], None] = lambda name: None
) -> list[Verdict]:
    """Try rules out: examples, counter-examples, and whether what they state is true, by proof or by numbers.

    rule: only the one of this name. prove=False samples also where z3 could prove. Raises EgshapeError for a file that
    ``check`` finds an error in."""
    files = [each for item in items for each in find_rulesets(str(item))]
    with size_functions(files):
        return try_rules(files, prove=prove, seed=seed, rule=rule, progress=progress)


def rulesets(*items: str) -> list[str]:
    """The rulesets that ``test`` tries for some items, as items by themselves, in its order. Raises EgshapeError as
    it does."""
    given = {each: str(item) for item in items for each in find_rulesets(str(item))}
    found = list(given) or list(shipped_rulesets())
    with size_functions(found if items else ()):
        loaded = program(tuple(each for each in found if each not in shipped_rulesets())).rules
    order = {name: place for place, each in enumerate(loaded.rulesets) for name in (each.name, each.file)}
    return [_by_itself(each, given.get(each, "")) for each in sorted(found, key=lambda item: order[item])]


def _by_itself(name: str, item: str) -> str:
    """A ruleset as what finds it anywhere: one in a Python file by that file."""
    if ".py" not in item.rpartition("/")[2]:
        return name
    return f"{declared(name).file.file}:{name.rpartition(':')[2]}"


def test_report(verdicts: Sequence[Verdict]) -> TestReport:
    """The verdicts as JSON."""
    rows = tuple(each.row for each in verdicts)
    good = sum(each.good for each in verdicts)
    return TestReport(proofs=proofs.available(), good=good, bad=len(rows) - good, rules=rows)


test.__test__ = False  # type: ignore[attr-defined]
test_report.__test__ = False  # type: ignore[attr-defined]
