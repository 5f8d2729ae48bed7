"""Functions: those of the model are put in place of their calls; those of ONNX's own schemas expand an op."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

from egshape.errors import EgshapeError
from egshape.frontends.calls import in_callers_terms
from egshape.frontends.onnx.files import DEPTH_LIMIT
from egshape.frontends.onnx.node import STANDARD, Node
from egshape.frontends.onnx.scope import Operand, Program, Scope
from egshape.frontends.onnx.types import tensor_type
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Value


def inline(scope: Scope, node: Node, function: FunctionProto, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a function's body, added in place. Raises EgshapeError for a function that calls itself."""
    key = f"{function.domain}.{function.name}"
    if key in scope.stack or len(scope.stack) > DEPTH_LIMIT:
        raise EgshapeError(f"the function {key} calls itself", code="invalid-model")
    opsets = {("" if each.domain in STANDARD else each.domain): each.version for each in function.opset_import}
    if len(operands) > len(function.input):
        raise node.error(f"has {len(operands)} inputs, the function takes {len(function.input)}")

    def body(program: Program, builder: BlockBuilder, arguments: Sequence[Operand]) -> list[Operand]:
        inner = Scope(program, builder, {**scope.opsets, **opsets}, stack=(*scope.stack, key))
        inner.state(function.value_info)
        filled = [*arguments, *[None] * (len(function.input) - len(arguments))]
        inner.names.update(zip(function.input, filled, strict=True))
        inner.run(function.node, _arguments(node, function))
        return [inner.lookup(name) if name in inner.names else None for name in function.output]

    try:
        return body(scope.program, scope.builder, operands)
    except EgshapeError as error:
        whole = scope.program
        apart = Program(whole.model, whole.lower, whole.call, whole.functions, arrays=dict(whole.arrays))
        alone = partial(body, apart)  # what is tried there is learnt nowhere else
        raise in_callers_terms(error, function.name, str(node.location), operands, scope.builder, alone) from None


def _arguments(node: Node, function: FunctionProto) -> dict[str, AttributeProto]:
    return {**{each.name: each for each in function.attribute_proto}, **node.attributes}


def schema_function(node: Node, operands: Sequence[Operand]) -> FunctionProto | None:
    """The function by which ONNX's schema defines the node's op, None if there is none."""
    try:
        schema = defs.get_schema(node.op, node.opset, node.domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= node.opset]
        if versions:
            return _parsed(schema.get_function_with_opset_version(max(versions)), schema)
    if schema.has_context_dependent_function:
        types = [_type(value).SerializeToString() for value in operands]
        proto = _plain(node).SerializeToString()
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        if versions:
            return _parsed(
                schema.get_context_dependent_function_with_opset_version(max(versions), proto, types), schema
            )
    return None


def _parsed(found: Any, schema: Any) -> FunctionProto | None:
    if not found:
        return None
    function = found if isinstance(found, FunctionProto) else FunctionProto.FromString(found)
    held = {each.name for each in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in held and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return function


def _plain(node: Node) -> NodeProto:
    out = NodeProto()
    out.CopyFrom(node.proto)
    del out.attribute[:]
    out.attribute.extend(node.attributes.values())
    return out


def _type(value: Operand) -> TypeProto:
    if not isinstance(value, Value):
        return TypeProto()
    shape = value.type.shape
    sizes = None if shape is None else [size.const for size in shape]
    return tensor_type(value.type.dtype, sizes)
