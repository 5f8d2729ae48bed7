"""viz: pictures, and the report."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from egshape.atomic import write_atomic
from egshape.commands.files import check_target, load_model, placed, read_arrays, read_bytes, read_facts
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
    RulesOpt,
    Stage,
    TrustRulesOpt,
)
from egshape.commands.terminal import bar, put
from egshape.errors import EgshapeError, ParseError

if TYPE_CHECKING:
    from egshape.api import Result
    from egshape.facts import Facts
    from egshape.ir.graph import Graph
    from egshape.report import AdviceTable
    from egshape.runtime.core.profile import Profile

_KINDS = {".dot", ".svg", ".png", ".html"}


def viz(
    model: ModelArg,
    stage: Annotated[
        Stage,
        typer.Option(
            "--stage",
            help="The graph as it came in, as it goes out, or both; its kernels; the e-graph; the steps of the "
            "compiled program; its memory over time; why something holds (--why).",
        ),
    ] = Stage.input,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help=".dot, .svg, .png; .html is a report of everything."),
    ] = None,
    around: Annotated[
        str | None, typer.Option("--around", metavar="V", help="Draw only what is near this value, such as %12.")
    ] = None,
    hops: Annotated[int, typer.Option("--hops", metavar="N", min=0, help="How many arrows away from V.")] = 2,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="How many e-classes to draw at most.")] = 48,
    shape_code: Annotated[
        bool | None,
        typer.Option("--shape-code/--no-shape-code", help="Draw ops that only compute sizes; else a small graph's."),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="TEXT", help='Why "arg0.0 == %7.1" or "b <= 64" holds, or what became of "%7".'),
    ] = None,
    advise_seconds: Annotated[
        float,
        typer.Option("--advise-seconds", metavar="S", min=0, help="Report: time to look for facts that would help."),
    ] = 10.0,
    profile: Annotated[
        Path | None,
        typer.Option("--profile", metavar="P.json", help="Report: a run-time profile to show, .json (rows) or .csv."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="IN.npz", help="Report: arrays to run and profile the compiled result on."),
    ] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Draw MODEL with its shapes, or write a report.

    Without -o Graphviz text goes to stdout."""
    if output is not None and output.suffix not in _KINDS:
        raise EgshapeError("can be written as .dot or .svg, .png, .html", where=str(output), code="usage")
    check_target(output, model=False, source=model)
    stage = Stage.why if why is not None else stage
    still = False
    if output is not None and output.suffix in (".svg", ".png"):
        from egshape.viz.dot import has_dot, needs_dot
        from egshape.viz.report.raster import needs_raster

        still = not has_dot() and around is None and stage in _STILL
        if not still:
            needs_dot(output.suffix.removeprefix("."))
        elif output.suffix == ".png":
            needs_raster()
    rows = _profile(profile) if profile is not None else None
    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    if output is not None and output.suffix == ".html":
        result = optimized(graph, assume, facts=read_facts(facts), rules=rules, trust_rules=trust_rules)
        found = _measured(result, inputs) if inputs is not None else rows
        _report(result, output, advise_seconds, found)
        if as_json:
            _tell("report", output)
        return
    asked = _Request(graph, around, hops, most, shape_code, why, assume, read_facts(facts), rules, trust_rules)
    text = (_STILL if still else _DRAWN)[stage](asked)
    if output is not None or not as_json:
        _write(text, output, laid_out=still)
    if as_json:
        _tell(stage.value, output, text)


def _tell(stage: str, output: Path | None, text: str | None = None) -> None:
    from egshape.commands.answers import Drawn, File

    file = File.of(output) if output is not None else None
    put(Drawn(stage=stage, file=file, text=None if file else text).model_dump_json())


class _Request:
    """What is to be drawn. The model is optimized when a picture needs it."""

    def __init__(
        self,
        graph: Graph,
        around: str | None,
        hops: int,
        most: int,
        shape_code: bool | None,
        why: str | None,
        assume: list[str] | None,
        facts: Facts | None,
        rules: list[Path] | None,
        trust_rules: bool,
    ) -> None:
        self.graph, self.around, self.hops, self.most = graph, around, hops, most
        self.shape_code, self.why, self.assume, self.facts, self.rules = shape_code, why, assume, facts, rules
        self.trust_rules = trust_rules

    def result(self) -> Result:
        return optimized(self.graph, self.assume, facts=self.facts, rules=self.rules, trust_rules=self.trust_rules)


def _input(asked: _Request) -> str:
    from egshape.viz.graph import Look, to_dot

    return to_dot(asked.graph, Look(asked.shape_code, asked.around, asked.hops))


def _output(asked: _Request) -> str:
    from egshape.viz.graph import Look, to_dot

    result = asked.result()
    return to_dot(result.graph, Look(asked.shape_code, asked.around, asked.hops), result.optimized.sizes.normal_form)


def _both(asked: _Request) -> str:
    from egshape.viz.result import before_and_after

    return str(before_and_after(asked.result(), asked.shape_code))


def _kernels(asked: _Request) -> str:
    from egshape.viz.plan import kernels

    result = asked.result()
    return str(kernels(result.graph, result.optimized.sizes.normal_form))


def _egraph(asked: _Request) -> str:
    from egshape.viz.egraph import picture

    rules = tuple(map(str, asked.rules or ()))
    return str(picture(asked.result(), asked.around, asked.hops, asked.most, rules))


def _plan(asked: _Request) -> str:
    from egshape.viz.plan import plan_picture, program_of

    result = asked.result()
    return str(plan_picture(program_of(result.graph), result.optimized.sizes.normal_form))


def _memory(asked: _Request) -> str:
    from egshape.viz.plan import memory_picture, program_of

    return str(memory_picture(program_of(asked.result().graph)))


def _why(asked: _Request) -> str:
    from egshape.viz.why import picture

    if asked.why is None:
        raise EgshapeError("nothing was asked", where="--stage why", hint="add --why TEXT", code="usage")
    result = asked.result()
    a, equal, b = asked.why.partition("==")
    if equal:
        return str(picture(result.explain(a.strip(), b.strip())))
    if any(sign in asked.why for sign in ("<", ">", "=", " in ")):
        return str(picture(result.explain_fact(asked.why)))
    return str(picture(result.explain_value(asked.why)))


_DRAWN: dict[Stage, Callable[[_Request], str]] = {
    Stage.input: _input,
    Stage.output: _output,
    Stage.both: _both,
    Stage.kernels: _kernels,
    Stage.egraph: _egraph,
    Stage.plan: _plan,
    Stage.memory: _memory,
    Stage.why: _why,
}


def _still_input(asked: _Request) -> str:
    from egshape.viz.report.still import svg

    return svg(asked.graph, None, asked.shape_code)


def _still_output(asked: _Request) -> str:
    from egshape.viz.report.still import svg

    result = asked.result()
    return svg(result.graph, result.optimized.sizes.normal_form, asked.shape_code)


_STILL: dict[Stage, Callable[[_Request], str]] = {Stage.input: _still_input, Stage.output: _still_output}
"""What is drawn without Graphviz."""


def _write(text: str, output: Path | None, laid_out: bool) -> None:
    from egshape.viz.dot import render
    from egshape.viz.report.raster import png

    if output is None:
        put(text.rstrip("\n"))
    elif laid_out and output.suffix == ".png":
        write_atomic(output, png(text))
    elif output.suffix == ".dot" or laid_out:
        write_atomic(output, text)
    else:
        kind: Literal["svg", "png"] = "svg" if output.suffix == ".svg" else "png"
        write_atomic(output, render(text, kind))


# -- the report ------------------------------------------------------------------------------------------------------


def _report(result: Result, output: Path, seconds: float, profile: Profile | list[dict[str, Any]] | None) -> None:
    from egshape.viz.report.page import report

    write_atomic(output, report(result, _advice(result.source, result.facts, seconds) if seconds else None, profile))


def _measured(result: Result, inputs: Path) -> Profile:
    """Where the time of a run of the compiled result goes."""
    from egshape import api

    arrays = read_arrays(inputs, {value.name: value.type.dtype for value in result.graph.inputs})
    return api.compile(result.graph, target="llvm").profile(*arrays.values())


def _advice(graph: Graph, facts: Facts, seconds: float) -> AdviceTable:
    from egshape.reasons.advise import advise_within, table

    with bar("optimize") as on_trial:
        return table(advise_within(graph, facts, seconds=seconds, on_trial=on_trial))


def _profile(path: Path) -> list[dict[str, Any]]:
    """The rows of a profile: a JSON list of objects, or a CSV file with a heading."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ParseError("is no UTF-8 text", where=str(path)) from error
    if path.suffix == ".csv":
        return [
            {key: _number(cell) for key, cell in row.items() if key is not None}
            for row in csv.DictReader(text.splitlines())
        ]
    try:
        found = json.loads(text)
    except ValueError as error:
        raise placed(ParseError(f"is no JSON: {error}"), str(path)) from error
    rows = found.get("rows", found.get("kernels")) if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ParseError("is no list of rows", where=str(path), hint='such as [{"kernel": "add", "us": 12.5}]')
    return rows


def _number(cell: str | None) -> float | str | None:
    try:
        return float(cell or "")
    except ValueError:
        return cell
