"""Proof by contradiction: assume more, solve, eliminate, multiply, split into cases; all within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from egshape.decide.known import FRESH, Clash, Item, Rule
from egshape.decide.linear import Row, contradiction, row_of
from egshape.decide.shown import compound_atoms
from egshape.decide.world import World
from egshape.dims import Atom, Call, Dim, FloorDiv, Monomial, Relu, Symbol, is_positive, symbol
from egshape.dims.core import from_terms
from egshape.dims.functions import SHIPPED
from egshape.facts.intervals import count

_MAX_ROWS = 90
_MAX_PRODUCTS = 60
_PRODUCT_COST = 20
_PRODUCT_SHARE = 6
_MAX_DEPTH = 6
_MAX_RESIDUES = 16
_MAX_VALUES = 16


@dataclass
class Budget:
    """How many worlds one question may open; shared by all its cases."""

    worlds: int = 60


def refute(world: World, items: list[Item], budget: Budget, depth: int = 0) -> int | None:
    """The assumptions (bit mask) of a contradiction between the world and the items; None if none found."""
    if budget.worlds <= 0 or world.effort.left <= 0:
        return None
    budget.worlds -= 1
    child = world.copy()
    try:
        child.add(items)
    except Clash as clash:
        return clash.why
    new = [part + constant for part, (constant, _) in child.bounds.items() if part not in world.bounds]
    rules = [rule for rule in child.rules if rule not in world.rules]
    divided = [child.remainder(atom) for atom in child.exact if atom not in world.exact]
    found = _by_elimination(child, new, rules)
    if found is None:
        found = _by_signs(child, new)
    if found is not None or depth >= _MAX_DEPTH:
        return found
    focus = [*new, *(rule.equation() for rule in rules), *divided]
    return _by_cases(child, focus or [i.dim for i in items], budget, depth)


def refute_world(world: World, budget: Budget) -> int | None:
    """The assumptions (bit mask) of a contradiction in the world itself; None if none was found."""
    focus = [part + constant for part, (constant, _) in world.bounds.items()]
    found = _by_elimination(world, focus[:_MAX_ROWS], world.rules[:_MAX_ROWS])
    if found is not None:
        return found
    stores = (*world.members, *world.distinct, *world.stuck)
    rules = [rule.equation() for rule in world.rules]
    ranged = [symbol(name) for name in world.ranges]
    return _by_cases(world, [*focus, *(i.dim for i in stores), *rules, *ranged], budget, 0)


def _by_elimination(world: World, new: list[Dim], rules: list[Rule]) -> int | None:
    start = [row_of(d, world.bounds[_part(d)][1]) for d in new]
    start += [row_of(each, rule.why) for rule in rules for each in (rule.equation(), -rule.equation())]
    rows = world.near_rows(start, _MAX_ROWS)
    found = contradiction(rows, world.is_free, world.effort)
    if found is not None or not any(_degree(m) > 1 for row in rows for m in row.terms):
        return found
    factors = _factors(rows)
    for chosen in (start, rows):  # what is new is the likeliest to need a factor
        more = _products(chosen, rows, factors)
        world.effort.left -= _PRODUCT_COST * len(more)
        if more:
            found = contradiction([*rows, *more], world.is_free, world.effort, _PRODUCT_SHARE)
        if found is not None:
            return found
    return None


def _by_signs(world: World, new: list[Dim]) -> int | None:
    """A size known to be >= 0 that is negative once the signs inside its atoms are decided."""
    for dim in new:
        world.used = 0
        normal = world.normal(dim)
        if is_positive(-normal):
            return world.used | world.bounds[_part(dim)][1]
    return None


def _part(dim: Dim) -> Dim:
    return dim - (dim.terms[-1][1] if not dim.terms[-1][0] else 0)


def _degree(mono: Monomial) -> int:
    return sum(p for _, p in mono)


def _as_dim(row: Row) -> Dim:
    return from_terms([*row.terms.items(), ((), row.constant)])


def _factors(rows: list[Row]) -> list[tuple[Dim, int]]:
    """Sizes that are >= 0 and stand in products or divisors, with the assumptions they need."""
    monomials = [m for row in rows for m in row.terms]
    divisors = [a.den for m in monomials for a, _ in m if isinstance(a, FloorDiv) and a.den.const is None]
    atoms = [a for m in monomials if _degree(m) > 1 for a, _ in m if a.nonnegative]
    linear = [(_as_dim(r), r.why) for r in rows if all(_degree(m) == 1 for m in r.terms)]
    found = dict.fromkeys((d, 0) for d in divisors)
    found.update(dict.fromkeys((from_terms([(((a, 1),), 1)]), 0) for a in atoms))
    found.update(dict.fromkeys([f for f in linear if len(f[0].terms) > 1][:8]))
    return list(found)


def _products(chosen: list[Row], rows: list[Row], factors: list[tuple[Dim, int]]) -> list[Row]:
    """Rows times factors that are >= 0, where they meet the products that the rows already hold."""
    nonlinear = {m for row in rows for m in row.terms if _degree(m) > 1}
    found: list[Row] = []
    seen: set[Dim] = set()
    for row in chosen:
        dim = _as_dim(row)
        if len(dim.terms) > 8:
            continue
        for factor, why in factors:
            new = dim * factor
            if new in seen or len(new.terms) > 16:
                continue
            seen.add(new)
            if any(m in nonlinear for m, _ in new.terms):
                found.append(row_of(new, row.why | why))
                if len(found) >= _MAX_PRODUCTS:
                    return found
    return found + _squares(nonlinear)


def _squares(nonlinear: set[Monomial]) -> list[Row]:
    """(x - y)**2 >= 0 where x*y occurs."""
    rows: list[Row] = []
    for mono in nonlinear:
        if len(mono) == 2 and mono[0][1] == mono[1][1] == 1:
            one, two = (from_terms([(((a, 1),), 1)]) for a, _ in mono)
            rows.append(row_of((one - two) * (one - two)))
    return rows


def _by_cases(world: World, focus: list[Dim], budget: Budget, depth: int) -> int | None:
    cases = next(_splits(world, focus), None)
    if cases is None or len(cases) > budget.worlds:
        return None
    why = 0
    for case in cases:
        found = refute(world, case, budget, depth + 1)
        if found is None:
            return None
        why |= found
    return why


def _splits(world: World, focus: list[Dim]) -> Iterator[list[list[Item]]]:
    """Ways to cover everything by cases, the most promising first."""
    known = {*(rule.equation() for rule in world.rules), *map(world.remainder, world.exact)}  # each is 0 by itself
    dims = [d for d in (f if f in known else world.normal(f) for f in focus) if d.const is None]
    stores = [i.dim for i in (*world.distinct, *world.members, *world.stuck)]
    atoms = _atoms_of([*dims, *stores])
    for atom in atoms:
        if isinstance(atom, Relu):
            yield [[Item(">=", atom.arg - 1, 0)], [Item(">=", -atom.arg, 0)]]
    yield from _stored_splits(world)
    names = _names_of(dims)
    for name in names:
        ranges = world.ranges.get(name)
        if ranges is None:
            continue
        why = world.ranges_why[name]
        if len(ranges) > 1:
            yield [[Item("in", symbol(name), why, (interval,))] for interval in ranges]
    yield from _residue_splits(atoms)
    for name in names:
        ranges = world.ranges.get(name)
        size = count(ranges) if ranges is not None else None
        if ranges is not None and size is not None and size <= _MAX_VALUES:
            values = [v for lo, hi in ranges for v in range(lo or 0, (hi or 0) + 1)]
            yield [[Item("==", symbol(name) - v, world.ranges_why[name])] for v in values]
    yield from _order_splits(dims)


def _stored_splits(world: World) -> Iterator[list[list[Item]]]:
    for item in world.choices:
        if not any(world.normal(choice.dim).const == 0 for choice in item.choices):
            yield [[choice] for choice in item.choices]
    for atom in compound_atoms([rule.equation() for rule in world.rules]):
        world.used = 0
        if isinstance(atom, Call) and atom.function is SHIPPED["bcast"] and world.joins(*atom.args):
            one, two = atom.args
            yield [[Item("==", dim, world.used)] for dim in (one - two, one - 1, two - 1)]
    for item in world.distinct:
        if not world.nonnegative(item.dim - 1) and not world.nonnegative(-item.dim - 1):
            yield [[Item(">=", item.dim - 1, item.why)], [Item(">=", -item.dim - 1, item.why)]]
    for item in world.members:
        yield [[Item("in", item.dim, item.why, (interval,))] for interval in item.ranges]


def _residue_splits(atoms: list[Atom]) -> Iterator[list[list[Item]]]:
    for atom in atoms:
        if not isinstance(atom, FloorDiv) or atom.den.const is None:
            continue
        k = atom.den.const
        for mono, c in atom.num.terms:
            inner = mono[0][0] if mono else None
            if not isinstance(inner, Symbol) or not 2 <= k <= _MAX_RESIDUES or c % k == 0:
                continue
            x = symbol(inner.name)
            yield [[Item("==", x % k - r, 0)] for r in range(k)]


def _order_splits(dims: list[Dim]) -> Iterator[list[list[Item]]]:
    """Where products occur: is a factor 0, and which of two is larger."""
    products = [m for d in dims for m, _ in d.terms if _degree(m) > 1]
    symbols = {a for m in products for a, _ in m if isinstance(a, Symbol)}
    factors = sorted(symbols, key=lambda a: (a.name.startswith(FRESH), a.key))  # what is left of one again and again
    for atom in factors:
        x = symbol(atom.name)
        yield [[Item("==", x, 0)], [Item(">=", x - 1, 0)]]


def _atoms_of(dims: list[Dim]) -> list[Atom]:
    """Compound atoms at any depth, the innermost first."""
    return sorted(compound_atoms(dims), key=lambda a: (a.weight, a.key))


def _names_of(dims: list[Dim]) -> list[str]:
    return sorted({name for d in dims for name in d.symbols()})
