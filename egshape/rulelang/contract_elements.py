"""What elementwise ops do to the elements of shape tensors, as text: the part ``:elements`` of a contract.

A row ``(OP INTEGER TRUTH)`` for each op of the contract that has one: INTEGER is a size in terms of the operands'
elements, TRUTH a condition in terms of theirs, either left out with ``none``. ``+ - *`` carry wrapped numbers on as
they are; all other functions are Python behind a name, as they ask what is known (``egshape.ops.shapecode``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from egshape.dims import const
from egshape.rulelang.contract import Contract, wrong
from egshape.rulelang.diagnostic import nearest
from egshape.rulelang.sexpr import Atom, List, SExpr

Rule = Callable[..., Any]
"""Takes the scope, the dtype, and one element of each operand."""

_RING = ("+", "-", "*")


@dataclass(frozen=True, slots=True)
class ElementRule:
    """The rule of an op for integers and the one for truth values, None for none."""

    integer: Rule | None = None
    truth: Rule | None = None
    ring: bool = False
    """Whether the rule for integers adds and multiplies only: then a number need not be reduced to its dtype."""


def element_rule(text: Contract, op: str, functions: Mapping[str, Rule]) -> ElementRule:
    """The rules of an op. Raises EgshapeError (code "rules") for what is no row or no expression of the functions."""
    part = text.part(":elements")
    if part is None:
        return ElementRule()
    if not isinstance(part, List):
        raise wrong(f"{part} are no rows", part.at, "write ((OP INTEGER TRUTH) ...)")
    hint = f"write (OP INTEGER TRUTH), OP of {', '.join(text.ops)}"
    found = ElementRule()
    for row in part.items:
        if not isinstance(row, List) or len(row.items) != 3 or row.head not in text.ops:
            raise wrong(f"{row} is no row for elements", row.at, hint)
        if row.head == op:
            integer, truth = (_rule(text, item, functions) for item in row.items[1:])
            found = ElementRule(integer, truth, _is_ring(row.items[1]))
    return found


def _rule(text: Contract, item: SExpr, functions: Mapping[str, Rule]) -> Rule | None:
    if isinstance(item, Atom) and item.text == "none":
        return None
    params = [name for name, sort in text.params if sort == "T"]
    code = f"lambda f_scope, f_dtype, {', '.join(params)}: {_code(item, params, functions)}"
    made: Rule = eval(compile(code, f"<elements {item.at}>", "eval"), {"f_of": functions, "f_const": const})  # checked
    return made


def _code(item: SExpr, params: list[str], functions: Mapping[str, Rule]) -> str:
    if isinstance(item, Atom):
        if item.text in params:
            return item.text
        if item.text.lstrip("-").isdecimal():
            return f"f_const({item.text})"
        raise wrong(f"{item} is no element", item.at, f"elements are of {', '.join(params)}")
    assert isinstance(item, List)
    args = [_code(each, params, functions) for each in item.items[1:]]
    if item.head in _RING and args:
        return f"({f' {item.head} '.join(args)})"
    if item.head not in functions:
        near = nearest(item.head, (*_RING, *functions))
        message = f"the function {item.head or item} is not known of elements"
        raise wrong(message, item.at, f"did you mean {near}?" if near else "")
    return f"f_of[{item.head!r}](f_scope, f_dtype, {', '.join(args)})"


def _is_ring(item: SExpr) -> bool:
    if isinstance(item, Atom):
        return item.text != "none"
    return item.head in _RING and all(map(_is_ring, item.items[1:]))
