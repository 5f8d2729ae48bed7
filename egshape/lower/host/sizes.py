"""Sizes that may be too large for 64-bit arithmetic: their magnitude as a double, which does not wrap."""

from __future__ import annotations

from egshape.dims import Dim, FloorDiv, Relu
from egshape.lower.common.sizes import cannot_wrap
from egshape.lower.llvm.writer import Writer

EXACT = float(2**62)
"""What no part of a size may exceed, so that nothing wraps on the way to its value."""


def magnitude(w: Writer, dim: Dim) -> str:
    """At least the absolute value of all parts of a size: its terms, and what its divisions and maxima compute."""
    found = w.find(("magnitude", dim))
    return w.keep(("magnitude", dim), _magnitude(w, dim)) if found is None else found


def _magnitude(w: Writer, dim: Dim) -> str:
    total = "0.0"
    for mono, factor in dim.terms:
        term = f"{float(abs(factor)):.1f}"
        for atom, power in mono:
            value = w.atom_float(atom)
            for _ in range(power):
                term = w.value(f"fmul double {term}, {w.value(f'call double @llvm.fabs.f64(double {value})')}")
            if isinstance(atom, FloorDiv | Relu):
                for inner in (atom.num, atom.den) if isinstance(atom, FloorDiv) else (atom.arg,):
                    if not cannot_wrap(inner):
                        total = w.value(f"fadd double {total}, {magnitude(w, inner)}")
        total = w.value(f"fadd double {total}, {term}")
    return total


def wraps(w: Writer, dim: Dim) -> str:
    """An i1: a part of the size may be more than 64 bits hold. True for what is no number, as 0/0."""
    return w.value(f"fcmp ugt double {magnitude(w, dim)}, {EXACT:.1f}")
