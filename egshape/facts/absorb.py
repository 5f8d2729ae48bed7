"""Which statements say something about one symbol alone, and what."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from egshape.dims import Dim, FloorDiv, Relu, Symbol
from egshape.facts.intervals import INTEGERS, Interval, Ranges, complement, contains, intersect, normalized, preimage
from egshape.facts.relation import Relation

ResidueClass = tuple[int, int]

_MOST_PIECES = 64
"""Linear pieces of a function of one size, and maxima in it; one with more is left alone."""


def linear_symbol(dim: Dim) -> tuple[str, int, int] | None:
    """(name, scale, offset) if dim is scale*name + offset."""
    terms = dim.terms
    if not 1 <= len(terms) <= 2 or (len(terms) == 2 and terms[1][0]):
        return None
    mono, scale = terms[0]
    if len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Symbol):
        return None
    return mono[0][0].name, scale, terms[1][1] if len(terms) == 2 else 0


def residue_class(dim: Dim) -> ResidueClass:
    """Divisor and remainder of a size by its form; 0 and itself of a number."""
    constant = sum(c for mono, c in dim.terms if not mono)
    divisor = gcd(*(c for mono, c in dim.terms if mono))
    return (divisor, constant % divisor) if divisor else (0, constant)


def congruence(dim: Dim) -> tuple[Dim, int, int] | None:
    """(num, k, r) if dim == 0 says num % k == r for a number k; None if it says something else.

    r outside of 0..k-1 means that dim == 0 is false.
    """
    for atom in dim.atoms():
        if not isinstance(atom, FloorDiv) or atom.den.const is None or atom.den.const <= 1:
            continue
        scale = next((c for m, c in dim.terms if m == ((atom, 1),)), 0)
        k = atom.den.const
        if scale == 0 or scale % k:
            continue
        unit = -scale // k
        rest = dim - unit * (atom.num - k * (atom.num // k))
        if rest.const is not None and rest.const % unit == 0:
            return atom.num, k, -rest.const // unit
    return None


def about_symbol(relation: Relation) -> tuple[str, Ranges, ResidueClass] | None:
    """(name, ranges, residue class) if the relation says just this about one symbol."""
    if relation.needs:
        return None
    dim = relation.lhs if relation.kind == "in" else relation.lhs - relation.rhs
    plain = linear_symbol(dim)
    if plain is not None:
        name, scale, offset = plain
        return name, preimage(_values(relation), scale, offset), (1, 0)
    solved = ranges_of_symbol(relation)
    if solved is not None:
        return (*solved, (1, 0))
    if relation.kind != "==":
        return None
    found = congruence(dim)
    inner = linear_symbol(found[0]) if found else None
    if found is None or inner is None or abs(inner[1]) != 1:
        return None
    _, k, r = found
    name, scale, offset = inner
    if not 0 <= r < k:
        return name, (), (1, 0)
    return name, INTEGERS, (k, (scale * (r - offset)) % k)


@lru_cache(maxsize=4096)
def ranges_of_symbol(relation: Relation) -> tuple[str, Ranges] | None:
    """(name, ranges) if the relation says just this about one symbol, by sums and ``max(_, 0)`` of it: n == 9 where
    ``max(max(n - 2, 0) - 2, 0) == 5``."""
    dim = relation.lhs if relation.kind == "in" else relation.lhs - relation.rhs
    values, names = _values(relation), dim.symbols()
    if len(names) != 1 or not 0 < (_maxima(dim) or 0) < _MOST_PIECES:
        return None
    (name,) = names
    cuts = _cuts(dim, name)
    if len(cuts) >= _MOST_PIECES:
        return None
    found: list[Interval] = []
    for piece in _pieces(cuts):
        scale, offset = _linear(dim, name, piece)
        if scale:
            found += intersect((piece,), preimage(values, scale, offset))
        elif contains(values, offset):
            found.append(piece)
    return name, normalized(found)


@lru_cache(maxsize=4096)
def _maxima(dim: Dim) -> int | None:
    """How many ``max(_, 0)`` are written in a dim; None if other than these, sums and numbers stand between it and its
    symbols."""
    count = 0
    for mono, _ in dim.terms:
        if len(mono) > 1 or any(power != 1 for _, power in mono):
            return None
        for atom, _ in mono:
            inner = 0 if isinstance(atom, Symbol) else _maxima(atom.arg) if isinstance(atom, Relu) else None
            if inner is None:
                return None
            count += inner + isinstance(atom, Relu)
    return count


def _cuts(dim: Dim, name: str) -> list[int]:
    """Sizes at which a piece may begin, ascending: between two of them the dim is linear."""
    found: set[int] = set()
    for atom in dim.atoms():
        if isinstance(atom, Relu) and len(found) < _MOST_PIECES:
            inner = _cuts(atom.arg, name)
            found.update(inner)
            for piece in _pieces(inner):
                scale, offset = _linear(atom.arg, name, piece)
                if scale:
                    found.add(-offset // scale + 1)
    return sorted(found)


def _pieces(cuts: list[int]) -> list[Interval]:
    """The intervals between cuts, the first and the last of them open."""
    return [(low, None if high is None else high - 1) for low, high in zip([None, *cuts], [*cuts, None], strict=True)]


def _linear(dim: Dim, name: str, piece: Interval) -> tuple[int, int]:
    """Scale and offset of a dim that is linear on a piece."""
    low, high = piece
    at = low if low is not None else 0 if high is None else high - 1
    value = dim.evaluate({name: at})
    scale = 0 if low is not None and low == high else dim.evaluate({name: at + 1}) - value
    return scale, value - scale * at


def _values(relation: Relation) -> Ranges:
    """The values of lhs - rhs (of lhs for "in") at which the relation holds."""
    if relation.kind == "in":
        return relation.ranges
    if relation.kind == "==":
        return ((0, 0),)
    if relation.kind == "!=":
        return complement(((0, 0),))
    return ((None, 0 if relation.kind == "<=" else -1),)
