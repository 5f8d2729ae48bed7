"""torch's guards: conditions on the sizes of inputs under which an export is right, as checks.

An exported program keeps them as expressions of Python (``L['x'].size()[0] != 1``) in an attribute that is not public;
the module that it gives checks them too."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

from egshape.dims import Dim
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.torch.moves import against, select
from egshape.frontends.torch.registry import NoLowering
from egshape.frontends.torch.scope import Scope
from egshape.frontends.torch.symbolic import SYMBOLIC, asserted, both, either, is_size, negated, plain, real
from egshape.ir.graph import Value

_OPERATORS: dict[type, Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.USub: operator.neg,
}
_CALLS: dict[str, Any] = {
    "max": "sym_max",
    "min": "sym_min",
    "Max": "sym_max",
    "Min": "sym_min",
    "Mod": operator.mod,
    "abs": abs,
    "float": "sym_float",
    "torch.sym_float": "sym_float",
    "torch.sym_max": "sym_max",
    "torch.sym_min": "sym_min",
    "math.sqrt": "sym_sqrt",
    "torch._sym_sqrt": "sym_sqrt",
    "torch.sym_sqrt": "sym_sqrt",
}
_ROUNDED = {"math.floor": "floor", "math.ceil": "ceil", "round": "round_nearest_even"}
_TRUNCATED = ("math.trunc", "int", "torch.sym_int")


class _Unread(Exception):
    """A guard is none of what is understood."""


def of(exported: Any) -> Sequence[str]:
    """The guards of a program, as text."""
    return tuple(getattr(exported, "_guards_code", None) or ())


def add(scope: Scope, texts: Sequence[str], inputs: Mapping[str, Any]) -> list[str]:
    """Add a check for each guard; notes for those that are not understood and speak of no size. Raises Unsupported for
    one that does: the program is wrong at other sizes than those."""
    notes = []
    for text in texts:
        said = f"the program was exported for {_readable(text)}"
        try:
            parts = [_truth(scope, part, inputs) for part in _parts(ast.parse(text, mode="eval").body)]
        except (SyntaxError, NoLowering, _Unread):
            if ".size()" in text:
                hint = "compute sizes of sizes by +, -, *, //, % and comparisons"
                raise Unsupported(f"torch's guard {_readable(text)} is not read", hint=hint) from None
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
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _computed(scope, op, _scalar(scope, left, inputs), _scalar(scope, right, inputs))
        case ast.Compare() | ast.BoolOp(op=ast.And()):
            return reduce(partial(both, scope), [_truth(scope, part, inputs) for part in _parts(node)])
        case ast.BoolOp(op=ast.Or(), values=values):
            return reduce(partial(either, scope), [_truth(scope, part, inputs) for part in values])
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return negated(scope, _truth(scope, inner, inputs))
        case ast.Constant(value=bool(known)):
            return known
        case ast.Call(func=ast.Attribute(value=base, attr="is_integer"), args=[]):
            number = real(scope, _scalar(scope, base, inputs))
            return _computed(scope, ast.Eq(), scope.one("floor", (number,)), number)
    raise _Unread


def _computed(scope: Scope, op: ast.AST, *sides: Any) -> Any:
    target = _OPERATORS.get(type(op))
    if target is None:
        raise _Unread
    return SYMBOLIC[target](scope, *sides)


def _scalar(scope: Scope, node: ast.expr, inputs: Mapping[str, Any]) -> Any:
    """A size, a number, or a float that is computed of sizes. Raises _Unread."""
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.UnaryOp(op=op, operand=inner):
            return _computed(scope, op, _scalar(scope, inner, inputs))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(scope, op, _scalar(scope, left, inputs), _scalar(scope, right, inputs))
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=base, attr="size")), slice=ast.Constant(value=int(axis))
        ):
            found = _input(base, inputs)
            if isinstance(found, Value) and axis < found.type.rank:
                return plain(found.type.dims[axis])
        case ast.Call(func=function, args=args, keywords=[]):
            return _called(scope, ast.unparse(function), [_scalar(scope, each, inputs) for each in args])
        case ast.Subscript() | ast.Attribute():
            found = _input(node, inputs)
            if isinstance(found, int | Dim):
                return found
    raise _Unread


def _called(scope: Scope, name: str, args: Sequence[Any]) -> Any:
    """A call of a function. What is rounded stays a float, which may be compared and needs not be a size."""
    if name in _CALLS:
        return SYMBOLIC[_CALLS[name]](scope, *args)
    if len(args) != 1 or name not in (*_ROUNDED, *_TRUNCATED):
        raise _Unread
    (x,) = args
    if is_size(x):
        return x
    number = real(scope, x)
    if name in _ROUNDED:
        return scope.one(_ROUNDED[name], (number,))
    below = against(scope, "LT", number, 0)
    return select(scope, below, scope.one("ceil", (number,)), scope.one("floor", (number,)))


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
