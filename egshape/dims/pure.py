"""Formulas over integers in a small part of Python, which computes and can do nothing else, and always ends.

A formula is an expression, or lines that assign, choose by ``if`` and repeat by ``for i in range(NUMBER)``, and a
``return`` at the end. It computes in 64 bits: where a number would leave them, or a divisor is 0, it has no value. That
is so in compiled code and saved models, too (``egshape.ir.formula``)."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from egshape.errors import EgshapeError, ParseError

Refused = Callable[[str, int, int], EgshapeError]
"""What says that something is no formula: of the cause, a line and a column."""

MOST = 2**63 - 1
"""No number of a formula is further from 0."""

_ROUNDS = 256
"""How often what is inside of loops runs, at most: it is written out where a format has no loops that compute sizes."""

ARITIES = {"abs": 1, "bit_length": 1, "math.isqrt": 1, "pow2": 1, "max": 2, "min": 2, "math.gcd": 2, "math.lcm": 2}
"""The functions that formulas call; those of two arguments take more, too, one after the other. ``bit_length`` is
written ``n.bit_length()``."""


def _halving(test: str) -> str:
    return "".join(f"if {test.format(power=1 << step, step=step)}\n" for step in (32, 16, 8, 4, 2, 1))


_MEANINGS = {
    "bit_length": (
        "n",
        "n, c = abs(n), 0\n" + _halving("n >= {power}: n, c = n // {power}, c + {step}") + "return c + n",
    ),
    "math.gcd": ("a b", "a, b = abs(a), abs(b)\nfor i in range(92):\n  a, b = b or a, a % max(b, 1)\nreturn a"),
    "math.isqrt": (
        "n",
        "r, bit = 0 // (n >= 0), 2147483648\nn = max(n, 0)\n"
        "for i in range(32):\n  t = r + bit\n  if t <= n // t: r = t\n  bit = bit // 2\nreturn r",
    ),
    "math.lcm": ("a b", "abs(a * (b // max(math.gcd(a, b), 1)))"),
    "pow2": (
        "e",
        "v = 1 // (0 <= e <= 62)\ne = min(max(e, 0), 62)\n"
        + _halving("e >= {step}: v, e = v * {power}, e - {step}")
        + "return v",
    ),
}


@cache
def meaning(function: str) -> Formula:
    """What a function that formulas call computes, by other ones; abs, max and min are ops everywhere."""
    params, text = _MEANINGS[function]
    return read_formula(text, params.split())


def _fit(number: int) -> int:
    if abs(number) > MOST:
        raise OverflowError("leaves 64 bits")
    return number


def _pow2(exponent: int) -> int:
    if exponent < 0:
        raise ValueError("no integer")
    return _fit(1 << min(exponent, 63))


_NAMES: dict[str, Any] = {
    "__builtins__": {},
    "_fit": _fit,
    "abs": abs,
    "max": max,
    "min": min,
    "pow2": _pow2,
    "range": range,
    "math": SimpleNamespace(gcd=math.gcd, isqrt=math.isqrt, lcm=lambda *args: _fit(math.lcm(*args))),
}
_NODES = (
    ast.BinOp, ast.UnaryOp, ast.IfExp, ast.BoolOp, ast.Compare, ast.Load, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.USub, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


@dataclass(frozen=True, eq=False, slots=True)
class Formula:
    """A formula that was read: its statements, the last of which is a ``return``, and what runs them."""

    params: tuple[str, ...]
    body: tuple[ast.stmt, ...]
    run: Callable[..., int]

    def __call__(self, *args: int) -> int | None:
        """The value; None where there is none."""
        try:
            return int(self.run(*args))
        except (ArithmeticError, ValueError):
            return None


def read_formula(text: str, params: Sequence[str]) -> Formula:
    """The formula that a text over some names is. Raises ParseError for what is no formula."""
    refused = partial(_refusal, text, params)
    try:
        body = ast.parse(textwrap.dedent(text).strip()).body
    except SyntaxError as error:
        raise refused(error.msg, error.lineno or 1, error.offset or 1) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise refused(str(error) or "it is too deep", 1, 1) from None
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        body = [ast.copy_location(ast.Return(body[0].value), body[0])]
    return formula_of(body, params, refused)


def formula_of(body: Sequence[ast.stmt], params: Sequence[str], refused: Refused) -> Formula:
    """The formula that some statements over names are. Raises what ``refused`` makes of the cause, the line and the
    column of what is no part of one."""
    last = body[-1] if body else None
    if not isinstance(last, ast.Return) or last.value is None:
        raise refused("the last line of a formula is 'return VALUE'", getattr(last, "lineno", 1), 1)
    known = {name for name in params if name not in _NAMES}
    for wrong in (*_statements(body[:-1], known, 1), *_foreign(last.value, known)):
        shown = ast.unparse(wrong).splitlines()[0]
        line, column = getattr(wrong, "lineno", 1), getattr(wrong, "col_offset", 0) + 1
        raise refused(f"{shown!r} is no part of a formula over sizes", line, column)
    return Formula(tuple(params), tuple(body), _function(params, body))


def _refusal(text: str, params: Sequence[str], cause: str, line: int, column: int) -> ParseError:
    lines = textwrap.dedent(text).strip().splitlines()
    shown = lines[line - 1] if 0 < line <= len(lines) else text
    where = f"line {line}, column {column}" if line > 1 else f"column {column}"
    return ParseError(f"cannot read {shown.strip()!r}: {cause}", where=where, hint=language(params))


def language(params: Sequence[str]) -> str:
    """What formulas over some names are made of, in words."""
    calls = ", ".join(name for name in ARITIES if name != "bit_length")
    return (
        f"known: integers, {', '.join(params)}, + - * // %, comparisons, and, or, not, x if c else y, "
        f"x.bit_length(), {calls}; lines x = VALUE, if, for i in range(NUMBER) of {_ROUNDS} rounds at most, return"
    )


def _statements(body: Iterable[ast.stmt], known: set[str], rounds: int) -> Iterator[ast.AST]:
    """The parts of statements that are not allowed; names that have a value behind them are added to known."""
    for each in body:
        match each:
            case ast.Assign(targets=[target], value=value):
                targets, values = [target], [value]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    targets, values = target.elts, value.elts
                if len(targets) != len(values) or not all(map(_is_name, targets)):
                    yield each
                for given in values:
                    yield from _foreign(given, known)
                known |= set(map(ast.unparse, targets))
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                if name not in known or not isinstance(operator, _OPERATORS):
                    yield each
                yield from _foreign(value, known)
            case ast.If(test=test, body=then, orelse=other):
                yield from _foreign(test, known)
                one, two = set(known), set(known)
                yield from _statements(then, one, rounds)
                yield from _statements(other, two, rounds)
                known |= one & two
            case ast.For(target=target, body=inner, orelse=[]) if _is_name(target):
                count = rounds_of(each)
                if not 0 < count * rounds <= _ROUNDS:
                    yield each
                yield from _statements(inner, {*known, ast.unparse(target)}, rounds * count)
            case _:
                yield each


def rounds_of(loop: ast.For) -> int:
    """How often a loop runs; -1 where that is no number in its text."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))], keywords=[]):
            return count
    return -1


def _is_name(target: ast.expr) -> bool:
    if not isinstance(target, ast.Name) or target.id in _NAMES:
        return False
    return target.id == "_" or not target.id.startswith("_")


def _foreign(node: ast.AST, known: Collection[str]) -> Iterator[ast.AST]:
    """The parts of an expression that are not allowed in one."""
    inner: Iterable[ast.AST] = ast.iter_child_nodes(node)
    match node:
        case ast.Call():
            name, inner = called(node)
            least = ARITIES.get(name, 0)
            if node.keywords or not (0 < least == len(inner) or 1 < least < len(inner)):
                yield node
                return
        case ast.Name(id=name):
            if name not in known:
                yield node
        case ast.Constant(value=value):
            if type(value) is not int or abs(value) > MOST:
                yield node
        case _ if not all(
            isinstance(each, _NODES) for each in (node, *filter(_is_operator, ast.iter_child_nodes(node)))
        ):
            yield node
            return
    for each in inner:
        yield from _foreign(each, known)


def _is_operator(node: ast.AST) -> bool:
    return isinstance(node, ast.operator | ast.unaryop | ast.cmpop)


def called(node: ast.Call) -> tuple[str, list[ast.expr]]:
    """What a call calls, and with what."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "bit_length":
        return "bit_length", [node.func.value, *node.args]
    return ast.unparse(node.func), node.args


class _Fitting(ast.NodeTransformer):
    """Puts a guard around each operator."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """The operator inside of the guard."""
        self.generic_visit(node)
        return ast.Call(ast.Name("_fit"), [node], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        """As an assignment of an operator."""
        value = ast.BinOp(ast.Name(ast.unparse(node.target)), node.op, node.value)
        return ast.Assign([node.target], self.visit(value), lineno=node.lineno)


def _function(params: Sequence[str], body: Iterable[ast.stmt]) -> Callable[..., int]:
    lines = "\n".join(ast.unparse(_Fitting().visit(deepcopy(each))) for each in body)
    scope = dict(_NAMES)
    exec(f"def run({', '.join(params)}):\n{textwrap.indent(lines, ' ')}", scope)
    run: Callable[..., int] = scope["run"]
    return run
