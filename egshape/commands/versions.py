"""versions and buckets: what to compile besides, and what to pad to, for the sizes to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter

from egshape.commands.files import load_model, read_facts, read_observed
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FactsOpt,
    FormatOpt,
    JsonOpt,
    LikelyOpt,
    ModelArg,
    OpsOpt,
)
from egshape.commands.terminal import put, say
from egshape.facts import Facts
from egshape.show import print_table

if TYPE_CHECKING:
    from egshape.ir.graph import Graph
    from egshape.runtime import CompiledFunction
    from egshape.versions import Proposed


def versions(
    model: ModelArg,
    most: Annotated[int, typer.Option("--versions", min=1, metavar="K", help="How many guards at most.")] = 4,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0, help="Time for all trials together.")
    ] = 30.0,
    measure: Annotated[
        bool, typer.Option("--measure", help="Compile each version too, and time it beside the general program.")
    ] = False,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Name guards behind which MODEL is faster.

    They are the versions that are worth compiling, in the order in which guards are asked."""
    from egshape.versions import Proposed, measured, propose

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    known = _expected(assume, read_facts(facts, likely))
    found = propose(graph, known, most, seconds)
    if measure:
        found = measured(graph, found, lambda *guard: _native(graph, known, guard), known)
    if as_json:
        put(TypeAdapter(tuple[Proposed, ...]).dump_json(found).decode())
        return
    if found:
        rows = [(each.guard, str(each.ops), str(each.bytes), *_times(each)[: 3 * measure]) for each in found]
        heading = ("guard", "ops removed", "bytes saved", "one version, us", "this version, us", "pays")
        print_table(heading[: 3 + 3 * measure], rows)
    else:
        say("egshape: note: no guard helps, and no size is said to be likely")


def buckets(
    model: ModelArg,
    most: Annotated[int, typer.Option("--most", min=1, metavar="K", help="How many buckets at most.")] = 4,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Propose sizes to which inputs are padded.

    They are the cheapest for the sizes of MODEL that were seen, are likely, or lie in a range."""
    from egshape.buckets import Buckets
    from egshape.buckets import buckets as cheapest
    from egshape.optimizing import resolve

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    known = resolve(graph, graph.facts.merge(_expected(assume, read_facts(facts))))
    found = cheapest(graph, known, most, read_observed(likely) if likely else None)
    if as_json:
        put(TypeAdapter(tuple[Buckets, ...]).dump_json(found).decode())
        return
    if not found:
        say('egshape: note: no size is likely or has an end: give --likely-from, or --assume "likely n = 32, 100"')
        return
    rows = [
        (each.symbol, f"{row.first}..{row.last}", f"{row.share:.1%}", f"{each.padding:.1%}", f"{each.single:.1%}")
        for each in found
        for row in each.rows
    ]
    print_table(("symbol", "sizes", "share of calls", "padding", "with one bucket"), rows)


def _native(graph: Graph, known: Facts, guard: tuple[str, ...]) -> CompiledFunction:
    from egshape.adapters.native import compile_function
    from egshape.optimizing import optimize

    return compile_function(optimize(graph, guard, facts=known, validate=False, allow_larger=True).graph)


def _times(each: Proposed) -> tuple[str, str, str]:
    if each.timed is None:
        return "-", "-", "not measured"
    return f"{each.timed.general * 1e6:.1f}", f"{each.timed.version * 1e6:.1f}", "yes" if each.timed.pays else "no"


def _expected(assume: list[str] | None, known: Facts | None) -> Facts:
    return (known or Facts()).with_text(*(assume or ()), assumed=True)
