"""Quotients written one way, to compare two sizes. No size is given in this form: a program's divisions stay as they
are written."""

from __future__ import annotations

from egshape.decide.known import Known
from egshape.dims import Atom, Dim, FloorDiv
from egshape.dims.core import of_atom
from egshape.dims.factors import factors
from egshape.dims.theory import backward, divide


def compared(known: Known, dim: Dim) -> Dim:
    """A size in normal form with its quotients by what is known to be >= 1, and is no number, in one form."""
    return dim.map_atoms(lambda atom: _one_form(known, atom) if isinstance(atom, FloorDiv) else of_atom(atom))


def _one_form(known: Known, atom: FloorDiv) -> Dim:
    made = _one_division(known, atom)
    if made is not None:
        return compared(known, made)
    if atom.den.const is not None or not known.at_least(atom.den, 1):
        return of_atom(atom)
    made = _shared_factor(known, atom)
    if made is not None:
        return compared(known, made)
    if backward(atom.num, atom.den):  # rounding down is rounding up the negative
        return -known.floordiv(atom.den - 1 - atom.num, atom.den)
    return of_atom(atom)


def _one_division(known: Known, atom: FloorDiv) -> Dim | None:
    """``((i//j) + r)//k`` as ``(i + j*r)//(j*k)``, where j and k are not both numbers (``size.floordiv/nested``)."""
    for mono, c in atom.num.terms:
        inner: Atom | None = mono[0][0] if c == 1 and len(mono) == 1 and mono[0][1] == 1 else None
        if not isinstance(inner, FloorDiv) or None not in (inner.den.const, atom.den.const):
            continue
        if known.at_least(inner.den, 1) and known.at_least(atom.den, 1):
            num = inner.num + inner.den * (atom.num - of_atom(inner))
            return known.floordiv(num, inner.den * atom.den)
    return None


def _shared_factor(known: Known, atom: FloorDiv) -> Dim | None:
    """``(f*h)//(f*k)`` as ``h//k``."""
    for factor in factors(atom.den):
        num, rest = divide(atom.num, factor)
        if not rest.terms and factor is not atom.den and known.at_least(factor, 1):
            return known.floordiv(num, divide(atom.den, factor)[0])
    return None
