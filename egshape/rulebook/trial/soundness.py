"""Checks rules over sizes by sampling: numbers that satisfy a rule's body must satisfy its actions.

Each Dim variable stands for one number, as at one choice of the symbols. A rule whose body holds there and
whose action does not is wrong, and the numbers show it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from egshape.dims.functions import SHIPPED
from egshape.dims.text import DECLARED
from egshape.rulelang.provenance import PlainRule, is_variable, variables_in
from egshape.rulelang.sexpr import Atom, List, SExpr

_RANGE = 6
_LARGE = 200
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
}

# None is a size that is undefined here: it contains a division by 0. A tuple is a shape, or its vector of sizes.
Number = int | None
Values = dict[str, Any]
_MAX_RANK = 3


class _NoSample(Exception):
    """These numbers do not satisfy the body."""


class CannotSample(Exception):
    """The rule speaks of something that has no meaning as numbers (a shape, a tensor)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Numbers at which a rule's body holds and one of its actions does not."""

    rule: str
    values: Mapping[str, Any]
    action: str

    @property
    def weight(self) -> tuple[int, int]:
        """The smaller, the easier to read."""
        flat = [each for value in self.values.values() for each in (value if isinstance(value, tuple) else (value,))]
        return sum(abs(each or 0) for each in flat), len(flat)

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{self.rule}: at {shown} the body holds, but not {self.action}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """How often the body held, and the smallest violation."""

    hits: int
    violation: Violation | None


def check_rule(rule: PlainRule, samples: int = 4000, seed: int = 0) -> Sampled:
    """Sample a rule over sizes. Raises CannotSample for rules over tensors."""
    generator = random.Random(seed)
    # Relations first: they determine numbers that the other facts would draw blindly.
    body = sorted(rule.body, key=lambda fact: not (isinstance(fact, List) and fact.head in _DETERMINED))
    hits, worst = 0, None
    for _ in range(samples):
        values: Values = {}
        try:
            for fact in body:
                _assume(fact, values, generator)
        except _NoSample:
            continue
        hits += 1
        for action in rule.actions:
            if not _follows(action, values):
                found = Violation(rule.name, dict(values), str(action))
                worst = found if worst is None else min(worst, found, key=lambda each: each.weight)
    return Sampled(hits, worst)


def _some(generator: random.Random) -> int:
    """A number, mostly a small one."""
    return generator.randint(-_RANGE, _RANGE) if generator.random() < 0.9 else generator.randint(0, _LARGE)


def _sizes(generator: random.Random) -> tuple[int, ...]:
    """The sizes of a shape."""
    return tuple(_some(generator) for _ in range(generator.randrange(_MAX_RANK + 1)))


def _assume(fact: SExpr, values: Values, generator: random.Random) -> None:
    """Extend the numbers so that a fact holds."""
    if not isinstance(fact, List):
        raise CannotSample(str(fact))
    head, items = fact.head, fact.items[1:]
    if head == "=":
        for one, two in pairwise(items):
            _equate(one, two, values, generator)
    elif head == "axis":
        values.setdefault(str(items[0]), generator.randrange(_MAX_RANK + 1))
    elif head in _COMPARE:
        one, two = (_value(item, values) for item in items)
        if one is None or two is None or not _COMPARE[head](one, two):
            raise _NoSample
    else:
        _relate(head, items, values, generator)


def _equate(left: SExpr, right: SExpr, values: Values, generator: random.Random) -> None:
    for one, two in ((left, right), (right, left)):
        if isinstance(two, List) and two.head in ("lo", "hi", "far") and isinstance(one, Atom):
            _bound(one, two, values, generator)
            return
        if isinstance(two, List) and two.head == "Num" and str(one) in values and is_variable(two.items[1]):
            if values.setdefault(str(two.items[1]), values[str(one)]) != values[str(one)]:
                raise _NoSample
            return
    for side in (left, right):
        if isinstance(side, List) and side.head == "Sh" and is_variable(side.items[1]):
            values.setdefault(str(side.items[1]), _sizes(generator))
        for name in variables_in(side) if isinstance(side, List) else ():
            values.setdefault(name, _some(generator))
    for one, two in ((left, right), (right, left)):
        if is_variable(one) and str(one) not in values:
            values[str(one)] = _value(two, values)
            return
    if _value(left, values) != _value(right, values):
        raise _NoSample


def _bound(name: Atom, call: List, values: Values, generator: random.Random) -> None:
    """name = lo(d), hi(d), or far(y, z): some number on the right side of the truth, often the truth."""
    for argument in call.items[1:]:
        if is_variable(argument):
            values.setdefault(str(argument), _some(generator))
    truth = _value(call.items[-1], values)
    if call.head == "far":
        truth = _minus(truth, _value(call.items[1], values))
    if truth is None:  # nothing is claimed of an undefined size, so any bound is true
        values.setdefault(name.text, _some(generator))
        return
    slack = generator.choice((0, 0, 0, 1, 2, 5))
    bound = values.setdefault(name.text, truth + slack if call.head == "hi" else truth - slack)
    if bound is None or ((bound < truth) if call.head == "hi" else (bound > truth)):
        raise _NoSample


def _relate(head: str, items: tuple[SExpr, ...], values: Values, generator: random.Random) -> None:
    """A relation of the prelude: sample the free variables, compute the determined one."""
    if head not in _DETERMINED:
        raise CannotSample(head)
    determined = _DETERMINED[head]
    for i, item in enumerate(items):
        if i not in determined and is_variable(item):
            values.setdefault(str(item), _sizes(generator) if (head, i) == ("At", 0) else _some(generator))
    for place in determined:
        free = items[place]
        if is_variable(free) and str(free) not in values:
            args = [None if i in determined else _value(item, values) for i, item in enumerate(items)]
            values[str(free)] = _determine(head, args, generator, place)
    if not _holds(head, [_value(item, values) for item in items]):
        raise _NoSample


# The arguments of each relation that its others determine, or bound. backward says how a size is written, no number.
_DETERMINED = {
    "term": (0,),
    "factor": (0,),
    "remainder": (0,),
    "mirror": (0,),
    "goal": (0,),
    "Dvd": (1,),
    "edge": (1,),
    "whole": (0,),
    "near": (0,),
    "shared": (0, 1),
    "backward": (),
    "swapped": (),
    "joins": (),
    "At": (2,),
}


def _determine(head: str, args: list[Any], generator: random.Random, place: int = 0) -> Number:
    match head, args:
        case "term", [_, int(c), int(h), int(t)]:
            return c * h + t
        case "factor", [_, int(a), int(r)]:
            return a * r
        case (("whole" | "near"), [_, int(k), int(p), int(r)]):
            return p * k + r
        case "shared", [_, _, int(c), int(h), int(o), int(k)]:
            return c * k if place else c * h + o
        case "remainder", [_, int(h), int(k)]:
            return None if k == 0 else h % k
        case "mirror", [_, int(p)]:
            return max(0, -p)
        case "goal", [_, int(x), int(y), int(c)]:
            return x - y + c
        case "Dvd", [int(k), _]:
            return k * generator.randint(-3, 3)
        case "edge", [int(y), _, int(w)]:
            return y + w + generator.choice((0, 0, 1, 3))
        case "At", [tuple() as sizes, int(i), _]:
            if not 0 <= i < len(sizes):
                raise _NoSample
            return int(sizes[i])
    return None


def _holds(head: str, args: list[Number]) -> bool:
    """Whether a relation is true; of undefined sizes it claims nothing."""
    if None in args:
        return True
    known = [arg for arg in args if arg is not None]
    match head:
        case "Dvd":
            return known[1] == 0 if known[0] == 0 else known[1] % known[0] == 0
        case "edge":
            return known[1] >= known[0] + known[2]
        case "joins":
            return known[0] == known[1] or 1 in known
        case "backward" | "swapped":
            return True
        case "At":
            return known[2] == _determine(head, [*known[:2], None], random.Random(0))
        case "shared":
            return known[0] == known[2] * known[3] + known[4] and known[1] == known[2] * known[5]
        case "term" | "factor" | "remainder" | "mirror" | "goal" | "whole" | "near":
            return known[0] == _determine(head, [None, *known[1:]], random.Random(0))
    raise CannotSample(head)


def _follows(action: SExpr, values: Values) -> bool:
    if not isinstance(action, List):
        raise CannotSample(str(action))
    items = action.items[1:]
    if action.head == "union":
        return bool(_value(items[0], values) == _value(items[1], values))
    if action.head != "set":
        return _holds(action.head, [_value(item, values) for item in items])
    target, bound = items[0], _value(items[1], values)
    assert isinstance(target, List)
    truth = _value(target.items[-1], values)
    if target.head == "far":
        truth = _minus(truth, _value(target.items[1], values))
    if truth is None or bound is None:
        return True
    return bool(bound >= truth if target.head == "hi" else bound <= truth)


def _minus(one: Number, two: Number) -> Number:
    return None if one is None or two is None else one - two


def _value(expr: SExpr, values: Values) -> Any:
    if isinstance(expr, Atom):
        if not is_variable(expr):
            return int(expr.text)
        if expr.text not in values:
            raise CannotSample(expr.text)
        return values[expr.text]
    args = [_value(item, values) for item in expr.items[1:]]
    match expr.head, args:
        case (("Num" | "P"), [a]):
            return a
        case "Relu", [a]:
            return None if a is None else max(0, a)
        case "Sh", [tuple() as vector]:
            return vector
        case "vec-length", [tuple() as vector]:
            return len(vector)
        case "vec-get", [tuple() as vector, int(i)]:
            if not 0 <= i < len(vector):
                raise _NoSample
            return vector[i]
        case (("min" | "max"), [int(a), int(b)]):
            return min(a, b) if expr.head == "min" else max(a, b)
        case (("Add" | "Mul" | "FloorDiv" | "+" | "*" | "-" | "/" | "%"), [a, b]):
            return None if a is None or b is None else _arithmetic(expr.head, a, b)
    function = {**SHIPPED, **DECLARED.get()}.get(expr.head)
    if function is not None and len(args) == len(function.params):
        return None if None in args else function.value(*args)
    raise CannotSample(expr.head)


def _arithmetic(head: str, a: int, b: int) -> int | None:
    match head:
        case "Add" | "+":
            return a + b
        case "Mul" | "*":
            return a * b
        case "-":
            return a - b
        case "FloorDiv":
            return None if b == 0 else a // b
    if b == 0:
        raise _NoSample  # a failing primitive is no match
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # truncates, like the engine's i64
    return quotient if head == "/" else a - b * quotient
