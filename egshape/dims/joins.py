"""Sizes of broadcast axes: taken back from the expression that computes them, and what they join."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from egshape.dims.core import Dim, FloorDiv, Relu, const, from_terms, of_atom
from egshape.dims.forms import FORMS, product
from egshape.dims.functions import SHIPPED
from egshape.dims.theory import call_parts, divide

_BCAST = SHIPPED["bcast"]


def leaves(size: Dim) -> Iterator[Dim]:
    """The sizes that a common size joins; a size alone is its own."""
    parts = call_parts(_BCAST, size)
    if parts is None:
        yield size
    else:
        for each in parts:
            yield from leaves(each)


@lru_cache(maxsize=4096)
def rejoined(dim: Dim) -> Dim:
    """A size with bcast(a, b) in the place of the expression that computes it."""
    for atom in sorted(dim.atoms(), key=lambda each: (-each.weight, each.key)):
        joined = _joined(atom) if isinstance(atom, FloorDiv) else None
        found = None if joined is None or not isinstance(atom, FloorDiv) else _replaced(dim, atom, joined)
        if found is not None:
            return rejoined(found)
    return dim.map_atoms(
        lambda atom: FORMS.remade(atom, [rejoined(arg) for arg in atom.args]) if atom.args else of_atom(atom)
    )


def _joined(quotient: FloorDiv) -> Dim | None:
    """bcast(a, b), if its expression, a remainder, has this quotient."""
    for ramp in quotient.num.atoms():
        if isinstance(ramp, Relu):
            low = quotient.num - of_atom(ramp)
            high = low + ramp.arg
            value = _BCAST.unfolded(low, high)
            if value is not None and quotient in value.atoms():
                return _BCAST(rejoined(low), rejoined(high))
    return None


def _replaced(dim: Dim, quotient: FloorDiv, joined: Dim) -> Dim | None:
    """A size that is a polynomial in the remainder of a quotient, which is ``joined``: in terms of that."""
    remainder = quotient.num - quotient.den * of_atom(quotient)
    out, left = const(0), dim
    while (power := max((dict(mono).get(quotient, 0) for mono, _ in left.terms), default=0)) > 0:
        highest = ((mono, c) for mono, c in left.terms if dict(mono).get(quotient, 0) == power)
        beside = from_terms((tuple(each for each in mono if each[0] is not quotient), c) for mono, c in highest)
        factor, rest = divide(beside, product([-quotient.den] * power))
        if rest.terms:
            return None
        out, left = out + factor * product([joined] * power), left - factor * product([remainder] * power)
    return out + left
