"""Whether two programs are one: both are put into one e-graph, and saturation shows that their results are equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from egshape.choice import entered, sizes_in
from egshape.egraph.twins import acts
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.frontends.bounds import Bounds
from egshape.ir.builder import Names
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Graph, Value, relation_of
from egshape.limits import Limits
from egshape.ops import REGISTRY
from egshape.optimizing import optimize


def stands_for(one: Graph, other: Graph, limits: Limits | None = None) -> bool:
    """Whether ``one`` gives what ``other`` gives at all sizes and data, and refuses what ``other`` refuses; it may
    refuse more. Both have the same inputs, by place, and as many outputs. False is "not shown".

    A check of ``other`` must be one of ``one`` too, or follow from these: of sizes by what is kept of them, of data
    where both conditions are equal. Programs that act, by random numbers say, or have sizes that data give are not
    compared."""
    if any(acts(op, REGISTRY) for graph in (one, other) for op in graph.ops) or not (entered(one) and entered(other)):
        return False
    mine, its = _conditions(one), _conditions(other)
    both = _beside(one, other, mine, its)
    try:
        alone = optimize(one, limits=limits, validate=False, allow_larger=True, explain=False).graph
        joint = optimize(both, limits=limits, validate=False, allow_larger=True, explain=False).graph
    except EgshapeError:
        return False
    if not (alone.checked and joint.checked):
        return False
    values = iter(joint.outputs)
    results, wanted = _next(values, one.outputs), _next(values, other.outputs)
    held, asked = _next(values, mine), _next(values, its)
    return results == wanted and set(asked) <= set(held) and _implied(_relations(joint), _relations(alone))


def _conditions(graph: Graph) -> list[Value]:
    """The conditions on data that a graph checks."""
    return [op.operands[0] for op in graph.ops if op.name == "check" and op.operands]


def _relations(graph: Graph) -> list[Relation]:
    """What a graph checks of sizes."""
    return [relation for op in graph.ops if (relation := relation_of(op)) is not None]


def _implied(asked: Sequence[Relation], given: Sequence[Relation]) -> bool:
    """Whether relations are among others, or follow from them."""
    bounds = Bounds().with_fact(*given)
    return all(each in given or bounds.decide(each) for each in asked)


def _next(values: Iterator[Value], like: Sequence[object]) -> list[Value]:
    return [next(values) for _ in like]


def _beside(one: Graph, other: Graph, mine: Sequence[Value], its: Sequence[Value]) -> Graph:
    """The graph that gives what both give, then the conditions on data of each, of which only the first one checks
    its own."""
    names = Names()
    for value in values_of(one.body):
        names.fresh(value.name)
    kept = tuple(op for op in other.ops if op.name != "check" or not op.operands)
    inner = replace(other.body, args=(), ops=kept, symbols=(), results=(*other.outputs, *its))
    inputs = dict(zip(other.inputs, one.inputs, strict=True))
    copied = substitute(inner, inputs, names.fresh, sizes_in(other, one))
    count = len(other.outputs)
    results = (*one.outputs, *copied.results[:count], *mine, *copied.results[count:])
    body = Block(one.inputs, (*one.ops, *copied.ops), results, one.body.symbols)
    return replace(one, body=body, output_names=tuple(f"out{place}" for place in range(len(results))))
