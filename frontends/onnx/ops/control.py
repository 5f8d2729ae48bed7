"""Subgraphs: If."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import GraphProto

from egshape.errors import EgshapeError, Unsupported
from egshape.facts import Relation
from egshape.frontends.onnx.checks import require
from egshape.frontends.onnx.files import DEPTH_LIMIT
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.shaping import reshape
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import Fork, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.structure import Form, flat, forms_of, names_of, rebuilt
from egshape.ir.graph import Block, Value


def subgraph(s: Scope, graph: GraphProto, operands: list[Operand]) -> list[Operand]:
    """The results of a subgraph, converted in the scope given, which sees the names of its parents."""
    if len(s.stack) > DEPTH_LIMIT:
        raise EgshapeError(f"subgraphs nest deeper than {DEPTH_LIMIT}", code="limit")
    s.state((*graph.value_info, *graph.output))
    s.initializers.update({each.name: each for each in graph.initializer})
    s.names.update({each.name: value for each, value in zip(graph.input, operands, strict=True)})
    s.run(graph.node)
    return [s.lookup(each.name) for each in graph.output]


def nested(s: Scope) -> Scope:
    """A scope of names inside the same block: what is converted in it stands in place."""
    return Scope(s.program, s.builder, s.opsets, parent=s, stack=(*s.stack, "subgraph"))


@onnx_op("If")
def if_(s: Scope, node: Node, condition: Value) -> list[Operand]:
    """One of two subgraphs; the one that runs, in place, where that is known, or where only its results fit."""
    branches = node.graph("then_branch"), node.graph("else_branch")
    array, known = s.array(condition), s.items(condition)
    if array is not None and array.size == 1:
        return subgraph(nested(s), branches[0 if bool(array.reshape(-1)[0]) else 1], [])
    if known and isinstance(known[0], bool):
        return subgraph(nested(s), branches[0 if known[0] else 1], [])
    blocks: list[Block] = []
    forms: list[tuple[Form, ...]] = []
    for graph in branches:
        inner = s.child()
        inner.stack = (*s.stack, "subgraph")
        found = subgraph(inner, graph, [])
        forms.append(forms_of(found))
        blocks.append(inner.builder.finish(flat(found)))
    if forms[0] != forms[1]:
        raise Unsupported(
            "If has branches that give sequences of different lengths, or an optional value in one only",
            where=str(node.location),
            hint="make both give the same kind, or the condition constant",
        )
    pairs = list(zip(blocks[0].results, blocks[1].results, strict=True))
    if any(one.type.dtype != two.type.dtype for one, two in pairs):
        raise node.error("has branches of different element types")
    if any(_rank(one) != _rank(two) for one, two in pairs):
        ways = [_branch(graph) for graph in branches]
        raise Fork(ways, lambda scope, way: _require(scope, condition, way == 0), _assumed(s, condition))
    pred = condition if condition.type.rank == 0 else reshape(s, condition, ())
    results = s.add("if", (pred,), {}, regions=blocks, result_names=names_of(_padded(node.outputs, len(found)), found))
    return rebuilt(results, found)


def _padded(names: Sequence[str], count: int) -> list[str]:
    return [*names, *[""] * (count - len(names))][:count]


def _branch(graph: GraphProto) -> Callable[[Scope], list[Operand]]:
    return lambda scope: subgraph(nested(scope), graph, [])


def _assumed(s: Scope, condition: Value) -> int | None:
    """The branch that facts choose, None where they choose none."""
    known = s.items(condition)
    answer = s.assumed(known[0]) if known and isinstance(known[0], Relation) else None
    return None if answer is None else int(not answer)


def _rank(value: Value) -> int | None:
    return None if value.type.shape is None else value.type.rank


def _require(s: Scope, condition: Value, wanted: bool) -> None:
    """A check that a condition is as wanted: with the other value the model fails in a later node."""
    require(s, condition, wanted, f"{condition.name} is not {str(wanted).lower()}, which a later op needs")
