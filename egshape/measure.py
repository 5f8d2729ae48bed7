"""What a graph costs by the measure of the format that it came in, and results that would cost more than that.

A result can be larger although it has fewer ops of ours: a condition that an op implies becomes a check of its own,
which is several statements of StableHLO, and sizes that were inputs of an op have to be computed anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from egshape.egraph.checks import GIVEN
from egshape.errors import EgshapeError
from egshape.frontends.frontend import Cost
from egshape.frontends.registry import of_graph
from egshape.ir.expand import expand
from egshape.ir.graph import Graph, Op
from egshape.pipeline import Optimized

MOST_OPS = 5_000
"""Larger graphs are not written to be measured (50 to 100 us an op): their own ops count."""


OPS = "ops"
"""The unit of what is not written."""


def cost(graph: Graph) -> Cost:
    """What a graph costs in the format that it came in; ops of ours where there is none, or it cannot be written."""
    ops = sum(1 for _ in graph.body.walk())
    frontend = of_graph(graph)
    try:
        if ops <= MOST_OPS and frontend is not None:
            return frontend.cost(expand(graph, keep=True))
    except (EgshapeError, MemoryError, ValueError):  # numpy's, of an array that is larger than memory or than integers
        pass  # saying what cannot be written is for whoever saves the graph
    return Cost(ops, OPS)


def never_worse(graph: Graph, done: Optimized) -> tuple[Optimized, str]:
    """The result, or the graph as it came if the result would cost more; then also a note that says so.

    The checks of what the user assumed do not count: they were asked for, and stay."""
    if of_graph(graph) is None:
        return done, ""
    given = dict.fromkeys(_given(done))
    before = cost(graph)
    after = cost(_with_ops(done.graph, (op for op in done.graph.body.ops if op not in given)))
    why = _why(before, after)
    if not why:
        return done, ""
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    outcome = replace(done.outcome, rewrites={}, reasons=(), standing={value: value for value in values})
    checked = _with_ops(graph, (*given, *graph.body.ops))
    return replace(done, graph=checked, outcome=outcome), f"left as it was: {why}"


def _why(before: Cost, after: Cost) -> str:
    """Why a result is not taken, "" where it is."""
    if before.unit != after.unit:
        return "it could not be written" if after.unit == OPS else ""
    if after.count > before.count:
        return f"it would be larger ({after.count} {after.unit}, not {before.count})"
    more = after.exceeds(before)
    return f"it would be larger ({after.bytes} bytes of constants, not {before.bytes})" if more else ""


def _given(done: Optimized) -> list[Op]:
    """The checks in a result of what the user assumed."""
    checks = [each.relation for each in done.outcome.checks if each.index == GIVEN and each.relation is not None]
    relations = {(each.kind, each.lhs, each.rhs) for each in checks}
    return [
        op
        for op in done.graph.body.ops
        if op.name == "check" and (op.attrs["relation"], *op.attrs["sides"]) in relations
    ]


def _with_ops(graph: Graph, ops: Iterable[Op]) -> Graph:
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))
