"""A model as it came: what egshape would write larger, or cannot write, goes out as the file said it, its functions,
attributes and loops included, behind the checks that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from egshape.facts import Facts
from egshape.frontends.frontend import Cost, Parts
from egshape.frontends.onnx.checks import CHECKS, TITLE
from egshape.frontends.onnx.files import Model
from egshape.frontends.onnx.node import Node, graphs_of, node_types, nodes_in
from egshape.frontends.onnx.structure import Form
from egshape.frontends.onnx.subgraphs import reads
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.graph import Block, Graph, Op
from egshape.ir.types import TEXT, dtype_name, numpy_dtype

SMALL = 1 << 12
"""Arrays of at most so many bytes are compared."""


@dataclass(frozen=True)
class Own:
    """A model, and the block and facts that were made of it."""

    model: Model
    body: Block
    facts: Facts
    forms: Mapping[str, Form]
    whole: frozenset[str] = frozenset()
    """As of ``convert.graph_of``."""

    def __reduce__(self) -> tuple[object, ...]:
        return _nothing, ()  # views of a file: a graph of another process is written without

    def made(self, graph: Graph) -> bool:
        """Whether a graph is what was made of the model, and nothing more is said of it."""
        return (graph.body, graph.facts) == (self.body, self.facts)

    def front(self, graph: Graph, checks: str) -> tuple[Op, ...] | None:
        """The checks of sizes that stand before what was read; None where the graph is another, or checks that are
        nodes of the model, or listed in it, are to go elsewhere."""
        body, ops = self.body, graph.body.ops
        front = ops[: len(ops) - len(body.ops)]
        same = (graph.body.args, graph.body.results, ops[len(front) :]) == (body.args, body.results, body.ops)
        if not same or any(op.name != "check" or op.attrs["relation"] == "value" for op in front):
            return None
        if any(entry.key == CHECKS for entry in self.model.proto.metadata_props):
            return None
        own = any(node.name.startswith(TITLE) for node in nodes_in(self.model.proto.graph.node))
        return None if own and checks != "nodes" else front

    @property
    def parts(self) -> Parts:
        """Its nodes by type, those of graphs inside and of each function too."""
        return Parts(self.body, node_types(self.model.proto))

    @property
    def cost(self) -> Cost:
        """Its nodes, those of each function once, but for checks and constants, and the bytes of its numbers."""
        proto = self.model.proto
        nodes = _unchecked(proto.graph.node, [each.name for each in proto.graph.output])
        nodes += [node for function in proto.functions for node in function.node]
        return Cost(count_of(nodes), "nodes", sum(map(_size, _tensors(proto.graph, nodes))))

    @property
    def names(self) -> Iterator[str]:
        """The names of all tensors."""
        return _names(self.model.proto.graph)

    def holds(self, name: str, array: np.ndarray) -> bool:
        """Whether an initializer is this array; of a large one its type alone is looked at."""
        held = next((each for each in self.model.proto.graph.initializer if each.name == name), None)
        if held is None or tuple(held.dims) != array.shape or dtype_of(held.data_type, name) != dtype_name(array.dtype):
            return False
        return array.nbytes > SMALL or bool(np.array_equal(self.model.array(held, name), array))

    def small(self) -> Iterator[tuple[str, np.ndarray]]:
        """The initializers that lie in the message, by name."""
        for each in self.model.proto.graph.initializer:
            inside = each.data_location != TensorProto.EXTERNAL and each.name not in self.model.raw
            if inside and 0 < _size(each) <= SMALL:  # text has no size here
                yield each.name, self.model.array(each, each.name)

    @property
    def titles(self) -> Mapping[str, str]:
        """The op of each node by its location, where all nodes there have one."""
        out: dict[str, str] = {}
        for graph in (self.model.proto.graph, *self.model.proto.functions):
            for node in nodes_in(graph.node):
                where = str(Node(node, 0, {}).location)
                out[where] = node.op_type if out.get(where, node.op_type) == node.op_type else ""
        return {where: title for where, title in out.items() if title}

    def message(self) -> tuple[ModelProto, dict[str, np.ndarray]]:
        """The model without the initializers that lie in its file or beside it, and these."""
        out, proto = ModelProto(), self.model.proto
        out.CopyFrom(proto)
        apart = {
            each.name: self.model.array(each, each.name)
            for each in proto.graph.initializer
            if each.name in self.model.raw or each.data_location == TensorProto.EXTERNAL
        }
        del out.graph.initializer[:]
        out.graph.initializer.extend(each for each in proto.graph.initializer if each.name not in apart)
        return out, apart


def own_of(model: Model, body: Block, facts: Facts, forms: Mapping[str, Form], whole: frozenset[str]) -> Own | None:
    """The model, for a writer; None where its message does not hold all of it."""
    nodes = [*model.proto.graph.node, *(node for function in model.proto.functions for node in function.node)]
    inner = list(_tensors(model.proto.graph, nodes))[len(model.proto.graph.initializer) :]
    return (
        None
        if any(each.data_location == TensorProto.EXTERNAL for each in inner)
        else Own(model, body, facts, forms, whole)
    )


def count_of(nodes: Iterable[NodeProto]) -> int:
    """How many nodes there are, those of the graphs inside too, but for constants."""
    return sum(node.op_type != "Constant" for node in nodes_in(nodes))


def size_of(nodes: Iterable[NodeProto]) -> int:
    """The bytes of the numbers that nodes hold."""
    return sum(map(_size, _tensors(GraphProto(), nodes)))


def _nothing() -> None:
    return None


def _unchecked(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that give the outputs, as if no check stood between: a check hands on what it looks into, and so does
    the Reshape to the shape that one found."""
    checks = {name for node in nodes if node.name.startswith(TITLE) for name in node.output}
    wanted, out = set(outputs), list[NodeProto]()
    for node in reversed(nodes):
        if wanted.isdisjoint(node.output):
            continue
        if checks.isdisjoint((*node.output, *node.input[1:])):
            out.append(node)
            wanted.update(reads(node))
        else:
            wanted.add(node.input[0])
    return out


def _tensors(graph: GraphProto, nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """The initializers of a graph, and what its nodes and the graphs inside hold."""
    yield from graph.initializer
    for node in nodes_in(nodes):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors
        for inner in graphs_of(node.attribute):
            yield from inner.initializer


def _size(tensor: TensorProto) -> int:
    dtype = dtype_of(tensor.data_type, tensor.name)
    return 0 if dtype == TEXT else prod(tensor.dims) * numpy_dtype(dtype).itemsize


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (each.name for each in (*graph.input, *graph.initializer))
    yield from (each.values.name for each in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output
        for inner in graphs_of(node.attribute):
            yield from _names(inner)
