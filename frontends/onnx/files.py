"""Model files: the message is parsed, weights stay in the file and are viewed, external data stay in the folder."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from egshape.errors import InvalidInput, ParseError, Unsupported
from egshape.frontends.onnx import wire
from egshape.frontends.onnx.types import array_of, dense

NODE_LIMIT = 250_000
"""A model with more nodes is refused before anything is built of it."""

DEPTH_LIMIT = 24
"""Subgraphs nest at most so deep."""


@dataclass
class Model:
    """A parsed model and the arrays of its initializers, made when they are first asked for."""

    proto: ModelProto
    name: str
    raw: dict[str, memoryview]
    folder: Path | None = None
    _files: dict[Path, memoryview] = field(default_factory=dict)

    def array(self, tensor: TensorProto, where: str) -> np.ndarray:
        """The array of an initializer or an attribute's tensor. Raises ParseError, InvalidInput for external data
        outside of the model's folder."""
        if tensor.data_location == TensorProto.EXTERNAL:
            return array_of(tensor, where, self._external(tensor, where))
        return array_of(tensor, where, self.raw.get(tensor.name) if not tensor.HasField("raw_data") else None)

    def beside(self) -> tuple[Path, ...]:
        """The files of its external data. Raises as ``array``."""
        nodes = (node for function in self.proto.functions for node in function.node)
        every = (*_tensors(self.proto.graph), *(each for node in nodes for each in _of_node(node)))
        tensors = [each for each in every if each.data_location == TensorProto.EXTERNAL]
        places = [
            (entry.value, each.name) for each in tensors for entry in each.external_data if entry.key == "location"
        ]
        return tuple(dict.fromkeys(self._inside(location, name, self.name) for location, name in places))

    def _external(self, tensor: TensorProto, where: str) -> memoryview:
        given = {entry.key: entry.value for entry in tensor.external_data}
        path = self._inside(given.get("location", ""), tensor.name, where)
        if path not in self._files:
            self._files[path] = _mapped(path)
        whole = self._files[path]
        try:
            offset = int(given.get("offset", 0))
            length = int(given["length"]) if "length" in given else len(whole) - offset
        except ValueError:
            raise ParseError(
                f"offset or length of the external tensor {tensor.name!r} is no number", where=where
            ) from None
        if offset < 0 or length < 0 or offset + length > len(whole):
            raise ParseError(
                f"the external tensor {tensor.name!r} lies at {offset}:{offset + length} of {path.name}, which has "
                f"{len(whole)} bytes",
                where=where,
                hint="the file is truncated, or belongs to another model",
            )
        return whole[offset : offset + length]

    def _inside(self, location: str, name: str, where: str) -> Path:
        if self.folder is None:
            raise InvalidInput(
                f"the tensor {name!r} is in another file, and the model came without a folder",
                where=where,
                hint="load the model by its path",
            )
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
            found = location and not Path(location).is_absolute() and path.is_relative_to(folder) and path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long a name, a 0 byte, a circle of links
            found = False
        if not found:
            raise InvalidInput(
                f"the tensor {name!r} is in {location[:200]!r}, which is no file in the model's folder",
                where=where,
                hint="external data is read from the folder of the model only",
            )
        return path


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """The initializers of a graph, and the tensors that its nodes and the graphs inside of them hold."""
    yield from graph.initializer
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield attribute.t
        elif attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors(graph)


def open_model(source: Path | bytes, name: str) -> Model:
    """Parse a model. Raises ParseError, InvalidInput, Unsupported."""
    data = _mapped(source) if isinstance(source, Path) else memoryview(source)
    if not len(data):
        raise ParseError("is empty", where=name)
    skeleton, raw = wire.cut(data, name)
    proto = ModelProto()
    try:
        proto.ParseFromString(skeleton)
    except Exception as error:  # protobuf's DecodeError has a home that differs between its versions
        raise ParseError(f"is no ONNX model: {error}", where=name) from None
    _check(proto, name)
    tensors = proto.graph.initializer
    named = {tensors[index].name: view for index, view in raw.items()}
    return Model(proto, name, named, source.parent if isinstance(source, Path) else None)


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=str(path)) from None


def _check(proto: ModelProto, name: str) -> None:
    if not proto.HasField("graph") or not proto.opset_import:
        raise ParseError("is no ONNX model: it has no graph or no opset", where=name)
    count = len(proto.graph.node) + sum(len(function.node) for function in proto.functions)
    if count > NODE_LIMIT:
        raise Unsupported(f"has {count} nodes, at most {NODE_LIMIT} are read", where=name)
    if not proto.graph.output:
        raise ParseError("has no outputs: it computes nothing", where=name)
    for text in _all_texts(proto):
        if not isinstance(text, str):  # protobuf gives the bytes where they are no UTF-8
            raise ParseError(f"the text {text[:100]!r} is no UTF-8", where=name, hint="the file is damaged")
    _once(name, "outputs", (each.name for each in proto.graph.output))
    _once(name, "initializers", (each.name for each in proto.graph.initializer))


def _once(where: str, what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ParseError(f"two {what} are named {name!r}", where=where)
        seen.add(name)


def _all_texts(proto: ModelProto) -> Iterator[str]:
    """Every name of a model, and what is said of it."""
    yield from (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string, proto.graph.name)
    for entry in proto.metadata_props:
        yield from (entry.key, entry.value)
    for opset in (*proto.opset_import, *(each for function in proto.functions for each in function.opset_import)):
        yield opset.domain
    yield from _texts(proto.graph)
    for function in proto.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        yield from _node_texts(function.node)


def _texts(graph: GraphProto) -> Iterator[str]:
    """Every name of a graph and its subgraphs."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        for size in info.type.tensor_type.shape.dim:
            yield size.dim_param
    for tensor in graph.initializer:
        yield tensor.name
    yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[NodeProto]) -> Iterator[str]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _texts(inner)


def initializers(model: Model) -> dict[str, TensorProto | np.ndarray]:
    """The initializers by name; sparse ones written out."""
    out: dict[str, TensorProto | np.ndarray] = {each.name: each for each in model.proto.graph.initializer}
    for sparse in model.proto.graph.sparse_initializer:
        out[sparse.values.name] = dense(sparse, model.name)
    return out
