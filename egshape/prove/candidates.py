"""Facts that might decide an unknown goal, the smallest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import gcd

from egshape.dims import Definedness, Dim, FloorDiv, Relu, Symbol, symbol
from egshape.dims.core import from_terms, natural_key, of_atom
from egshape.facts import Relation

_MAX_NAMES = 8
_MAX_NUMBERS = 6


def candidates(goal: Relation, names: Iterable[str]) -> Iterator[Relation]:
    """One symbol first (>= 1, >= k, divisible), then two (==, <=, divides), then the goal's own parts.

    The symbols of the goal come before the others.
    """
    inside = goal.symbols()
    ordered = sorted(names, key=lambda n: (n not in inside, natural_key(n)))[:_MAX_NAMES]
    sizes = [symbol(n) for n in ordered]
    yield from (Relation.of(x, ">=", 1) for x in sizes)
    yield from (Relation.of(x, ">=", k) for k in _numbers(goal) if k > 1 for x in sizes)
    yield from (Relation.of(x % k, "==", 0) for x in sizes for k in sorted(_number_divisors(goal)))
    yield from (Relation.of(x, "<=", k) for k in _numbers(goal) for x in sizes)
    pairs = list(combinations(sizes, 2))
    yield from (Relation.of(one, "==", two) for one, two in pairs)
    yield from (Relation.of(*ends) for one, two in pairs for ends in ((one, "<=", two), (two, "<=", one)))
    for num, den in dict.fromkeys(_symbolic_divisions(goal)):
        yield Relation.of(num % den, "==", 0)
        yield Relation.of(num, "<", den)
    difference = goal.rhs - goal.lhs
    for part in _parts(difference):
        yield Relation.of(part, ">=", 0)
        yield Relation.of(-part, ">=", 0)


def made_true(condition: Definedness) -> list[Relation]:
    """Facts under which the condition holds: of a product, that each symbol is >= 1."""
    one = condition.one
    if condition.kind != "nonzero":
        return [Relation.of(one, "==", condition.two)]
    if len(one.terms) == 1 and all(isinstance(a, Symbol) for a, _ in one.terms[0][0]):
        return [Relation.of(of_atom(a), ">=", 1) for a, _ in one.terms[0][0]]
    return [Relation.of(one, ">=", 1)]


def _numbers(goal: Relation) -> list[int]:
    """The numbers of the goal and of its atoms, and quotients by coefficients, rounded both ways."""
    found: set[int] = set()
    for dim in _inner_dims([goal.lhs - goal.rhs]):
        constant = dim.terms[-1][1] if dim.terms and not dim.terms[-1][0] else 0
        found.add(abs(constant))
        for mono, c in dim.terms:
            if mono:
                found |= {abs(constant) // abs(c), -(-abs(constant) // abs(c))}
    found |= {end for interval in goal.ranges for end in interval if end is not None and end >= 0}
    return sorted(found)[:_MAX_NUMBERS]


def _number_divisors(goal: Relation) -> set[int]:
    """Divisors that are numbers, and the common ones of a difference's coefficients."""
    found: set[int] = set()
    for dim in _inner_dims([goal.lhs, goal.rhs]):
        for atom in dim.atoms():
            if isinstance(atom, FloorDiv) and atom.den.const is not None and abs(atom.den.const) > 1:
                k = abs(atom.den.const)
                found |= {k, *(k // gcd(k, c) for _, c in atom.num.terms if k // gcd(k, c) > 1)}
    return found


def _symbolic_divisions(goal: Relation) -> Iterator[tuple[Dim, Dim]]:
    for dim in _inner_dims([goal.lhs, goal.rhs]):
        for atom in dim.atoms():
            if isinstance(atom, FloorDiv) and atom.den.const is None:
                yield atom.num, atom.den


def _parts(difference: Dim) -> Iterator[Dim]:
    """The difference of the goal without common factors, and what its maxima compare."""
    if difference.terms and difference.const is None:
        shared = {a for a, _ in difference.terms[0][0] if isinstance(a, Symbol)}
        for mono, _ in difference.terms[1:]:
            shared &= {a for a, _ in mono}
        if shared:
            yield from_terms([(tuple((a, p) for a, p in m if a not in shared), c) for m, c in difference.terms])
    for dim in _inner_dims([difference]):
        yield from (atom.arg for atom in dim.atoms() if isinstance(atom, Relu))


def _inner_dims(dims: list[Dim]) -> Iterator[Dim]:
    """These and all that stand inside of their atoms."""
    for dim in dims:
        yield dim
        for atom in dim.atoms():
            yield from _inner_dims(list(atom.args))
