"""ONNX ops that a back end cannot compile, as calls of ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ops.host import UNKNOWN, call_of

Made = TypeVar("Made")


def compile_with_host_calls(graph: Graph, compile_graph: Callable[[Graph], Made]) -> Made:
    """What ``compile_graph`` gives; each whole ONNX op that it refuses becomes a host call first.

    Raises Unsupported for an op that is no ONNX op, or that the reference evaluator does not have either."""
    while True:
        try:
            return compile_graph(graph)
        except Unsupported as error:
            moved = _moved(graph, error)
            if moved is None:
                raise
            graph = moved


def _moved(graph: Graph, error: Unsupported) -> Graph | None:
    """The graph with the outermost ONNX ops at the error's place, or around it, as host calls; None if there are
    none."""
    found = [op for op in _outermost(graph.body) if _is_at(op, error.where)]
    return replace(graph, body=_block(graph.body, set(found))) if found else None


def _outermost(block: Block) -> Iterator[Op]:
    for op in block.ops:
        if _is_whole(op):
            yield op
        else:
            for region in op.regions:
                yield from _outermost(region)


def _is_at(op: Op, where: str) -> bool:
    """Whether an error at ``where`` is about an op or something inside of it."""
    inside = [op, *(inner for region in op.regions for inner in region.walk())]
    places = {str(each.location) for each in inside} - {""}
    return any(where.endswith(place) for place in places)


def _is_whole(op: Op) -> bool:
    return op.name == "composite" and bool(op.attrs.get("whole")) and not op.attrs["name"].startswith("aten.")


def _block(block: Block, moved: set[Op]) -> Block:
    made = {each.value: set[str]() for each in block.symbols}
    for each in block.symbols:
        if each.axis is not None:
            made[each.value].add(each.name)
    ops = []
    for op in block.ops:
        if _is_whole(op):
            ops.append(_host_call(op, made) if op in moved else op)
        else:
            regions = tuple(_block(region, moved) for region in op.regions)
            ops.append(replace(op, regions=regions) if regions else op)
    return replace(block, ops=tuple(ops))


def _host_call(op: Op, made: dict[Value, set[str]]) -> Op:
    """The node of a whole composite as a host call; axes that the call tells are those whose symbols it defines."""
    from onnx import TypeProto, helper

    from egshape.frontends.onnx.node import node_of
    from egshape.frontends.onnx.types import tensor_type

    inputs = [f"in{k}" for k in range(len(op.operands))]
    outputs = [f"out{k}" for k in range(len(op.results))]
    node = node_of(op.attrs["name"], op.attrs["attrs"], inputs, outputs)
    infos = [
        helper.make_value_info(name, tensor_type(value.type.dtype, None))
        for name, value in zip(inputs, op.operands, strict=True)
    ]
    body = helper.make_graph(
        [node], node.op_type, infos, [helper.make_value_info(name, TypeProto()) for name in outputs]
    )
    model = helper.make_model(
        body, ir_version=10, opset_imports=[helper.make_opsetid(node.domain, op.attrs["version"])]
    )
    shapes = [value.type.shape for value in op.results]
    attrs = {
        "target": op.attrs["name"],
        "call": call_of("onnx", model.SerializeToString(deterministic=True)),
        "dtypes": tuple(value.type.dtype for value in op.results),
        "ranks": tuple(-1 if shape is None else len(shape) for shape in shapes),
        "sizes": tuple(
            _told(size, made.get(value, set()))
            for value, shape in zip(op.results, shapes, strict=True)
            for size in shape or ()
        ),
    }
    return Op("host_call", op.operands, attrs, op.results, (), op.location, op.requires)


def _told(size: Dim, own: set[str]) -> Dim:
    return const(UNKNOWN) if size.symbols() & own else size
