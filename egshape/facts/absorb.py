"""Which statements say something about one symbol alone, and what."""

from __future__ import annotations

from egshape.dims import Dim, FloorDiv, Symbol
from egshape.facts.intervals import INTEGERS, Ranges, complement, preimage
from egshape.facts.relation import Relation

ResidueClass = tuple[int, int]


def linear_symbol(dim: Dim) -> tuple[str, int, int] | None:
    """(name, scale, offset) if dim is scale*name + offset."""
    terms = dim.terms
    if not 1 <= len(terms) <= 2 or (len(terms) == 2 and terms[1][0]):
        return None
    mono, scale = terms[0]
    if len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Symbol):
        return None
    return mono[0][0].name, scale, terms[1][1] if len(terms) == 2 else 0


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


def _values(relation: Relation) -> Ranges:
    """The values of lhs - rhs (of lhs for "in") at which the relation holds."""
    if relation.kind == "in":
        return relation.ranges
    if relation.kind == "==":
        return ((0, 0),)
    if relation.kind == "!=":
        return complement(((0, 0),))
    return ((None, 0 if relation.kind == "<=" else -1),)
