"""What a rule's body says, in values: axis lists and shapes are tuples, sizes Dims, functions and dtypes texts.

A body is looked at again and again while a program is drawn for it: what it determines is bound, what contradicts it
ends the draw, and what has no meaning here (fuel, orders of sizes) is left to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from egshape.dims import const, product
from egshape.egraph.describe import (
    Rows,
    absorbing_elements,
    describe_function,
    moves_units,
    negating_elements,
    neutral_elements,
    steps_apart,
)
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType, dtype_name, numpy_dtype
from egshape.ops.base import REGISTRY
from egshape.rulelang.examples import Constant, Term
from egshape.rulelang.provenance import is_variable, variables_in
from egshape.rulelang.sexpr import Atom, List, SExpr

Values = dict[str, Any]
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_PLAIN = frozenset(("Sh", "Shp", "P", "axes_of", "Node"))
"""Constructors around a value that is the same inside and outside."""


class Unknown(Exception):
    """An expression without a value: a variable is not bound yet, or the word has none here."""


class Contradiction(Exception):
    """The body does not hold for these values."""


@dataclass(frozen=True)
class Drawn:
    """A part of a program: its term and type."""

    term: Term
    type: TensorType


@dataclass(frozen=True)
class Guards:
    """The facts of a body that say something of values."""

    facts: tuple[SExpr, ...]

    def solved(self, values: Mapping[str, Any]) -> Values:
        """The values with all that the body determines. Raises Contradiction where it does not hold."""
        known = dict(values)
        pending = list(self.facts)
        while True:
            left = [fact for fact in pending if not _said(fact, known)]
            if len(left) == len(pending):
                return known
            pending = left

    def about(self, word: str, name: str) -> list[List]:
        """The facts of a relation that speak of a variable."""
        return [
            fact for fact in self.facts if isinstance(fact, List) and fact.head == word and name in variables_in(fact)
        ]


def _said(fact: SExpr, known: Values) -> bool:
    """Hold a fact against the values and bind what it determines; False if nothing can be said of it yet."""
    if not isinstance(fact, List):
        return True
    try:
        if fact.head == "=":
            return _equate(fact.items[1:], known)
        if fact.head in _RELATIONS:
            return bool(_RELATIONS[fact.head](fact.items[1:], known))
        _hold(bool(_call(fact, known)))
    except Unknown:
        return False
    return True


def _hold(truth: bool) -> None:
    if not truth:
        raise Contradiction


def _equate(sides: Sequence[SExpr], known: Values) -> bool:
    """All sides are one: the value of the first that has one is given to the others."""
    done = True
    value: Any = None
    for side in sides:
        try:
            value = evaluate(side, known)
            break
        except Unknown:
            continue
    else:
        return False
    for side in sides:
        done &= unify(side, value, known)
    return done


def unify(pattern: SExpr, value: Any, known: Values) -> bool:
    """Give a pattern a value; False if that cannot be said. Raises Contradiction if it is another one."""
    value = int(value) if isinstance(value, bool) else value
    if is_variable(pattern):
        name = str(pattern)
        if name not in known:
            known[name] = value
        else:
            _hold(same(known[name], value))
        return True
    if isinstance(pattern, Atom) and pattern.text == "_":
        return True
    if isinstance(pattern, List) and len(pattern.items) == 2:
        inner = pattern.items[1]
        if pattern.head in _PLAIN:
            return unify(inner, value, known)
        if pattern.head == "Num":
            _hold(value.const is not None)
            return unify(inner, value.const, known)
        if pattern.head in ("Zeros", "Ones"):
            _hold(all(dim.const == (pattern.head == "Ones") for dim in value))
            return unify(inner, len(value), known)
    if isinstance(pattern, List) and pattern.head == "vec-of":
        _hold(len(value) == len(pattern.items) - 1)
        return _unify_all(pattern.items[1:], value, known)
    try:
        _hold(same(evaluate(pattern, known), value))
    except Unknown:
        return False
    return True


def _unify_all(items: Sequence[SExpr], values: Sequence[Any], known: Values) -> bool:
    said = [unify(item, value, known) for item, value in zip(items, values, strict=True)]  # each binds
    return all(said)


def same(one: Any, two: Any) -> bool:
    """Whether two values are one: terms are told apart by what they are, not by what they compute."""
    if isinstance(one, Drawn) and isinstance(two, Drawn):
        return one.term is two.term or one.term == two.term
    return type(one) is type(two) and bool(one == two)


def evaluate(expr: SExpr, known: Mapping[str, Any]) -> Any:
    """The value of an expression. Raises Unknown, and Contradiction where a primitive fails."""
    if isinstance(expr, Atom):
        if is_variable(expr):
            if expr.text not in known:
                raise Unknown
            return known[expr.text]
        if expr.is_string:
            return expr.value
        try:
            return int(expr.text)
        except ValueError:
            raise Unknown from None
    return _call(expr, known)


def _call(expr: List, known: Mapping[str, Any]) -> Any:
    head = expr.head
    if head == "unstable-vec-map":
        function, vector = expr.items[1], evaluate(expr.items[2], known)
        if not (isinstance(function, List) and function.head == "unstable-fn"):
            raise Unknown
        name = evaluate(function.items[1], known)
        given = [evaluate(item, known) for item in function.items[2:]]
        return tuple(_primitive(name, [*given, each]) for each in vector)
    return _primitive(head, [evaluate(item, known) for item in expr.items[1:]])


def _primitive(head: str, args: list[Any]) -> Any:
    if head in _PLAIN:
        return args[0]
    if head in _COMPARE:
        return _COMPARE[head](*args)
    match head, args:
        case "!=", [a, b]:
            return not same(a, b)
        case "ShapeOf", [Drawn(type=type)]:
            return type.dims
        case "dtype_of", [Drawn(type=type)]:
            return type.dtype
        case "Num", [int(n)]:
            return const(n)
        case "Count", [tuple() as dims]:
            return product(dims)
        case (("Zeros" | "Ones"), [int(n)]):
            return (const(int(head == "Ones")),) * n
        case "vec-length", [tuple() as vector]:
            return len(vector)
        case "vec-get", [tuple() as vector, int(k)]:
            _hold(0 <= k < len(vector))
            return vector[k]
        case "vec-set", [tuple() as vector, int(k), item]:
            _hold(0 <= k < len(vector))
            return (*vector[:k], item, *vector[k + 1 :])
        case (("vec-of" | "vec-empty"), _):
            return tuple(args)
        case "vec-push", [tuple() as vector, item]:
            return (*vector, item)
        case "vec-pop", [tuple() as vector]:
            _hold(bool(vector))
            return vector[:-1]
        case "vec-remove", [tuple() as vector, int(k)]:
            _hold(0 <= k < len(vector))
            return (*vector[:k], *vector[k + 1 :])
        case (("vec-contains" | "vec-not-contains"), [tuple() as vector, item]):
            return (item in vector) == (head == "vec-contains")
        case "vec-append", _:
            return tuple(item for vector in args for item in vector)
        case (("AddShapes" | "SubShapes"), [tuple() as one, tuple() as two]):
            return tuple(a + b if head == "AddShapes" else a - b for a, b in zip(one, two, strict=True))
        case (("Add" | "+"), [a, b]):
            return a + b
        case (("Mul" | "*"), [a, b]):
            return a * b
        case "-", [a, b]:
            return a - b
        case (("min" | "max"), [int(a), int(b)]):
            return min(a, b) if head == "min" else max(a, b)
        case (("/" | "%"), [int(a), int(b)]):
            _hold(b != 0)
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # truncates, like the engine's i64
            return quotient if head == "/" else a - b * quotient
    raise Unknown


# -- relations ----


def _of_axes(items: Sequence[SExpr], known: Values, holds: Any) -> bool:
    _hold(holds(evaluate(items[0], known)))
    return True


def _inverse(items: Sequence[SExpr], known: Values) -> bool:
    for one, two in ((items[0], items[1]), (items[1], items[0])):
        try:
            axes = evaluate(one, known)
        except Unknown:
            continue
        _hold(sorted(axes) == list(range(len(axes))))
        return unify(two, tuple(axes.index(k) for k in range(len(axes))), known)
    raise Unknown


def _trait(head: str, items: Sequence[SExpr], known: Values) -> bool:
    """A fact about an elementwise function; of several rows the one that is known so far decides."""
    rows = traits(evaluate(items[0], known), REGISTRY.version).get(head, [])
    _hold(bool(rows))
    for row in rows:
        trial = dict(known)
        try:
            done = _unify_all(items, row, trial)
        except Contradiction:
            continue
        if len(rows) > 1 and len(trial) > len(known):
            raise Unknown  # more than one row may fit
        known.update(trial)
        return done
    raise Contradiction


def _element(items: Sequence[SExpr], known: Values, word: str) -> bool:
    function, part = evaluate(items[0], known), evaluate(items[1], known)
    _hold(isinstance(part, Drawn) and isinstance(part.term, Constant))
    array = part.term.array
    values = element_values(word, function, dtype_name(array.dtype))
    _hold(any(value.tobytes() == array.tobytes() for value in values))
    return True


def element_values(word: str, function: str, dtype: str) -> list[np.ndarray]:
    """The constants of which a guard, one of ``ELEMENTS``, holds for a function."""
    elements = {"absorbing": absorbing_elements, "negating": negating_elements}
    return [
        np.array(value, numpy_dtype(dtype))
        for name, value, left in elements.get(word, neutral_elements)(dtype, REGISTRY)
        if name == function and (left or word == "neutral_right")
    ]


def _truth(items: Sequence[SExpr], known: Values, wanted: bool) -> bool:
    part = evaluate(items[0], known)
    _hold(isinstance(part.term, Constant) and part.type.dtype == "i1" and bool(part.term.array) == wanted)
    return True


@lru_cache(maxsize=1024)
def traits(function: str, version: int) -> Rows:
    """What the host says of an elementwise function: the rows of each relation."""
    rows: Any = {name: [] for name in _TRAITS}
    try:
        describe_function(function, REGISTRY, rows)
    except EgshapeError:
        return {}
    return dict(rows)


def _unit_moves(items: Sequence[SExpr], known: Values) -> bool:
    shape, axes = (evaluate(item, known) for item in items)
    _hold(len(shape) == len(axes) and moves_units(shape, axes))
    return True


def _apart(items: Sequence[SExpr], known: Values) -> bool:
    _hold(steps_apart(*(evaluate(item, known) for item in items)))
    return True


def _nothing(items: Sequence[SExpr], known: Values) -> bool:
    """The scalar is any one of the dtype: nothing is said of it."""
    _hold(any(size.const == 0 for size in evaluate(items[0], known)))
    return True


ELEMENTS = ("neutral", "neutral_right", "absorbing", "negating")
"""Guards that ask for a constant that an op treats in a way of its own."""
_TRAITS = ("result_dtype", "is_convert", "keeps", "involution", "idempotent", "selects", "wraps")
_RELATIONS: dict[str, Any] = {
    "identity": lambda items, known: _of_axes(items, known, lambda axes: axes == tuple(range(len(axes)))),
    "increasing": lambda items, known: _of_axes(items, known, lambda axes: list(axes) == sorted(set(axes))),
    "inverse": _inverse,
    **{word: partial(_element, word=word) for word in ELEMENTS},
    "unit_moves": _unit_moves,
    "apart": _apart,
    "nothing": _nothing,
    "is_true": lambda items, known: _truth(items, known, True),
    "is_false": lambda items, known: _truth(items, known, False),
    **{name: (lambda items, known, name=name: _trait(name, items, known)) for name in _TRAITS},
}
