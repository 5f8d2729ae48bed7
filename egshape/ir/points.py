"""A few small sizes for the inputs of a graph: some at which it should run, some that violate what it asks for."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from egshape.dims import Dim, const, symbol
from egshape.errors import UndefinedSize
from egshape.facts import Facts, Relation
from egshape.facts.absorb import about_symbol, linear_symbol
from egshape.ir.graph import Graph, relation_of

Data = Literal["plain", "zeros", "special", "extreme"]

LARGEST = 4096
"""No axis of a symbolic size is made larger, unless what is known of it wants that."""

HUGE = 2**24
"""No axis at all is made larger."""

_SPREADS = ((2, 3, 5, 4, 7), (1,), (3, 2), (5, 7, 3), (0,), (8, 16), (2,))
"""Wanted sizes of the free symbols in turn, a row a point."""

_TRIES = 200
_SATISFYING = 7
_VIOLATING = 60

_SEARCH = 20_000
"""Relations that a search for sizes evaluates, in all."""

_NEAR = 64
"""So many sizes on either side of the wanted one are tried for a symbol on which others still depend."""


@dataclass(frozen=True)
class Point:
    """Sizes of the symbols that input types speak of, in order of appearance. ``env`` also names each input axis
    by its place (``arg0.1``). ``data`` says what elements to take: "plain" floats and small integers, "zeros" (signed,
    and ones), "special" (NaN and infinities among plain floats), or "extreme" (the ends and the middle of what the
    dtype holds, subnormals too)."""

    sizes: dict[str, int]
    env: dict[str, int]
    data: Data


def points_of(original: Graph, optimized: Graph, facts: Facts) -> Iterator[Point]:
    """Points in order of worth: first some that satisfy all that is known, then single sizes put to 0, 1 and one
    more, and sizes that violate each relation, with further satisfying ones at the end."""
    names = _input_symbols(original)
    solver = _Solver(names, _relations((original, optimized), facts, names))
    good = islice(solver.satisfying(), _SATISFYING + min(len(solver.ends), _SATISFYING))
    first = next(good, None)
    start = first if first is not None else dict.fromkeys(names, 2)
    second = next(good, None)
    likely = [point for point in (first, second) if point is not None]
    largest = min(max(LARGEST, *(2 * size for size in start.values())), HUGE) if start else LARGEST
    seen: set[tuple[tuple[int, ...], Data]] = set()
    kinds: tuple[Data, ...] = ("plain", "zeros", "special", "extreme")
    planned: Iterable[tuple[dict[str, int], Data]] = chain(
        ((sizes, data) for data in kinds for sizes in [start, *likely]),
        ((sizes, "plain") for sizes in islice(solver.violating(start), _VIOLATING)),
        ((sizes, kinds[number % len(kinds)]) for number, sizes in enumerate(good)),
    )
    for sizes, data in planned:
        key = tuple(sizes[name] for name in names), data
        if key not in seen and min(sizes.values(), default=0) >= 0 and max(sizes.values(), default=0) <= largest:
            seen.add(key)
            yield Point(sizes, {**_axes(original, sizes), **sizes}, data)


def admitted_points(
    graph: Graph, facts: Facts, scale: int, most: int = 2 * _SATISFYING, result: Graph | None = None
) -> Iterator[Point]:
    """Points at which all that is known holds, with sizes about ``scale`` times the small ones of ``points_of``, of all
    symbols or of some. ``result``: an optimized graph, whose checks hold too."""
    names = _input_symbols(graph)
    solver = _Solver(names, _relations((graph,) if result is None else (graph, result), facts, names))
    for sizes in islice(solver.satisfying(scale), most):
        if max(sizes.values(), default=0) > HUGE:
            continue
        yield Point(sizes, {**_axes(graph, sizes), **sizes}, "plain")


def _input_symbols(graph: Graph) -> list[str]:
    """The symbols that input types speak of, in order of appearance."""
    dims = (dim for value in graph.inputs for dim in value.type.shape or ())
    return list(dict.fromkeys(name for dim in dims for name in sorted(dim.symbols())))


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
            if (relation := relation_of(op)) is not None:
                found.append(relation)
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
        bound += [Relation("<=", const(0), size) for size in self.solved.values()]
        self.columns = {name: _column(name, bound) for name in self.free}
        self.due = _due(self.free, bound)
        self.ends = [(name, end) for name in self.free for end in _ends(name, relations)]
        self.tests = 0

    def complete(self, free: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes of all symbols from those of the free ones, None where one is negative or undefined."""
        try:
            sizes = {name: free[name] if name in free else self.solved[name].evaluate(free) for name in self.names}
        except UndefinedSize:
            return None
        return sizes if min(sizes.values(), default=0) >= 0 else None

    def satisfying(self, scale: int = 1) -> Iterator[dict[str, int]]:
        """Sizes at which every relation holds, as many as are found in a bounded number of tries."""
        seen = set()
        for free in self._wishes(scale):
            sizes = self._fitting(free) or self._fitting(self._search(free))
            if sizes is not None and tuple(sizes.values()) not in seen:
                seen.add(tuple(sizes.values()))
                yield sizes

    def _wishes(self, scale: int) -> Iterator[dict[str, int]]:
        """Sizes of the free symbols to begin with: the spreads, the ends of intervals, then drawn ones."""
        for spread in _SPREADS if self.free else ((),):
            wanted = {name: spread[place % len(spread)] * scale for place, name in enumerate(self.free)}
            yield {name: _pick(self.columns[name], size) if scale == 1 else size for name, size in wanted.items()}
        if scale > 1:
            yield from self._scaled_in_part(scale)
            return
        common = {name: self.columns[name][min(2, len(self.columns[name]) - 1)] for name in self.free}
        for name, end in self.ends:
            yield {**common, name: end}
        choices = random.Random(0)
        for number in range(len(_SPREADS), _TRIES if self.free else 0):
            yield {name: choices.choice(self.columns[name][: 8 + number // 4]) for name in self.free}

    def _scaled_in_part(self, scale: int) -> Iterator[dict[str, int]]:
        """All symbols but the first, which often is a batch, then each alone, the others 1."""
        parts = [self.free[1:], *([name] for name in self.free)] if len(self.free) > 1 else []
        for part in parts:
            yield {name: 3 * scale if name in part else _pick(self.columns[name], 1) for name in self.free}

    def _fitting(self, free: Mapping[str, int] | None) -> dict[str, int] | None:
        sizes = None if free is None else self.complete(free)
        return sizes if sizes is not None and _hold(self.relations, sizes) else None

    def _search(self, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes of the free symbols near those wanted at which all relations hold; None if none is found in time."""
        chosen: dict[str, int] = {}
        open_: list[Iterator[int]] = []
        while len(chosen) < len(self.free):
            name = self.free[len(chosen)]
            if len(open_) == len(chosen):
                open_.append(self._candidates(name, wanted[name], chosen))
            size = next((size for size in open_[-1] if self._holds(name, {**chosen, name: size})), None)
            if size is not None:
                chosen[name] = size
                continue
            open_.pop()
            if not open_ or self.tests > _SEARCH:
                return None
            del chosen[self.free[len(chosen) - 1]]
        return chosen

    def _holds(self, name: str, sizes: Mapping[str, int]) -> bool:
        """Whether the relations hold of which ``name`` is the last symbol to get a size."""
        self.tests += 1 + len(self.due[name])
        return self.tests <= _SEARCH and _hold(self.due[name], sizes)

    def _candidates(self, name: str, wanted: int, chosen: Mapping[str, int]) -> Iterator[int]:
        """Sizes for a symbol: the one that an equation wants, else those near the wanted one."""
        for relation in self.due[name]:
            rest = (relation.lhs - relation.rhs).substitute(dict(chosen)) if relation.kind == "==" else None
            line = None if rest is None or rest.divisors_maybe_zero() else linear_symbol(rest)
            if line is not None and line[0] == name:
                size, left = divmod(-line[2], line[1])
                yield from () if left or size < 0 else (size,)
                return
        last = name == self.free[-1]
        yield wanted
        for step in range(1, LARGEST if last and self.due[name] else _NEAR):
            yield wanted + step
            if wanted >= step:
                yield wanted - step
        yield from self.columns[name]

    def violating(self, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Sizes near ``start``, most of which violate something: one size at 0, 1, one more; then with the others
        brought along; then at the far end of each relation, and in its gaps."""
        for change in (lambda size: size + 1, lambda size: 0, lambda size: 1):
            for name in self.names:
                yield {**start, name: change(start[name])}
        for relation in self.relations:
            if relation.kind == "in":
                yield from self._gaps(relation, start)
        for value in (0, 1):
            for name in self.free:
                sizes = self._moved(start, name, value)
                if sizes is not None:
                    yield sizes
        for relation in self.relations:
            if relation.kind != "==":
                yield from self._beyond(relation, start)

    def _moved(self, start: Mapping[str, int], name: str, value: int) -> dict[str, int] | None:
        """The sizes where one free symbol has another value, and those that equations give follow it."""
        return self.complete({**{free: start[free] for free in self.free}, name: value})

    def _gaps(self, relation: Relation, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """The sizes of one symbol just outside of each interval."""
        for name in self.free:
            for end in _ends(name, [relation]):
                for value in (end - 1, end + 1):
                    sizes = self._moved(start, name, value) if value >= 0 else None
                    if sizes is not None and not _hold([relation], sizes):
                        yield sizes

    def _beyond(self, relation: Relation, start: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """The smallest change of one free symbol that makes the relation false, if there is one."""
        for name in self.free:
            if name not in relation.substitute(self.solved).symbols():
                continue
            for value in _ladder(start[name]):
                sizes = self._moved(start, name, value)
                if sizes is not None and not _hold([relation], sizes):
                    yield sizes
                    break


def _due(names: Sequence[str], relations: Iterable[Relation]) -> dict[str, list[Relation]]:
    """The relations by the last of their symbols, in the order of ``names``."""
    out: dict[str, list[Relation]] = {name: [] for name in names}
    place = {name: number for number, name in enumerate(names)}
    for relation in relations:
        held = relation.symbols()
        if held and held <= place.keys():
            out[max(held, key=place.__getitem__)].append(relation)
    return out


def _ends(name: str, relations: Iterable[Relation]) -> list[int]:
    """The ends of the intervals in which relations about one symbol alone let it lie."""
    out: list[int] = []
    for relation in relations:
        found = about_symbol(relation) if relation.kind == "in" else None
        if found is not None and found[0] == name:
            out += [end for pair in found[1] for end in pair if end is not None and end >= 0]
    return list(dict.fromkeys(out))


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
        ranges = [end for relation in alone if (known := about_symbol(relation)) for pair in known[1] for end in pair]
        ends = {end + step for end in ranges if end is not None for step in (-1, 0, 1)}
        far = max((end for end in ends if end > LARGEST), default=None)
        beyond = [] if far is None else range(far - LARGEST, far + LARGEST)
        more = sorted(ends | set(range(65, LARGEST + 1)))
        fitting = (size for size in chain(more, beyond) if size > 64 and _hold(alone, {name: size}))
        found = list(dict.fromkeys([*found, *islice(fitting, 8)]))
    return found or [2]


def _pick(column: Sequence[int], wanted: int) -> int:
    """The wanted size if the column has it, else one at a like place, so that different wishes differ."""
    return wanted if wanted in column else column[min(max(wanted - 1, 0), len(column) - 1)]


def _hold(relations: Iterable[Relation], sizes: Mapping[str, int]) -> bool:
    try:
        return all(relation.holds(sizes) for relation in relations)
    except UndefinedSize:
        return False
