"""What each rule is worth: every ruleset, and every rule, switched off in turn, and what comes out otherwise.

    python -m benchmarks.rules_matter [--rule NAME]... [--jobs 2] [--json FILE] [--write]

--write puts the tables into docs/rules-matter.md. The cases are the sample models and the examples, the goldens of
tests/cases, the tests of tests/behaviours, the questions of the prover's bench, asked of the prover and of the e-graph
alone, and of each rule the examples that stand with it. The first run notes which rules are used in which case. A
ruleset is tried where one of its rules was used; a rule where it was used and its ruleset changed something.
Results are not compared with the original: a program without a rule is larger, not wrong."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import egshape
from benchmarks import prover
from egshape import attempts, pipeline
from egshape.atomic import write_atomic
from egshape.decide.context import Context
from egshape.dims import bounds
from egshape.dims.functions import SHIPPED
from egshape.egraph.program import program, shipped
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph, print_graph
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.pipeline import Optimized
from egshape.rulebook.trial import answers, examples
from egshape.rulebook.trial.answers import noting
from egshape.rulebook.without import HOLDERS, fresh_sizes, without
from egshape.rulelang.at_once import FUNCTIONS
from egshape.rulelang.examples import read_example
from egshape.rulelang.rulefile import Example, Rule
from egshape.rulelang.size_examples import SizeQuestion
from egshape.validate import Verdict
from tests.behaviours import programs
from tests.cases import test_cases as goldens

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules-matter.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
FOLDERS = ("all of size", "all of tensor")
BEHAVIOURS = ROOT / "tests" / "behaviours"
KINDS = ("model", "golden", "question", "saturation", "example", "behaviour")
LIMIT = 1800.0
"""Seconds for all cases without a rule; what is not done then counts as changed."""

Outcomes = Mapping[str, Any]
"""What came out of each case; of a model its text, how many ops, and how many checks are kept."""


@dataclass(frozen=True)
class Worth:
    """What changed without some rules: cases by kind, and how many more ops and kept checks the models have."""

    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ops: int = 0
    checks: int = 0

    @property
    def matters(self) -> bool:
        """Whether any case came out otherwise."""
        return any(self.changed.values())


# -- the cases ----


def models() -> dict[str, Path]:
    """Sample models, those of the shared folder where there is one."""
    found = [*sorted((prover.SHARED / "models").glob("*.mlir")), *sorted((ROOT / "examples").glob("*.mlir"))]
    return {f"model {path.stem}": path for path in found}


def cases() -> dict[str, Callable[[], Any]]:
    """Cases that run one by one, by name."""
    out: dict[str, Callable[[], Any]] = {name: partial(_model, path) for name, path in models().items()}
    out |= {f"golden {path.stem}": partial(_golden, path) for path in goldens.CASES}
    questions = prover.SHARED / "bench" / "prover.tsv"
    if questions.is_file():
        for case in prover.read(questions):
            out[f"question {case.id}"] = partial(_question, case)
            out[f"saturation {case.id}"] = partial(_saturation, case)
    return out | {f"example {name}": partial(_examples, rule) for name, rule in shipped_rules().items()}


def _model(path: Path) -> list[Any]:
    result = egshape.optimize(egshape.load(path), validate=False, allow_larger=True)
    ops = sum(op.name != "check" for op in result.graph.body.walk())
    return [print_graph(result.graph), ops, sum(check.status != "proved" for check in result.report.checks)]


def _golden(path: Path) -> str:
    before = path.read_text().partition(goldens.AFTER)[0]
    lines = before.splitlines(keepends=True)
    graph = parse_graph("".join(line for line in lines if not line.startswith("#")))
    return print_graph(egshape.optimize(graph, goldens.facts(before), validate=False, allow_larger=True).graph)


def _question(case: prover.Case) -> str:
    return egshape.prove(case.goal, given=case.given).status


def _saturation(case: prover.Case) -> bool:
    """Whether the e-graph alone shows what is asked, without the prover; False too where it cannot be asked so."""
    found = re.fullmatch(r"(.*?) (==|<=|>=|<|>) (.*)", case.goal)
    if found is None:
        return False
    subject, op, right = found.groups()
    wanted = {"==": right, "<": f"it <= {right} - 1", ">": f"it >= {right} + 1"}.get(op, f"it {op} {right}")
    before = f"({subject}) given {'; '.join(case.given)}" if case.given else f"({subject})"
    try:
        question = SizeQuestion(Example(before, wanted, "", case.id))
    except EgshapeError:
        return False
    loaded = pipeline.program(())
    return answers.answer(question, loaded.rules, loaded.pieces, loaded.size_phases)[0]


def _examples(rule: Rule) -> list[Any]:
    """What all rules make of the examples of one of them."""
    return [(_size_example if rule.ruleset.startswith("size.") else _tensor_example)(each) for each in rule.examples]


def _size_example(example: Example) -> list[Any]:
    """Whether the e-graph alone shows it, whether Python does, and how sizes are written then, which is what decides in
    a program."""
    loaded, question, context = pipeline.program(()), SizeQuestion(example), Context()
    in_engine = answers.answer(question, loaded.rules, loaded.pieces, loaded.size_phases)[0]
    context.assume_all([(answers.relation(fact), None) for fact in question.given])
    return [in_engine, answers.answer_at_once(example)[0], str(context.normal_form(question.subject))]


def _tensor_example(example: Example) -> Any:
    """The type that rules give it, or whether they make both sides one."""
    line, loaded = read_example(example, REGISTRY), pipeline.program(())
    if isinstance(line.right, TensorType):
        return str(examples.inferred(line, loaded)[1])
    return examples.derive(line, loaded, obligations=True).same


class _Tests:
    """A plugin of pytest that keeps what came of each test, each with sizes of its own, and which rules were used."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.uses: dict[str, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        name = f"behaviour {item.nodeid}"
        with fresh_sizes(), used() as found:
            try:
                yield
                self.outcomes[name] = "passed"
            except BaseException:
                self.outcomes[name] = "failed"
                raise
            finally:
                self.uses[name] = sorted(found)


def behaviours(names: Iterable[str] | None) -> _Tests:
    """What comes of the tests of behaviours, all (None) or some, without the comparison of both programs."""
    wanted = [str(BEHAVIOURS)] if names is None else [name.removeprefix("behaviour ") for name in names]
    tests = _Tests()
    if not wanted:
        return tests
    with (
        patch.object(programs, "compare", lambda *_: Verdict(accepted=99)),
        patch.object(programs.differential, "compare", lambda *_: ""),
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
    ):
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *wanted], plugins=[tests])
    return tests


# -- which rules are used where ----


@cache
def shipped_rules() -> Mapping[str, Rule]:
    """All shipped rules by name, those of preludes apart."""
    return {rule.name: rule for rule in program(()).rules.rules if rule.ruleset in shipped()}


@cache
def bound_rules() -> Mapping[str, frozenset[str]]:
    """Rules that bound the value of each size function."""
    texts = Path(bounds.__file__).read_text().split("\ndef ")
    return {
        f"{name}_bounds": frozenset(
            rule
            for rule in shipped_rules()
            for text in texts
            if text.startswith(f"{name}_bounds") and f"# {rule}\n" in text
        )
        for name, *_ in FUNCTIONS.values()
    }


@contextmanager
def used() -> Iterator[Counter[str]]:
    """The rules that are used inside, wherever they run; of those that bound a value of a size function all."""
    real, answer = attempts.run_stages, answers.answer

    with noting() as found, ExitStack() as stack:

        def stages(*args: Any, **options: Any) -> Optimized:
            done = real(*args, **options)
            found.update({rule.removesuffix("<="): count for rule, count in done.outcome.matches.items()})
            return done

        def bounding(name: str) -> Callable[..., Any]:
            bound = getattr(bounds, name)

            def noted(*args: Any) -> Any:
                value = bound(*args)
                if value != (None, None):
                    found.update(bound_rules()[name])
                return value

            return noted

        def asked(*args: Any) -> tuple[bool, Mapping[str, int], str]:
            known, matches, status = answer(*args)
            found.update(matches)
            return known, matches, status

        stack.enter_context(patch.object(attempts, "run_stages", stages))
        stack.enter_context(patch.object(answers, "answer", asked))
        for name in bound_rules():
            noted, function = bounding(name), SHIPPED.get(name.removesuffix("_bounds"))
            for holder, held in ((function, "_bounds"),) if function else ((each, name) for each in HOLDERS):
                stack.enter_context(patch.object(holder, held, noted))
        yield found


def first_run() -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The outcome of every case with all rules, and the rules that were used in it."""
    outcomes: dict[str, Any] = {}
    uses: dict[str, list[str]] = {}
    for name, run in cases().items():
        with used() as found:
            outcomes[name] = run()
        kind, _, short = name.partition(" ")
        uses[name] = [short] if kind == "example" else sorted(found)
    tests = behaviours(None)
    return outcomes | tests.outcomes, uses | tests.uses


def run_without(rules: Collection[str], names: Collection[str]) -> dict[str, Any]:
    """The outcomes of some cases without some rules."""
    every = cases()
    out: dict[str, Any] = {}
    with without(rules):
        for name in names:
            if name in every:
                with fresh_sizes():
                    out[name] = _tried(every[name])
        return out | behaviours([name for name in names if name not in every]).outcomes


def _tried(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:  # a case without a rule it stands on may fail in any way
        return f"{type(error).__name__}"


# -- one process each, so that nothing is left of what was switched off ----


def apart(work: Callable[[], Any], limit: float = LIMIT) -> Any:
    """What a function gives in a process of its own; None where it takes longer than the limit."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, work))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(limit) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _send(to: Connection, work: Callable[[], Any]) -> None:
    to.send(work())
    to.close()


class Trials:
    """What every rule is worth, as far as it is known, kept in a file so that a run may be cut off and go on."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        kept = json.loads(path.read_text()) if path is not None and path.is_file() else {}
        self.found = {name: Worth(**each) for name, each in kept.get("found", {}).items()}
        self.before, self.uses = kept.get("first") or apart(first_run)
        self._save()

    def ruleset(self, name: str, rules: Sequence[str]) -> None:
        """Try a ruleset as a whole, then each of its rules on the cases that came out otherwise without all of them."""
        self.once(name, rules, self.before)
        changed = self.found[name].changed
        cases = {f"{kind} {case}" for kind in KINDS for case in changed.get(kind, ())}
        for rule in rules:
            self.once(rule, (rule,), cases)

    def once(self, name: str, rules: Sequence[str], cases: Collection[str]) -> None:
        """Try some rules together on some cases, unless that was done."""
        if name not in self.found:
            self.found[name] = self.worth(rules, cases)
            print(row(name, self.found[name]), flush=True)
            self._save()

    def _save(self) -> None:
        if self.path is not None:
            found = {name: vars(each) for name, each in self.found.items()}
            write_atomic(self.path, json.dumps({"first": (self.before, self.uses), "found": found}, indent=1))

    def worth(self, rules: Sequence[str], cases: Collection[str]) -> Worth:
        """What of some cases changes without some rules."""
        names = [name for name in self.before if name in cases and not set(rules).isdisjoint(self.uses.get(name, ()))]
        after = (names and apart(partial(run_without, rules, names))) or {}
        changed: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for kind, _, short in (name.partition(" ") for name in names if after.get(name) != self.before[name]):
            changed[kind].append(short)
        sizes = [(self.before[name], after[name]) for name in names if name.startswith("model ") and name in after]
        sizes = [(before, now) for before, now in sizes if isinstance(now, list)]
        return Worth(changed, sum(now[1] - old[1] for old, now in sizes), sum(now[2] - old[2] for old, now in sizes))


# -- the tables ----


COLUMNS = {
    "model": "models",
    "golden": "goldens",
    "question": "answers",
    "saturation": "e-graph's answers",
    "example": "examples",
    "behaviour": "behaviours",
}


def row(name: str, found: Worth) -> str:
    """A line of a table."""
    cells = [f"{found.ops:+d}", f"{found.checks:+d}", *(str(len(found.changed.get(kind, ()))) for kind in KINDS)]
    return f"| {name} | " + " | ".join("" if cell in ("0", "+0") else cell for cell in cells) + " |"


def table(first: str, found: Mapping[str, Worth], names: Iterable[str]) -> list[str]:
    """A table of what some rules are worth, as Markdown."""
    cells = [first, "ops", "checks", *(COLUMNS[kind] for kind in KINDS)]
    rows = (row(name, found[name]) for name in names)
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|", *rows]


def main() -> int:
    """Print the tables; exit 1 if a rule changes nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", action="append", default=[], help="only rules whose name contains this, no rulesets")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="what changed by name; what this file has already is not run again")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/rules-matter.md")
    options = parser.parse_args()
    rules = [name for name in shipped_rules() if any(part in name for part in options.rule or ("",))]
    groups = {name: [rule for rule in rules if rule.startswith(f"{name}/")] for name in shipped() if not options.rule}
    folders = {} if options.rule else {f: [r for r in rules if r.startswith(f"{f[7:]}.")] for f in FOLDERS}
    trials = Trials(options.json)
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(trials.ruleset, name, each) for name, each in groups.items()]
        jobs += [pool.submit(trials.once, name, each, trials.before) for name, each in folders.items()]
        jobs += [pool.submit(trials.once, name, (name,), trials.before) for name in rules if options.rule]
        for job in jobs:
            job.result()
    found = trials.found
    parts = [*table("ruleset", found, (*folders, *groups)), "", *table("rule", found, rules)]
    if options.write:
        start, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text("\n".join([start + BEGIN, *parts, END + rest.split(END)[1]]))
    idle = [name for name in rules if not found[name].matters]
    print(f"{len(rules) - len(idle)} of {len(rules)} rules change a case", *idle, sep="\n")
    return int(bool(idle))


if __name__ == "__main__":
    sys.exit(main())
