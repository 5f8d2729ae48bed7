"""Blocks that branch to each other (the cf dialect), as ifs and loops: a structured body of the same meaning.

A branch whose ways meet again is an if whose results are the arguments of the block where they meet (the immediate
postdominator); a block that both ways reach before that is written in both. A block that a later one branches back to
is the head of a while loop: its ops stand in the condition, in the body and behind the loop, so they have no effect.
What is left is refused: loops with several ways out, branches into the middle of a loop, and ``cf.switch``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from egshape.errors import Unsupported
from egshape.frontends.stablehlo.attributes import TensorInfo
from egshape.frontends.stablehlo.node import Body, Node
from egshape.ir.graph import Location

BIND = "cf.br"
"""The name of a node that calls its operands by further names."""

MOST_BLOCKS = 5_000
"""Blocks as they are written: where ways meet late each is written often."""

EXIT = -1
"""The place behind the function."""

_CALLS = ("func.call", "stablehlo.composite", "stablehlo.custom_call")
_TRUTH = TensorInfo("i1", ())


@dataclass(frozen=True)
class Jump:
    """Where a block may go on, and what it gives to the arguments there; ``pred``: the first one where it is true."""

    to: tuple[int, ...]
    given: tuple[tuple[int, ...], ...]
    pred: int | None = None


@dataclass(frozen=True)
class Piece:
    """A block with its ops, without the terminator."""

    body: Body
    jump: Jump
    location: Location
    """Of the terminator."""


def structured(pieces: Sequence[Piece], types: Sequence[TensorInfo], fresh: Callable[[], int]) -> Body:
    """The body of a function of several blocks. ``types``: of its results; ``fresh``: gives numbers for new values.

    Raises Unsupported, at the branch that has no structured form."""
    body = _Structure(pieces, types, fresh).until(0, EXIT, ())
    first = pieces[0].body
    return replace(body, args=first.args, types=first.types, locations=first.locations)


class _Structure:
    def __init__(self, pieces: Sequence[Piece], types: Sequence[TensorInfo], fresh: Callable[[], int]) -> None:
        self.pieces, self.types, self.fresh = pieces, types, fresh
        self.loops, self.meets = _loops(pieces), _meets(pieces)
        self.written = count()

    def until(self, place: int, end: int, inside: tuple[int, ...]) -> Body:
        """The ops from the beginning of a block to that of another, and what they give to its arguments.
        ``inside``: the heads of the loops around."""
        nodes: list[Node] = []
        while True:
            piece = self.pieces[place]
            if next(self.written) >= MOST_BLOCKS:
                raise _refused(piece, f"branches that meet late: more than {MOST_BLOCKS:,} blocks as ifs")
            if place in self.loops and place not in inside:
                nodes.append(self._loop(place, inside))
                way = self._way(place, stays=False)
                nodes += piece.body.nodes
                target, given = piece.jump.to[way], piece.jump.given[way]
            else:
                nodes += piece.body.nodes
                target, given = self._join(piece, nodes, place, inside)
            if target == end:
                return Body((), (), (), tuple(nodes), given)
            if target in inside or target == EXIT:
                raise _refused(piece, "a loop that is left from its inside")
            args = self.pieces[target].body
            nodes.append(Node(BIND, given, args.args, args.types, {}, (), piece.location))
            place = target

    def _join(
        self, piece: Piece, nodes: list[Node], place: int, inside: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...]]:
        """Where a block goes on, and with what: for a branch behind an if, which is added."""
        jump = piece.jump
        if jump.pred is None:
            return jump.to[0], jump.given[0]
        meet = self.meets.get(place)
        if meet is None:
            raise _refused(piece, "a branch whose ways never meet")
        arms = tuple(self._arm(piece, way, meet, inside) for way in range(2))
        types = self.types if meet == EXIT else self.pieces[meet].body.types
        results = tuple(self.fresh() for _ in types)
        nodes.append(Node("stablehlo.if", (jump.pred,), results, tuple(types), {}, arms, piece.location))
        return meet, results

    def _arm(self, piece: Piece, way: int, meet: int, inside: tuple[int, ...]) -> Body:
        to, given = piece.jump.to[way], piece.jump.given[way]
        if to == meet:
            return Body((), (), (), (), given)
        if to in inside:
            raise _refused(piece, "a loop that is left from its inside")
        args = self.pieces[to].body
        arm = self.until(to, meet, inside)
        bind = Node(BIND, given, args.args, args.types, {}, (), piece.location)
        return replace(arm, nodes=(bind, *arm.nodes))

    def _loop(self, head: int, inside: tuple[int, ...]) -> Node:
        """A while loop over the arguments of its head, which are its results too."""
        piece = self.pieces[head]
        args, jump, way = piece.body, piece.jump, self._way(head, stays=True)
        if any(_has_effect(node) for node in args.nodes):
            raise _refused(piece, "a loop whose first block calls something")
        assert jump.pred is not None
        goes, nodes = jump.pred, args.nodes
        if way == 1:
            goes = self.fresh()
            nodes = (*nodes, Node("stablehlo.not", (jump.pred,), (goes,), (_TRUTH,), {}, (), piece.location))
        again = self._arm(piece, way, head, (*inside, head))
        test = replace(args, nodes=nodes, results=(goes,))
        body = replace(args, nodes=(*args.nodes, *again.nodes), results=again.results)
        return Node("stablehlo.while", args.args, args.args, args.types, {}, (test, body), piece.location)

    def _way(self, head: int, *, stays: bool) -> int:
        """Which of its two ways stays in the loop of a head, or leaves it."""
        piece, own = self.pieces[head], self.loops[head]
        ways = [way for way, to in enumerate(piece.jump.to) if (to in own) is stays]
        if len(piece.jump.to) != 2 or len(ways) != 1:
            raise _refused(piece, "a loop whose first block does not decide whether it ends")
        return ways[0]


def _refused(piece: Piece, what: str) -> Unsupported:
    return Unsupported(
        f"{what} has no form as if and while here",
        where=str(piece.location),
        hint="write it with stablehlo.if, case and while",
    )


def _has_effect(node: Node) -> bool:
    """Whether an op may do more than give a value, or calls what may: it must not run more often than it is written."""
    inner = (each for region in node.regions for each in region.nodes)
    return bool(node.single) or node.name in _CALLS or any(map(_has_effect, inner))


def _loops(pieces: Sequence[Piece]) -> dict[int, frozenset[int]]:
    """The loops by their first block: all blocks from which it is reached again without leaving them."""
    to = [piece.jump.to for piece in pieces]
    before: list[set[int]] = [set() for _ in to]
    for place, places in enumerate(to):
        for each in places:
            if each != EXIT:
                before[each].add(place)
    dominators = _dominators(range(len(to)), before, 0)
    loops: dict[int, frozenset[int]] = {}
    for place, each in _back_edges(to):
        if each not in dominators[place]:
            raise _refused(pieces[place], "a branch into the middle of a loop")
        own, pending = {each}, [place]
        while pending:
            if (block := pending.pop()) not in own:
                own.add(block)
                pending += before[block]
        loops[each] = loops.get(each, frozenset()) | own
    return loops


def _back_edges(to: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Branches to a block that is on the way from the first one, in the order of a walk that goes deep first."""
    on_way, seen = [0], {0}
    ahead = [iter(to[0])]
    while on_way:
        each = next(ahead[-1], None)
        if each is None:
            on_way.pop()
            ahead.pop()
        elif each in on_way:
            yield on_way[-1], each
        elif each != EXIT and each not in seen:
            seen.add(each)
            on_way.append(each)
            ahead.append(iter(to[each]))


def _meets(pieces: Sequence[Piece]) -> dict[int, int]:
    """The place where all ways from a block meet first; none for a block from which the end is never reached."""
    after = {EXIT: set[int](), **{place: set(piece.jump.to) for place, piece in enumerate(pieces)}}
    found = _dominators(after, after, EXIT)
    return {
        place: each
        for place, every in found.items()
        for each in every - {place}
        if EXIT in every and len(found[each]) == len(every) - 1
    }


def _dominators(
    places: Iterable[int], before: Mapping[int, set[int]] | Sequence[set[int]], first: int
) -> dict[int, set[int]]:
    """For each place those that every way from the first one to it passes, itself too; all where there is no way."""
    every = set(places)
    found = {place: {first} if place == first else every for place in every}
    changed = True
    while changed:
        changed = False
        for place in every - {first}:
            now = {place}.union(set.intersection(*(found[each] for each in before[place])) if before[place] else every)
            changed |= now != found[place]
            found[place] = now
    return found
