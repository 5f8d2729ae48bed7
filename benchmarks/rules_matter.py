"""What each rule is worth: every ruleset, and every rule, switched off in turn, and what comes out otherwise.

    python -m benchmarks.rules_matter [--rule NAME]... [--jobs 2] [--json FILE] [--write]

--write puts the tables into docs/rules-matter.md. The cases are the sample models and the examples, the goldens of
tests/cases, the tests of tests/behaviours, and the questions of the prover's bench, asked of the prover and of the
e-graph alone. The first run notes which rules are
used in which case, and a rule is tried again only where it was; on behaviours, which take longest, only where nothing
else came out otherwise. Results are not compared with the original: a program without a rule is larger, not wrong."""

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
from egshape.dims import bounds
from egshape.dims.functions import SHIPPED
from egshape.egraph.program import program, shipped
from egshape.errors import EgshapeError
from egshape.ir.text import parse_graph, print_graph
from egshape.pipeline import Optimized
from egshape.rulebook.trial import answers
from egshape.rulebook.trial.answers import noting
from egshape.rulebook.without import HOLDERS, fresh_sizes, without
from egshape.rulelang.at_once import FUNCTIONS
from egshape.rulelang.rulefile import Example
from egshape.rulelang.size_examples import SizeQuestion
from egshape.validate import Verdict
from tests.behaviours import programs
from tests.cases import test_cases as goldens

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules-matter.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
BEHAVIOURS = ROOT / "tests" / "behaviours"
KINDS = ("model", "golden", "behaviour", "question", "saturation")
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
    return out


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
    """What comes of the tests of behaviours, all or some, without the comparison of both programs."""
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
def rule_names() -> tuple[str, ...]:
    """All shipped rules, those of preludes apart."""
    return tuple(rule.name for rule in program(()).rules.rules if rule.ruleset in shipped())


@cache
def bound_rules() -> Mapping[str, frozenset[str]]:
    """Rules that bound the value of each size function."""
    texts = Path(bounds.__file__).read_text().split("\ndef ")
    return {
        f"{name}_bounds": frozenset(
            rule
            for rule in rule_names()
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
        uses[name] = sorted(found)
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

    def ruleset(self, name: str, rules: Sequence[str], alone: bool) -> None:
        """Try a ruleset as a whole, then its rules (``alone``: those of size functions overlap, so that few of them
        change anything alone: by halves, until a half changes nothing)."""
        self.once(name, rules)
        if not self.found[name].matters:
            self._note({rule: Worth() for rule in rules})
        elif alone:
            for rule in rules:
                self.once(rule, (rule,))
        else:
            self._halves(rules)

    def _halves(self, rules: Sequence[str]) -> None:
        left = [rule for rule in rules if rule not in self.found]
        if len(left) <= 1:
            for rule in left:
                self.once(rule, (rule,))
        elif self.worth(left, every=False).matters:
            self._halves(left[: len(left) // 2])
            self._halves(left[len(left) // 2 :])
        else:
            self._note({rule: Worth() for rule in left})

    def once(self, name: str, rules: Sequence[str]) -> None:
        """Try some rules together, unless that was done."""
        if name not in self.found:
            self._note({name: self.worth(rules, every=len(rules) > 1)})

    def _note(self, found: Mapping[str, Worth]) -> None:
        for name, each in found.items():
            self.found.setdefault(name, each)
            print(row(name, self.found[name]), flush=True)
        self._save()

    def _save(self) -> None:
        if self.path is not None:
            found = {name: vars(each) for name, each in self.found.items()}
            write_atomic(self.path, json.dumps({"first": (self.before, self.uses), "found": found}, indent=1))

    def worth(self, rules: Sequence[str], every: bool) -> Worth:
        """What changes without some rules; behaviours are tried where nothing else changed, or ``every`` case is."""
        names = [name for name in self.before if not set(rules).isdisjoint(self.uses.get(name, ()))]
        late = [name for name in names if name.startswith("behaviour ")]
        after: dict[str, Any] = {}
        changed: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for part in ([name for name in names if name not in late], late):
            if part and (every or not any(changed.values())):
                after |= apart(partial(run_without, rules, part)) or {}
                for name in part:
                    kind, _, short = name.partition(" ")
                    if after.get(name) != self.before[name]:
                        changed[kind].append(short)
        sizes = [(self.before[name], after[name]) for name in names if isinstance(after.get(name), list)]
        return Worth(changed, sum(b[1] - a[1] for a, b in sizes), sum(b[2] - a[2] for a, b in sizes))


# -- the tables ----


def row(name: str, found: Worth) -> str:
    """A line of a table."""
    counts = [str(len(found.changed.get(kind, ()))) for kind in KINDS]
    cells = [f"{found.ops:+d}", f"{found.checks:+d}", *counts]
    return f"| {name} | " + " | ".join("" if cell in ("0", "+0") else cell for cell in cells) + " |"


def head(first: str) -> list[str]:
    """The head of a table."""
    return [
        f"| {first} | ops | checks | models | goldens | behaviours | answers | e-graph's answers |",
        "|---|---|---|---|---|---|---|---|",
    ]


def main() -> int:
    """Print the tables; exit 1 if a rule changes nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", action="append", default=[], help="only rules whose name contains this, no rulesets")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="what changed by name; what this file has already is not run again")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/rules-matter.md")
    options = parser.parse_args()
    rules = [name for name in rule_names() if any(part in name for part in options.rule or ("",))]
    groups = {} if options.rule else {name: _rules_in(f"{name}/") for name in shipped()}
    folders = {} if options.rule else {f"all of {folder}": _rules_in(f"{folder}.") for folder in ("size", "tensor")}
    trials = Trials(options.json)
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(trials.ruleset, name, each, "size" not in name) for name, each in groups.items()]
        jobs += [pool.submit(trials.once, name, each) for name, each in folders.items()]
        jobs += [pool.submit(trials.once, name, (name,)) for name in rules if options.rule]
        for job in jobs:
            job.result()
    found = trials.found
    parts = [
        *head("ruleset"),
        *(row(r, found[r]) for r in (*folders, *groups)),
        "",
        *head("rule"),
        *(row(r, found[r]) for r in rules),
    ]
    if options.write:
        start, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text("\n".join([start + BEGIN, *parts, END + rest.split(END)[1]]))
    idle = [name for name in rules if not found[name].matters]
    print(f"{len(rules) - len(idle)} of {len(rules)} rules change a case", *idle, sep="\n")
    return int(bool(idle))


def _rules_in(prefix: str) -> tuple[str, ...]:
    return tuple(name for name in rule_names() if name.startswith(prefix))


if __name__ == "__main__":
    sys.exit(main())
