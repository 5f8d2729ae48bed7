"""Which sizes can be computed without wrapping, by interval arithmetic over the ops that compute them.

Sums, differences and products are exact modulo 2**bits: a step on the way may wrap where the result fits.
Division, remainder, maximum, minimum and comparison need operands that fit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import ceil, floor

from egshape.dims import Dim, is_nonnegative
from egshape.dims.core import FloorDiv, Monomial, from_terms
from egshape.frontends.size_terms import Term, plan

Range = tuple[int, int]
SIZE: Range = (0, 2**31 - 1)
"""The size of an axis: what get_dimension_size gives."""


def _operands(step: Term) -> tuple[Dim, Dim]:
    """What a step is computed of: a ceiling division is a floor division of a larger number."""
    one, two = step.operands
    return (one + (two - 1) if step.kind == "ceil" else one), two


class Ranges:
    """The ranges of sizes as computed in some width; ``symbol`` gives the range of a symbol, None if unknown.

    ``counts`` are the numbers of elements of tensors that are there: they fit, whatever the product of the sizes could
    be, and products are exact modulo 2**bits."""

    def __init__(self, bits: int, symbol: Callable[[str], Range | None], counts: frozenset[Dim] = frozenset()) -> None:
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.symbol = symbol
        self.counts = counts
        self.found: dict[Dim, Range | None] = {}

    def of(self, dim: Dim) -> Range | None:
        """The least and the greatest value of ``dim``; None if a step on the way to it may wrap."""
        if dim not in self.found:
            self.found[dim] = None  # a size is no part of itself
            found = self._of(plan(dim))
            if found is not None and self.low <= found[0] and found[1] <= self.high:
                self.found[dim] = found
            elif dim in self.counts:
                self.found[dim] = 0, self.high
        return self.found[dim]

    def _of(self, step: Term) -> Range | None:
        if step.dim.const is not None:
            return step.dim.const, step.dim.const
        if step.kind == "symbol":
            (name,) = step.dim.symbols()
            return self.symbol(name)
        one, two = _operands(step)
        first, second = self.of(one), self.of(two)
        if first is None or second is None:
            return None
        if step.kind in ("floor", "ceil", "mod"):
            return _divided(step.kind == "mod", one, two, first, second)
        return _JOINED[step.kind](first, second)


class Values:
    """The ranges of sizes themselves, whatever the width; ``known`` says which ones some axis has."""

    def __init__(self, symbol: Callable[[str], Range | None], known: Callable[[Dim], bool]) -> None:
        self.symbol = symbol
        self.known = known
        self.found: dict[Dim, Range | None] = {}

    def of(self, dim: Dim) -> Range | None:
        """The least and the greatest value of ``dim`` where it is defined; None if unbounded."""
        if dim not in self.found:
            self.found[dim] = None  # a size is no part of itself
            self.found[dim] = self._of(dim)
        return self.found[dim]

    def fits(self, dim: Dim, bits: int) -> bool:
        """Whether a signed integer of so many bits holds every value of ``dim``."""
        found = self.of(dim)
        return found is not None and -(2 ** (bits - 1)) <= found[0] and found[1] < 2 ** (bits - 1)

    def computes(self, dim: Dim, bits: int) -> bool:
        """Whether the last step of ``dim`` is right in so many bits, given operands right modulo 2**bits."""
        step = plan(dim)
        if step.kind in ("maximum", "minimum"):
            return all(self.fits(operand, bits) for operand in step.operands)
        if step.kind == "bcast":  # its first operand is compared with 1
            found = self.of(step.operands[0])
            return found is not None and 1 - 2**bits < found[0] and found[1] < 1 + 2**bits
        if step.kind not in ("floor", "ceil", "mod"):
            return True
        num, den = _operands(step)
        if step.kind == "mod" and power_of_two(den):
            return True
        if is_nonnegative(-den):
            num, den = -num, -den
        return self.fits(num, bits) and self.fits(den, bits)

    def _of(self, dim: Dim) -> Range | None:
        if dim.const is not None:
            return dim.const, dim.const
        found = _both(self._planned(plan(dim)), self._without_floors(dim))
        if found is not None and is_nonnegative(dim):
            found = max(found[0], 0), max(found[1], 0)
        return _both(found, SIZE if self.known(dim) else None)

    def _planned(self, step: Term) -> Range | None:
        if step.kind == "symbol":
            (name,) = step.dim.symbols()
            return self.symbol(name)
        one, two = _operands(step)
        first, second = self.of(one), self.of(two)
        if first is None or second is None:
            return None
        if step.kind in ("floor", "ceil"):
            return _quotients(first, second)
        if step.kind == "mod":
            return min(second[0] + 1, 0), max(second[1] - 1, 0)
        return _JOINED[step.kind](first, second)

    def _without_floors(self, dim: Dim) -> Range | None:
        """The range of a sum with floor(p/k) between (p-k+1)/k and p/k, so that p cancels."""
        pending = [(mono, Fraction(c)) for mono, c in dim.terms]
        rest: dict[Monomial, Fraction] = {}
        low = high = Fraction(0)
        while pending:
            mono, c = pending.pop()
            atom = mono[0][0] if len(mono) == 1 and mono[0][1] == 1 else None
            k = atom.den.const if isinstance(atom, FloorDiv) else None
            if isinstance(atom, FloorDiv) and k is not None and k > 0:
                pending.extend((inner, c * factor / k) for inner, factor in atom.num.terms)
                slack = -c * (k - 1) / k
                low, high = low + min(slack, Fraction(0)), high + max(slack, Fraction(0))
            else:
                rest[mono] = rest.get(mono, Fraction(0)) + c
        for mono, c in rest.items():
            found = self.of(from_terms([(mono, 1)])) if c else (0, 0)
            if found is None:
                return None
            ends = (c * found[0], c * found[1])
            low, high = low + min(ends), high + max(ends)
        return ceil(low), floor(high)


def power_of_two(dim: Dim) -> bool:
    """Whether a size is a constant power of two."""
    k = dim.const
    return k is not None and k > 0 and k & (k - 1) == 0


def _both(one: Range | None, two: Range | None) -> Range | None:
    """What lies in two ranges; where nothing does, the size is undefined and either holds."""
    if one is None or two is None:
        return one or two
    found = max(one[0], two[0]), min(one[1], two[1])
    return found if found[0] <= found[1] else one


def _quotients(num: Range, den: Range) -> Range | None:
    """Floor division; a divisor of 0 gives no value."""
    ends = {k for k in (*den, -1, 1) if k and den[0] <= k <= den[1]}
    found = [a // k for a in num for k in ends]
    return (min(found), max(found)) if found else None


def _divided(rest: bool, num: Dim, den: Dim, first: Range, second: Range) -> Range | None:
    """Quotient or remainder for a positive constant or where one op computes it; None for other divisors."""
    k = den.const
    if k is not None and k > 0 and not is_nonnegative(num):
        return (0, k - 1) if rest else (first[0] // k, first[1] // k)
    if not (is_nonnegative(num) and is_nonnegative(den)):
        return None
    largest = max(abs(first[0]), abs(first[1]))
    if k is None:  # by zero, XLA's quotient is -1 and the remainder the dividend
        return (-largest, largest) if first[0] < 0 else (-1, largest)
    if rest:
        return -min(k - 1, largest) if first[0] < 0 else 0, min(k - 1, largest)
    return first[0] // k, max(0, first[1] // k)


def _corners(one: Range, two: Range) -> Range:
    found = [a * b for a, b in product(one, two)]
    return min(found), max(found)


_JOINED: dict[str, Callable[[Range, Range], Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _corners,
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "bcast": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
