"""facts: what is known of the sizes of a model, as a table of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from egshape.atomic import write_atomic
from egshape.commands.files import check_target, load_model, read_facts
from egshape.commands.optimizing import optimized
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
    RulesOpt,
    TrustRulesOpt,
)
from egshape.commands.terminal import put
from egshape.facts.intervals import to_text
from egshape.facts.store import SymbolFacts
from egshape.show import print_table


def facts(
    model: ModelArg,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="F.json", help="Facts to write.")] = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    facts: FactsOpt = None,
    likely: LikelyOpt = None,
    rules: RulesOpt = None,
    trust_rules: TrustRulesOpt = False,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
    format: FormatOpt = None,
) -> None:
    """Print what is known of the sizes of MODEL's inputs.

    Facts are stated, assumed or derived. Other commands start from them with --facts F.json."""
    check_target(output, model=False, source=model)
    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    known = optimized(
        graph, assume, facts=read_facts(facts, likely), rules=rules, trust_rules=trust_rules, validate=False
    ).derived
    if output is not None:
        write_atomic(output, known.to_json() + "\n")
    if as_json:
        put(known.to_json())
        return
    print_table(("symbol", "sources", "range", "divisor", "likely"), [_row(each) for each in known.symbols])
    for relation in known.relations:
        put(str(relation))


def _row(each: SymbolFacts) -> tuple[str, ...]:
    divisor, remainder = each.divisor
    shown = "" if divisor == 1 else str(divisor) + (f" rest {remainder}" if remainder else "")
    return each.name, ", ".join(each.sources), to_text(each.ranges), shown, ", ".join(map(str, each.likely))
