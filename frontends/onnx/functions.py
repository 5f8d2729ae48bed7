"""Functions: those of the model that are called often stay functions, others are put in place of their calls; those of
ONNX's own schemas expand an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, defs

from egshape.errors import EgshapeError
from egshape.frontends.calls import LEAST_SHARED, Checked, called_often, demands, in_callers_terms, likeness
from egshape.frontends.onnx.files import DEPTH_LIMIT
from egshape.frontends.onnx.node import STANDARD, Node, called_by, nodes_in
from egshape.frontends.onnx.program import Operand, Program
from egshape.frontends.onnx.ranks import Functions
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.types import tensor_type
from egshape.ir.builder import BlockBuilder
from egshape.ir.calls import split
from egshape.ir.graph import Op, Value
from egshape.ir.keys import hashable
from egshape.ir.types import TEXT
from egshape.ops import REGISTRY
from egshape.ops.base import FLOATS
from egshape.ops.host import HOST_CALLS


def shared(graph: GraphProto, functions: Functions) -> frozenset[tuple[str, str]]:
    """The functions of some length, calls in them in line, that stand in several calls of those that a graph needs."""
    lengths: dict[tuple[str, str], int] = {}

    def callees(key: tuple[str, str] | None) -> list[tuple[str, str]]:
        nodes = graph.node if key is None else functions[key].node
        return [called for node in nodes_in(nodes) if (called := called_by(node)) in functions]

    def length(key: tuple[str, str]) -> int:
        if key not in lengths:
            lengths[key] = 0  # of one that calls itself, which is refused
            lengths[key] = len(list(nodes_in(functions[key].node))) + sum(map(length, callees(key)))
        return lengths[key]

    return frozenset(key for key in called_often(None, callees) if length(key) >= LEAST_SHARED)


def call(scope: Scope, node: Node, function: FunctionProto, operands: Sequence[Operand]) -> list[Operand]:
    """What a function gives: a call of one that is shared, else its body in the place of the call."""
    found = _as_call(scope, node, function, operands)
    return inline(scope, node, function, operands) if found is None else found


def _as_call(scope: Scope, node: Node, function: FunctionProto, operands: Sequence[Operand]) -> list[Operand] | None:
    """The results of a call of a shared function; None where it has to stand in line: it defines sizes, gives some,
    runs on the host, or does more than check."""
    program, values = scope.program, [value for value in operands if value is None or _is_plain(value)]
    if (node.domain, node.op) not in program.shared or len(values) != len(operands):
        return None
    places = [place for place in range(len(function.output)) if node.wants(place)]
    attributes = sorted((key, each.SerializeToString(deterministic=True)) for key, each in node.attributes.items())
    alike = tuple(None if value is None else _likeness(scope, value) for value in values)
    kind = (node.domain, node.op, tuple(places), tuple(attributes), alike)
    found = program.derived.region(kind, scope.builder.names, lambda: _derived(scope, node, function, values, places))
    if found is None:
        return None
    checks, region = found
    for each in checks:
        scope.builder.add("check", (), each.attrs, location=each.location)
    scope.needs += demands(region.ops)
    given = [value for value in values if value is not None]
    results = scope.add(
        "call", given, {"name": node.title}, regions=(region,), result_names=[node.outputs[each] for each in places]
    )
    out: list[Operand] = [None] * len(function.output)
    for place, value in zip(places, results, strict=True):
        out[place] = value
    return out


def _derived(
    scope: Scope, node: Node, function: FunctionProto, operands: Sequence[Value | None], places: Sequence[int]
) -> Checked | None:
    program, builder = scope.program, scope.builder.child()
    arguments = [value if value is None else _argument(scope, builder, value) for value in operands]
    hosted, relations = len(program.hosted), len(program.relations)
    try:
        found = _body(scope, program, builder, node, function, arguments)
    except EgshapeError:
        found = []  # in line it is said in the terms of the call
    wanted = [found[place] for place in places if place < len(found)]
    results = [value for value in wanted if _is_plain(value) and not _is_known(program, builder, value)]
    if results and len(results) == len(places):
        region = builder.finish(results)
        if not region.symbols and all(map(_is_pure, region.walk())):
            return split(region)
    del program.hosted[hosted:], program.relations[relations:]
    return None


def _argument(scope: Scope, builder: BlockBuilder, value: Value) -> Value:
    """An argument like a value. Of weights the function is to know nothing, since each call has its own."""
    arg = scope.argument(builder, value)
    if _is_weight(scope.program.arrays.get(value)):
        del scope.program.arrays[arg]
    return arg


def _likeness(scope: Scope, value: Value) -> object:
    array = scope.program.arrays.get(value)
    known = None if array is None or _is_weight(array) else hashable(array)
    return likeness(scope.builder, value), known, scope.program.spans.get(value)


def _is_weight(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype.kind not in "iub" and array.size > FLOATS


def _is_plain(value: Operand) -> TypeGuard[Value]:
    return isinstance(value, Value) and value.type.shape is not None and value.type.dtype != TEXT


def _is_known(program: Program, builder: BlockBuilder, value: Value) -> bool:
    """Whether more is known of a value than its type: in line that is of use behind the call."""
    return value in program.arrays or value in program.choices or builder.elements(value) is not None


def _is_pure(op: Op) -> bool:
    effect = REGISTRY[op.name].effect and op.name != "check"
    return not effect and op.name not in HOST_CALLS and all(value.type.shape is not None for value in op.results)


def inline(scope: Scope, node: Node, function: FunctionProto, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a function's body, added in place. Raises EgshapeError for a function that calls itself."""
    try:
        return _body(scope, scope.program, scope.builder, node, function, operands)
    except EgshapeError as error:
        whole = scope.program
        apart = Program(whole.model, whole.lower, whole.call, whole.functions, arrays=dict(whole.arrays))

        def alone(builder: BlockBuilder, arguments: Sequence[Operand]) -> list[Operand]:
            return _body(scope, apart, builder, node, function, arguments)  # it is learnt nowhere else

        raise in_callers_terms(error, function.name, str(node.location), operands, scope.builder, alone) from None


def _body(
    scope: Scope,
    program: Program,
    builder: BlockBuilder,
    node: Node,
    function: FunctionProto,
    arguments: Sequence[Operand],
) -> list[Operand]:
    """What a function's body gives for arguments. Raises EgshapeError for a function that calls itself."""
    key = f"{function.domain}.{function.name}"
    if key in scope.stack or len(scope.stack) > DEPTH_LIMIT:
        raise EgshapeError(f"the function {key} calls itself", code="invalid-model")
    if len(arguments) > len(function.input):
        raise node.error(f"has {len(arguments)} inputs, the function takes {len(function.input)}")
    opsets = {("" if each.domain in STANDARD else each.domain): each.version for each in function.opset_import}
    inner = Scope(program, builder, {**scope.opsets, **opsets}, stack=(*scope.stack, key))
    inner.certain = scope.certain
    inner.state(function.value_info)
    filled = [*arguments, *[None] * (len(function.input) - len(arguments))]
    inner.names.update(zip(function.input, filled, strict=True))
    inner.run(function.node, _arguments(node, function))
    return [inner.lookup(name) if name in inner.names else None for name in function.output]


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
