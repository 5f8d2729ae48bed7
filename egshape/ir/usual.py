"""Whether a number leaves its dtype at sizes that a model may well have."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from egshape.dims import Dim, Monomial, product
from egshape.dims.core import Symbol, Terms
from egshape.facts import Relation

_BITS = 20
"""Sizes of a model may well have as many."""

_FEW = 64
"""A number that is so many times the elements of a value is still taken for a size."""

Shape = tuple[Dim, ...] | None


def may_leave(fit: Relation, shapes: Iterable[Shape]) -> bool:
    """Whether to rely on a relation that says that a number fits would refuse usual sizes. A product of sizes does,
    unless some value, of these shapes, has about as many elements."""
    bits = max(abs(side.const or 0) for side in (fit.lhs, fit.rhs)).bit_length()
    large = [
        (mono, abs(factor) // _FEW)
        for mono, factor in (fit.rhs - fit.lhs).terms
        if (sizes := _sizes_in(mono)) and sizes * _BITS + abs(factor).bit_length() > bits + 1
    ]
    if not large:
        return False
    counts = [term for shape in set(shapes) for term in _elements(shape)]
    return any(not any(times >= factor and _divides(mono, each) for each, times in counts) for mono, factor in large)


def _sizes_in(mono: Monomial) -> int:
    """How many sizes a product is of; 0 if it is of other factors too, such as choices."""
    return sum(power for _, power in mono) if all(isinstance(atom, Symbol) for atom, _ in mono) else 0


@lru_cache(maxsize=4096)
def _elements(shape: Shape) -> Terms:
    return product(shape or ()).terms


def _divides(one: Monomial, two: Monomial) -> bool:
    powers = dict(two)
    return all(powers.get(atom, 0) >= power for atom, power in one)
