"""Models at another opset, by ONNX's own converter, and what it leaves undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, helper, numpy_helper, version_converter

from egshape.dims import const, mod, parse
from egshape.errors import EgshapeError
from egshape.frontends.onnx.emit_scope import Names
from egshape.frontends.onnx.node import STANDARD, graphs_of, nodes_in
from egshape.frontends.onnx.types import nearest_of_old

ONE_AXIS = 13
"""The opset since which a softmax is over one axis; before, it is over the rows of x flattened to a matrix."""

ZEROS = 14
"""The opset since which Reshape can take sizes of 0 as they are."""

CHANNELS = 21
"""The opset since which GroupNormalization scales each channel."""

PLACES = 11
"""The opset since which Resize says where its elements lie; before, they lie at the corners."""

RESIZES = 10
"""The opset since which Resize is there; before it was Upsample, which ONNX Runtime refuses to shrink."""

UNEVEN = 18
"""The opset since which a Split without sizes makes a shorter last part; before, it refuses to."""

_SOFT = ("Softmax", "LogSoftmax", "Hardmax")


def converted(model: ModelProto, opset: int) -> ModelProto:
    """The model at another opset of the standard ops. Raises several kinds of errors, as the converter does."""
    before = max((each.version for each in model.opset_import if each.domain in STANDARD), default=opset)
    if before < CHANNELS <= opset and any(each.op_type == "GroupNormalization" for each in nodes_in(model.graph.node)):
        raise ValueError("the scales of a GroupNormalization were those of groups")
    found: ModelProto = version_converter.convert_version(model, opset)
    if before < ONE_AXIS <= opset:
        names = Names()
        for name in _names(found.graph):
            names.fresh(name)
        _flatten(found.graph, names)
    if opset >= ZEROS:
        _keep_zeros(found.graph)
    if before < PLACES <= opset:
        _from_corners(found.graph, before < RESIZES)
    if before < UNEVEN <= opset:
        _split_evenly(found.graph)
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


def _from_corners(graph: GraphProto, upsampled: bool) -> None:
    """Say of each Resize, which was an Upsample or not, where its elements lie, and which is the nearest: the next
    one where an image becomes smaller, else the one before. Raises ValueError where it is either."""
    constants = {each.name: each for each in graph.initializer}
    nodes = list(nodes_in(graph.node))
    constants |= {node.output[0]: node.attribute[0].t for node in nodes if node.op_type == "Constant"}
    for node in nodes:
        named = {each.name for each in node.attribute}
        if node.op_type != "Resize" or node.domain or "coordinate_transformation_mode" in named:
            continue
        held = constants.get(node.input[2]) if len(node.input) > 2 else None
        scales = np.ones(0) if held is None else numpy_helper.to_array(held)
        nearest = nearest_of_old(scales)
        either = nearest is None or (held is None and not upsampled)
        if either and not any(each.name == "mode" and each.s != b"nearest" for each in node.attribute):
            raise ValueError("a Resize takes the nearest elements on either side")
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
        node.attribute.append(helper.make_attribute("nearest_mode", nearest or "floor"))


def _split_evenly(graph: GraphProto) -> None:
    """Give a Split that takes the number of its parts sizes that are equal, unless its axis surely has such parts: they
    do not add up to another axis."""
    sizes = {info.name: info.type.tensor_type.shape.dim for info in (*graph.input, *graph.value_info, *graph.output)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in graphs_of(node.attribute):
            _split_evenly(inner)
        count = len(node.output)
        if node.op_type == "Split" and not node.domain and len(node.input) == 1 and count > 1:
            axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
            held = sizes.get(node.input[0], ())
            if not -len(held) <= axis < len(held) or not _divides(count, held[axis]):
                nodes += _equal_sizes(node, axis, count)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _divides(count: int, size: TensorShapeProto.Dimension) -> bool:
    """Whether a size is known to be a multiple of a number."""
    try:
        return (
            mod(const(size.dim_value) if size.HasField("dim_value") else parse(size.dim_param), const(count)).const == 0
        )
    except EgshapeError:
        return False


def _equal_sizes(node: NodeProto, axis: int, count: int) -> list[NodeProto]:
    whole, number, part, parts = (f"{node.output[0]}:{what}" for what in ("whole", "number", "part", "sizes"))
    ends = {"start": axis} if axis == -1 else {"start": axis, "end": axis + 1}
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", axis))
    node.input.append(parts)
    return [
        helper.make_node("Shape", [node.input[0]], [whole], **ends),
        helper.make_node("Constant", [], [number], value_ints=[count]),
        helper.make_node("Div", [whole, number], [part]),
        helper.make_node("Tile", [part, number], [parts]),
    ]
