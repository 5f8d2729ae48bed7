"""Rules over sizes, tried: examples through the engine, and the statement proved or sampled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from egshape.decide.reason import matched
from egshape.egraph.program import Program
from egshape.errors import EgshapeError
from egshape.rulebook.trial import proofs
from egshape.rulebook.trial.answers import answer, answer_at_once
from egshape.rulebook.trial.soundness import CannotSample, check_rule
from egshape.rulebook.trial.verdict import Outcome
from egshape.rulelang import at_once
from egshape.rulelang.provenance import PlainRule, desugar, is_variable
from egshape.rulelang.rulefile import Example, Rule
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.rulelang.size_examples import SizeQuestion

RUNS_AT_ONCE = at_once.rules()
"""The rules that Python runs too."""

SAMPLES = 4000
FEW = 20
"""With fewer hits than this, a rule was hardly sampled, and the table says so."""


def examples_of(rule: Rule, program: Program) -> Iterator[str]:
    """What is wrong with the examples and counter-examples of a rule."""
    for example in (*rule.examples, *rule.counters):
        try:
            question = SizeQuestion(example)
        except EgshapeError as error:
            yield str(error)
            continue
        if example in rule.examples:
            yield from _example(rule, example, question, program)
        else:
            yield from _counter(rule, example, question, program)


def _example(rule: Rule, example: Example, question: SizeQuestion, program: Program) -> Iterator[str]:
    verdicts = list(question.verdicts())
    wrong = next((sizes for sizes, holds in verdicts if not holds), None)
    if not verdicts:
        yield f"{example.where}: no sizes satisfy what the example gives"
    elif wrong is not None:
        yield f"{example.where}: the example itself is false at {_sizes(wrong)}"
    answered, matches, status = answer(question, program.rules, program.pieces, program.size_phases)
    if _runs_at_once(rule, program) and not (answered and _fired(rule, matches)):
        answered, matches = answer_at_once(example)
        status = ""
    if status == "budget" and not answered:
        yield f"{example.where}: the rules do not end on the example"
    elif not _fired(rule, matches):
        yield f"{example.where}: the rule does not fire on its example"
    elif not answered:
        yield f"{example.where}: the rules do not derive {example.after}"


def _counter(rule: Rule, example: Example, question: SizeQuestion, program: Program) -> Iterator[str]:
    answered, matches, _ = answer(question, program.rules, program.pieces, program.size_phases)
    if _runs_at_once(rule, program):
        known, used = answer_at_once(example)
        answered, matches = answered or known, {**matches, rule.name: matches.get(rule.name, 0) + used[rule.name]}
    if example.after and answered:
        yield f"{example.where}: the rules derive {example.after} from the counter-example"
    elif not example.after and _fired(rule, matches):
        yield f"{example.where}: the rule fires on its counter-example"


def _runs_at_once(rule: Rule, program: Program) -> bool:
    return rule.name in RUNS_AT_ONCE or any(rule.name in each.at_once for each in program.rules.rulesets)


def _fired(rule: Rule, matches: object) -> bool:
    assert isinstance(matches, dict)
    return matched(matches, rule.name) > 0


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "all sizes"


def sound(rule: Rule, prove: bool, effort: int = proofs.EFFORT) -> Outcome:
    """Whether what a rule states is true: proved by z3, with so much effort for a question, or sampled."""
    hits, proved = 0, True
    for plain in map(_inlined, desugar(rule.command, rule.name, rule.ruleset)):
        try:
            sampled = check_rule(plain, SAMPLES)
        except CannotSample as cause:
            return Outcome(rule.name, "unknown", text=f"the rule speaks of {cause}, which has no meaning as numbers")
        if sampled.violation is not None:
            values = {name: value for name, value in sampled.violation.values.items() if not name.endswith("__")}
            return _failed(rule, values, sampled.violation.action)
        hits += sampled.hits
        if prove and sampled.hits:
            try:
                found = proofs.prove_rule(plain, effort)
            except CannotSample:
                proved = False
                continue
            if found.status == "refuted":
                return _failed(rule, dict(found.values), found.action)
            proved &= found.status == "proved"
        else:
            proved = False
    if not hits:
        return Outcome(rule.name, "unknown", text="no numbers were found that satisfy the rule's body")
    return Outcome(rule.name, "proved" if proved else "sampled", hits)


def _failed(rule: Rule, values: dict[str, object], action: str) -> Outcome:
    shown = ", ".join(f"{name} = {value}" for name, value in values.items())
    return Outcome(rule.name, "failed", text=f"at {shown} the body holds, but not {action}")


def _inlined(plain: PlainRule) -> PlainRule:
    """The rule with the names that `let` gives in its actions put in."""
    names: dict[str, SExpr] = {}
    actions = []
    for action in plain.actions:
        if isinstance(action, List) and action.head == "let" and is_variable(action.items[1]):
            names[str(action.items[1])] = _put(action.items[2], names)
        elif not (isinstance(action, List) and action.head == "subsume"):
            actions.append(_put(action, names))
    return replace(plain, actions=tuple(actions))


def _put(expr: SExpr, names: dict[str, SExpr]) -> SExpr:
    if isinstance(expr, Atom):
        return names.get(expr.text, expr)
    return List((expr.items[0], *(_put(item, names) for item in expr.items[1:])), expr.at)
