"""What optimizing a model gives, before anything is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from egshape.dims.functions import SizeFunction
from egshape.facts import Facts
from egshape.ir.graph import Graph
from egshape.pipeline import Optimized
from egshape.report import Report


@dataclass(frozen=True)
class Optimization:
    """The graph, the facts that it relies on, the report, the graph that came in, and what the stages derived."""

    graph: Graph
    facts: Facts
    report: Report
    source: Graph
    optimized: Optimized
    functions: Mapping[str, SizeFunction] = field(default_factory=dict)
    """The size functions that its rules declare, which questions about it may name."""

    @property
    def unchanged(self) -> bool:
        """Whether the graph is the one that came in, checks of assumed facts apart."""
        return set(self.source.body.ops) <= set(self.graph.body.ops)
