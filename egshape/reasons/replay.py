"""Replay a chain of reasons without the prover: does each step follow from the statements that it names?

Three ways of checking, from the strictest: a statement is *given* (a fact, or a check of the program); it follows by
*ring* arithmetic (the difference of its sides is a combination of the differences of the premises' sides); or it was
*sampled*: no sizes were found that satisfy the premises and break it, among many that satisfy them. The last is
evidence, not proof, and is labelled so."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

from egshape.decide.reason import RING
from egshape.dims import Dim, FloorDiv, Symbol
from egshape.dims.core import Monomial, divide_monomial, from_terms, monomial_dim
from egshape.errors import EgshapeError, UndefinedSize
from egshape.facts import Relation
from egshape.facts.relation import parse_relation
from egshape.reasons.steps import GIVENS
from egshape.report import Step

GIVEN = frozenset(each.name for each in GIVENS)
_POOL = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 100, 1000, 1 << 20)
_MAX_GRID = 3000
_MAX_TRIES = 4000
_MAX_POINTS = 150
_MAX_COLUMNS = 80
_MAX_TERMS = 400


@dataclass(frozen=True)
class Checked:
    """How one step was checked ("given", "ring" or "sampled"), and what is wrong with it ("" if nothing)."""

    how: str
    problem: str = ""


Key = tuple[object, ...]


def key_of(relation: Relation) -> Key:
    """What two writings of one statement share."""
    if relation.kind == "in":
        return ("in", relation.lhs, relation.ranges)
    if relation.kind in ("==", "!="):
        difference = relation.lhs - relation.rhs
        if difference.terms and difference.terms[0][1] < 0:
            difference = -difference
        return (relation.kind, difference)
    return ("<=", relation.rhs - relation.lhs - (1 if relation.kind == "<" else 0))


def replay(steps: Sequence[Step], given: Mapping[Key, frozenset[str]]) -> list[Checked]:
    """Check each step in turn. ``given``: the locations of each statement that needs no reason."""
    known: dict[Key, str] = {}
    out = []
    for step in steps:
        try:
            goal = parse_relation(step.to)
            premises = [parse_relation(text) for text in step.from_]
        except EgshapeError as error:
            out.append(Checked("given", f"{step.to!r}: {error.message}"))
            continue
        missing = [text for text, each in zip(step.from_, premises, strict=True) if key_of(each) not in known]
        checked = _given(step, goal, given) if step.rule in GIVEN else _derived(step, goal, premises)
        if missing and not checked.problem:
            checked = Checked(checked.how, f"{step.to!r} names {missing[0]!r}, which no step before it states")
        if not checked.problem:
            known[key_of(goal)] = step.to
        out.append(checked)
    return out


def _given(step: Step, goal: Relation, given: Mapping[Key, frozenset[str]]) -> Checked:
    places = given.get(key_of(goal))
    if places is None:
        return Checked("given", f"{step.to!r} is no fact and no check of the program")
    if step.location and step.location not in places:
        return Checked("given", f"{step.to!r} is not stated at {step.location}")
    return Checked("given")


def _derived(step: Step, goal: Relation, premises: Sequence[Relation]) -> Checked:
    if follows_by_ring(premises, goal):
        return Checked("ring")
    if step.rule == RING.name:
        return Checked("ring", f"{step.to!r} does not follow from {', '.join(step.from_) or 'nothing'} by arithmetic")
    return Checked("sampled", sampled_problem(premises, goal))


# -- polynomial arithmetic ---------------------------------------------------------------------------------------


def follows_by_ring(premises: Iterable[Relation], goal: Relation) -> bool:
    """Whether an equation follows from others by substitution and as a combination with polynomial factors."""
    if goal.kind != "==":
        return False
    try:
        target, rest = _eliminate([d for r in premises if (d := _difference(r)) is not None], goal.lhs - goal.rhs)
        return not target.terms or _combines(rest, target)
    except EgshapeError:
        return False


def _difference(relation: Relation) -> Dim | None:
    """lhs - rhs of an equation, None for another statement."""
    if relation.kind == "==":
        return relation.lhs - relation.rhs
    if relation.kind == "in" and len(relation.ranges) == 1 and relation.ranges[0][0] == relation.ranges[0][1]:
        return relation.lhs - (relation.ranges[0][0] or 0)
    return None


def _eliminate(equations: Sequence[Dim], target: Dim) -> tuple[Dim, list[Dim]]:
    """Solve each equation for a symbol where it can be, and put that in everywhere else."""
    waiting, left = list(equations), []
    while waiting:
        equation = waiting.pop(0)
        solved = solve(equation)
        if solved is None:
            if equation.terms:
                left.append(equation)
            continue
        env = {solved[0]: solved[1]}
        waiting = [each.substitute(env) for each in [*waiting, *left]]
        left = []
        target = target.substitute(env)
        if max(map(_terms, [target, *waiting])) > _MAX_TERMS:
            break
    return target, left


def _terms(dim: Dim) -> int:
    return len(dim.terms)


def solve(equation: Dim) -> tuple[str, Dim] | None:
    """(name, size) with ``equation = 0`` written as name = size, where the size does not speak of the name."""
    for mono, c in equation.terms:
        if abs(c) != 1 or len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Symbol):
            continue
        rest = from_terms([(mono, 1)]) - equation * c
        if mono[0][0].name not in rest.symbols():
            return mono[0][0].name, rest
    return None


def _combines(equations: Sequence[Dim], target: Dim) -> bool:
    """Whether the target is a sum of the equations times polynomials (a bounded search for these)."""
    columns = _columns(equations, target)
    rows: dict[Monomial, list[Fraction]] = {}
    width = len(columns) + 1
    for place, column in enumerate([*columns, target]):
        for mono, c in column.terms:
            rows.setdefault(mono, [Fraction(0)] * width)[place] = Fraction(c)
    return _solvable(list(rows.values()), len(columns))


def _columns(equations: Sequence[Dim], target: Dim) -> list[Dim]:
    """The equations times the monomials that bring one of their terms onto a term that is wanted."""
    found: dict[Dim, None] = {}
    wanted = [mono for mono, _ in target.terms]
    for _ in range(2):
        new: list[Dim] = []
        for equation in equations:
            for mono, _ in equation.terms:
                for goal in wanted:
                    factor = divide_monomial(goal, mono)
                    if factor is None or len(found) >= _MAX_COLUMNS:
                        continue
                    column = monomial_dim(factor) * equation
                    if column not in found:
                        found[column] = None
                        new.append(column)
        wanted = [mono for column in new for mono, _ in column.terms]
    return list(found)


def _solvable(rows: list[list[Fraction]], columns: int) -> bool:
    """Whether a linear system has a solution; the last column is the right side."""
    done = 0
    for column in range(columns):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        lead = rows[done]
        for row in rows[done + 1 :]:
            if row[column]:
                factor = row[column] / lead[column]
                for i in range(column, len(row)):
                    row[i] -= factor * lead[i]
        done += 1
    return all(not row[columns] for row in rows[done:])


# -- sampling ----------------------------------------------------------------------------------------------------


def sampled_problem(premises: Sequence[Relation], goal: Relation) -> str:
    """What is wrong with a step at sampled sizes: "" if it holds at all that satisfy the premises."""
    seen = False
    for env in islice(points(premises, goal), _MAX_POINTS):
        seen = True
        where = ", ".join(f"{name} = {size}" for name, size in sorted(env.items()))
        try:
            if not goal.holds(env):
                return f"{str(goal)!r} is false at {where}"
        except UndefinedSize:
            return f"{str(goal)!r} has no value at {where}"
    return "" if seen else f"no sizes were found that satisfy what {str(goal)!r} is said to follow from"


def points(premises: Sequence[Relation], goal: Relation) -> Iterator[dict[str, int]]:
    """Distinct sizes that satisfy the premises: a grid of small ones where that is little, then random ones."""
    solved = _solutions(premises)
    names = sorted(set(goal.symbols()).union(*(each.symbols() for each in premises)))
    free = [name for name in names if name not in solved]
    pools = {name: _pool(name, premises, goal) for name in free}
    seen: set[tuple[int, ...]] = set()
    for choice in _choices([pools[name] for name in free]):
        env = dict(zip(free, choice, strict=True))
        try:
            for name, dim in reversed(solved.items()):
                env[name] = dim.evaluate(env)
            if min(env.values(), default=0) < 0 or not all(each.holds(env) for each in premises):
                continue
        except UndefinedSize:
            continue
        chosen = tuple(env[name] for name in names)
        if chosen not in seen:
            seen.add(chosen)
            yield {name: env[name] for name in names}


def _solutions(premises: Sequence[Relation]) -> dict[str, Dim]:
    """Symbols in terms of others, each of symbols that are free or come after it."""
    waiting = [d for each in premises if (d := _difference(each)) is not None]
    out: dict[str, Dim] = {}
    while waiting:
        found = solve(waiting.pop(0))
        if found is not None:
            out[found[0]] = found[1]
            waiting = [each.substitute({found[0]: found[1]}) for each in waiting]
    return out


def _choices(pools: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    size = 1
    for pool in pools:
        size *= len(pool)
    if size <= _MAX_GRID:
        yield from _shuffled(list(product(*pools)))
        return
    small = [pool[:6] for pool in pools]
    yield from islice(product(*small), 200)
    maker = random.Random(len(pools))
    for _ in range(_MAX_TRIES):
        yield tuple(maker.choice(pool) for pool in pools)


def _shuffled(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    random.Random(len(rows)).shuffle(rows)
    return rows


def _pool(name: str, premises: Sequence[Relation], goal: Relation) -> list[int]:
    """Sizes to try for a symbol: small ones, those near the numbers of the statements, and multiples of divisors."""
    found = set(_POOL)
    divisors: set[int] = set()
    for each in (*premises, goal):
        if name not in each.symbols():
            continue
        for low, high in each.ranges:
            found.update(n + d for n in (low, high) if n is not None for d in (-1, 0, 1))
            if low is not None and high is not None:
                found.update((low + high) // 2 + d for d in (0, 1))
        for dim in (each.lhs, each.rhs):
            for number in _numbers(dim):
                found.update((number - 1, number, number + 1))
            divisors.update(_divisors(dim))
    for divisor in divisors:
        found.update(divisor * times + rest for times in (1, 2, 3, 5, 12) for rest in (0, 1, -1))
    return sorted(n for n in found if 0 <= n < 1 << 62)


def _numbers(dim: Dim) -> set[int]:
    out = {abs(c) for _, c in dim.terms}
    last = abs(dim.terms[-1][1]) if dim.terms and not dim.terms[-1][0] else 0
    out.update(last // c for c in list(out) if c and last)
    for part in _inside(dim):
        out |= _numbers(part)
    return out


def _divisors(dim: Dim) -> set[int]:
    out = {abs(c) for _, c in dim.terms if abs(c) > 1}
    for atom in dim.atoms():
        if isinstance(atom, FloorDiv) and atom.den.const:
            out.add(abs(atom.den.const))
    for part in _inside(dim):
        out |= _divisors(part)
    return out


def _inside(dim: Dim) -> Iterator[Dim]:
    """The sizes inside of the atoms of one."""
    for atom in dim.atoms():
        yield from atom.args
