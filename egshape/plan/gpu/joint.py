"""Folds of several states together, such as the largest element and its index.

Such a fold may be taken apart where its step only compares states and selects among them, and is shown to be
associative: what it does depends on nothing but the order of what it compares, so that the finitely many orders of a
few values, NaN among them, decide it. Parts keep their order, as a step may prefer the earlier of two equals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TypeAlias

from egshape.ir.types import is_float
from egshape.plan.ir.loops import Assign, Call, Const, Expr, Index, Let, Load, Loop, Stmt, Test, Var
from egshape.plan.ir.walk import children

MOST, LARGEST = 2, 400
"""States of a fold that is examined, and parts of its expressions."""
Key: TypeAlias = tuple[object, ...]
Token: TypeAlias = tuple[int, int]
"""A number: its rank (-1 for NaN), and which of those that compare as equal it is."""
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda one, two: one == two,
    "NE": lambda one, two: one != two,
    "LT": lambda one, two: one < two,
    "LE": lambda one, two: one <= two,
    "GT": lambda one, two: one > two,
    "GE": lambda one, two: one >= two,
}


@dataclass(frozen=True, eq=False)
class Joint:
    """A step: ``new`` are the next ``states`` as expressions over these and over ``items``; ``lets`` come before."""

    states: tuple[Var, ...]
    items: tuple[Expr, ...]
    new: tuple[Expr, ...]
    lets: tuple[Stmt, ...]

    def join(self, ones: Sequence[Expr], twos: Sequence[Expr]) -> tuple[Expr, ...]:
        """Two parts made one, the earlier one first."""
        found: dict[Key, Expr] = {_key(state): one for state, one in zip(self.states, ones, strict=True)}
        found |= {_key(item): two for item, two in zip(self.items, twos, strict=True)}
        made: dict[Expr, Expr] = {}

        def again(expr: Expr) -> Expr:
            if expr not in made:
                other = found.get(_key(expr))
                made[expr] = (
                    other
                    if other is not None
                    else replace(expr, args=tuple(map(again, expr.args)))
                    if isinstance(expr, Call)
                    else expr
                )
            return made[expr]

        return tuple(map(again, self.new))


def stepped(fold: Joint, ones: Sequence[Expr], twos: Sequence[Expr], write: Callable[[Var, Expr], Stmt]) -> list[Stmt]:
    """The statements of a step: all new states are computed before ``write`` makes one of them the state."""
    values = fold.join(ones, twos)
    names = [Var(state.dtype, f"$next.{state.name}") for state in fold.states]
    return [
        *(Let(name.name, value) for name, value in zip(names, values, strict=True)),
        *(write(state, name) for state, name in zip(fold.states, names, strict=True)),
    ]


def joint(loop: Loop) -> Joint | None:
    """What a loop folds; None where it does not, or nothing shows that it may be taken apart."""
    assigned = [stmt for stmt in loop.body if isinstance(stmt, Assign)]
    lets = [stmt for stmt in loop.body if isinstance(stmt, Let)]
    if not 0 < len(assigned) <= MOST or len(assigned) + len(lets) < len(loop.body):
        return None
    values = [stmt.value for stmt in assigned] + [stmt.value for stmt in lets]
    if sum(_size(value, LARGEST) for value in values) > LARGEST:
        return None
    states = tuple(Var(stmt.value.dtype, stmt.name) for stmt in assigned)
    names, inner = {state.name for state in states}, dict[str, Expr]()

    def inlined(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return inner.get(expr.name, expr)
        return replace(expr, args=tuple(map(inlined, expr.args))) if isinstance(expr, Call) else expr

    kept: list[Stmt] = []
    for stmt in lets:
        value = inlined(stmt.value)
        if _reads(value, names):
            inner[stmt.name] = value
        else:
            kept.append(stmt)
    new = tuple(inlined(stmt.value) for stmt in assigned)
    items = [_item(value, state) for value, state in zip(new, states, strict=True)]
    if len(names) < len(states) or any(item is None or _reads(item, names) for item in items):
        return None
    found = Joint(states, tuple(item for item in items if item is not None), new, tuple(kept))
    step = _step(found)
    kinds = tuple(is_float(state.dtype) for state in states)
    return found if step is not None and _associative(step, kinds) else None


def _size(expr: Expr, most: int) -> int:
    """How often an expression's parts are written, counted up to a number."""
    found = 1
    for child in children(expr):
        found += _size(child, most - found) if found <= most else 0
    return found


def _reads(expr: Expr, names: set[str]) -> bool:
    return (isinstance(expr, Var) and expr.name in names) or any(_reads(child, names) for child in children(expr))


def _item(new: Expr, state: Var) -> Expr | None:
    """What may take the place of a state."""
    if isinstance(new, Call) and new.op == "select":
        one, two = new.args[1:]
        if _key(one) == _key(state):
            return two
        if _key(two) == _key(state):
            return one
    return None


def _key(expr: Expr) -> Key:
    """The same for expressions that are written alike."""
    match expr:
        case Const():
            return "const", expr.dtype, repr(expr.value)
        case Load():
            return "load", id(expr.buffer), expr.index
        case Index():
            return "index", expr.dtype, expr.dim
        case Var():
            return "var", expr.name
        case Call():
            return "call", expr.dtype, expr.op, repr(expr.attrs), *map(_key, expr.args)
        case Test():
            return "test", *expr.dims
    return "other", id(expr)


# -- what a step does with orders -------------------------------------------------------------------------------------


def _step(fold: Joint) -> Key | None:
    """The step in terms of states (0, k) and items (1, k); None where it does more than compare and select."""
    places = {
        _key(expr): (side, k) for side, exprs in enumerate((fold.states, fold.items)) for k, expr in enumerate(exprs)
    }

    def form(expr: Expr) -> Key | None:
        place = places.get(_key(expr))
        if place is not None:
            return "at", *place
        if not isinstance(expr, Call) or expr.op not in ("and", "or", "not", "xor", "select", "compare"):
            return None
        parts = tuple(map(form, expr.args))
        if None in parts:
            return None
        if expr.op != "compare":
            return None if expr.op != "select" and expr.dtype != "i1" else (expr.op, *parts)
        attrs = dict(expr.attrs)
        plain = attrs.get("kind") != "TOTALORDER" and all(part is not None and part[0] == "at" for part in parts)
        same = plain and parts[0] is not None and parts[1] is not None and parts[0][2] == parts[1][2]
        return ("compare", attrs["direction"], *parts) if same else None

    found = tuple(map(form, fold.new))
    return None if None in found else found


@cache
def _associative(step: Key, floats: tuple[bool, ...]) -> bool:
    """Whether parts of a fold may begin with its first value and be joined in order."""

    @cache
    def joined(one: tuple[Token, ...], two: tuple[Token, ...]) -> tuple[Token, ...]:
        return tuple(_run(each, (one, two)) for each in step)  # type: ignore[arg-type]

    ranks = list(product(*([-1, 0, 1, 2] if float_ else [0, 1, 2] for float_ in floats)))

    def elements(name: int) -> Iterator[tuple[Token, ...]]:
        for each in ranks:
            yield tuple((rank, name if float_ and rank >= 0 else 0) for rank, float_ in zip(each, floats, strict=True))

    for a, b, c in product(elements(1), elements(2), elements(3)):
        if joined(joined(a, b), c) != joined(a, joined(b, c)):
            return False
    for first in elements(0):
        if joined(first, first) != first:
            return False
        like = [_alike(each, first) for each in elements(1)]
        if any(joined(joined(first, a), first) != joined(first, a) for a in like):
            return False
        for a, b in product(like, (_alike(each, first) for each in elements(2))):
            begun = joined(first, a)
            if joined(begun, joined(first, b)) != joined(begun, b):
                return False
    return True


def _alike(element: tuple[Token, ...], first: tuple[Token, ...]) -> tuple[Token, ...]:
    """An element of which what equals the first value is the same number."""
    return tuple(one if one[0] != two[0] else two for one, two in zip(element, first, strict=True))


def _run(form: Key, given: tuple[tuple[Token, ...], tuple[Token, ...]]) -> Token:
    """A form's value; of a condition (0, 1) or (1, 1)."""
    match form:
        case ("at", int(side), int(k)):
            return given[side][k]
        case ("compare", str(direction), one, two):
            left, right = _run(one, given)[0], _run(two, given)[0]  # type: ignore[arg-type]
            held = direction == "NE" if -1 in (left, right) else _COMPARE[direction](left, right)
            return int(held), 1
        case ("select", condition, one, two):
            return _run(one if _run(condition, given)[0] else two, given)  # type: ignore[arg-type]
        case ("not", one):
            return 1 - _run(one, given)[0], 1  # type: ignore[arg-type]
        case (str(op), one, two):
            left, right = _run(one, given)[0], _run(two, given)[0]  # type: ignore[arg-type]
            return {"and": left & right, "or": left | right, "xor": left ^ right}[op], 1
    raise AssertionError(form)
