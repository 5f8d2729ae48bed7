"""What a node becomes: what its declaration says, else the body of a function, else a call on the host."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.frontends.onnx import functions, host
from egshape.frontends.onnx.blame import BUGS, blamed, check_counts
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.registry import DECLARATIONS, NoLowering
from egshape.frontends.onnx.scope import Operand, Scope, declared
from egshape.ir.graph import Value
from egshape.ir.types import TEXT


def _handed_on(value: Value) -> bool:
    """Whether a value can only be handed on: one without a rank, or text."""
    return value.type.shape is None or value.type.dtype == TEXT


def lower(scope: Scope, node: Node, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a node, in ONNX's order. Raises EgshapeError for a node that cannot be right, Unsupported for
    one that nothing can run."""
    local = scope.program.functions.get((node.domain, node.op))
    if local is not None:
        return functions.call(scope, node, local, operands)
    check_counts(node)
    try:
        return _lowered(scope, node, operands)
    except BUGS as fault:
        raise blamed(fault, node, operands) from fault


def _lowered(scope: Scope, node: Node, operands: Sequence[Operand]) -> list[Operand]:
    declared_op = DECLARATIONS.find(node.domain, node.op, node.opset)
    plain = declared_op is None or not declared_op.sequences
    if plain and any(isinstance(value, Value) and _handed_on(value) for value in operands):
        return host.call(scope, node, operands)
    for way in declared(node, operands, scope):
        try:
            return way()
        except NoLowering:
            scope.needs.clear()
    function = functions.schema_function(node, operands)
    if function is not None:
        try:
            return scope.composite(
                node, operands, lambda inner, _, *args: functions.inline(inner, node, function, args)
            )
        except NoLowering:
            scope.needs.clear()
    return host.call(scope, node, operands)
