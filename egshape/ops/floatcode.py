"""Sizes in floats: what the elements of small float tensors hold while a program computes sizes with them.

A float of p digits holds every integer up to 2**p, and every one of them over a power of two; such arithmetic is exact
where its results fit. What is kept of a size is said by the rules of ``rulesets/size/float.egg``, which ask whether a
numerator fits. That is noted with the element and must hold where a size is taken from it again
(``shapecode.convert``): proved, or a check. Without a rule nothing is known of the element.

Python is how elements are put into lowest terms and over one denominator, which is arithmetic of numbers; that a whole
number is its own rounding; and that minus, max and min of floats are those of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from egshape.dims import Dim, const, floordiv, maximum, minimum
from egshape.dims.core import from_terms
from egshape.dims.functions import SHIPPED
from egshape.facts import Relation
from egshape.ir.types import exact_integers, integer_range
from egshape.ops.base import ElementScope, Need, Ratio

_FINEST = 2**20
"""Denominators beyond that are left unknown."""


def of_number(number: float) -> Ratio | None:
    """A constant, where it is an integer over a power of two that is not too fine."""
    if not np.isfinite(number) or (number == 0 and np.signbit(number)):
        return None
    num, den = float(number).as_integer_ratio()
    return Ratio(const(num), den) if den <= _FINEST and abs(num) < 2**53 else None


class _Asked:
    """Who is asked by the rules of floats: that a numerator fits is noted, all else must be known."""

    def __init__(self, scope: ElementScope, num: Dim, dtype: str) -> None:
        self.scope, self.num, self.dtype = scope, num, dtype
        self.needs: tuple[Need, ...] = ()

    def at_least(self, dim: Dim, number: int) -> bool:
        """Whether dim >= number: known, or to be required."""
        if dim.const is not None:
            return dim.const >= number
        if number == -exact_integers(self.dtype):
            self.needs = ((self.num, self.dtype),)
            return True
        return self.scope.decide(Relation("<=", const(number), dim)) is True

    def floordiv(self, num: Dim, den: Dim) -> Dim:
        """What rules make."""
        return floordiv(num, den)


def _kept(scope: ElementScope, function: str, dtype: str, num: Dim, *more: int) -> tuple[Dim, tuple[Need, ...]] | None:
    """What a function of floats keeps of a number, by its rules, and what that needs; None where no rule says it.

    more: its arguments around the limit of the dtype."""
    asked, limit = _Asked(scope, num, dtype), const(exact_integers(dtype))
    args = (*map(const, more[:1]), limit, *map(const, more[1:]))
    found = SHIPPED[function].simplify(asked, num, *args)
    return None if found is None else (found[0], asked.needs)


DOWN, TRUNCATED, UP = -1, 0, 1
"""How a float is made whole."""


def _whole(scope: ElementScope, item: Ratio, dtype: str, way: int) -> Ratio | None:
    if item.den == 1:
        return item
    found = _kept(scope, "float_whole", dtype, item.num, item.den, way)
    return None if found is None else Ratio(found[0], 1, tuple(dict.fromkeys((*item.needs, *found[1]))))


def of_size(scope: ElementScope, size: Dim, source: str, dtype: str) -> Ratio | None:
    """An integer of dtype ``source``, converted."""
    found = _kept(scope, "float_of", dtype, size)
    if found is None or size.const is not None:
        return found and Ratio(size)
    wraps = integer_range(source)[1] < exact_integers(dtype) or source.startswith("u")
    return Ratio(size, 1, (*found[1], *(((size, source),) if wraps else ())))


def converted(scope: ElementScope, item: Ratio, dtype: str) -> Ratio | None:
    """In another float dtype."""
    return _fitting(scope, item.num, item.den, dtype, item.needs) if item.exact else None


def size_of(scope: ElementScope, item: Ratio, dtype: str) -> Dim | None:
    """What is left of an element where it is truncated to an integer; its needs are noted."""
    found = _whole(scope, item, dtype, TRUNCATED)
    if found is None:
        return None
    for size, of in found.needs:
        scope.require_fit(size, of)
    return found.num


def _fitting(scope: ElementScope, num: Dim, den: int, dtype: str, needs: tuple[Need, ...]) -> Ratio | None:
    """num / den in lowest terms, where what it needs says that no more than the quotient is rounded."""
    shared = gcd(den, *(c for _, c in num.terms))
    num, den = from_terms((mono, c // shared) for mono, c in num.terms), den // shared
    found = _kept(scope, "float_of", dtype, num) if den <= _FINEST else None
    return None if found is None else Ratio(num, den, tuple(dict.fromkeys((*needs, *found[1]))))


def _sum(sign: int) -> Callable[..., Ratio | None]:
    def rule(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
        if not (x.exact and y.exact):
            return None
        den = max(x.den, y.den)
        return _fitting(scope, x.num * (den // x.den) + sign * y.num * (den // y.den), den, dtype, x.needs + y.needs)

    return rule


def _multiply(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
    if not (x.exact and y.exact) or (x.num.const is None and y.num.const is None):
        return None
    return _fitting(scope, x.num * y.num, x.den * y.den, dtype, x.needs + y.needs)


def _divide(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
    by = y.num.const
    if not (x.exact and y.exact) or by is None or by <= 0:
        return None
    return _fitting(scope, x.num * y.den, x.den * by, dtype, x.needs + y.needs)


def _round(scope: ElementScope, dtype: str, x: Ratio) -> Ratio | None:
    return x if x.den == 1 else None


def _extreme(of: Callable[..., Dim], keeps_first: Callable[[Dim, Dim], Relation]) -> Callable[..., Ratio | None]:
    def rule(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
        if x.den != 1 or y.den != 1:
            return None
        for one, two in ((x, y), (y, x)):
            if scope.decide(keeps_first(one.num, two.num)) is True:
                return replace(one, needs=x.needs + y.needs)
        return Ratio(of(x.num, y.num), 1, x.needs + y.needs)

    return rule


RULES: dict[str, Callable[..., Any]] = {
    "add": _sum(1),
    "subtract": _sum(-1),
    "multiply": _multiply,
    "divide": _divide,
    "negate": lambda scope, dtype, x: replace(x, num=-x.num) if x.num.const != 0 else None,
    "floor": lambda scope, dtype, x: _whole(scope, x, dtype, DOWN),
    "ceil": lambda scope, dtype, x: _whole(scope, x, dtype, UP),
    "round_nearest_even": _round,
    "round_nearest_afz": _round,
    "maximum": _extreme(maximum, lambda one, two: Relation("<=", two, one)),
    "minimum": _extreme(minimum, lambda one, two: Relation("<=", one, two)),
}
"""What an op on floats makes of such elements: scope, dtype and operands to an element or None."""
