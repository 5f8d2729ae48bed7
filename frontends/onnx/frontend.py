"""ONNX as a format: files, with their weights beside them or not, bytes, and ``onnx.ModelProto``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from egshape.errors import InvalidInput
from egshape.frontends import onnx as files
from egshape.frontends.frontend import Cost, Forms, Writing, as_read
from egshape.ir.graph import Graph

_IR_VERSION = b"\x08"
"""The tag of a model's first field. No text begins with it."""


@dataclass(frozen=True)
class Onnx:
    """Models of ONNX."""

    name: str = "onnx"
    forms: tuple[str, ...] = ("onnx",)
    objects: str = "an onnx.ModelProto"

    def recognises(self, model: object) -> bool:
        """An ``onnx.ModelProto``."""
        return type(model).__name__ == "ModelProto" and hasattr(model, "SerializeToString")

    def begins(self, data: bytes) -> bool:
        """A message that begins as a ModelProto does."""
        return data.startswith(_IR_VERSION)

    def read(self, source: Path | bytes, name: str, forms: Forms | None) -> Graph:
        """Raises as ``egshape.frontends.onnx.read``."""
        return files.read(source, name, forms)

    def beside(self, path: Path) -> tuple[Path, ...]:
        """The files of external data."""
        from egshape.frontends.onnx.files import open_model

        return open_model(path, path.name).beside()

    def read_object(self, model: Any, forms: Forms | None, names: Sequence[str] = ()) -> Graph:
        """Raises InvalidInput for a model that protobuf cannot serialize, else as ``read``."""
        try:
            data = bytes(model.SerializeToString())
        except Exception as error:  # protobuf's own classes, by version
            raise InvalidInput(
                f"the ModelProto cannot be serialized: {error}",
                hint="a model beyond 2 GB is loaded by its path, its weights beside it",
            ) from None
        return files.read(data, model.graph.name or "model", forms)

    def save(self, graph: Graph, path: Path, form: str, how: Writing) -> tuple[str, ...]:
        """Raises as ``egshape.frontends.onnx.save``."""
        return files.save(graph, path, how.opset, how.external_data, how.checks)

    def in_part(self, graph: Graph, result: Graph) -> tuple[Graph, tuple[str, ...]] | None:
        """Nodes of which there are more than before are one op each."""
        from egshape.frontends.onnx.in_part import in_part

        return in_part(graph, result)

    def kinds(self, model: Graph | Path | bytes) -> tuple[str, Counter[str]]:
        """Nodes, those of graphs inside and of each function too."""
        from egshape.frontends.onnx import messages
        from egshape.frontends.onnx.files import open_model
        from egshape.frontends.onnx.node import node_types

        known = as_read(model) if isinstance(model, Graph) else None
        if known is not None:
            return "nodes", known
        whole = messages.whole(model).model if isinstance(model, Graph) else open_model(model, "model").proto
        return "nodes", node_types(whole)

    def titles(self, graph: Graph) -> Mapping[str, str]:
        """The ops of nodes."""
        return graph.own.titles if graph.own is not None else {}

    def nodes(self, graph: Graph) -> Mapping[str, str]:
        """The types of nodes, by the names of their outputs."""
        from egshape.frontends.onnx import messages
        from egshape.frontends.onnx.node import nodes_in, titles
        from egshape.frontends.onnx.own import Own

        if isinstance(graph.own, Own) and as_read(graph) is not None:
            return {name: node.op_type for node in nodes_in(graph.own.model.proto.graph.node) for name in node.output}
        values = {value.name for op in graph.body.walk() for value in op.results}
        return titles(messages.whole(graph).model.graph.node, values)

    def cost(self, graph: Graph) -> Cost:
        """Nodes, those of graphs inside and of each function too, those of checks apart."""
        from egshape.frontends.onnx import messages

        found = messages.whole(graph)
        return replace(found.cost, checks=found.count - found.cost.count)
