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

_MAX_WORK = 15_000  # terms looked at in one elimination


@dataclass(slots=True)
class Effort:
    """What one question may still cost, in units of about a microsecond; shared by all its parts."""

    left: int


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

    def __init__(self, is_free: Callable[[Monomial], bool], keep: Monomial | None, limit: int) -> None:
        self.limit = limit
        self.rows: dict[frozenset[tuple[Monomial, int]], Row] = {}
        self.is_free = is_free
        self.free: dict[Monomial, bool] = {}
        self.keep = keep
        self.clash: int | None = None
        self.work = 0

    def may_be_negative(self, variable: Monomial) -> bool:
        """`is_free`, remembered."""
        known = self.free.get(variable)
        if known is None:
            known = self.free[variable] = self.is_free(variable)
        return known

    def add(self, row: Row) -> None:
        self.work += len(row.terms) + 2
        if row.constant < 0:
            if all(c < 0 and not self.may_be_negative(m) and m != self.keep for m, c in row.terms.items()):
                self.clash = row.why
                return
        elif all(c > 0 and not self.may_be_negative(m) and m != self.keep for m, c in row.terms.items()):
            return
        self._keep(row)

    def _keep(self, row: Row) -> None:
        """Of rows with the same terms the one that says more."""
        key = frozenset(row.terms.items())
        old = self.rows.get(key)
        if old is None or row.constant < old.constant:
            self.rows[key] = row

    def counts(self) -> dict[Monomial, list[int]]:
        """For each variable, in how many rows it stands with a positive and a negative sign."""
        found: dict[Monomial, list[int]] = {}
        for row in self.rows.values():
            self.work += len(row.terms)
            for m, c in row.terms.items():
                entry = found.get(m)
                if entry is None:
                    entry = found[m] = [0, 0]
                entry[c < 0] += 1
        return found

    def drop_one_sided(self) -> dict[Monomial, list[int]]:
        """Variables with one sign only vanish, with their rows or from them; the counts of the others."""
        while True:
            counts = self.counts()
            vanish: set[Monomial] = set()  # the rows they stand in can always be satisfied
            weaken: set[Monomial] = set()  # variable >= 0 with a negative sign: it can only help
            for m, (up, down) in counts.items():
                if m == self.keep:
                    continue
                if down == 0 or (up == 0 and self.may_be_negative(m)):
                    vanish.add(m)
                elif up == 0:
                    weaken.add(m)
            if not (vanish or weaken) or self.work > self.limit:
                return counts
            rows, self.rows = self.rows, {}
            for row in rows.values():
                if not vanish.isdisjoint(row.terms):
                    continue
                if weaken.isdisjoint(row.terms):
                    self._keep(row)
                    continue
                left = {m: c for m, c in row.terms.items() if m not in weaken}
                self.add(_rounded(left, row.constant, row.why))
                if self.clash is not None:
                    return {}

    def eliminate(self, variable: Monomial) -> None:
        """Combine its rows pairwise and drop them."""
        up = [r for r in self.rows.values() if r.terms.get(variable, 0) > 0]
        down = [r for r in self.rows.values() if r.terms.get(variable, 0) < 0]
        for row in (*up, *down):
            del self.rows[frozenset(row.terms.items())]
        for low in down:
            if not self.may_be_negative(variable):
                terms = dict(low.terms)
                del terms[variable]
                self.add(_rounded(terms, low.constant, low.why))
            for high in up:
                self.add(_combined(high, low, variable))
                if self.clash is not None or self.work > self.limit:
                    return


def _eliminate(
    rows: Iterable[Row],
    is_free: Callable[[Monomial], bool],
    keep: Monomial | None,
    effort: Effort,
    share: int = 3,
) -> _System:
    system = _System(is_free, keep, min(_MAX_WORK, effort.left // share))
    _run(system, rows)
    effort.left -= system.work
    return system


def _run(system: _System, rows: Iterable[Row]) -> None:
    for row in rows:
        system.add(row)
        if system.clash is not None:
            return
    while system.clash is None:
        counts = system.drop_one_sided()
        counts.pop(system.keep or (), None)
        if not counts:
            return
        if system.work > system.limit:
            break
        system.eliminate(min(counts, key=lambda m: _growth(counts[m], system.may_be_negative(m))))
    system.rows = {}


def _growth(counts: list[int], is_free: bool) -> int:
    up, down = counts
    return up * down - up - (down if is_free else 0)


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


def contradiction(
    rows: Iterable[Row], is_free: Callable[[Monomial], bool], effort: Effort, share: int = 3
) -> int | None:
    """The assumptions of a contradiction among the rows, or None if none was found.

    It may take one part in `share` of what is left of the effort.
    """
    return _eliminate(rows, is_free, None, effort, share).clash


def project(
    rows: Iterable[Row], is_free: Callable[[Monomial], bool], variable: Monomial, effort: Effort
) -> tuple[int | None, int | None, int]:
    """(low, high, why): bounds on one variable that the rows imply."""
    low: int | None = None
    high: int | None = None
    why = 0
    for row in _eliminate(rows, is_free, variable, effort).rows.values():
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
