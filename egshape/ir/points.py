"""A few small sizes for the inputs of a graph: some at which it should run, some that violate what it asks for."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from egshape.dims import Dim, symbol
from egshape.errors import UndefinedSize
from egshape.facts import Facts, Relation
from egshape.ir.graph import Graph

Data = Literal["plain", "zeros", "special"]

LARGEST = 4096
"""No axis of a symbolic size is made larger."""

_SPREADS = ((2, 3, 5, 4, 7), (1,), (3, 2), (5, 7, 3), (0,), (8, 16), (2,))
"""Wanted sizes of the free symbols in turn, a row a point."""

_TRIES = 200
_SATISFYING = 7
_VIOLATING = 60


@dataclass(frozen=True)
class Point:
    """Sizes of the symbols that input types speak of, in order of appearance. ``env`` also names each input axis
    by its place (``arg0.1``). ``data`` says what floats to take: "plain" ones, "zeros" (signed, and ones), or
    "special" (NaN and infinities among plain ones)."""

    sizes: dict[str, int]
    env: dict[str, int]
    data: Data


def points_of(original: Graph, optimized: Graph, facts: Facts) -> Iterator[Point]:
    """Points in order of worth: first some that satisfy all that is known, then single sizes put to 0, 1 and one
    more, and sizes that violate each relation, with further satisfying ones at the end."""
    names = list(
        dict.fromkeys(
            name
            for value in original.inputs
            for dim in value.type.shape or ()
            for name in sorted(dim.symbols())
        )
    )
    solver = _Solver(names, _relations((original, optimized), facts, names))
    good = islice(solver.satisfying(), _SATISFYING)
    first = next(good, None)
    start = first if first is not None else dict.fromkeys(names, 2)
    second = next(good, None)
    likely = [point for point in (first, second) if point is not None]
    seen: set[tuple[tuple[int, ...], Data]] = set()
    kinds: tuple[Data, ...] = ("plain", "zeros", "special")
    planned: Iterable[tuple[dict[str, int], Data]] = chain(
        ((sizes, data) for data in kinds for sizes in [start, *likely]),
        ((sizes, "plain") for sizes in islice(solver.violating(start), _VIOLATING)),
        ((sizes, kinds[number % 3]) for number, sizes in enumerate(good)),
    )
    for sizes, data in planned:
        key = tuple(sizes[name] for name in names), data
        if (
            key not in seen
            and min(sizes.values(), default=0) >= 0
            and max(sizes.values(), default=0) <= LARGEST
        ):
            seen.add(key)
            yield Point(sizes, {**_axes(original, sizes), **sizes}, data)


def _axes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    out = {}
    for value in graph.inputs:
        for axis, dim in enumerate(value.type.shape or ()):
            try:
                out[f"{value.name}.{axis}"] = dim.evaluate(sizes)
            except UndefinedSize:
                continue
    return out


def _relations(graphs: Sequence[Graph], facts: Facts, names: Sequence[str]) -> list[Relation]:
    """What is stated, checked or required about the symbols ``names``, each once."""
    found = list(facts.statements())
    for graph in graphs:
        for op in graph.ops:
            found += op.requires
            if op.name == "check" and op.attrs["relation"] != "value":
                found.append(Relation(op.attrs["relation"], *op.attrs["sides"]))
    known = set(names)
    return [each for each in dict.fromkeys(found) if each.symbols() <= known]


class _Solver:
    """Sizes for which relations hold: equations give symbols in terms of others, the rest is tried out."""

    def __init__(self, names: Sequence[str], relations: Sequence[Relation]) -> None:
        self.names = names
        self.relations = relations
        self.solved = _solve(names, relations)
        self.free = [name for name in names if name not in self.solved]
        bound = [relation.substitute(self.solved) for relation in relations]
        self.columns = {name: _column(name, bound) for name in self.free}

    def complete(self, free: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes of all symbols from those of the free ones, None where one is negative or undefined."""
        try:
            sizes = {
                name: free[name] if name in free else self.solved[name].evaluate(free) for name in self.names
            }
        except UndefinedSize:
            return None
        return sizes if min(sizes.values(), default=0) >= 0 else None

    def satisfying(self) -> Iterator[dict[str, int]]:
        """Sizes at which every relation holds, as many as are found in a bounded number of tries."""
        choices = random.Random(0)
        seen = set()
        for number in range(_TRIES if self.free else 1):
            if number < len(_SPREADS):
                wanted = _SPREADS[number]
                free = {
                    name: _pick(self.columns[name], wanted[place % len(wanted)])
                    for place, name in enumerate(self.free)
                }
            else:
                free = {name: choices.choice(self.columns[name][: 8 + number // 4]) for name in self.free}
            sizes = self.complete(free)
            if sizes is not None and tuple(sizes.values()) not in seen and _hold(self.relations, sizes):
                seen.add(tuple(sizes.values()))
                yield sizes

    def violating(self, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Sizes near ``start``, most of which violate something: one size at 0, 1, one more; then with the others
        brought along; then at the far end of each relation."""
        for change in (lambda size: size + 1, lambda size: 0, lambda size: 1):
            for name in self.names:
                yield {**start, name: change(start[name])}
        for value in (0, 1):
            for name in self.free:
                sizes = self.complete({**{free: start[free] for free in self.free}, name: value})
                if sizes is not None:
                    yield sizes
        for relation in self.relations:
            if relation.kind != "==":
                yield from self._beyond(relation, start)

    def _beyond(self, relation: Relation, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """The smallest change of one free symbol that makes the relation false, if there is one."""
        for name in self.free:
            if name not in relation.substitute(self.solved).symbols():
                continue
            for value in _ladder(start[name]):
                sizes = self.complete({**{free: start[free] for free in self.free}, name: value})
                if sizes is not None and not _hold([relation], sizes):
                    yield sizes
                    break


def _ladder(start: int) -> Iterator[int]:
    """Sizes to try for a violation, small steps first."""
    yield from range(16)
    yield from (start + step for step in (1, 2, 3))
    size = 16
    while size <= LARGEST:
        yield from (size, size + 1)
        size *= 2


def _solve(names: Sequence[str], relations: Sequence[Relation]) -> dict[str, Dim]:
    """Symbols that equations give in terms of others; those that appear late are given by early ones."""
    solved: dict[str, Dim] = {}
    for relation in relations:
        if relation.kind != "==":
            continue
        rest = (relation.lhs - relation.rhs).substitute(solved)
        found = next((pair for name in reversed(names) if (pair := _isolated(name, rest))), None)
        if found is not None:
            name, size = found
            solved = {other: dim.substitute({name: size}) for other, dim in solved.items()}
            solved[name] = size
    return solved


def _isolated(name: str, rest: Dim) -> tuple[str, Dim] | None:
    """(name, size) if ``rest == 0`` says that the symbol is that size."""
    if name in rest.symbols():
        for sign in (1, -1):
            other = rest - symbol(name) * sign
            if name not in other.symbols():
                return name, other * -sign
    return None


def _column(name: str, relations: Sequence[Relation]) -> list[int]:
    """Sizes that one symbol may have as far as relations about it alone tell, small ones first."""
    alone = [relation for relation in relations if relation.symbols() == {name}]
    found = [size for size in range(65) if _hold(alone, {name: size})]
    if len(found) < 3:
        ends = {
            end + step
            for relation in alone
            for pair in relation.ranges
            for end in pair
            if end is not None
            for step in (-1, 0, 1)
        }
        more = sorted(ends | set(range(65, LARGEST + 1)))
        found += [size for size in more if 64 < size <= LARGEST and _hold(alone, {name: size})][:8]
    return found or [2]


def _pick(column: Sequence[int], wanted: int) -> int:
    """The wanted size if the column has it, else one at a like place, so that different wishes differ."""
    return wanted if wanted in column else column[min(max(wanted - 1, 0), len(column) - 1)]


def _hold(relations: Iterable[Relation], sizes: Mapping[str, int]) -> bool:
    try:
        return all(relation.holds(sizes) for relation in relations)
    except UndefinedSize:
        return False
