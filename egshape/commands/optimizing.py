"""Optimizing as commands do it: with progress, notes and the options that were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from egshape.commands.terminal import progress, say

if TYPE_CHECKING:
    from egshape.api import Limits, Result
    from egshape.ir.graph import Graph


def optimized(graph: Graph, assume: list[str] | None, **options: Any) -> Result:
    from egshape import api

    with progress() as tracer:
        result = api.optimize(graph, assume=tuple(assume or ()), tracer=tracer, **_given(options))
    for note in result.report.notes:
        say(f"egshape: note: {note}")
    return result


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, so that the defaults stay where they are declared."""
    return {name: value for name, value in options.items() if value is not None}


def limits_of(seconds: float | None, nodes: int | None, memory: int | None) -> Limits:
    from egshape.api import Limits

    return Limits(**_given({"seconds": seconds, "nodes": nodes, "memory_mb": memory}))
