"""Small graphs, and what optimizing makes of them."""

from __future__ import annotations

import numpy as np

from egshape.facts import Facts
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.limits import Limits
from egshape.pipeline import Optimized, run_stages
from egshape.trace import Tracer


def constant(builder: BlockBuilder, value: object, dtype: type = np.float32) -> Value:
    """A constant."""
    return builder.one("constant", (), {"value": np.array(value, dtype)})


def optimized(builder: BlockBuilder, *results: Value) -> Optimized:
    """The graph that gives these results, optimized without facts; it must not fall back."""
    names = tuple(f"out{place}" for place in range(len(results)))
    tracer = Tracer()
    found = run_stages(Graph("g", builder.finish(results), names), Facts(), (), Limits(), tracer)
    assert found.outcome.status == "saturated", tracer.notes
    return found


def named(block: Block | Graph, name: str) -> list[Op]:
    """The ops of one name at top level."""
    return [op for op in block.ops if op.name == name]
