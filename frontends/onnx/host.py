"""Ops without a lowering: calls of ONNX's reference evaluator, with the types that ONNX infers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

from egshape.dims import Dim, const
from egshape.errors import EgshapeError, Unsupported
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.scope import Operand, Scope
from egshape.frontends.onnx.types import dtype_of, tensor_type
from egshape.ir.graph import Value
from egshape.ops.host import UNKNOWN, call_of

_SMALL = 1 << 16
"""Constants of at most so many bytes are given to shape inference."""


def call(scope: Scope, node: Node, operands: Sequence[Operand]) -> list[Operand]:
    """A node as a host call. Raises Unsupported for an op that the reference evaluator does not know, or whose
    result types ONNX does not infer."""
    where = str(node.location)
    if any(value is not None and not isinstance(value, Value) for value in operands):
        raise Unsupported(f"{node.title} of a sequence is not supported", where=where)
    try:
        schema = defs.get_schema(node.op, node.opset, node.domain)
    except defs.SchemaError:
        raise Unsupported(f"the op {node.title} of opset {node.opset} is not known", where=where,
                          hint="expand it to standard ops, or give it as a function of the model") from None
    captured = _captured(scope, node)
    model = _single(scope, node, operands, captured)
    values = [value for value in operands if isinstance(value, Value)] + list(captured.values())
    types = _types(scope, node, schema, operands, values, where)
    places = [place for place, name in enumerate(node.outputs) if name]
    shapes = [types[place] for place in places]
    attrs = {
        "target": node.title,
        "call": call_of("onnx", model.SerializeToString(deterministic=True)),
        "dtypes": tuple(dtype for dtype, _ in shapes),
        "ranks": tuple(-1 if shape is None else len(shape) for _, shape in shapes),
        "sizes": tuple(size for _, shape in shapes for size in shape or ()),
    }
    results = scope.add("host_call", values, attrs, result_names=[node.outputs[place] for place in places])
    scope.program.hosted.append((node.title, where))
    scope.program.named.update(results)
    out: list[Operand] = [None] * len(node.outputs)
    for place, value in zip(places, results, strict=True):
        out[place] = value
    return out


def _captured(scope: Scope, node: Node) -> dict[str, Value]:
    """What subgraphs of the node read of the blocks around."""
    out: dict[str, Value] = {}
    for graph in node.subgraphs():
        for name in free_names(graph):
            found = scope.lookup(name)
            if not isinstance(found, Value):
                raise Unsupported(f"a subgraph of {node.title} reads the sequence {name!r}", where=str(node.location))
            out.setdefault(name, found)
    return {name: value for name, value in out.items() if name not in node.inputs}


def free_names(graph: GraphProto) -> list[str]:
    """Names that a subgraph reads and does not define, in order of first use."""
    bound = {each.name for each in graph.input} | {each.name for each in graph.initializer}
    out: dict[str, None] = {}
    for node in graph.node:
        read = [name for name in node.input if name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                read += free_names(attribute.g)
            for inner in attribute.graphs:
                read += free_names(inner)
        out.update((name, None) for name in read if name not in bound)
        bound.update(node.output)
    out.update((each.name, None) for each in graph.output if each.name not in bound)
    return list(out)


def _single(scope: Scope, node: Node, operands: Sequence[Operand], captured: dict[str, Value]) -> ModelProto:
    """A model of the node alone: its operands and captured values are the inputs."""
    inside = helper.make_node(
        node.op, [f"in{place}" if value is not None else "" for place, value in enumerate(operands)],
        [f"out{place}" if name else "" for place, name in enumerate(node.outputs)], domain=node.domain)
    inside.attribute.extend(node.attributes[name] for name in sorted(node.attributes))
    named = [(f"in{place}", value) for place, value in enumerate(operands) if isinstance(value, Value)]
    named += list(captured.items())
    inputs = [helper.make_value_info(name, tensor_type(value.type.dtype, None)) for name, value in named]
    outputs = [helper.make_value_info(name, TypeProto()) for name in inside.output if name]
    graph = helper.make_graph([inside], node.op, inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in sorted(scope.opsets.items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _types(scope: Scope, node: Node, schema: Any, operands: Sequence[Operand], values: Sequence[Value], where: str
           ) -> list[tuple[str, tuple[Dim, ...] | None]]:
    """Result types by ONNX's inference; our sizes go through it under their place in a table."""
    table: dict[str, Dim] = {}

    def shown(size: Dim) -> int | str:
        if size.const is not None:
            return size.const
        table.setdefault(f"size{size.id}", size)
        return f"size{size.id}"

    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.inputs, operands, strict=False):
        if isinstance(value, Value):
            shape = None if value.type.shape is None else [shown(size) for size in value.type.shape]
            types[name] = tensor_type(value.type.dtype, shape)
            array = scope.array(value)
            if array is not None and array.nbytes <= _SMALL:
                data[name] = numpy_helper.from_array(array, name)
    proto = helper.make_node(node.op, list(node.inputs), list(node.outputs), domain=node.domain)
    proto.attribute.extend(node.attributes.values())
    try:
        found = shape_inference.infer_node_outputs(
            schema, proto, types, data,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in scope.opsets.items()])
    except Exception as error:  # onnx raises several kinds, RuntimeError among them
        raise EgshapeError(f"{node.op} does not fit its operands: {error}", where=where, code="invalid-model"
                           ) from None
    return [_read(found.get(name), table, node, where) if name else ("", None) for name in node.outputs]


def _read(found: TypeProto | None, table: dict[str, Dim], node: Node, where: str
          ) -> tuple[str, tuple[Dim, ...] | None]:
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.elem_type:
        raise Unsupported(f"a result of {node.title} is no tensor of known type", where=where)
    dtype = dtype_of(found.tensor_type.elem_type, where)
    if not found.tensor_type.HasField("shape"):
        return dtype, None
    return dtype, tuple(
        const(each.dim_value) if each.HasField("dim_value") else table.get(each.dim_param, const(UNKNOWN))
        for each in found.tensor_type.shape.dim)
