"""Which sizes can be computed without wrapping, by interval arithmetic over the ops that compute them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from egshape.dims import Dim, is_nonnegative
from egshape.frontends.stablehlo.emit_sizes import Term, plan

Range = tuple[int, int]
SIZE: Range = (0, 2**31 - 1)
"""The size of an axis: what get_dimension_size gives."""


class Ranges:
    """The ranges of sizes as computed in some width; ``symbol`` gives the range of a symbol, None if unknown."""

    def __init__(self, bits: int, symbol: Callable[[str], Range | None]) -> None:
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.symbol = symbol
        self.found: dict[Dim, Range | None] = {}

    def of(self, dim: Dim) -> Range | None:
        """The least and the greatest value of ``dim``; None if a step on the way to it may wrap."""
        if dim not in self.found:
            self.found[dim] = None  # a size is no part of itself
            found = self._of(plan(dim))
            if found is not None and self.low <= found[0] and found[1] <= self.high:
                self.found[dim] = found
        return self.found[dim]

    def _of(self, step: Term) -> Range | None:
        if step.dim.const is not None:
            return step.dim.const, step.dim.const
        if step.kind == "symbol":
            (name,) = step.dim.symbols()
            return self.symbol(name)
        one, two = step.operands
        if step.kind == "ceil":
            one = one + (two - 1)
        first, second = self.of(one), self.of(two)
        if first is None or second is None:
            return None
        if step.kind in ("floor", "ceil", "mod"):
            return _divided(step.kind == "mod", one, two, first, second)
        return _JOINED[step.kind](first, second)


def _divided(rest: bool, num: Dim, den: Dim, first: Range, second: Range) -> Range | None:
    """Quotient or remainder where one op computes it; None where several do."""
    k = den.const
    if k is not None and k > 0 and k & (k - 1) == 0 and not is_nonnegative(num):
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
