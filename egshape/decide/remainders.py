"""Signs of products of remainders: each ``h // k`` is replaced by its definition, h = k*q + r with 0 <= r < k.

Written out, ``(a % n)*(b % n)`` is a sum of products whose signs differ; in quotients and remainders it is ``r*s``."""

from __future__ import annotations

from collections.abc import Iterator

from egshape.dims import Dim, FloorDiv, Symbol, is_nonnegative, symbol
from egshape.dims.core import Atom, of_atom
from egshape.dims.forms import laws_of

_MOST_DIVISIONS = 4
_MOST_TERMS = 40


def nonnegative_by_remainders(dim: Dim) -> bool:
    """Whether a size is >= 0 once its quotients by divisors that are no numbers are replaced by their definitions, as
    far as the laws of the quotients (``size.floordiv/remainder-lo`` and ``-below``) say that 0 <= r < k."""
    divisions = [each for each in _divisions(dim) if each.num - each.den * of_atom(each) in laws_of(each)]
    if not divisions or len(divisions) > _MOST_DIVISIONS or len(dim.terms) > _MOST_TERMS:
        return False
    quotients: dict[Atom, Dim] = {each: symbol(f"\x00q{place}") for place, each in enumerate(divisions)}
    for place, each in enumerate(divisions):
        rest = symbol(f"\x00r{place}")
        name = _lone_symbol(each)
        if name is None:
            return False
        dim = dim.map_atoms(lambda atom: quotients.get(atom, of_atom(atom)))
        if name in frozenset().union(*(atom.symbols for atom in dim.atoms() if not isinstance(atom, Symbol))):
            return False  # it stands inside of another atom, which would not change with it
        dim = dim.substitute({name: each.den * quotients[each] + rest - (each.num - symbol(name))})
        if len(dim.terms) > _MOST_TERMS:
            return False
    if any(not dim.symbols().isdisjoint(quotients[each].symbols()) for each in divisions if not each.nonnegative):
        return False  # a quotient that may be negative
    return is_nonnegative(dim) or any(is_nonnegative(each) for each in _with_divisors(dim, divisions))


def _divisions(dim: Dim) -> list[FloorDiv]:
    found = (atom for atom in dim.atoms() if isinstance(atom, FloorDiv) and atom.den.const is None)
    return list(dict.fromkeys(found))


def _lone_symbol(division: FloorDiv) -> str | None:
    """A symbol that stands alone in the numerator, and not in the divisor."""
    for mono, c in division.num.terms:
        if c == 1 and len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Symbol):
            name = mono[0][0].name
            if name not in (division.num - symbol(name)).symbols() | division.den.symbols():
                return name
    return None


def _with_divisors(dim: Dim, divisions: list[FloorDiv]) -> Iterator[Dim]:
    """The size with one divisor k written as r + 1 + s, for a remainder r by it."""
    for place, each in enumerate(divisions):
        if each.den - (each.num - each.den * of_atom(each)) - 1 not in laws_of(each):
            continue
        for mono, c in each.den.terms:
            if c == 1 and len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Symbol):
                name = mono[0][0].name
                others = each.den - symbol(name)
                if name not in others.symbols():
                    yield dim.substitute({name: symbol(f"\x00r{place}") + 1 + symbol("\x00s") - others})
