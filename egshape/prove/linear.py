"""Linear integer reasoning: Fourier-Motzkin elimination with rounding, over monomials as variables.

A row says `sum of coefficient * monomial + constant >= 0`.  Monomials are >= 0 unless they are `free`.
The answer "contradiction" is exact; no answer means nothing.
Source: Dantzig and Eaves, Fourier-Motzkin elimination and its dual (1973); rounding as in the Omega test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd

from egshape.dims import Dim, Monomial

_MAX_ROWS = 240
_MAX_COMBINATIONS = 2500


@dataclass(frozen=True, slots=True)
class Row:
    """One inequality; `why` is the set (bit mask) of the assumptions it follows from."""

    terms: dict[Monomial, int]
    constant: int
    why: int = 0


def row_of(dim: Dim, why: int = 0) -> Row:
    """dim >= 0 as a row, its constant rounded."""
    terms = dict(dim.terms)
    constant = terms.pop((), 0)
    return _rounded(terms, constant, why)


def _rounded(terms: dict[Monomial, int], constant: int, why: int) -> Row:
    common = gcd(*terms.values()) if terms else 0
    if common > 1:
        return Row({m: c // common for m, c in terms.items()}, constant // common, why)
    return Row(terms, constant, why)


class _System:
    """The rows that are left, without those that say nothing."""

    def __init__(self, is_free: Callable[[Monomial], bool], keep: Monomial | None) -> None:
        self.rows: dict[frozenset[tuple[Monomial, int]], Row] = {}
        self.is_free = is_free
        self.keep = keep
        self.clash: int | None = None

    def add(self, row: Row) -> None:
        fixed = [c for m, c in row.terms.items() if m == self.keep or self.is_free(m)]
        if not fixed:
            if row.constant < 0 and all(c <= 0 for c in row.terms.values()):
                self.clash = row.why
                return
            if row.constant >= 0 and all(c >= 0 for c in row.terms.values()):
                return
        key = frozenset(row.terms.items())
        old = self.rows.get(key)
        if old is None or row.constant < old.constant:
            self.rows[key] = row

    def next_variable(self) -> tuple[Monomial, list[Row], list[Row]] | None:
        """The variable whose elimination adds the fewest rows."""
        positive: dict[Monomial, list[Row]] = {}
        negative: dict[Monomial, list[Row]] = {}
        for row in self.rows.values():
            for m, c in row.terms.items():
                (positive if c > 0 else negative).setdefault(m, []).append(row)
        best: tuple[int, Monomial] | None = None
        for m in {**positive, **negative}:
            if m == self.keep:
                continue
            up, down = len(positive.get(m, ())), len(negative.get(m, ()))
            growth = up * down - up - (down if self.is_free(m) else 0)
            if best is None or growth < best[0]:
                best = (growth, m)
        if best is None:
            return None
        return best[1], positive.get(best[1], []), negative.get(best[1], [])


def _eliminate(rows: Iterable[Row], is_free: Callable[[Monomial], bool], keep: Monomial | None) -> _System:
    system = _System(is_free, keep)
    for row in rows:
        system.add(row)
        if system.clash is not None:
            return system
    spent = 0
    while (found := system.next_variable()) is not None:
        variable, up, down = found
        spent += len(up) * len(down)
        if spent > _MAX_COMBINATIONS or len(system.rows) > _MAX_ROWS:
            system.rows = {}
            return system
        for row in (*up, *down):
            system.rows.pop(frozenset(row.terms.items()), None)
        for low in down:
            if not is_free(variable):  # variable >= 0: its negative term can only help
                terms = dict(low.terms)
                del terms[variable]
                system.add(_rounded(terms, low.constant, low.why))
            for high in up:
                system.add(_combined(high, low, variable))
            if system.clash is not None:
                return system
    return system


def _combined(high: Row, low: Row, variable: Monomial) -> Row:
    a, b = high.terms[variable], -low.terms[variable]
    common = gcd(a, b)
    a, b = a // common, b // common
    terms = {m: c * b for m, c in high.terms.items()}
    for m, c in low.terms.items():
        value = terms.get(m, 0) + c * a
        if value:
            terms[m] = value
        else:
            terms.pop(m, None)
    return _rounded(terms, high.constant * b + low.constant * a, high.why | low.why)


def contradiction(rows: Iterable[Row], is_free: Callable[[Monomial], bool]) -> int | None:
    """The assumptions of a contradiction among the rows, or None if none was found."""
    return _eliminate(rows, is_free, None).clash


def project(
    rows: Iterable[Row], is_free: Callable[[Monomial], bool], variable: Monomial
) -> tuple[int | None, int | None, int]:
    """(low, high, why): bounds on one variable that the rows imply."""
    low: int | None = None
    high: int | None = None
    why = 0
    for row in _eliminate(rows, is_free, variable).rows.values():
        if set(row.terms) != {variable}:
            continue
        c = row.terms[variable]
        if c > 0:
            value = -(row.constant // c)
            if low is None or value > low:
                low, why = value, why | row.why
        else:
            value = row.constant // -c
            if high is None or value < high:
                high, why = value, why | row.why
    return low, high, why
