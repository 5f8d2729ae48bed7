"""A size as a product of sums: whether it is 0 can then be told without multiplying, which may leave 64 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd

from egshape.dims.core import Atom, Dim, exact_quotient, from_terms, of_atom, symbol
from egshape.dims.forms import broadcast_gap, product, total
from egshape.dims.theory import divide

MOST_TERMS = 40
"""Longer sizes are not looked at."""
MOST_DEGREE = 4
_LARGEST_END = 10_000
"""Ends of a polynomial of one variable beyond which its roots are not looked for."""
_VALUES = (2, 3, 7, 13, 29, 61, 127)
"""What stands for other sizes where those of one are looked for."""


@lru_cache(maxsize=4096)
def factors(dim: Dim) -> tuple[Dim, ...]:
    """The different factors of a size that is 0 where one of them is: atoms that all of its terms have, and sums; the
    size alone where it is no product."""
    shared = [atom for atom in dim.atoms() if dim.terms and all(atom in dict(mono) for mono, _ in dim.terms)]
    least = {atom: min(dict(mono)[atom] for mono, _ in dim.terms) for atom in shared}
    left = from_terms(
        (tuple((a, p - least.get(a, 0)) for a, p in mono if p > least.get(a, 0)), c) for mono, c in dim.terms
    )
    rest = () if left.is_const else linear_factors(left) or (left,)
    return tuple(dict.fromkeys((*map(of_atom, shared), *rest))) or (dim,)


def linear_factors(dim: Dim) -> tuple[Dim, ...] | None:
    """Sums of multiples of symbols and atoms and of a number, of which this is a product, but for a number that is not
    0; None where it is no product of two or more. Symbols that only their product has in it count as one."""
    if len(dim.terms) > MOST_TERMS:
        return None
    found = _gap_of_atom(dim)
    if found is not None:
        return found
    beside: dict[tuple[int, ...], list[Atom]] = {}
    for atom in dim.atoms():
        beside.setdefault(tuple(dict(mono).get(atom, 0) for mono, _ in dim.terms), []).append(atom)
    names = {f"x{k}": atoms for k, atoms in enumerate(beside.values())}
    bases = {atoms[0]: symbol(name) for name, atoms in names.items()}
    plain = total(c * product(bases[a] for a, p in mono if a in bases for _ in range(p)) for mono, c in dim.terms)
    if not 1 < _degree(plain) <= MOST_DEGREE:
        return None
    found = _factored(plain)
    if found is None:
        return None
    meant = {name: product(map(of_atom, atoms)) for name, atoms in names.items()}
    return tuple(each.substitute(meant) for each in found)


def _gap_of_atom(dim: Dim) -> tuple[Dim, ...] | None:
    """Of what is 0 where x and an atom y broadcast: the square of y has the factor 1 - x there, which says what x is.
    Of a maximum x no product can be told by its form, since the square of a maximum is written as a sum."""
    for atom in dim.atoms():
        square, two = (atom, 2), of_atom(atom)
        kept = from_terms((tuple(each for each in m if each != square), c) for m, c in dim.terms if square in m)
        for one in (1 - kept, 1 + kept):
            gap = broadcast_gap(one, two)
            if not gap.is_const and dim in (gap, -gap):
                return one - two, one - 1, two - 1
    return None


def _degree(dim: Dim) -> int:
    return max((sum(power for _, power in mono) for mono, _ in dim.terms), default=0)


def _factored(dim: Dim) -> tuple[Dim, ...] | None:
    """The factors of a size of symbols, which is not 0; None where one would not be linear."""
    dim = _primitive(dim)
    if _degree(dim) < 2:
        return () if dim.is_const else (dim,)
    for factor in _candidates(dim):
        quotient, rest = divide(dim, factor)
        if not rest.terms:
            others = _factored(quotient)
            return None if others is None else (factor, *others)
    return None


def _primitive(dim: Dim) -> Dim:
    return exact_quotient(dim, gcd(*(c for _, c in dim.terms)))


def _candidates(dim: Dim) -> Iterator[Dim]:
    """Linear sizes among which is a factor, if all of them are linear: what they are where one symbol is 0, each with a
    multiple of it, and those of that symbol alone."""
    name = min(dim.symbols())
    one = symbol(name)
    without = dim.substitute({name: 0})
    if not without.terms:
        yield one
        return
    for root in _roots(_coefficients(dim, name)):
        yield root.denominator * one - root.numerator
    others = _factored(without)
    env = _point(without)
    if others is None or env is None:
        return
    roots = list(_roots(_coefficients(dim.substitute(env), name)))
    for other in others:
        yield other
        for root in roots:
            slope = Fraction(-other.evaluate(env)) / root
            yield _primitive(slope.denominator * other + slope.numerator * one)


def _point(dim: Dim) -> dict[str, int] | None:
    """Values of its symbols at which a size is not 0."""
    names = sorted(dim.symbols())
    for start in range(len(_VALUES)):
        env = {name: _VALUES[(start + k) % len(_VALUES)] + k // len(_VALUES) for k, name in enumerate(names)}
        if dim.evaluate(env):
            return env
    return None


def _coefficients(dim: Dim, name: str) -> list[int]:
    """Of the powers of a symbol, from 0 on: those beside the product of other symbols that comes first."""
    parts: dict[tuple[tuple[Atom, int], ...], dict[int, int]] = {}
    for mono, c in dim.terms:
        power = next((p for a, p in mono if of_atom(a) is symbol(name)), 0)
        rest = tuple((a, p) for a, p in mono if of_atom(a) is not symbol(name))
        parts.setdefault(rest, {})[power] = c
    powers = min(parts.values(), key=max)
    return [powers.get(k, 0) for k in range(max(powers) + 1)]


def _roots(coefficients: Sequence[int]) -> Iterator[Fraction]:
    """Where a polynomial of one variable is 0, but for 0 itself: fractions of divisors of its ends."""
    kept = [c for k, c in enumerate(coefficients) if any(coefficients[: k + 1])]
    if len(kept) < 2 or max(abs(kept[0]), abs(kept[-1])) > _LARGEST_END:
        return
    found = {
        sign * Fraction(above, below)
        for above in _divisors(kept[0])
        for below in _divisors(kept[-1])
        for sign in (1, -1)
    }
    for root in sorted(found):
        if not sum(c * root**k for k, c in enumerate(kept)):
            yield root


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, abs(number) + 1) if number % k == 0]
