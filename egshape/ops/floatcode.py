"""Sizes in floats: what the elements of small float tensors hold while a program computes sizes with them.

A float of p digits holds every integer up to 2**p, and every one of them over a power of two; such arithmetic is exact
where its results fit. What it relies on is noted with the element and must hold where a size is taken from it again
(``shapecode.convert``): proved, or a check.

Over another number the quotient is rounded, but rounding keeps order, so that floor and ceil of it are those of the
quotient where no integer is nearer than the rounding error: num/den is at least 1/den away from one that it is not, and
the error at most abs(num/den) * 2**-p, less than that for abs(num) <= 2**p (equal for powers of two only, which are
exact)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from egshape.dims import Dim, ceildiv, const, floordiv, maximum, minimum
from egshape.dims.core import from_terms
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


def of_size(size: Dim, source: str, dtype: str) -> Ratio:
    """An integer of dtype ``source``, converted."""
    if size.const is not None:
        return Ratio(size)
    wraps = integer_range(source)[1] < exact_integers(dtype) or source.startswith("u")
    return Ratio(size, 1, ((size, dtype), *(((size, source),) if wraps else ())))


def converted(item: Ratio, dtype: str) -> Ratio | None:
    """In another float dtype."""
    return _fitting(item.num, item.den, dtype, item.needs) if item.exact else None


def size_of(scope: ElementScope, item: Ratio) -> Dim | None:
    """What is left of an element where it is truncated to an integer; its needs are noted."""
    num, den = item.num, const(item.den)
    if item.den == 1:
        found: Dim | None = num
    elif scope.decide(Relation("<=", const(0), num)) is True:
        found = floordiv(num, den)
    else:
        found = -floordiv(-num, den) if scope.decide(Relation("<=", num, const(0))) is True else None
    if found is not None:
        for size, dtype in item.needs:
            scope.require_fit(size, dtype)
    return found


def _fitting(num: Dim, den: int, dtype: str, needs: tuple[Need, ...]) -> Ratio | None:
    """num / den in lowest terms, where what it needs says that no more than the quotient is rounded."""
    shared = gcd(den, *(c for _, c in num.terms))
    num, den = from_terms((mono, c // shared) for mono, c in num.terms), den // shared
    if den > _FINEST or (num.const is not None and abs(num.const) > exact_integers(dtype)):
        return None
    fits = () if num.const is not None else ((num, dtype),)
    return Ratio(num, den, tuple(dict.fromkeys((*needs, *fits))))


def _sum(sign: int) -> Callable[..., Ratio | None]:
    def rule(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
        if not (x.exact and y.exact):
            return None
        den = max(x.den, y.den)
        return _fitting(x.num * (den // x.den) + sign * y.num * (den // y.den), den, dtype, x.needs + y.needs)

    return rule


def _multiply(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
    if not (x.exact and y.exact) or (x.num.const is None and y.num.const is None):
        return None
    return _fitting(x.num * y.num, x.den * y.den, dtype, x.needs + y.needs)


def _divide(scope: ElementScope, dtype: str, x: Ratio, y: Ratio) -> Ratio | None:
    by = y.num.const
    if not (x.exact and y.exact) or by is None or by <= 0:
        return None
    return _fitting(x.num * y.den, x.den * by, dtype, x.needs + y.needs)


def _whole(divide: Callable[[Dim, Dim], Dim]) -> Callable[..., Ratio]:
    return lambda scope, dtype, x: replace(x, num=divide(x.num, const(x.den)), den=1)


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
    "floor": _whole(floordiv),
    "ceil": _whole(ceildiv),
    "round_nearest_even": _round,
    "round_nearest_afz": _round,
    "maximum": _extreme(maximum, lambda one, two: Relation("<=", two, one)),
    "minimum": _extreme(minimum, lambda one, two: Relation("<=", one, two)),
}
"""What an op on floats makes of such elements: scope, dtype and operands to an element or None."""
