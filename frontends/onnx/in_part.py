"""A model of which a part would be written larger: read once more, each node of that part one op, so that it goes out
as it came and the rest is optimized."""

from __future__ import annotations

from collections import Counter

from egshape.errors import EgshapeError
from egshape.frontends.onnx import messages
from egshape.frontends.onnx.convert import graph_of
from egshape.frontends.onnx.node import Node, graphs_of, nodes_in
from egshape.frontends.onnx.own import Own
from egshape.frontends.onnx.subgraphs import free_names
from egshape.ir.graph import Graph


def in_part(graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
    """The model of a graph, read so that the nodes stay of which a result has more, and the places of these; None
    where there are no more than before, or the graph is not as it was read."""
    own = graph.own
    if not isinstance(own, Own) or not own.made(graph):
        return None  # what was said of the graph since would be lost
    try:
        written = messages.whole(result).nodes
        there = Counter(
            str(Node(proto, 1, {}).location)
            for proto in nodes_in(own.model.proto.graph.node)
            if not any(free_names(graph) for graph in graphs_of(proto.attribute))  # all that it reads are inputs
        )
        whole = own.whole | {place for place, count in written.items() if 0 < there[place] < count}
        if whole == own.whole:
            return None
        return graph_of(own.model, own.forms, whole), tuple(place for place in there if place in whole)
    except EgshapeError:  # saying what cannot be written is for whoever saves the graph
        return None
