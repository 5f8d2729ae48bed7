"""Formulas over integers in a small part of Python, which computes and can do nothing else."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

from egshape.errors import ParseError

_MOST_BITS = 4096


def _pow2(exponent: int) -> int:
    """2**exponent, which cannot fill the memory."""
    if not 0 <= exponent <= _MOST_BITS:
        raise ValueError("the power is out of reach")
    return 1 << exponent


CALLS = ("abs", "max", "min", "pow2", "math.gcd", "math.isqrt", "math.lcm")
_NAMES = {
    "__builtins__": {},
    "abs": abs,
    "max": max,
    "min": min,
    "pow2": _pow2,
    "math": SimpleNamespace(gcd=math.gcd, isqrt=math.isqrt, lcm=math.lcm),
}
_NODES = (
    ast.BinOp, ast.UnaryOp, ast.IfExp, ast.BoolOp, ast.Compare, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.USub, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip


def compile_formula(text: str, params: Sequence[str]) -> Callable[..., int | None]:
    """The function that a formula over some names is; it gives None where the formula has no value.

    Raises ParseError for what is no such formula."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ParseError(f"cannot read {text!r}: {error.msg}", where=f"column {error.offset}") from None
    for node in _foreign(tree.body, frozenset(params)):
        raise ParseError(
            f"cannot read {text!r}: {ast.unparse(node)!r} is no part of a formula over sizes",
            where=f"column {getattr(node, 'col_offset', 0) + 1}",
            hint=f"known: integers, {', '.join(params)}, + - * // %, comparisons, and, or, not, x if c else y, "
            f"x.bit_length(), {', '.join(CALLS)}",
        )
    function = eval(f"lambda {', '.join(params)}: {ast.unparse(tree)}", dict(_NAMES))

    def value(*args: int) -> int | None:
        try:
            return int(function(*args))
        except (ArithmeticError, ValueError):
            return None

    return value


def _foreign(node: ast.AST, params: frozenset[str]) -> Iterator[ast.AST]:
    """The parts of a formula that are not allowed in one."""
    inner: Iterator[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call) and not node.keywords:
        name = node.func
        if isinstance(name, ast.Attribute) and name.attr == "bit_length" and not node.args:
            inner = iter((name.value,))
        elif ast.unparse(name) in CALLS:
            inner = iter(node.args)
        else:
            yield node
            return
    elif isinstance(node, ast.Name) and node.id not in params:
        yield node
    elif isinstance(node, ast.Constant):
        if type(node.value) is not int:
            yield node
    elif not isinstance(node, _NODES):
        yield node
        return
    for each in inner:
        yield from _foreign(each, params)
