"""What a node becomes: what its declaration says, else the body of a function, else a call on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from egshape.frontends.onnx import functions, host
from egshape.frontends.onnx.blame import BUGS, blamed, check_counts
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.elementwise import in_f32
from egshape.frontends.onnx.program import Items, Operand
from egshape.frontends.onnx.registry import DECLARATIONS, Handler, NoLowering, results_of
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value
from egshape.ir.types import TEXT

ROUNDED_ONCE = frozenset({"Mish", "Softsign", "SwiGLU", "Swish"})
"""Ops that ONNX's functions expand to several, each of which would be rounded to 16 bits."""


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
    for way in _declared(node, operands, scope):
        try:
            return way()
        except NoLowering:
            scope.needs.clear()
    function = functions.schema_function(node, operands)
    if function is not None:

        def body(inner: Scope, _: Node, *args: Operand) -> list[Operand]:
            return functions.inline(inner, node, function, args)

        try:
            return composite(scope, node, operands, in_f32(body) if node.op in ROUNDED_ONCE else body)
        except NoLowering:
            scope.needs.clear()
    return host.call(scope, node, operands)


@cache
def _signature(handler: Handler) -> inspect.Signature:
    """The parameters of a handler."""
    return inspect.signature(handler)


def _declared(node: Node, operands: Sequence[Operand], scope: Scope) -> Iterator[Callable[[], list[Operand]]]:
    """How the declaration of a node's op lowers it, if there is one."""
    found = DECLARATIONS.find(node.domain, node.op, node.opset)
    if found is None:
        return
    try:
        given = _signature(found.handler).bind(scope, node, *operands).arguments
    except TypeError:
        raise node.error(f"has {len(operands)} inputs") from None
    for name, parameter in _signature(found.handler).parameters.items():
        left_out = (
            None in given.get(name, ())
            if parameter.kind is parameter.VAR_POSITIONAL
            else (name in given and given[name] is None)
        )
        if left_out and parameter.annotation == "Value":  # the text: annotations are not evaluated
            raise node.error(f"leaves out its input {name!r}")
    if not found.sequences and any(isinstance(value, Items) for value in operands):
        raise node.error("takes a sequence where it wants a tensor")
    whole = str(node.location) in scope.program.whole
    if found.composite or whole:
        yield lambda: composite(scope, node, operands, found.handler)
    if not found.composite:
        yield lambda: results_of(found.handler(scope, node, *operands))
