"""Whose fault it is that a node cannot be converted: ONNX's schemas say how many inputs and outputs an op has, and its
type inference which operands fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx import TypeProto, defs, helper, shape_inference

from egshape.errors import EgshapeError, InternalError
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.types import tensor_type
from egshape.ir.graph import Value

STRICT = "EGSHAPE_STRICT"
"""Where this is set in the environment, errors of ours go through as they are."""

BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What code that is wrong, or did not expect what a model holds, raises."""


@cache
def schema_of(op: str, opset: int, domain: str) -> Any:
    """ONNX's schema of an op, None for one that it does not know."""
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def check_counts(node: Node) -> None:
    """Raises EgshapeError for a node with more or fewer inputs or outputs than its op has."""
    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None:
        return
    for what, names, least, most in (
        ("input", node.inputs, schema.min_input, schema.max_input),
        ("output", node.outputs, 0, schema.max_output),
    ):
        used = max((place + 1 for place, name in enumerate(names) if name), default=0)
        if len(names) < least or used > most:
            wanted = str(least) if least == most else f"{least} or more" if most > 1000 else f"{least} to {most}"
            raise node.error(f"has {len(names)} {what}s, it takes {wanted}")


def blamed(fault: Exception, node: Node, operands: Sequence[Operand]) -> EgshapeError:
    """The error of a node whose conversion raised what no handler should: the model's where ONNX refuses the node too,
    else ours. Raises ``fault`` itself where that is asked for."""
    said = _refusal(node, operands)
    if said:
        return node.error(f"does not fit its operands: {said}")
    if os.environ.get(STRICT):
        raise fault
    return InternalError(
        f"{node.op} cannot be read, {type(fault).__name__}: {fault}",
        where=str(node.location),
        hint=f"{STRICT}=1 shows where; please report it if the model is valid",
    )


def _refusal(node: Node, operands: Sequence[Operand]) -> str:
    """What ONNX's type inference says against a node, "" where it takes it or does not know the op."""
    schema = schema_of(node.op, node.opset, node.domain)
    if schema is None:
        return ""
    types: dict[str, TypeProto] = {}
    for name, value in zip(node.inputs, operands, strict=False):
        if isinstance(value, Value):
            sizes = None if value.type.shape is None else [size.const for size in value.type.shape]
            types[name] = tensor_type(value.type.dtype, sizes)
    proto = helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain)
    proto.attribute.extend(node.attributes.values())
    try:
        shape_inference.infer_node_outputs(
            schema, proto, types, opset_imports=[helper.make_opsetid(node.domain, node.opset)]
        )
    except Exception as error:  # onnx raises several kinds, RuntimeError among them
        return str(error)[:300]
    return ""
