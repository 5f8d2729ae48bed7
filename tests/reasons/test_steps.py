"""Every name that a step of a chain has is shown by `rules show`, and theory says truly what it does."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import egshape
from egshape import rulebook
from egshape.cli import main
from egshape.decide import reason
from egshape.decide.reason import Rule
from egshape.egraph.exchange import SHAPE_RULESETS
from egshape.ir.text import parse_graph
from egshape.prove import prove, prove_cases
from egshape.reasons.steps import GIVENS, KINDS, THEORY, StepKind
from tests.cases.test_cases import AFTER, CASES, facts
from tests.prove.test_prove import PROVED


@functools.lru_cache
def known() -> frozenset[str]:
    """All names that `rules show` shows, without asking it for each."""
    return frozenset((*KINDS, *(each.name for each in rulebook.list_rules())))


def names_of(result: egshape.Result) -> Iterator[str]:
    """The names of all steps that a result can show."""
    report = result.report
    yield from (step.rule for _, _, why in report.equalities for step in why)
    yield from (step.rule for check in report.checks for step in check.why)
    yield from (step.rule for each in result.explain_removed() for step in each.why)
    yield from (Rule.of(row.rule).name for row in report.rewrites)


@pytest.mark.parametrize("kind", THEORY[:3], ids=lambda kind: kind.name)
def test_theory_is_what_proves_its_example(kind: StepKind) -> None:
    goal, _, given = kind.example.partition(" given ")
    proof = prove(goal, given)
    assert proof.status == "proved"


def test_steps_of_proofs_are_shown() -> None:
    steps = {step.rule for given, goal in PROVED for step in prove(goal, [given] if given else []).why}
    assert steps <= known()
    assert {"theory.normal-form", "theory.interval", "theory.linear"} <= steps


@pytest.mark.long
def test_steps_of_the_bench_are_shown(shared_bench: Path) -> None:
    answers = prove_cases((shared_bench / "prover.tsv").read_text())
    assert answers.wrong == 0
    assert {step.rule for row in answers.rows for step in row.why} <= known()


@pytest.mark.parametrize(
    ("goal", "given", "rule"),
    [
        ("max(a - b, 0) == a - b", "a >= b", "size.relu/nonnegative"),
        ("min(a, b) == a", "a <= b", "size.relu/nonpositive"),
        ("(n*k)//k == n", "k >= 1", "size.floordiv/whole"),
        ("a//(b + c) == 0", "a < b", "size.floordiv/small"),
    ],
)
def test_a_proof_names_the_rule_that_made_a_size_function_simpler(goal: str, given: str, rule: str) -> None:
    last = prove(goal, given).why[-1]
    assert (last.rule, last.from_, last.to) == (rule, [given], goal)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_steps_of_the_goldens_are_shown(case: Path) -> None:
    before = case.read_text().partition(AFTER)[0]
    graph = parse_graph("".join(line for line in before.splitlines(keepends=True) if not line.startswith("#")))
    assert set(names_of(egshape.optimize(graph, facts(before), validate=False))) <= known()


@pytest.mark.long
def test_steps_of_the_models_are_shown(model_name: str, shared_models: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    result = egshape.optimize(shared_models / f"{model_name}.mlir", validate=False)
    assert set(names_of(result)) <= known()


@pytest.mark.parametrize("name", KINDS)
def test_show(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "show", name]) == 0
    out = capsys.readouterr().out
    assert KINDS[name].states in out
    assert KINDS[name].sound in out


def test_a_rule_read_backwards_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "show", "tensor.slice/slice-full<="]) == 0
    assert capsys.readouterr().out.startswith("tensor.slice/slice-full   ")


def test_every_reason_has_its_entry() -> None:
    shared = {value.name for value in vars(reason).values() if isinstance(value, Rule)}
    assert shared <= {each.name for each in THEORY}
    given = {kind for kind in reason.Reason.__subclasses__() if kind.stated}
    assert len(given) == len(GIVENS) - 2  # facts are given or assumed, semantics of elements or of others
    assert not {each.name for each in (*GIVENS, *THEORY)} & set(SHAPE_RULESETS)


@pytest.mark.parametrize("label", ["tensor.slice/slice-full", "tensor.slice/slice-full<="])
def test_the_engines_name_of_a_rule_is_kept(label: str) -> None:
    assert str(Rule.of(label)) == label
    assert Rule.of(label).name == "tensor.slice/slice-full"
