"""How a size is taken apart for the rules: input-table rows, and the smaller sizes in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from egshape.dims import Call, Dim, FloorDiv, Relu, Symbol, const, is_nonnegative, is_positive
from egshape.dims.core import Function, from_terms, of_atom

LIMIT = 1 << 62
"""Numbers from here on are kept from the engine, whose i64 would overflow."""

Rows = list[tuple[str, tuple[int, ...]]]


class Split(NamedTuple):
    """Rows (table, row) about a size, and the sizes that they mention."""

    rows: Rows
    parts: tuple[Dim, ...]


def split(dim: Dim, functions: Mapping[str, Function] = MappingProxyType({})) -> Split:
    """One canonical split of a polynomial, every atom of a monomial, the inside of an atom.

    functions: those that the engine knows by name; the value of another one is a leaf for it."""
    if dim.const is not None:
        return Split([("in_num", (dim.id, dim.const))] if abs(dim.const) < LIMIT else [], ())
    if len(dim.terms) > 1 or dim.terms[0][1] != 1:
        found = _sum(dim)
    else:
        mono = dim.terms[0][0]
        found = _atom(dim, functions) if len(mono) == 1 and mono[0][1] == 1 else _product(dim)
    if is_nonnegative(dim):
        found.rows.append(("in_lo", (dim.id, int(is_positive(dim)))))
    return found


def goal(dim: Dim) -> Split:
    """Ask for the bounds of a difference x - y + c from the order facts; nothing if it is none."""
    up, down, offset = sides(dim)
    if not up.terms or not down.terms or abs(offset) >= LIMIT:
        return Split([], ())
    return Split([("in_goal", (dim.id, up.id, down.id, offset))], (up, down))


def edge(smaller: Dim, larger: Dim) -> Split:
    """The order fact smaller <= larger."""
    difference = larger - smaller
    up, down, offset = sides(difference)
    rows: Rows = [("in_lo", (difference.id, 0))]
    if abs(offset) < LIMIT:
        rows.append(("in_edge", (down.id, up.id, -offset)))
    return Split(rows, (difference, up, down))


def sides(dim: Dim) -> tuple[Dim, Dim, int]:
    """(up, down, c) with dim = up - down + c and no negative coefficient on either side."""
    up = from_terms((m, c) for m, c in dim.terms if m and c > 0)
    down = from_terms((m, -c) for m, c in dim.terms if m and c < 0)
    return up, down, _offset(dim)


def weight(dim: Dim, known: dict[Dim, int]) -> int:
    """How much there is to read in a size; 0 for a number. `known` remembers weights between calls."""
    found = known.get(dim)
    if found is not None:
        return found
    total = 0
    for mono, c in dim.terms if dim.const is None else ():
        total += 1 + (c != 1)
        for atom, power in mono:
            total += power + sum(2 + weight(part, known) for part in atom.args)
    known[dim] = total
    return total


def _offset(dim: Dim) -> int:
    if not dim.terms or dim.terms[-1][0]:
        return 0
    return dim.terms[-1][1]


def _sum(dim: Dim) -> Split:
    """d = c*head + tail. A constant goes out first, so that d and d + 1 share the rest of the chain."""
    offset = _offset(dim)
    if offset:
        head, c, tail = dim - offset, 1, const(offset)
    else:
        mono, c = dim.terms[0]
        head, tail = from_terms([(mono, 1)]), from_terms(dim.terms[1:])
    rows: Rows = [("in_term", (dim.id, c, head.id, tail.id))] if abs(c) < LIMIT else []
    return Split(rows, (head, tail))


def _product(dim: Dim) -> Split:
    mono = dim.terms[0][0]
    rows: Rows = []
    parts: list[Dim] = []
    for atom, _ in mono:
        one = of_atom(atom)
        rest = from_terms([(tuple((a, p - (a is atom)) for a, p in mono if a is not atom or p > 1), 1)])
        rows.append(("in_factor", (dim.id, one.id, rest.id)))
        parts += (one, rest)
    return Split(rows, tuple(parts))


def _atom(dim: Dim, functions: Mapping[str, Function]) -> Split:
    atom = dim.terms[0][0][0][0]
    if isinstance(atom, Symbol):
        return Split([], ())
    if isinstance(atom, Call):
        known = functions.get(atom.function.name) is atom.function
        return call(dim, atom.function, atom.args) if known else Split([], atom.args)
    if isinstance(atom, FloorDiv):
        return division(dim, atom.num, atom.den)
    assert isinstance(atom, Relu)
    found, asked = ramp(dim, atom.arg), goal(atom.arg)
    return Split(found.rows + asked.rows, found.parts + asked.parts)


def division(quotient: Dim, num: Dim, den: Dim) -> Split:
    """quotient = floor(num / den), with the remainder."""
    remainder = num - den * quotient
    rows: Rows = [("in_floordiv", (quotient.id, num.id, den.id, remainder.id))]
    return Split(rows, (quotient, num, den, remainder))


def call(value: Dim, function: Function, args: tuple[Dim, ...]) -> Split:
    """value = function(args)."""
    return Split([(f"in_{function.name}", (value.id, *(arg.id for arg in args)))], (value, *args))


def ramp(size: Dim, arg: Dim) -> Split:
    """size = Relu(arg), with its mirror Relu(-arg)."""
    mirror = size - arg
    return Split([("in_relu", (size.id, arg.id, mirror.id))], (size, arg, mirror))
