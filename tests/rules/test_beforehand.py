"""Rules of a user are tried before they are used: what is left out, why, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.egraph.program import program
from egshape.ir.interpret import interpret
from egshape.rulebook import beforehand
from egshape.rulebook.trial.run import Quick, tried_alone, try_rules
from egshape.rulebook.trial.verdict import Fired, Outcome
from egshape.rulelang.rulefile import Rule
from egshape.rulelang.size_functions import size_functions

HEADER = """; ruleset: {name}
; about:   what a test asks for
; needs:   {needs}
; law:     keeps every bit of the value
; ends:    each removes an op
{more}
"""
NEEDS = "prelude.shape, prelude.tensor, tensor.types"
EVEN = """
; abs(-x) = abs(x)
(rewrite (Unary "abs" (Unary "negate" x)) (Unary "abs" x)
  :ruleset my :name "my/even")
;; example   abs(negate(x: f32[a]))  =>  abs(x)
"""
GONE = """
; abs(x) = x: wrong
(rewrite (Unary "abs" x) x
  :ruleset my :name "my/gone")
;; example   abs(x: f32[a])  =>  x
"""
TURNED = """
; not(x < y) = x >= y: wrong of NaN
(rewrite (Unary "not" (Binary "compare.LT.FLOAT" x y)) (Binary "compare.GE.FLOAT" x y)
  :ruleset my :name "my/turned")
;; example   not(compare(x: f32[a], y: f32[a], LT, FLOAT))  =>  compare(x, y, GE, FLOAT)
"""
MODEL = """
graph g(%x: f32[n], %y: f32[n]) {
  symbols n = size(%x, 0)
  %0: i1[n] = compare(%x, %y) {direction=LT, kind=FLOAT}
  %1: i1[n] = not(%0)
  return %1 as r
}
"""
ODD = """
graph g(%x: f32[n]) {
  symbols n = size(%x, 0)
  %0: f32[n] = negate(%x)
  %1: f32[n] = abs(%0)
  return %1 as y
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGSHAPE_CACHE", str(tmp_path / "cache"))


def written(folder: Path, *rules: str, name: str = "my", needs: str = NEEDS, more: str = "") -> str:
    path = folder / f"{name}.egg"
    path.write_text(HEADER.format(name=name, needs=needs, more=more) + "".join(rules))
    return str(path)


def loaded(text: str) -> egshape.Graph:
    return egshape.load(text.encode(), format="egs")


def test_a_refuted_rule_is_left_out_and_the_others_are_used(tmp_path: Path) -> None:
    rules = written(tmp_path, EVEN, GONE)
    result = egshape.optimize(loaded(ODD), rules=rules)
    assert result.report.dropped_rules == ("my/gone",)
    (note,) = [note for note in result.report.notes if "my/gone" in note]
    assert "left out: it is wrong, on abs(" in note
    assert [op.name for op in result.graph.ops] == ["abs"]


def test_trusted_rules_are_not_tried(tmp_path: Path) -> None:
    rules, graph = written(tmp_path, TURNED), loaded(MODEL)
    arrays = [np.array([np.nan, 1], np.float32)] * 2
    for trust, right in ((False, True), (True, False)):
        result = egshape.optimize(graph, rules=rules, trust_rules=trust, validate=False)
        assert (result.report.dropped_rules == ("my/turned",)) == right
        assert (interpret(result.graph, arrays)[0].tolist() == interpret(graph, arrays)[0].tolist()) == right
    assert egshape.compile(graph, "interpret", rules=rules)(*arrays).tolist() == [True, True]


def test_strict_rules_exit_with_1_where_a_rule_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, rules = tmp_path / "m.egs", written(tmp_path, TURNED)
    model.write_text(MODEL)
    command = ["optimize", str(model), "--rules", rules, "--strict-rules"]
    assert main(command) == 1
    assert "my/turned is left out: it is wrong" in capsys.readouterr().err
    assert main([*command, "--trust-rules", "--no-validate"]) == 0
    assert "left out" not in capsys.readouterr().err


@pytest.fixture(name="tried")
def _tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the rules that are tried, as they are."""
    names: list[str] = []
    alone = beforehand.tried_alone

    def noted(rule: Rule, *args: Any, **options: Any) -> tuple[Fired, Outcome]:
        names.append(rule.name)
        return alone(rule, *args, **options)

    monkeypatch.setattr(beforehand, "tried_alone", noted)
    return names


def test_a_verdict_is_kept_for_a_text(tmp_path: Path, tried: list[str]) -> None:
    limits = egshape.Limits(seconds=120)  # a machine that does much else tries each all the same
    first = beforehand.left_out([written(tmp_path, EVEN, GONE)], limits)
    assert sorted(tried) == ["my/even", "my/gone"]
    assert beforehand.left_out([written(tmp_path, EVEN, GONE)], limits) == first
    assert beforehand.left_out([written(tmp_path, GONE, TURNED)], limits).keys() == {"my/gone", "my/turned"}
    assert sorted(tried) == ["my/even", "my/gone", "my/turned"]  # another one beside it changes nothing
    other = GONE.replace("abs(x: f32[a])", "abs(x: f32[a, b])")
    beforehand.left_out([written(tmp_path, other)], limits)
    assert sorted(tried) == ["my/even", "my/gone", "my/gone", "my/turned"]


def test_a_verdict_hangs_on_what_ops_mean_and_on_versions(
    tmp_path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, limits = written(tmp_path, GONE), egshape.Limits(seconds=120)
    first = beforehand.left_out([rules], limits)
    for name, value in (("_contracts", lambda: ("other",)), ("version", lambda package: "0"), ("FORMAT", "0")):
        with monkeypatch.context() as changed:
            changed.setattr(beforehand, name, value)
            assert beforehand.left_out([rules], limits) == first
    assert beforehand.left_out([rules], limits) == first
    assert len(tried) == 4
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert beforehand.left_out([rules], limits) == first
    assert len(tried) == 5


def test_a_rule_whose_time_is_up_before_enough_programs_is_not_used(tmp_path: Path) -> None:
    path = written(tmp_path, TURNED)
    everything = program((path,))
    hasty = Quick(cpu=float("inf"), until=0.0)
    _, outcome = tried_alone(everything.rules.rule("my/turned"), everything, (path,), quick=hasty)
    assert outcome.status == "unknown"
    assert "time was up" in outcome.text


def test_a_rule_that_fires_only_on_what_is_one_is_not_used(tmp_path: Path) -> None:
    """Of two roots no program is drawn, and both are the same term in the example, whatever is changed in it."""
    any_two = """
; what has one shape is one, as both ends of the example are
; ends: once
(rule ((= e (reshape x s)) (= f (reshape y s)) (= (dtype_of x) (dtype_of y))) ((union e f))
  :ruleset my :name "my/any-two")
;; example   reshape(x: f32[a], [a])  =>  x
"""
    found = beforehand.left_out([written(tmp_path, any_two)], egshape.Limits(seconds=120))
    assert found == {"my/any-two": "it could not be tried, no program was found on which the rule fires"}


def test_without_time_rules_are_not_used(tmp_path: Path) -> None:
    found = beforehand.left_out([written(tmp_path, EVEN)], egshape.Limits(seconds=0))
    assert found == {"my/even": "no time was left to try it"}


@pytest.mark.long
def test_the_verdict_of_a_rule_is_its_own(tmp_path: Path) -> None:
    """An endless rule, and one that makes the left side of another equal to all, change nothing."""
    endless = """
; abs(x) = abs(abs(x) + 0): it does not end
; ends: it does not
(rewrite (Unary "abs" x) (Unary "abs" (Unary "negate" (Unary "abs" (Unary "negate" x))))
  :ruleset my :name "my/endless")
;; example   abs(x: f32[a])  =>  abs(negate(abs(negate(x))))
"""
    alone = {each.rule: each.row for each in try_rules([written(tmp_path, EVEN)])}
    beside = {each.rule: each.row for each in try_rules([written(tmp_path, endless, EVEN, GONE)])}
    assert alone["my/even"].good
    assert alone["my/even"].model_copy(update={"where": ""}) == beside["my/even"].model_copy(update={"where": ""})


def test_rules_that_fill_relations_of_their_author_stay(tmp_path: Path) -> None:
    (tmp_path / "words.egg").write_text(
        HEADER.format(name="prelude.words", needs=NEEDS, more="") + "(relation flipped (T T))\n"
    )
    marks = """
; -x is x, flipped
(rule ((= e (Unary "negate" x))) ((flipped e x))
  :ruleset my :name "my/marks")
;; example   negate(x: f32[a])  =>  negate(x)
"""
    reads = """
; abs of what is flipped
; ends: once
; sound: the sign does not count
(rule ((= e (Unary "abs" y)) (flipped y x)) ((union e (Unary "abs" x)))
  :ruleset my :name "my/reads")
;; example   abs(negate(x: f32[a]))  =>  abs(x)
;; counter   abs(x: f32[a])
"""
    rules = written(tmp_path, marks, reads, needs=f"{NEEDS}, words.egg")
    assert beforehand.left_out([rules], egshape.Limits(seconds=120)) == {}
    result = egshape.optimize(loaded(ODD), rules=rules, limits=egshape.Limits(seconds=120))
    assert [op.name for op in result.graph.ops] == ["abs"]


@pytest.mark.long
def test_rules_with_a_tolerance_are_tried_at_finite_values(tmp_path: Path) -> None:
    square = """
; sqrt(x)*sqrt(x) = x, up to rounding
(rewrite (Binary "multiply" (Unary "sqrt" x) (Unary "sqrt" x)) x
  :ruleset approx.my :name "approx.my/square")
;; example   multiply(sqrt(x: f64[a]), sqrt(x))  =>  x
"""
    wrong = square.replace("approx.my/square", "approx.my/wrong").replace("sqrt", "exponential")
    rules = written(tmp_path, square, wrong, name="approx.my", more="; tolerance: 1e-2")
    found = {each.rule: each.outcome for each in try_rules([rules])}
    assert found["approx.my/wrong"].status == "failed"
    assert found["approx.my/square"].status == "sampled", found["approx.my/square"]


@pytest.mark.parametrize("name", ["v2", "x", "load", "abs", "e"])
def test_a_ruleset_may_have_any_name(name: str, tmp_path: Path) -> None:
    rules = written(tmp_path, EVEN.replace("my", name), name=name)
    result = egshape.optimize(loaded(ODD), rules=rules, trust_rules=True)
    assert [op.name for op in result.graph.ops] == ["abs"]


ROOT = """; ruleset: my.root
; about:   root(n), the whole part of a square root
; needs:   prelude.shape
; law:     an equation holds at all sizes at which it is defined
; ends:    it bounds a value

(size root (n) :python "FORMULA" :defined "n >= 0")

; root(n) <= n
(rule ((= d (root n))) ((edge d n 0))
  :ruleset my.root :name "my.root/below")
;; example   root(n)  =>  it <= n
"""


def test_a_verdict_hangs_on_what_a_size_function_is(tmp_path: Path) -> None:
    found = []
    for name, formula in (("one", "math.isqrt(n)"), ("two", "math.isqrt(n) + n + 1"), ("three", "math.isqrt(n)")):
        path = tmp_path / name / "root.egg"
        path.parent.mkdir()
        path.write_text(ROOT.replace("FORMULA", formula))
        with size_functions((str(path),)):
            found.append(list(beforehand.left_out((str(path),), egshape.Limits())))
    assert found == [[], ["my.root/below"], []]


TOO_LARGE = """
; root(n) >= n + 1: wrong
(rule ((= d (root n))) ((edge n d 1))
  :ruleset my.root :name "my.root/above")
;; example   root(n)  =>  it >= n + 1
"""


def test_prove_and_size_functions_leave_out_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "root.egg"
    path.write_text(ROOT.replace("FORMULA", "math.isqrt(n)") + TOO_LARGE)
    found = [egshape.prove("root(n) + m <= n + m", rules=str(path), trust_rules=trust) for trust in (False, True)]
    assert [each.status for each in found] == ["proved", "proved"]
    assert ["notes" in each.model_dump() for each in found] == [True, False]
    assert ["my.root/above" in str(each.notes) for each in found] == [True, False]
    with pytest.warns(RuntimeWarning, match="my.root/above is left out: it is wrong"), egshape.size_functions(path):
        assert egshape.prove("root(n) >= n + 1").status == "refuted"
    assert main(["prove", "root(n) <= n", "--rules", str(path)]) == 0
    assert "my.root/above is left out: it is wrong" in capsys.readouterr().err
