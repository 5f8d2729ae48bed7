"""optimize, shapes, run: what most people call."""

from __future__ import annotations

import io
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from egshape.atomic import write_atomic
from egshape.commands.files import (
    check_target,
    is_same,
    load_model,
    prepare_runtime,
    read_arrays,
    read_facts,
    run_artifact,
    save_model,
    saved_bytes,
)
from egshape.commands.optimizing import limits_of, optimized
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    ChecksAs,
    Deciders,
    FactsOpt,
    FormatOpt,
    JsonOpt,
    LikelyOpt,
    MemoryOpt,
    ModelArg,
    NodesOpt,
    OpsOpt,
    Preference,
    QuietOpt,
    RulesOpt,
    SecondsOpt,
    ShareLayersOpt,
    Target,
    TrustRulesOpt,
    VerboseOpt,
    Verifier,
)
from egshape.commands.summary import before, lines, with_file
from egshape.commands.terminal import put, say
from egshape.errors import EgshapeError
from egshape.limits import Deadlines
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.report import ShapeTable


def optimize(
    model: ModelArg,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT", help="- is stdout.")] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="R.json", help="Report to write.")] = None,
    strict_rules: Annotated[
        bool, typer.Option("--strict-rules", help="Exit with 1 where a rule of yours failed and was left out.")
    ] = False,
    seconds: SecondsOpt = None,
    nodes: NodesOpt = None,
    memory: MemoryOpt = None,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Do not compare both programs at a few small sizes.")
    ] = False,
    refine_signature: Annotated[
        bool, typer.Option("--refine-signature", help="Let proved sizes change the types of the inputs.")
    ] = False,
    allow_larger: Annotated[
        bool, typer.Option("--allow-larger", help="Give a result also where its file would be larger than MODEL.")
    ] = False,
    prefer: Annotated[
        Preference,
        typer.Option("--prefer", help="Let the file grow where that saves 1 % of the cost, or never (size)."),
    ] = Preference.cost,
    share_layers: ShareLayersOpt = False,
    decide: Annotated[
        Deciders, typer.Option("--decide", help="Who decides about sizes: compiled rules, the engine (slow), or both.")
    ] = Deciders.both,
    opset: Annotated[
        int | None, typer.Option("--opset", metavar="N", min=7, help="Opset of an ONNX model that is written.")
    ] = None,
    verify: Annotated[
        Verifier,
        typer.Option(
            "--verify",
            help="Run the model that is written beside the original, and keep it only if equal: own is ONNX Runtime or "
            "torch, for a model of its kind; xla compares StableHLO in XLA.",
        ),
    ] = Verifier.own,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Write the model without running it.")] = False,
    external_data: Annotated[
        bool,
        typer.Option(
            "--external-data",
            help="Write the weights of an ONNX model to a file beside it; models beyond 2 GB always do.",
        ),
    ] = False,
    verbose: VerboseOpt = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
    checks: Annotated[
        ChecksAs,
        typer.Option(
            "--checks",
            help="How an ONNX model holds checks: as nodes that fail in any runtime, listed in the metadata, or not.",
        ),
    ] = ChecksAs.nodes,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Make MODEL smaller; it computes the same.

    OUT may be MODEL: the whole of the new file then takes the place of the old one, once it has been compared."""
    check_target(output)
    check_target(report, model=False, source=model, result=output)
    if report is not None and report.suffix in (".html", ".svg", ".png"):
        raise EgshapeError(
            "is JSON, not a page or a picture",
            where="--report",
            hint=f"{_viz(model, format, report)} writes that",
            code="usage",
        )
    with_xla = verify is Verifier.xla and not no_verify
    if not no_verify:
        prepare_runtime(model, output, with_xla)
    started = time.perf_counter()
    graph = load_model(model, format, ops, annotate, annotate_file, assume, output)
    loaded, limits = time.perf_counter(), limits_of(seconds, nodes, memory)
    deadlines = Deadlines.of(limits)
    result = optimized(
        graph,
        assume,
        facts=read_facts(facts, likely),
        rules=rules,
        trust_rules=trust_rules,
        limits=limits,
        validate=not no_validate,
        refine_signature=refine_signature,
        allow_larger=allow_larger,
        prefer=prefer.value,
        checks=checks.value,
        decide=decide.value,
        share_layers=share_layers,
    )
    told = report is not None or as_json or not quiet
    was = before(model, format) if told and model != "-" else None  # it may be written over
    if output is not None and is_same(model, output):
        say(f"egshape: note: {output} is the model, and is written over")
    done = time.perf_counter()
    notes: tuple[str, ...] = ()
    if output == "-":
        kind = format or Path(model).suffix.removeprefix(".")
        content, notes = saved_bytes(result.graph, kind, opset, checks.value)
        sys.stdout.buffer.write(content)
    elif output is not None:
        notes = save_model(
            result,
            Path(output),
            None if no_verify or model == "-" else Path(model),
            opset,
            external_data or None,
            checks.value,
            with_xla,
            deadlines,
        )
    for note in notes:
        say(f"egshape: note: {note}")
    whole = result.report.model_copy(update={"notes": (*result.report.notes, *notes)})
    if told:  # both files are read once more, to be counted
        written = None if output in (None, "-") else Path(str(output))
        whole = with_file(whole, model, format, was, result, written, loaded - started, time.perf_counter() - done)
    if report is not None:
        write_atomic(report, whole.model_dump_json(indent=2) + "\n")
    if as_json or not quiet:
        text = whole.model_dump_json() if as_json else "\n".join(lines(whole, verbose))
        (say if output == "-" else put)(text)
    if strict_rules and result.report.dropped_rules:
        raise typer.Exit(1)


def _viz(model: str, format: str | None, report: Path) -> str:
    """The command that draws it."""
    named = () if format is None else ("--format", format)
    return shlex.join(("egshape", "viz", model, *named, "-o", str(report)))


def shapes(
    model: ModelArg,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Print the shape of every value of MODEL.

    Also where its sizes come from, and how many values are static (all sizes are numbers), ranked and unranked."""
    from egshape import api

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    table: ShapeTable = api.shapes_table(graph, tuple(assume or ()), read_facts(facts))
    if as_json:
        put(table.model_dump_json())
        return
    heading, *rows = table.rows()
    print_table(heading, rows)
    say("values: " + ", ".join(f"{count} {level}" for level, count in table.levels().items()))


def run(
    model: ModelArg,
    inputs: Annotated[Path, typer.Option("--inputs", metavar="IN.npz", help="Arrays by input name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.npz", help="Where the results go.")
    ] = None,
    target: Annotated[Target, typer.Option("--target", help="What runs the graph.")] = Target.interpret,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, max=1024, help="For native code.")
    ] = None,
    no_optimize: Annotated[bool, typer.Option("--no-optimize", help="Run the graph as it is.")] = False,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Run MODEL on the arrays of an .npz file.

    MODEL may be a file that `egshape compile` wrote."""
    from egshape import api

    check_target(output, model=False, source=model, inputs=inputs)
    if (assume and no_optimize) or (model.endswith(".egx") and (assume or annotate or annotate_file)):
        raise EgshapeError(
            "what is assumed or said of types goes with optimizing",
            where=model,
            hint="give a model, without --no-optimize",
            code="usage",
        )
    if model.endswith(".egx"):
        named: dict[str, Any] = run_artifact(model, inputs, threads)
    else:
        graph = load_model(model, format, ops, annotate, annotate_file, assume)
        arrays = read_arrays(inputs, {value.name: value.type.dtype for value in graph.inputs})
        if not no_optimize:
            graph = optimized(graph, assume).graph
        results = api.run(graph, arrays, target=target.value, threads=threads or 1)
        shown = [array.astype(str) if array.dtype == object else array for array in results]  # texts
        named = dict(zip(graph.output_names, shown, strict=True))
    if output is not None:
        buffer = io.BytesIO()
        np.savez(buffer, **named)
        write_atomic(output, buffer.getvalue())
    if as_json:
        from egshape.commands.answers import Output, Ran

        outputs = (Output(name=name, dtype=str(each.dtype), shape=each.shape) for name, each in named.items())
        put(Ran(outputs=tuple(outputs), file=str(output) if output else None).model_dump_json())
        return
    if quiet:
        return
    print_table(
        ("output", "dtype", "shape"),
        [(name, str(array.dtype), str(list(array.shape))) for name, array in named.items()],
    )
