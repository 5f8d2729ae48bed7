"""What polynomial arithmetic tells of two sizes: the relations that rules over sizes ask for.

Each function is a relation of ``rulesets/prelude/shape.egg`` as rules use it that run at once: some of its arguments
are given, and it yields the others. They know sums and products only, nothing of what a size function means."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, Protocol

from egshape.dims.core import (
    Call,
    Dim,
    FloorDiv,
    Monomial,
    Relu,
    const,
    divide_monomial,
    exact_quotient,
    from_terms,
    monomial_dim,
)

Law = Iterator[tuple[Dim, str]]
"""Sizes that are >= 0, each with the rule that says so."""

_ONE: Monomial = ()
_ZERO = const(0)


class Sizes(Protocol):
    """Who is asked by rules: what is known of sizes, and how the value of a size function is made by it."""

    def at_least(self, dim: Dim, number: int) -> bool:
        """Whether dim >= number is known."""

    def floordiv(self, num: Dim, den: Dim) -> Dim:
        """floor(num / den)."""

    def relu(self, arg: Dim) -> Dim:
        """max(0, arg)."""

    def joins(self, one: Dim, two: Dim) -> bool:
        """Whether two sizes are known to be equal, or one of them to be 1."""

    def bcast(self, one: Dim, two: Dim) -> Dim:
        """The size of a broadcast axis."""

    def call(self, function: Any, args: tuple[Dim, ...]) -> Dim:
        """function(args), of a size function that is no atom of its own kind."""


def whole(num: Dim, den: Dim) -> Iterator[tuple[Dim, Dim]]:
    """(p, r) with num = p*den + r and p not 0: division by the leading term; by a number, r has the residues next to
    0 and a constant in 0..den-1."""
    quotient, rest = _by_number(num, den.const) if den.const is not None else divide(num, den)
    if quotient.terms:
        yield quotient, rest


def near(num: Dim, den: Dim) -> Iterator[tuple[Dim, Dim]]:
    """(p, r) with num = p*den + r for p = -1 and 1, where den is no number."""
    if den.const is None:
        for p in (-1, 1):
            yield const(p), num - p * den


def shared(num: Dim, den: Dim) -> Iterator[tuple[Dim, Dim, Dim, Dim]]:
    """(c, h, o, k) with num = c*h + o, den = c*k and a number c > 1: the largest that divides den and all of num but a
    number o in 0..c-1, which is not 0 only where den is a number."""
    number = den.const is not None
    terms = [(m, c) for m, c in num.terms if m or not number]
    common = gcd(*(c for _, c in terms), *(c for _, c in den.terms))
    if common > 1 and terms:
        offset = _offset(num) if number else 0
        kept = offset // common
        head = exact_quotient(from_terms(terms), common) + kept
        yield const(common), head, const(offset - kept * common), exact_quotient(den, common)


def terms(dim: Dim, coefficient: int) -> Iterator[tuple[Dim, Dim]]:
    """(head, tail) with dim = coefficient*head + tail: all but the number, then each monomial of that coefficient."""
    offset = _offset(dim)
    if offset and coefficient == 1:
        yield dim - offset, const(offset)
    for mono, c in dim.terms:
        if mono and c == coefficient:
            head = from_terms([(mono, 1)])
            yield head, dim - c * head


def factors(dim: Dim) -> Iterator[tuple[Dim, Dim]]:
    """(a, r) with dim = a*r and a not 1: the number in all terms, or the non-negative monomial in all of them."""
    common = gcd(*(c for _, c in dim.terms))
    if common > 1:
        yield const(common), exact_quotient(dim, common)
        return
    powers = {a: p for a, p in dim.terms[0][0] if a.nonnegative}
    for mono, _ in dim.terms[1:]:
        if not powers:
            return
        have = dict(mono)
        powers = {a: min(p, have[a]) for a, p in powers.items() if a in have}
    if powers:
        by = tuple(powers.items())
        rest = [(divide_monomial(m, by), c) for m, c in dim.terms]
        yield monomial_dim(by), from_terms((m, c) for m, c in rest if m is not None)


def backward(dim: Dim, den: Dim) -> bool:
    """Whether the first coefficient is negative; in a division by a number k the first that is not k/2 or -k/2, whose
    sign is free."""
    if not dim.terms:
        return False
    k = den.const
    if k is None or dim is den:
        return dim.terms[0][1] < 0
    inner = [c for m, c in dim.terms if m]
    if not inner:
        return False
    return next((c for c in inner if 2 * abs(c) != k), min(inner[0], 0)) < 0


def swapped(one: Dim, two: Dim) -> bool:
    """Whether the first stands after the second in the fixed order of sizes: then a function that does not care about
    the order of its arguments is written with the two in turn."""
    return one.key > two.key


def divide(num: Dim, den: Dim) -> tuple[Dim, Dim]:
    """Polynomial division by the leading term of den: num = q*den + r as forms."""
    lead, coefficient = den.terms[0]
    quotient = _ZERO
    rest = num
    done: dict[Monomial, int] = {}
    while rest.terms:
        mono, c = rest.terms[0]
        part = divide_monomial(mono, lead)
        q = c // coefficient if part is not None else 0
        if part is None or q == 0:
            done[mono] = c
            rest = from_terms(rest.terms[1:])
            continue
        step = from_terms([(part, q)])
        product_ = step * den
        if product_.terms[0][0] != mono:  # a Relu identity changed the leading term: leave it whole
            done[mono] = c
            rest = from_terms(rest.terms[1:])
            continue
        quotient += step
        rest = rest - product_
        if rest.terms and rest.terms[0][0] == mono:  # a remainder of the coefficient stays
            done[mono] = rest.terms[0][1]
            rest = from_terms(rest.terms[1:])
    return quotient, from_terms(done.items())


def _by_number(num: Dim, k: int) -> tuple[Dim, Dim]:
    """num = q*k + r, the coefficients of r the residues next to 0, its number in 0..k-1."""
    quotient: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for mono, c in num.terms:
        residue = c % k
        if mono and (2 * residue > k or (2 * residue == k and c % (2 * k) != residue and _is_division(mono))):
            residue -= k  # the sign of k/2 is free; an inner division keeps its own, so that it merges
        if residue:
            rest.append((mono, residue))
        if c != residue:
            quotient.append((mono, (c - residue) // k))
    return (from_terms(quotient), from_terms(rest)) if quotient else (_ZERO, num)


def _is_division(mono: Monomial) -> bool:
    """Whether a monomial is one division by a positive number."""
    if len(mono) != 1 or mono[0][1] != 1:
        return False
    atom = mono[0][0]
    return isinstance(atom, FloorDiv) and (atom.den.const or 0) > 0


def floordiv_parts(dim: Dim) -> tuple[Dim, Dim] | None:
    """(num, den) of a size that is one division."""
    atom = _lone(dim)
    return (atom.num, atom.den) if isinstance(atom, FloorDiv) else None


def relu_parts(dim: Dim) -> tuple[Dim] | None:
    """(arg,) of a size that is one Relu."""
    atom = _lone(dim)
    return (atom.arg,) if isinstance(atom, Relu) else None


def call_parts(function: object, dim: Dim) -> tuple[Dim, ...] | None:
    """The arguments of a size that is one value of this function."""
    atom = _lone(dim)
    return atom.args if isinstance(atom, Call) and atom.function is function else None


def _lone(dim: Dim) -> object:
    if len(dim.terms) != 1 or dim.terms[0][1] != 1 or len(dim.terms[0][0]) != 1 or dim.terms[0][0][0][1] != 1:
        return None
    return dim.terms[0][0][0][0]


def _offset(dim: Dim) -> int:
    return dim.terms[-1][1] if dim.terms and not dim.terms[-1][0] else 0
