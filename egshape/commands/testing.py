"""rules test: whether rules are true, in this process, or each ruleset in one of its own or on a worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from egshape.commands.files import declare_ops
from egshape.commands.options import ItemsArg, JsonOpt, OpsOpt, QuietOpt, RuleOpt
from egshape.commands.spread import spread
from egshape.commands.terminal import bar, progress, put, say
from egshape.commands.work import Task
from egshape.hints import install
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.rulebook.models import TestReport, TestRow

JobsOpt = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="Try each ruleset by itself, so many at once. Default: together."),
]

ClusterOpt = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ADDRESS", help="Try each on a worker of a Dask scheduler; local starts one."),
]


def test(
    items: ItemsArg = None,
    rule: RuleOpt = "",
    no_proofs: Annotated[bool, typer.Option("--no-proofs", help="Sample also what z3 could prove.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of the random programs.")] = 0,
    jobs: JobsOpt = None,
    cluster: ClusterOpt = None,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
) -> None:
    """Try rules out, and whether they are true.

    Examples, counter-examples, proofs, and drawn programs."""
    declare_ops(ops)
    if rule or (jobs is None and cluster is None):
        report = _together(items or (), rule, no_proofs, seed)
    else:
        report = _apart(tasks(items or (), no_proofs, seed, ops), jobs or os.cpu_count() or 1, cluster)
    if as_json:
        put(report.model_dump_json())
    else:
        show(report, only_bad=quiet)
    raise typer.Exit(1 if report.bad else 0)


def show(report: TestReport, only_bad: bool = False) -> None:
    """A report as a table, and what is wrong; ``only_bad``: that alone."""
    if not only_bad:
        print_table(
            ("rule", "result", "fired on", "from"),
            [(each.rule, each.result, each.fired, each.where) for each in report.rules],
        )
    for row in report.rules:
        if not row.good:
            put(f"\n{row.rule} ({row.where}):\n  " + row.why.replace("\n", "\n  "))
        elif row.counterexample:
            say(f"egshape: note: {row.rule}: {row.counterexample}")
    if not only_bad:
        put(f"{report.good} good, {report.bad} bad")
    if not report.proofs:
        say(f"egshape: note: z3 is not installed, so rules over sizes are sampled ({install('verify')})")


def _together(items: Sequence[str], rule: str, no_proofs: bool, seed: int) -> TestReport:
    from egshape import rulebook
    from egshape.rulebook.trying import test_report

    with progress() as tracer:
        watched = tracer.on_stage or (lambda name: None)
        return test_report(rulebook.test(*items, rule=rule, prove=not no_proofs, seed=seed, progress=watched))


def tasks(items: Sequence[str], no_proofs: bool, seed: int, ops: Sequence[Path] | None) -> list[Task]:
    """The rulesets that are tried, each by itself, in the order of one process. Raises EgshapeError where one is wrong
    in form."""
    from egshape.rulebook.trying import rulesets
    from egshape.rulelang.loader import parts

    options = {"no_proofs": no_proofs, "seed": seed, "ops": ops}
    return [Task((__name__, "one"), name, options, parts=parts(name)) for name in rulesets(*items)]


def _apart(given: Sequence[Task], jobs: int, cluster: str | None) -> TestReport:
    """What became of rulesets, each tried by itself. Exits with 2, once all ended, where one could not be tried."""
    from egshape.rulebook.models import TestReport

    ended = {}
    with bar("rulesets") as shown:
        for number, done in spread(given, jobs, cluster):
            ended[number] = done
            shown(len(ended), len(given), given[number].model)
    found: list[TestRow] = []
    failed = 0
    for number, task in enumerate(given):
        done = ended[number]
        for line in done.err.splitlines():
            say(line if task.model in line else f"egshape: {task.model}: {line.removeprefix('egshape: ')}")
        failed = max(failed, done.code)
        if not done.code:
            found += TestReport.model_validate_json(done.out).rules
    if failed:
        raise typer.Exit(failed)
    good = sum(row.good for row in found)
    return TestReport(proofs=_proofs(), good=good, bad=len(found) - good, rules=tuple(found))


def one(item: str, no_proofs: bool, seed: int, ops: Sequence[Path] | None) -> None:
    """One ruleset, as JSON: the share of a process."""
    declare_ops(ops)
    put(_together([item], "", no_proofs, seed).model_dump_json())


def _proofs() -> bool:
    from egshape.rulebook.trial import proofs

    return proofs.available()


test.__test__ = False  # type: ignore[attr-defined]
