"""What a node becomes: what its declaration says, else the body of a function, else a call on the host."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.frontends.onnx import functions, host
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.registry import NoLowering
from egshape.frontends.onnx.scope import Operand, Scope, declared
from egshape.ir.graph import Value


def lower(scope: Scope, node: Node, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a node, in ONNX's order. Raises EgshapeError for a node that cannot be right, Unsupported for
    one that nothing can run."""
    local = scope.program.functions.get((node.domain, node.op))
    if local is not None:
        return functions.inline(scope, node, local, operands)
    if any(isinstance(value, Value) and value.type.shape is None for value in operands):
        return host.call(scope, node, operands)  # what has no rank can only be handed on
    for way in declared(node, operands, scope):
        try:
            return way()
        except NoLowering:
            scope.needs.clear()
    function = functions.schema_function(node, operands)
    if function is not None:
        try:
            return scope.composite(
                node, operands, lambda inner, _, *args: functions.inline(inner, node, function, args))
        except NoLowering:
            scope.needs.clear()
    return host.call(scope, node, operands)
