"""Subgraphs of nodes: what they read of the graphs around, and copies that stand in another place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import GraphProto, NodeProto

from egshape.frontends.onnx.node import graphs_of


def free_names(graph: GraphProto) -> list[str]:
    """Names that a subgraph reads and does not define, in order of first use."""
    bound = {each.name for each in graph.input} | {each.name for each in graph.initializer}
    out: dict[str, None] = {}
    for node in graph.node:
        read = [name for name in node.input if name]
        for inner in graphs_of(node.attribute):
            read += free_names(inner)
        out.update((name, None) for name in read if name not in bound)
        bound.update(node.output)
    out.update((each.name, None) for each in graph.output if each.name not in bound)
    return list(out)


def reads(node: NodeProto) -> list[str]:
    """Names that a node and its subgraphs read."""
    return [*node.input, *(name for graph in graphs_of(node.attribute) for name in free_names(graph))]


def rebind(node: NodeProto, outer: Mapping[str, str], fresh: Callable[[str], str]) -> None:
    """Give what a node's subgraphs read the names of ``outer``, and what they define names that ``fresh`` makes."""
    for graph in graphs_of(node.attribute):
        _rebind_graph(graph, outer, fresh)


def _rebind_graph(graph: GraphProto, outer: Mapping[str, str], fresh: Callable[[str], str]) -> None:
    names = dict(outer)
    for held in (*graph.input, *graph.initializer, *(each.values for each in graph.sparse_initializer)):
        names[held.name] = held.name = fresh(held.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        rebind(node, names, fresh)
        for name in node.output:
            if name:
                names[name] = fresh(name)
        node.output[:] = [names.get(name, name) for name in node.output]
    for info in (*graph.output, *graph.value_info):
        info.name = names.get(info.name, info.name)
