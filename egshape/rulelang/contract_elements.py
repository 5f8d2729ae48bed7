"""What ops do to the elements of shape tensors, as text: the part ``:elements`` of a contract.

Of elementwise ops it is rows, ``(OP INTEGER TRUTH)`` for each op of the contract that has one: INTEGER is a size in
terms of the operands' elements, TRUTH a condition in terms of theirs, either left out with ``none``; a fourth, FLOAT,
is what becomes of a float that holds a size (else ``egshape.ops.floatcode`` says it). ``+ - *`` carry wrapped numbers
on as they are, ``(if CONDITION A B)`` asks about attributes; all other functions are Python behind a name, as they
ask what is known (``egshape.ops.shapecode``).

Of other ops it is one expression of arrays of elements: ``(moved ARRAY ...)`` runs the op's reference on them, and an
array is an operand, an attribute, a list of sizes, or what ``ARRAYS`` give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from egshape.dims import const
from egshape.rulelang.contract import Contract, wrong
from egshape.rulelang.contract_expr import FUNCTIONS, Compiled, Expressions
from egshape.rulelang.contract_sizes import SIZES
from egshape.rulelang.sexpr import Atom, List, SExpr
from egshape.spelling import nearest

Rule = Callable[..., Any]
"""Takes the scope, the dtype, one element of each operand, and the attributes by name."""

ArrayRule = Callable[..., Any]
"""Takes who gives arrays of elements (``ARRAYS``), the operands, and the attributes by name."""

_RING = ("+", "-", "*")

ARRAYS = {
    "whole": (("T",), "elements", "f_arrays.whole({0})"),
    "numbers": (("T",), "elements", "f_arrays.numbers({0})"),
    "zeros": (("T",), "elements", "f_arrays.zeros({0})"),
    "fold": (("T", "T", "axes", "region"), "elements", "f_arrays.fold({0}, {1}, {2}, {3})"),
}
"""Arrays of elements: of an operand of which nothing need be known (the name alone is one that must be), of one whose
elements must be numbers, zeros in the place of one, and axes of one folded with the function of a region from an init
value on."""


@dataclass(frozen=True, slots=True)
class ElementRule:
    """The rules of an elementwise op for integers, truth values and floats, or the one for arrays; None for none."""

    integer: Rule | None = None
    truth: Rule | None = None
    floats: Rule | None = None
    ring: bool = False
    """Whether the rule for integers adds and multiplies only: then a number need not be reduced to its dtype."""
    partial: bool = False
    """Whether the rule for integers may say something where an element is not known."""
    arrays: ArrayRule | None = None


def element_rule(
    text: Contract, op: str, functions: Mapping[str, Rule], partial: frozenset[str] = frozenset()
) -> ElementRule | None:
    """The rules of an op, None for one of whose elements nothing is said. ``functions`` are those of rows; ``partial``
    name the ones that take what is not known. Raises EgshapeError (code "rules") for what is no row or no expression of
    the functions."""
    part = text.part(":elements")
    if part is None:
        return None
    if not isinstance(part, List) or not part.items or not isinstance(part.items[0], List):
        return ElementRule(arrays=_array_rule(text, part))
    hint = f"write (OP INTEGER TRUTH), OP of {', '.join(text.ops)}"
    found = None
    for row in part.items:
        if not isinstance(row, List) or len(row.items) not in (3, 4) or row.head not in text.ops:
            raise wrong(f"{row} is no row for elements", row.at, hint)
        if row.head == op:
            integer, truth, *floats = (_rule(text, item, functions) for item in row.items[1:])
            some = isinstance(row.items[1], List) and row.items[1].head in partial
            found = ElementRule(integer, truth, next(iter(floats), None), _is_ring(row.items[1]), some)
    return found


# -- rows -----------------------------------------------------------------------------------------------------------


def _rule(text: Contract, item: SExpr, functions: Mapping[str, Rule]) -> Rule | None:
    if isinstance(item, Atom) and item.text == "none":
        return None
    params = [name for name, sort in text.params if sort == "T"]
    attrs = {name: Compiled(name, sort) for name, sort in text.params if sort != "T"}
    keywords = f", *, {', '.join(attrs)}" if attrs else ""
    code = f"lambda f_scope, f_dtype, {', '.join(params)}{keywords}: {_Row(params, attrs, functions).code(item)}"
    names = {**{f"f_{name}": each for name, each in SIZES.items()}, "f_of": functions, "f_const": const}
    made: Rule = eval(compile(code, f"<elements {item.at}>", "eval"), names)  # from a checked text
    return made


@dataclass(frozen=True, slots=True)
class _Row:
    """Compiles the expressions of a row."""

    params: list[str]
    attrs: Mapping[str, Compiled]
    functions: Mapping[str, Rule]

    def code(self, item: SExpr) -> str:
        """The Python of an element."""
        if isinstance(item, Atom):
            return self.atom(item)
        if item.head == "if" and len(item.items) == 4:
            condition = Expressions(self.attrs).of(item.items[1], "bool")
            return f"({self.code(item.items[2])} if {condition} else {self.code(item.items[3])})"
        args = list(map(self.code, item.items[1:]))
        if item.head in _RING and args:
            return f"({f' {item.head} '.join(args)})"
        if item.head not in self.functions:
            near = nearest(item.head, (*_RING, "if", *self.functions))
            message = f"the function {item.head or item} is not known of elements"
            raise wrong(message, item.at, f"did you mean {near}?" if near else "")
        return f"f_of[{item.head!r}](f_scope, f_dtype, {', '.join(args)})"

    def atom(self, item: Atom) -> str:
        if item.text in self.params or item.text in self.attrs:
            return item.text
        if item.text.lstrip("-").isdecimal():
            return f"f_const({item.text})"
        raise wrong(f"{item} is no element", item.at, f"elements are of {', '.join(self.params)}")


def _is_ring(item: SExpr) -> bool:
    if isinstance(item, Atom):
        return item.text != "none"
    return item.head in _RING and all(map(_is_ring, item.items[1:]))


# -- arrays ---------------------------------------------------------------------------------------------------------


def _array_rule(text: Contract, item: SExpr) -> ArrayRule:
    operands = [f"*{name}" if sort == "Ts" else name for name, sort in text.params if sort in ("T", "Ts")]
    attrs = [name for name, sort in text.params if sort not in ("T", "Ts")]
    star = [] if not attrs or (operands and operands[-1].startswith("*")) else ["*"]
    scope = {name: Compiled(name, sort) for name, sort in text.params}
    code = f"lambda {', '.join(['f_arrays', *operands, *star, *attrs])}: {_array(item, Expressions(scope, _ALL))}"
    names = {f"f_{name}": each for name, each in SIZES.items()}
    made: ArrayRule = eval(compile(code, f"<elements {item.at}>", "eval"), names)  # from a checked text
    return made


def _array(item: SExpr, own: Expressions) -> str:
    """The Python of an array."""
    if isinstance(item, List) and item.head == "moved":
        return f"f_arrays.moved({', '.join(_arrays(each, own) for each in item.items[1:])})"
    found = own(item)
    if found.sort == "T":
        return f"f_arrays.known({found.code})"
    if found.sort == "array":
        return f"f_arrays.array({found.code})"
    if found.sort in ("sizes", "axes"):
        return f"f_arrays.sizes({own.of(item, 'sizes')})"
    return own.of(item, "elements")


def _arrays(item: SExpr, own: Expressions) -> str:
    """The Python of an argument of ``moved``: one array, or a list of them."""
    if isinstance(item, List) and item.head == "moved":
        return _array(item, own)
    found = own(item)
    if found.item == "T":
        return f"*map(f_arrays.known, {found.code})"
    return f"*{found.code}" if found.item == "elements" else _array(item, own)


_ALL = {**FUNCTIONS, **ARRAYS}
