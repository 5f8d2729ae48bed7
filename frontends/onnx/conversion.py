"""Models at another opset, by ONNX's own converter, and what it leaves undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, helper, version_converter

from egshape.frontends.onnx.emit_scope import Names
from egshape.frontends.onnx.node import STANDARD, graphs_of, nodes_in

ONE_AXIS = 13
"""The opset since which a softmax is over one axis; before, it is over the rows of x flattened to a matrix."""

ZEROS = 14
"""The opset since which Reshape can take sizes of 0 as they are."""

_SOFT = ("Softmax", "LogSoftmax", "Hardmax")


def converted(model: ModelProto, opset: int) -> ModelProto:
    """The model at another opset of the standard ops. Raises several kinds of errors, as the converter does."""
    before = max((each.version for each in model.opset_import if each.domain in STANDARD), default=opset)
    found: ModelProto = version_converter.convert_version(model, opset)
    if before < ONE_AXIS <= opset:
        names = Names()
        for name in _names(found.graph):
            names.fresh(name)
        _flatten(found.graph, names)
    if opset >= ZEROS:
        _keep_zeros(found.graph)
    return found


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (each.name for each in (*graph.input, *graph.initializer))
    for node in nodes_in(graph.node):
        yield from node.output


def _flatten(graph: GraphProto, names: Names) -> None:
    """Write each Hardmax, which the converter leaves as it is, as one of a matrix."""
    ranks = {
        info.name: len(info.type.tensor_type.shape.dim)
        for info in (*graph.input, *graph.value_info, *graph.output)
        if info.type.tensor_type.HasField("shape")
    }
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in graphs_of(node.attribute):
            _flatten(inner, names)
        nodes += _as_matrix(node, ranks, names) if node.op_type == "Hardmax" and not node.domain else [node]
    del graph.node[:]
    graph.node.extend(nodes)


def _as_matrix(node: NodeProto, ranks: Mapping[str, int], names: Names) -> list[NodeProto]:
    axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
    (x,), (y,) = node.input, node.output
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", -1))
    if axis == -1 or axis == ranks.get(x, 0) - 1:
        return [node]
    shape, flat, soft = (names.fresh(f"{y}_{what}") for what in ("shape", "flat", "matrix"))
    node.input[0], node.output[0] = flat, soft
    return [
        helper.make_node("Shape", [x], [shape]),
        helper.make_node("Flatten", [x], [flat], axis=axis),
        node,
        helper.make_node("Reshape", [soft, shape], [y]),
    ]


def _keep_zeros(graph: GraphProto) -> None:
    """Where a Reshape gives the matrix of a softmax the shape of what was flattened, sizes of 0 are none to copy."""
    makers = {name: node for node in nodes_in(graph.node) for name in node.output}

    def made(name: str, *ops: str) -> NodeProto | None:
        node = makers.get(name)
        return node if node is not None and node.op_type in ops else None

    for node in nodes_in(graph.node):
        soft = made(node.input[0], *_SOFT) if node.op_type == "Reshape" else None
        flat = made(soft.input[0], "Flatten") if soft is not None else None
        shape = made(node.input[1], "Shape") if flat is not None else None
        named = any(each.name == "allowzero" for each in node.attribute)
        if flat is not None and shape is not None and flat.input[0] == shape.input[0] and not named:
            node.attribute.append(helper.make_attribute("allowzero", 1))
