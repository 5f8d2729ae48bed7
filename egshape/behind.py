"""Rewrites behind a check: what stands behind a check of sizes that data gives may rely on it, what stands before may
not, and so it is optimized as a program of its own, which is entered where the check has held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from egshape.decide.context import Context
from egshape.decide.reason import Believed, Check
from egshape.egraph.stages import RegionEntry
from egshape.egraph.twins import Twins
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Op, Value, relation_of
from egshape.ops import REGISTRY

Run = Callable[[Block, RegionEntry], Block]
"""Optimizes a block."""

Moved = Callable[[Mapping[Value, Value]], None]
"""Is told which values were made anew, and what stands for them."""


_TIMES = 6
"""Behind how many checks of a program: each time all that stands there goes through the stages again."""


def optimize_behind(run: Run, moved: Moved, body: Block, context: Context, believed: Sequence[Believed]) -> Block:
    """The block, with what stands behind checks of sizes that data gives optimized anew.

    ``context`` and ``believed``: what holds where the block is entered."""
    place = _next(body, 0)
    for _ in range(_TIMES):
        if place is None:
            break
        body = _optimized(run, moved, body, place, context, believed)
        place = _next(body, place + 1)
    return body


def _next(body: Block, start: int) -> int | None:
    """The place of the first such check, the last one where several stand in a row, that sizes behind it speak of."""
    entry = {each.name for each in body.symbols if each.value in body.args}
    told: set[str] = set()
    for place, op in enumerate(body.ops[start:], start):
        if (relation := relation_of(op)) is not None:
            told |= relation.symbols() - entry
        elif told and _speak(body.ops[place:], told):
            return place - 1
        else:
            told.clear()
    return None


def _speak(ops: Sequence[Op], names: Set[str]) -> bool:
    """Whether more than one op, which is what the check is for, gives sizes that have one of the names."""
    sizes = ((size for value in op.results for size in value.type.shape or ()) for op in ops)
    return sum(any(size.symbols() & names for size in each) for each in sizes) > 1


def _optimized(
    run: Run, moved: Moved, body: Block, place: int, context: Context, believed: Sequence[Believed]
) -> Block:
    first, rest = body.ops[: place + 1], body.ops[place + 1 :]
    made = {value for op in rest for value in op.results}
    own = tuple(each for each in body.symbols if each.value in made)
    outer = tuple(each for each in body.symbols if each.value not in made)
    read = Block((), rest, body.results, own).captures()
    arguments = tuple(dict.fromkeys((*read, *(each.value for each in outer))))
    told = ((relation_of(op), Check(location=str(op.location))) for op in first)
    held = [(relation, why) for relation, why in told if relation is not None]
    known = context.copy()
    known.assume_all(held)
    twins = Twins(body, REGISTRY)
    for op in first:
        twins.step(op)
    entry = RegionEntry(known, [*believed, *held], same=twins.same)
    found = run(Block(arguments, rest, body.results, (*outer, *own)), entry)
    back: dict[Value, Value] = dict(zip(found.args, arguments, strict=True))
    found = replace(found, args=(), symbols=tuple(each for each in found.symbols if each.value not in back))
    inner = substitute(found, back)
    moved({**back, **dict(zip(values_of(found), values_of(inner), strict=True))})
    return Block(body.args, (*first, *inner.ops), inner.results, (*outer, *inner.symbols))
