"""torch's guards: conditions on the sizes of inputs under which an export is right, as checks.

An exported program keeps them as expressions of Python (``L['x'].size()[0] != 1``) in an attribute that is not public;
the module that it gives checks them too."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

from egshape.dims import Dim, const, floordiv, maximum, minimum, mod
from egshape.facts import Relation
from egshape.frontends.torch.scope import Scope
from egshape.frontends.torch.symbolic import asserted, both, either, negated
from egshape.ir.graph import Value

_RELATIONS = {ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">"}
_ARITHMETIC: dict[type, Any] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_CALLS: dict[str, Any] = {"max": maximum, "min": minimum, "Max": maximum, "Min": minimum, "Mod": mod}


class _Unread(Exception):
    """A guard is none of what is understood."""


def of(exported: Any) -> Sequence[str]:
    """The guards of a program, as text."""
    return tuple(getattr(exported, "_guards_code", None) or ())


def add(scope: Scope, texts: Sequence[str], inputs: Mapping[str, Any]) -> list[str]:
    """Add a check for each guard; notes for those that are not understood."""
    notes = []
    for text in texts:
        said = f"the program was exported for {_readable(text)}"
        try:
            parts = [_truth(scope, part, inputs) for part in _parts(ast.parse(text, mode="eval").body)]
        except (SyntaxError, _Unread):
            notes.append(f"torch's guard {text} is not checked")
            continue
        for part in parts:
            asserted(scope, part, f"{said}: one side is {{0}}, the other {{1}}" if isinstance(part, Relation) else said)
    return notes


def _readable(text: str) -> str:
    return text.replace("L['", "").replace("']", "").replace("{", "{{").replace("}", "}}")


def _parts(node: ast.expr) -> list[ast.expr]:
    """What must all hold: of an ``and`` its parts, of a chain of comparisons each."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _parts(value)]
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        sides = (node.left, *node.comparators)
        return [ast.Compare(one, [op], [two]) for one, op, two in zip(sides, node.ops, node.comparators, strict=False)]
    return [node]


def _truth(scope: Scope, node: ast.expr, inputs: Mapping[str, Any]) -> Any:
    """A relation, a condition that is computed from sizes, or what is known. Raises _Unread."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _RELATIONS:
            return Relation.of(_size(left, inputs), _RELATIONS[type(op)], _size(right, inputs))
        case ast.Compare() | ast.BoolOp(op=ast.And()):
            return reduce(partial(both, scope), [_truth(scope, part, inputs) for part in _parts(node)])
        case ast.BoolOp(op=ast.Or(), values=values):
            return reduce(partial(either, scope), [_truth(scope, part, inputs) for part in values])
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return negated(scope, _truth(scope, inner, inputs))
        case ast.Constant(value=bool(known)):
            return known
    raise _Unread


def _size(node: ast.expr, inputs: Mapping[str, Any]) -> Dim:
    match node:
        case ast.Constant(value=int(number)):
            return const(int(number))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_size(inner, inputs)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_size(left, inputs), _size(right, inputs))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _CALLS:
            return _CALLS[name](_size(left, inputs), _size(right, inputs))  # type: ignore[no-any-return]
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=base, attr="size")), slice=ast.Constant(value=int(axis))
        ):
            found = _input(base, inputs)
            if isinstance(found, Value) and axis < found.type.rank:
                return found.type.dims[axis]
        case ast.Subscript() | ast.Attribute():
            found = _input(node, inputs)
            if isinstance(found, int | Dim):
                return found if isinstance(found, Dim) else const(found)
    raise _Unread


def _input(node: ast.expr, inputs: Mapping[str, Any]) -> Any:
    """The input that a source names: torch names placeholders after the path to them."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        else:
            raise _Unread
    return inputs.get("_".join(reversed(parts)).lower(), inputs.get("_".join(reversed(parts))))
