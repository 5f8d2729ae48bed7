"""prove, explain, advise: questions about sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from egshape.commands.files import load_model, placed, read_bytes, read_facts
from egshape.commands.optimizing import optimized
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FactsOpt,
    FormatOpt,
    JsonOpt,
    ModelArg,
    OpsOpt,
    QuietOpt,
    RulesOpt,
    ShareLayersOpt,
    TrustRulesOpt,
)
from egshape.commands.terminal import bar, put, say
from egshape.errors import EgshapeError, ParseError
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.report import Explanation


def prove(
    goal: Annotated[str | None, typer.Argument(metavar="GOAL", help='Such as "(a//2)*2 == a - a%2".')] = None,
    given: Annotated[list[str] | None, typer.Option("--given", metavar="FACT", help="May be repeated.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="CASES.tsv", help="Questions with columns id, givens, goal, want."),
    ] = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Decide whether GOAL holds for all sizes.

    All, that is, which satisfy the given facts."""
    from egshape.reasons.proving import prove as decide

    if (goal is None) == (file is None):
        raise EgshapeError("give either a GOAL or --file", code="usage")
    if file is not None:
        with _known(rules, trust_rules):
            right, wrong = _prove_file(file, as_json, quiet)
        raise typer.Exit(0 if right and not wrong else 1)
    proof = decide(str(goal), list(given or ()), list(map(str, rules or ())), trust_rules)
    _say_notes(proof.notes)
    if as_json or not quiet:
        put(json.dumps(_as_json(proof)) if as_json else str(proof))
    raise typer.Exit(0 if proof.status == "proved" else 1)


def explain(
    model: ModelArg,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help='A size, "arg0.0"; a value, "%7", or its node or line; a statement, "b >= 1".'
        ),
    ],
    b: Annotated[str | None, typer.Argument(metavar="B", help="The size that should be equal.")] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    share_layers: ShareLayersOpt = False,
    check: Annotated[bool, typer.Option("--check", help="Replay the chain; say how each step was checked.")] = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Say why two sizes A and B of MODEL are equal.

    With A alone: why a statement holds, or what became of a value."""
    from egshape.reasons.explain import replayed

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    known = read_facts(facts)
    result = optimized(
        graph, assume, facts=known, rules=rules, trust_rules=trust_rules, validate=False, share_layers=share_layers
    )
    if b is None and not _is_statement(a):
        found = result.explain_value(a)
        put(found.model_dump_json() if as_json else str(found))
        return
    explanation: Explanation = result.explain_fact(a) if b is None else result.explain(a, b)
    if check:
        explanation = replayed(result, explanation)
    if as_json or not quiet:
        put(explanation.model_dump_json() if as_json else str(explanation))
    raise typer.Exit(0 if explanation.status == "proved" else 1)


def _is_statement(text: str) -> bool:
    return any(sign in text for sign in ("<", ">", "=", " in "))


def advise(
    model: ModelArg,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many facts to name.")] = 10,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0, help="Time for all trials together.")
    ] = 30.0,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Name facts that would make MODEL smaller or faster.

    Each is tried; the best comes first. They help only if they hold."""
    from egshape.facts import Facts
    from egshape.reasons.advise import advise_within, table

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    known = read_facts(facts) or Facts()
    with bar("optimize") as on_trial:
        found = advise_within(graph, known.with_text(*(assume or ()), assumed=True), limit, seconds, on_trial=on_trial)
    shown = table(found)
    if as_json:
        put(shown.model_dump_json())
        return
    heading, *rows = shown.rows()
    if rows:
        print_table(heading, rows)
    for line in shown.lines():
        put(line) if not rows else say(f"egshape: note: {line}")


@contextmanager
def _known(rules: list[Path] | None, trust_rules: bool) -> Iterator[None]:
    """Questions inside may name the size functions of rules, those left out that are told of."""
    if not rules:
        yield
        return
    from egshape.rulebook.beforehand import tried

    with tried(tuple(map(str, rules)), trust_rules) as (_, left_out):
        _say_notes(left_out)
        yield


def _say_notes(notes: Iterable[object]) -> None:
    for note in notes:
        say(f"egshape: note: {note}")


def _prove_file(path: Path, as_json: bool, quiet: bool) -> tuple[int, int]:
    """Answer every question of a file; returns how many answers are as wanted, and how many are not."""
    from egshape.prove import prove as decide

    rows = []
    for where, row in _read_cases(path):
        try:
            proof = decide(row["goal"], given=[fact for fact in row["givens"].split(";") if fact.strip()])
        except EgshapeError as error:
            raise placed(error, where) from error
        rows.append({"id": row["id"], "want": row["want"], **_as_json(proof)})
    right = sum(row["status"] == row["want"] for row in rows)
    wrong = len(rows) - right
    if as_json:
        put(json.dumps({"version": 1, "rows": rows, "right": right, "wrong": wrong}))
    elif not quiet:
        print_table(("id", "want", "status", "goal"), [(r["id"], r["want"], r["status"], r["goal"]) for r in rows])
        put(f"{right} right, {wrong} wrong")
    return right, wrong


def _read_cases(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a tab-separated file with a heading, each with its file:line."""
    try:
        lines = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ParseError("is no UTF-8 text", where=str(path)) from error
    heading = lines[0].split("\t") if lines else []
    missing = {"id", "givens", "goal", "want"} - set(heading)
    if missing:
        raise ParseError(f"the heading lacks {', '.join(sorted(missing))}", where=f"{path}:1")
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(heading):
            raise ParseError(f"{len(cells)} columns instead of {len(heading)}", where=f"{path}:{number}")
        yield f"{path}:{number}", dict(zip(heading, cells, strict=True))


def _as_json(proof: Any) -> dict[str, Any]:
    """The JSON of a proof, as ``egshape.prove`` declares it."""
    data: dict[str, Any] = proof.model_dump(mode="json", by_alias=True)
    return data
