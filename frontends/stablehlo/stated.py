"""Sizes that types state: numbers that something else tells too are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.dims import Dim, const
from egshape.errors import EgshapeError
from egshape.facts import Relation
from egshape.frontends.stablehlo.node import Node
from egshape.frontends.stablehlo.scope import Scope
from egshape.ir.graph import Block, Value


def check_relation(scope: Scope, node: Node, condition: Relation, message: str, args: Sequence[Dim] = ()) -> None:
    """A relation on sizes that must hold here."""
    attrs = {
        "relation": condition.kind,
        "sides": (condition.lhs, condition.rhs),
        "message": message,
        "args": tuple(args),
    }
    scope.builder.add("check", (), attrs, location=node.location)
    if scope.builder.parent is None:  # in a region it says nothing about what is outside
        scope.program.bounds.learn(condition)


def sized(
    scope: Scope,
    node: Node,
    name: str,
    operands: Sequence[Value],
    attrs: Mapping[str, Any],
    *,
    regions: Sequence[Block] = (),
    requires: Sequence[Relation] = (),
) -> Sequence[Value]:
    """Add an op whose operands tell the sizes of its results. Where its types state a number, that is a check: of the
    static op, as which it is written, nothing else shows that there were operands."""
    stated = scope.declared(node)
    loose = [(dtype, None if shape is None else (None,) * len(shape)) for dtype, shape in stated]
    found = scope.builder.add(
        name, operands, attrs, regions=regions, location=node.location, declared=loose, requires=requires
    )
    return [stated_as(scope, node, value, shape) for value, (_, shape) in zip(found, stated, strict=True)]


def shaped(
    scope: Scope, node: Node, name: str, operands: Sequence[Value], shape: Value, attrs: Mapping[str, Any]
) -> Sequence[Value]:
    """Add an op of which one operand is the shape of the result. Where the type states numbers that the operand does
    not show, they are checked, and the op takes its sizes from the type."""
    ((_, stated),) = scope.declared(node)
    known = scope.builder.elements(shape)
    items = [None] * len(stated or ()) if known is None else known.reshape(-1).tolist()
    if all(said is None or item is const(said) for item, said in zip(items, stated or (), strict=False)):
        return scope.emit(node, name, (*operands, shape), attrs)
    sizes, requires = scope.builder.sizes(node.name.split(".")[-1], shape, "shape")
    if stated is None or len(sizes) != len(stated):
        return scope.emit(node, name, (*operands, shape), attrs)  # which says what is wrong
    check_stated(scope, node, sizes, stated)
    taken = tuple(size if said is None else const(said) for size, said in zip(sizes, stated, strict=True))
    return scope.emit(node, name, operands, {**attrs, "shape": taken}, requires=requires)


def stated_as(scope: Scope, node: Node, x: Value, stated: Sequence[int | None] | None) -> Value:
    """A value whose sizes are also the numbers that a type states: that they are is checked."""
    if x.type.shape is None or stated is None or not check_stated(scope, node, x.type.shape, stated):
        return x
    taken = tuple(size if said is None else const(said) for size, said in zip(x.type.shape, stated, strict=True))
    return scope.one(node, "reshape", (x,), shape=taken)


def check_stated(scope: Scope, node: Node, sizes: Sequence[Dim], stated: Sequence[int | None] | None) -> bool:
    """Check that sizes are the numbers that a type states, where they do not show it; whether there are such."""
    if stated is None or len(stated) != len(sizes):
        return False
    changed = [
        (size, said) for size, said in zip(sizes, stated, strict=True) if said is not None and size.const != said
    ]
    for size, said in changed:
        if size.const is not None:
            message = f"{node.name} gives a size {size}, the model states {said}"
            raise EgshapeError(message, where=str(node.location), code="type-mismatch")
        relation = Relation("==", size, const(said))
        check_relation(scope, node, relation, f"{node.name}: a size is {{0}}, not {said}", (size,))
    return bool(changed)
