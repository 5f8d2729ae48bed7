"""Sizes in the words of the program: fresh symbols are replaced by what they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from egshape.decide.known import FRESH, Fresh, Known
from egshape.dims import Atom, Call, Dim, FloorDiv, Relu, Symbol, at_once, const, symbol
from egshape.dims.core import divide_monomial, from_terms, multiply_monomials, of_atom
from egshape.dims.forms import FORMS, floordiv
from egshape.dims.theory import divide


def compound_atoms(dims: Iterable[Dim]) -> list[Atom]:
    """The size functions in these at any depth, each after those inside of it."""
    found: dict[Atom, None] = {}

    def visit(dim: Dim) -> None:
        for atom in dim.atoms():
            if isinstance(atom, Symbol) or atom in found:
                continue
            for arg in atom.args:
                visit(arg)
            found[atom] = None

    for dim in dims:
        visit(dim)
    return list(found)


def simpler(world: Known, atom: Atom) -> tuple[Dim, str] | None:
    """What a rule that runs at once makes of a size function in this world, and its name; None where none applies."""
    args = [world.normal(arg) for arg in atom.args]
    if isinstance(atom, Relu):
        return at_once.relu(world, *args)
    if isinstance(atom, FloorDiv):
        return at_once.floordiv(world, *args)
    return atom.function.simplify(world, *args) if isinstance(atom, Call) else None


def shown(world: Known, dim: Dim) -> Dim:
    """The size with fresh symbols replaced by what they stand for."""
    for _ in range(3 + len(world.fresh)):
        names = [n for n in dim.symbols() if n.startswith(FRESH)]
        if not names:
            return dim
        slacks = [n for n in names if world.fresh[n].is_slack]
        if slacks:
            newest = max(slacks, key=lambda n: int(n[1:]))
            dim = dim.substitute({newest: world.fresh[newest].meaning})
        else:
            newest = max(names, key=lambda n: int(n[1:]))
            dim = _show_quotient(dim, newest, world.fresh[newest])
    return dim


def _show_quotient(dim: Dim, name: str, fresh: Fresh) -> Dim:
    """c*q becomes (c/g) * (meaning // (divisor/g)): coefficients go into the division first."""
    atom = symbol(name).terms[0][0][0][0]
    den = fresh.divisor
    assert den is not None

    def inside(other: Atom) -> Dim:
        if name not in other.symbols or isinstance(other, Symbol):
            return of_atom(other)
        return FORMS.remade(other, [_show_quotient(arg, name, fresh) for arg in other.args])

    dim = dim.map_atoms(inside)
    plain = floordiv(fresh.meaning, den)
    divided = [(divide_monomial(m, ((atom, 1),)), c) for m, c in dim.terms]
    factor = from_terms((m, c) for m, c in divided if m is not None)
    rest = dim - from_terms((multiply_monomials(m, ((atom, 1),)), c) for m, c in factor.terms)
    if den.const is None:
        quotient, left = divide(factor, den)
        whole = quotient * fresh.meaning + left * plain
    else:
        whole = const(0)
        for mono, c in factor.terms:
            common = gcd(c, den.const)
            part = from_terms([(mono, c // common)])
            whole += part * floordiv(fresh.meaning, den.const // common)
    return rest + whole.substitute({name: plain})
