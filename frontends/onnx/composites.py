"""A node as one op, whose decomposition says what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim
from egshape.facts import Relation
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import Handler, NoLowering, results_of
from egshape.frontends.onnx.scope import Scope
from egshape.ir.graph import Value
from egshape.ops.base import Ratio


def composite(scope: Scope, node: Node, operands: Sequence[Operand], handler: Handler) -> list[Operand]:
    """A node as one composite op; ``handler`` adds its decomposition. The results in ONNX's order."""
    given = [value for value in operands if isinstance(value, Value)]
    if len(given) != sum(value is not None for value in operands):
        raise NoLowering("a sequence is no operand of a composite")
    inner = Scope(scope.program, scope.builder.child(), scope.opsets, stack=scope.stack)
    inner.location, inner.label, inner.certain = node.location, scope.label, scope.certain
    args = iter([scope.argument(inner.builder, value) for value in given])
    found = results_of(handler(inner, node, *(None if value is None else next(args) for value in operands)))
    places = [place for place, value in enumerate(found) if value is not None and node.wants(place)]
    wanted = [value for value in (found[place] for place in places) if isinstance(value, Value)]
    if len(wanted) != len(places):
        raise NoLowering("a sequence is no result of a composite")
    block = inner.builder.finish(wanted)
    out: list[Operand] = [None] * len(found)
    if not block.ops and all(value in block.args for value in wanted):  # it gives what it is given
        for place, value in zip(places, wanted, strict=True):
            out[place] = given[block.args.index(value)]
        return out
    attrs = {
        "name": node.title,
        "attrs": node.record([place for place, value in enumerate(operands) if value is not None], places),
        "version": node.opset,
        "whole": True,
    }
    results = scope.add(
        "composite", given, attrs, regions=(block,), result_names=[node.outputs[place] for place in places]
    )
    own = {symbol.name for symbol in block.symbols}
    _equal_sizes(scope, results, wanted, own)
    for value, inside in zip(results, wanted, strict=True):
        scope.program.named.add(value)
        known = inner.builder.elements(inside)
        if known is not None and not any(_names(item) & own for item in known.reshape(-1)):
            scope.builder.set_elements(value, known)
        if inside in scope.program.arrays:
            scope.program.arrays[value] = scope.program.arrays[inside]
    for place, value in zip(places, results, strict=True):
        out[place] = value
    return out


def _equal_sizes(scope: Scope, results: Sequence[Value], inside: Sequence[Value], own: set[str]) -> None:
    """Axes of a composite's results to which its region gives one size that only it can name are equal."""
    first: dict[Dim, Dim] = {}
    for value, within in zip(results, inside, strict=True):
        for size, named in zip(value.type.shape or (), within.type.shape or (), strict=True):
            if named.symbols() & own and first.setdefault(named, size) is not size and scope.builder.parent is None:
                scope.program.relations.append(Relation("==", first[named], size, str(scope.location)))


def _names(item: Any) -> frozenset[str]:
    return item.symbols() if isinstance(item, Dim | Relation | Ratio) else frozenset()
