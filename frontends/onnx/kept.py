"""Nodes and values that are as the file had them under its names: a graph that was written anew beside the one that was
read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto

from egshape.frontends.onnx.node import graphs_of, nodes_in
from egshape.frontends.onnx.subgraphs import reads

LARGE = 1 << 16
"""Nodes with attributes of more bytes keep their names by those of their results only."""

Key = tuple[str, str, tuple[str, ...], tuple[bytes, ...]]


def keep_names(
    nodes: Sequence[NodeProto], original: GraphProto, fixed: Collection[str], same: Collection[str]
) -> Mapping[str, str]:
    """Give nodes that do what nodes of ``original`` do to the same values the names of these, and their results the
    names that they had there; which those are. ``fixed``: names of inputs, outputs and initializers, which stay;
    ``same``: what bears the name that it had in the original."""
    found = _Keeper(nodes, original, fixed, same)
    found.run()
    return found.renamed


class _Keeper:
    def __init__(
        self, nodes: Sequence[NodeProto], original: GraphProto, fixed: Collection[str], same: Collection[str]
    ) -> None:
        self.nodes, self.fixed = nodes, fixed
        self.same = set(same)
        self.makers = {name: node for node in original.node for name in node.output if name}
        self.alike: dict[Key, list[NodeProto]] = {}
        for node in original.node:
            key = _key(node)
            if key is not None:
                self.alike.setdefault(key, []).append(node)
        self.used = {*fixed, *_defined(nodes)}
        self.renamed: dict[str, str] = {}
        self.titles = {node.name for node in nodes_in(nodes)}
        self.named: set[int] = set()

    def run(self) -> None:
        """Nodes in order, so that what a node reads has its name first."""
        for node in self.nodes:
            _reread(node, self.renamed)
            found = self._original(node)
            if found is not None:
                self._keep(node, found)

    def _original(self, node: NodeProto) -> NodeProto | None:
        """The node of the original that this one is: it gives the value of the same name, or does the same."""
        first = next(iter(node.output), "")
        found = self.makers.get(first) if first in self.same else None
        if found is not None and (found.op_type, found.domain) == (node.op_type, node.domain):
            return found if id(found) not in self.named else None
        return next((each for each in self._alike(node) if id(each) not in self.named), None)

    def _alike(self, node: NodeProto) -> Sequence[NodeProto]:
        """The nodes of the original that do the same to the same values."""
        key = _key(node) if all(name in self.same for name in node.input if name) else None
        return () if key is None else self.alike.get(key, ())

    def _title(self, node: NodeProto, found: NodeProto) -> None:
        """What a node is called, and is said of it, in the graphs inside of it too, where values bear their names."""
        title = found.name or f"{found.op_type}:{found.output[0]}"
        if title not in self.titles:
            self.titles.discard(node.name)
            self.titles.add(title)
            node.name = title
            node.doc_string = found.doc_string
            node.metadata_props.extend(found.metadata_props)
        inside = {each.name: each.g for each in found.attribute if each.HasField("g")}
        for each in node.attribute:
            graph = inside.get(each.name)
            if graph is None or not each.HasField("g"):
                continue
            each.g.name, each.g.doc_string = graph.name, graph.doc_string
            makers = {name: inner for inner in graph.node for name in inner.output if name}
            for inner in each.g.node:
                other = makers.get(next(iter(inner.output), ""))
                if other is not None and (other.op_type, other.domain) == (inner.op_type, inner.domain):
                    self._title(inner, other)

    def _keep(self, node: NodeProto, found: NodeProto) -> None:
        self.named.add(id(found))
        self._title(node, found)
        if not any(found is each for each in self._alike(node)):
            return
        for place, (name, wanted) in enumerate(zip(node.output, found.output, strict=False)):
            if name and wanted and name != wanted and name not in self.fixed and wanted not in self.used:
                self.used.add(wanted)
                self.renamed[name] = node.output[place] = wanted
            if name and node.output[place] == wanted:
                self.same.add(wanted)


def _key(node: NodeProto) -> Key | None:
    """What tells nodes apart that do not the same; None for one that is large, or has graphs inside."""
    if any(True for _ in graphs_of(node.attribute)) or sum(each.ByteSize() for each in node.attribute) > LARGE:
        return None
    held = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
    return node.domain, node.op_type, tuple(node.input), tuple(held)


def _defined(nodes: Iterable[NodeProto]) -> Iterator[str]:
    for node in nodes_in(nodes):
        yield from node.output
        for graph in graphs_of(node.attribute):
            yield from (each.name for each in (*graph.input, *graph.initializer))


def _reread(node: NodeProto, renamed: Mapping[str, str]) -> None:
    """Read values under their new names, in the graphs inside too."""
    if renamed and not renamed.keys().isdisjoint(reads(node)):
        node.input[:] = [renamed.get(name, name) for name in node.input]
        for graph in graphs_of(node.attribute):
            for inner in graph.node:
                _reread(inner, renamed)
            for info in graph.output:
                info.name = renamed.get(info.name, info.name)
