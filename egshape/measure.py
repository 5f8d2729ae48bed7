"""What a graph costs by the measure of the format that it came in, and results that would cost more than that.

A result can be larger although it has fewer ops of ours: a condition that an op implies becomes a check of its own,
which is several statements of StableHLO, and sizes that were inputs of an op have to be computed anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from egshape.egraph.checks import GIVEN
from egshape.errors import EgshapeError
from egshape.ir.expand import expand
from egshape.ir.graph import Graph, Op
from egshape.pipeline import Optimized

if TYPE_CHECKING:
    from onnx import GraphProto

MOST_OPS = 5_000
"""Larger graphs are not written to be measured (50 to 100 us an op): their own ops count."""

_SLACK = 4096
"""Bytes of constants that a model may gain: folded vectors of sizes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How many statements or nodes a graph is written as, what they are called, and the bytes of its constants."""

    count: int
    unit: str
    bytes: int = 0

    def exceeds(self, other: Cost) -> bool:
        """Whether this is more: nodes first; bytes only beyond a few constants of sizes."""
        return self.count > other.count or self.bytes > other.bytes + max(_SLACK, other.bytes // 100)


def cost(graph: Graph) -> Cost:
    """What a graph costs in the format that it came in; ops of ours where there is none, or it cannot be written."""
    ops = sum(1 for _ in graph.body.walk())
    kind = graph.metadata.get("format")
    try:
        if ops <= MOST_OPS and kind == "stablehlo":
            from egshape.frontends.stablehlo import emit

            return Cost(emit.statements(expand(graph, keep=True)), "statements")
        if ops <= MOST_OPS and kind == "onnx":
            return _nodes(graph)
    except (EgshapeError, MemoryError, ValueError):  # numpy's, of an array that is larger than memory or than integers
        pass  # saying what cannot be written is for whoever saves the graph
    return Cost(ops, "ops")


def _nodes(graph: Graph) -> Cost:
    from egshape.frontends.onnx import emit

    found = emit.whole(expand(graph, keep=True), None, "none")  # checks as nodes are wanted, however many
    return Cost(_count(found.model.graph), "nodes", sum(array.nbytes for array in found.initializers.values()))


def _count(graph: GraphProto) -> int:
    """Nodes of a graph and of the graphs inside."""
    inner = [each for node in graph.node for attribute in node.attribute for each in (attribute.g, *attribute.graphs)]
    return len(graph.node) + sum(map(_count, inner))


def never_worse(graph: Graph, done: Optimized) -> tuple[Optimized, str]:
    """The result, or the graph as it came if the result would cost more; then also a note that says so.

    The checks of what the user assumed do not count: they were asked for, and stay."""
    if not graph.metadata.get("format"):
        return done, ""
    given = dict.fromkeys(_given(done))
    before = cost(graph)
    after = cost(_with_ops(done.graph, (op for op in done.graph.body.ops if op not in given)))
    if before.unit != after.unit or not after.exceeds(before):
        return done, ""
    more = f"{after.count} {after.unit}, not {before.count}" if after.count > before.count else \
        f"{after.bytes} bytes of constants, not {before.bytes}"
    values = [*graph.inputs, *(value for op in graph.body.walk() for value in op.results)]
    outcome = replace(done.outcome, rewrites=Counter(), reasons=[], standing={value: value for value in values})
    checked = _with_ops(graph, (*given, *graph.body.ops))
    return Optimized(checked, done.context, outcome, done.likely), f"left as it was: it would be larger ({more})"


def _given(done: Optimized) -> list[Op]:
    """The checks in a result of what the user assumed."""
    checks = [each.relation for each in done.outcome.checks if each.index == GIVEN and each.relation is not None]
    relations = {(each.kind, each.lhs, each.rhs) for each in checks}
    return [op for op in done.graph.body.ops
            if op.name == "check" and (op.attrs["relation"], *op.attrs["sides"]) in relations]


def _with_ops(graph: Graph, ops: Iterable[Op]) -> Graph:
    return replace(graph, body=replace(graph.body, ops=tuple(ops)))
