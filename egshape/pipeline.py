"""The map: the ordered, named stages, and nothing else.

frontends -> encode -> obligations -> saturate -> extract -> verify -> validate -> frontends (out)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from egshape.behind import optimize_behind
from egshape.decide.context import Context
from egshape.dims import Dim, const, symbol
from egshape.egraph.budget import Budget, Stop
from egshape.egraph.checks import GIVEN
from egshape.egraph.cost import CostModel, likely_sizes
from egshape.egraph.obligations import Check
from egshape.egraph.optimize import BlockOptimizer, Outcome, RegionEntry, Watch, order_of_symbols
from egshape.egraph.program import PLAIN, Variant, program
from egshape.errors import Contradiction, EgshapeError, EngineFault, InternalError
from egshape.facts import Facts, Relation
from egshape.ir.graph import Graph
from egshape.ir.verify import verify
from egshape.limits import Deadlines, LimitReached, Limits, holding
from egshape.ops import REGISTRY
from egshape.ops.checks import assumed_message
from egshape.trace import Tracer

LARGEST_SIZE = 2**31 - 1
"""Each single size fits the i32 that get_dimension_size gives: an entry fact."""


STRICT = "EGSHAPE_STRICT"
"""Environment variable: let faults of ours surface instead of falling back to the unoptimized graph."""


@dataclass(frozen=True)
class Optimized:
    """What the stages give: the graph, what holds in it, what happened, and the likely sizes that costs used."""

    graph: Graph
    context: Context
    outcome: Outcome
    likely: dict[str, int]


def entry_facts(graph: Graph, facts: Facts) -> list[tuple[Relation, str]]:
    """What holds when the graph is entered: the facts, and that each size fits its get_dimension_size type."""
    fits = [(Relation("<=", symbol(each.name), const(LARGEST_SIZE + each.offset)), "entry")
            for each in graph.body.symbols if each.value in graph.inputs]
    return fits + [(relation, relation.source or "fact") for relation in facts.statements()]


def assumed_checks(facts: Facts) -> list[Check]:
    """What was assumed is trusted, and checked where the graph is entered."""
    out = []
    for fact in facts.statements():
        if fact.certain:
            continue
        names = sorted(fact.lhs.symbols() | fact.rhs.symbols())
        values = ", ".join(f"{name} is {{{place}}}" for place, name in enumerate(names))
        message = assumed_message(str(fact)) + (f": {values}" if names else "")
        for relation in fact.parts():
            out.append(Check(GIVEN, relation, message, "", "kept", None, True, (), tuple(map(symbol, names)),
                             str(fact)))
    return out


def run_stages(graph: Graph, facts: Facts, rules: Sequence[str], limits: Limits, tracer: Tracer,
               explain: bool = True, refine_signature: bool = False, watch: Watch | None = None,
               variant: Variant = PLAIN, deadlines: Deadlines | None = None) -> Optimized:
    """All stages from a graph to the optimized, verified graph. ``watch`` is shown each block's e-graph.

    ``variant`` is for looking at rules. ``deadlines``: those of ``limits`` from now on, where they are not given.
    Raises EgshapeError for contradictory facts and wrong rule files; a limit that is met before there is a smaller
    graph, a fault of the engine or of ours give the graph as it came, with a note."""
    deadlines = deadlines or Deadlines.of(limits)
    names = [each.name for each in graph.body.symbols]
    likely = likely_sizes(facts, names)
    places = order_of_symbols(graph.body.symbols, graph.inputs)

    def order(name: str) -> tuple[tuple[int, int], str]:
        return places.get(name, (3, 0)), name

    budget = Budget(nodes=limits.nodes, memory_mb=deadlines.memory_mb, deadline=deadlines.rules, last=deadlines.graph)
    loaded = program(tuple(rules), explain, variant)
    context = Context(symbol_order=order)
    optimizer = BlockOptimizer(loaded, REGISTRY, CostModel(likely), budget, tracer, order, watch)
    try:
        with holding(deadlines.graph, deadlines.memory_mb):
            believed = entry_facts(graph, facts)
            context.assume_all(believed)
            body = optimizer.run(graph.body, RegionEntry(context, believed), assumed_checks(facts), refine_signature)
            body = optimize_behind(optimizer, body, context, believed)
            result = replace(graph, body=body)
            with tracer.stage("verify"):
                verify(result, equal=_equal(context, optimizer.outcome))
        return Optimized(result, context, optimizer.outcome, likely)
    except LimitReached as reached:
        return _unfinished(graph, context, optimizer.outcome, likely, reached)
    except (EngineFault, InternalError) as fault:
        return _fallback(graph, context, optimizer.outcome, likely, fault)
    except EgshapeError as error:
        if isinstance(error, Contradiction) or error.code in ("violated", "rules"):
            raise
        return _fallback(graph, context, optimizer.outcome, likely, error)
    except Exception as fault:
        if os.environ.get(STRICT):
            raise
        internal = InternalError(f"a fault of ours, {type(fault).__name__}: {fault}",
                                 hint=f"{STRICT}=1 shows where; please report it")
        return _fallback(graph, context, optimizer.outcome, likely, internal)


def _equal(context: Context, outcome: Outcome) -> Callable[[Dim, Dim], bool]:
    """Equality of sizes as far as anything was derived in the graph or a region."""

    def equal(one: Dim, other: Dim) -> bool:
        if any(sizes.normal_form(one) is sizes.normal_form(other) for sizes in outcome.sizes):
            return True
        return context.decide(Relation("==", one, other)) == "proved"

    return equal


def _unfinished(graph: Graph, context: Context, outcome: Outcome, likely: dict[str, int], reached: LimitReached
                ) -> Optimized:
    """The graph as it came: a limit was met before another one was whole."""
    outcome.status = "budget"
    outcome.stops.append(Stop(reached.limit, "", outcome.grew_most))
    return Optimized(graph, context, outcome, likely)


def _fallback(graph: Graph, context: Context, outcome: Outcome, likely: dict[str, int], fault: EgshapeError
              ) -> Optimized:
    outcome.status, outcome.fault = "fallback", str(fault)
    return Optimized(graph, context, outcome, likely)
