"""What is known, in parts: a question is asked of what hangs together with its symbols, and of nothing else.

Else each of n conditions of which no two speak of the same sizes is split into the cases of all of them, and a point
must satisfy all of them to say anything about one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from egshape.decide.samples import Sampler
from egshape.decide.world import World
from egshape.dims.core import of_atom

_FEW = 24
"""Where less is known than this, all of it is one part: it is looked at faster than taken apart."""


class Part:
    """Of a world what hangs together with some symbols. The world must not change while it is in use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sampler = Sampler(world)


class Parts:
    """The parts of one world, each made when it is asked for. The world must not change while they are in use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._above: dict[str, str] = {}
        self._made: dict[frozenset[str], Part] = {}
        told = list(_told(world))
        for names in told if len(told) >= _FEW else ():
            self._join(names)
        self._leaders = frozenset(map(self._leader, self._above))

    def about(self, names: Iterable[str]) -> Part:
        """The part that hangs together with these symbols."""
        leaders = frozenset(self._leader(name) for name in names if name in self._above)
        found = self._made.get(leaders)
        if found is None:
            found = self._made[leaders] = Part(self.world if leaders == self._leaders else self._only(leaders))
        found.world.effort = self.world.effort
        return found

    def _only(self, leaders: frozenset[str]) -> World:
        def inside(names: Iterable[str]) -> bool:
            return self._leader(next(iter(names), "")) in leaders

        part = self.world.copy()
        part.solved = {name: each for name, each in part.solved.items() if inside((name,))}
        part.positive = [name for name in part.positive if inside((name,))]
        part.ranges = {name: each for name, each in part.ranges.items() if inside((name,))}
        part.rules = [rule for rule in part.rules if inside(rule.equation().symbols())]
        part.bounds = {dim: each for dim, each in part.bounds.items() if inside(dim.symbols())}
        part.exact = {atom: each for atom, each in part.exact.items() if inside(atom.symbols)}
        part.members = [item for item in part.members if inside(item.symbols)]
        part.distinct = [item for item in part.distinct if inside(item.symbols)]
        part.stuck = [item for item in part.stuck if inside(item.symbols)]
        part.choices = [item for item in part.choices if inside(item.symbols)]
        return part

    def _leader(self, name: str) -> str:
        """Any one of the symbols that hang together with a symbol, the same for all of them."""
        above = self._above
        while above.get(name, name) != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    def _join(self, names: Iterable[str]) -> None:
        first, *others = map(self._leader, names)
        self._above.setdefault(first, first)
        for other in others:
            self._above[other] = self._leader(first)


def _told(world: World) -> Iterator[frozenset[str]]:
    """The symbols of each thing that is known, where there are any."""
    yield from (frozenset((name,)) for name in world.ranges)
    yield from (entry.value.symbols() | {name} for name, entry in world.solved.items())
    told = [rule.equation().symbols() for rule in world.rules]
    told += [dim.symbols() for dim in world.bounds]
    told += [of_atom(atom).symbols() for atom in world.exact]
    told += [item.symbols for item in (*world.members, *world.distinct, *world.stuck, *world.choices)]
    yield from filter(None, told)
