"""Floor division, Relu and what is written with them, in canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from egshape.dims.core import (
    ABOVE,
    Dim,
    DimLike,
    FloorDiv,
    Monomial,
    as_dim,
    const,
    divide_monomial,
    exact_quotient,
    floordiv_atom,
    from_terms,
    is_nonnegative,
    is_positive,
    monomial_dim,
    of_atom,
    relu_atom,
)

_ONE: Monomial = ()
_ZERO = const(0)


def is_nonpositive(dim: Dim) -> bool:
    """Whether the form alone shows dim <= 0 at all sizes at which it is defined."""
    if any(c > 0 and not any(isinstance(a, FloorDiv) for a, _ in m) for m, c in dim.terms):
        return False  # the common case, without a new Dim
    return is_nonnegative(-dim)


def floordiv(num: DimLike, den: DimLike) -> Dim:
    """floor(num / den).  A division whose divisor may be 0 stays as it is written."""
    num, den = as_dim(num), as_dim(den)
    if den.const is not None:
        if den.const == 0:
            return of_atom(floordiv_atom(num, den))
        return _floordiv_const(num, den.const) if den.const > 0 else _floordiv_const(-num, -den.const)
    if is_positive(den):
        return floordiv_positive(num, den)
    if is_positive(-den):
        return floordiv_positive(-num, -den)
    return of_atom(floordiv_atom(num, den))


def floordiv_positive(num: Dim, den: Dim) -> Dim:
    """floor(num / den) where the caller knows that den >= 1: whole multiples of den go out."""
    if den.const is not None:
        return _floordiv_const(num, den.const)
    quotient, rest = divide(num, den)
    if not rest.terms:
        return quotient
    content = gcd(*(c for _, c in rest.terms), *(c for _, c in den.terms))
    if content > 1:
        rest, den = exact_quotient(rest, content), exact_quotient(den, content)
    if den.const is not None:
        return quotient + _floordiv_const(rest, den.const)
    return quotient + of_atom(floordiv_atom(rest, den))


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


def _floordiv_const(num: Dim, k: int) -> Dim:
    """floor(num / k) for k >= 1, in the one form that all equal writings share.

    Coefficients become symmetric residues modulo k, common divisors go out (floor(floor(c/g)/k)),
    inner divisions with coefficient +-1 merge (floor((floor(x)+m)/k) = floor((x+m)/k)), and
    floor(-p/k) = -floor((p+k-1)/k) gives the leading residue a positive sign.
    """
    out: list[tuple[Monomial, int]] = []
    terms: list[tuple[Monomial, int]] = []
    offset = 0
    for mono, c in num.terms:
        if not mono:
            offset = c
            continue
        residue = c % k
        if 2 * residue > k or (2 * residue == k and c % (2 * k) != residue and _inner_division(mono)):
            residue -= k  # the sign of k/2 is free; an inner division keeps its own, so that it merges
        if residue:
            terms.append((mono, residue))
        if c != residue:
            out.append((mono, (c - residue) // k))
    common = gcd(k, *(c for _, c in terms)) if terms else k
    if common > 1:
        terms = [(m, c // common) for m, c in terms]
        offset //= common
        k //= common
        if terms:
            return from_terms(out) + _floordiv_const(from_terms([*terms, (_ONE, offset)]), k)
    if not terms:
        return from_terms([*out, (_ONE, offset // k)])
    if offset // k:
        out.append((_ONE, offset // k))
        offset %= k
    whole = from_terms(out)
    flat = _merge_inner_division(terms, offset, k)
    if flat is not None:
        return whole + flat
    body = from_terms([*terms, (_ONE, offset)])
    # Where all residues are k/2 or -k/2 the first decides; any other would flip back and forth for ever.
    sign = next((c for _, c in terms if 2 * abs(c) != k), min(terms[0][1], 0))
    if sign < 0:
        return whole - _floordiv_const(-body + (k - 1), k)
    if sign == 0 and offset:  # k = 2, all residues 1: floor((p+1)/2) = p - floor(p/2)
        return whole + (body - 1) - of_atom(floordiv_atom(body - 1, const(k)))
    return whole + of_atom(floordiv_atom(body, const(k)))


def _inner_division(mono: Monomial) -> FloorDiv | None:
    """The atom of a monomial that is one division by a positive number."""
    if len(mono) != 1 or mono[0][1] != 1:
        return None
    atom = mono[0][0]
    return atom if isinstance(atom, FloorDiv) and (atom.den.const or 0) > 0 else None


def _merge_inner_division(terms: list[tuple[Monomial, int]], offset: int, k: int) -> Dim | None:
    for i, (mono, c) in enumerate(terms):
        atom = _inner_division(mono) if abs(c) == 1 else None
        j = atom.den.const if atom is not None else None
        if atom is None or j is None:
            continue
        inner = atom.num if c == 1 else (j - 1) - atom.num
        rest = from_terms([*terms[:i], *terms[i + 1 :], (_ONE, offset)])
        return _floordiv_const(inner + j * rest, j * k)
    return None


def mod(num: DimLike, den: DimLike) -> Dim:
    """num - den*floor(num/den), undefined where den is 0."""
    num, den = as_dim(num), as_dim(den)
    return num - den * floordiv(num, den)


def ceildiv(num: DimLike, den: DimLike) -> Dim:
    """-floor(-num / den): division rounded up."""
    return -floordiv(-as_dim(num), den)


def relu(arg: DimLike) -> Dim:
    """max(0, arg)."""
    arg = as_dim(arg)
    if is_nonnegative(arg):
        return arg
    if is_nonnegative(-arg):
        return _ZERO
    common = gcd(*(c for _, c in arg.terms))
    if common > 1:
        return common * relu(exact_quotient(arg, common))
    shared = _shared_factor(arg)
    if shared:
        rest = from_terms((_checked(divide_monomial(m, shared)), c) for m, c in arg.terms)
        return monomial_dim(shared) * relu(rest)
    if arg.terms[0][1] < 0:
        return arg + relu(-arg)
    return of_atom(relu_atom(arg))


def _checked(mono: Monomial | None) -> Monomial:
    assert mono is not None
    return mono


def _shared_factor(dim: Dim) -> Monomial:
    """The largest non-negative monomial that divides every term."""
    powers = {a: p for a, p in dim.terms[0][0] if a.nonnegative}
    for mono, _ in dim.terms[1:]:
        if not powers:
            break
        have = dict(mono)
        powers = {a: min(p, have[a]) for a, p in powers.items() if a in have}
    return tuple(powers.items())


def maximum(*values: DimLike) -> Dim:
    """The largest of the sizes (at least one)."""
    first, *rest = (as_dim(v) for v in values)
    for value in rest:
        first = value + relu(first - value)
    return first


def minimum(*values: DimLike) -> Dim:
    """The smallest of the sizes (at least one)."""
    first, *rest = (as_dim(v) for v in values)
    for value in rest:
        first = first - relu(first - value)
    return first


def bcast(one: DimLike, two: DimLike) -> Dim:
    """The size of a broadcast axis, right where the sizes are equal or one of them is 1."""
    one, two = as_dim(one), as_dim(two)
    if one.const == 1:
        return two
    if two.const == 1:
        return one
    return maximum(one, two) * minimum(one, 1) * minimum(two, 1)


def broadcast_gap(one: Dim, two: Dim) -> Dim:
    """What is 0 where two sizes broadcast: where they are equal, or one of them is 1."""
    return (one - two) * (one - 1) * (two - 1)


def product(values: Iterable[DimLike]) -> Dim:
    """Their product; 1 for none."""
    total = const(1)
    for value in values:
        total = total * value
    return total


ABOVE.floordiv, ABOVE.mod, ABOVE.relu = floordiv, mod, relu
