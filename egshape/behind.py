"""Rewrites behind a check: what stands behind a check of sizes that data gives may rely on it, what stands before may
not, and so it is optimized as a program of its own, which is entered where the check has held."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from egshape.decide.context import Context
from egshape.decide.reason import Believed, Check
from egshape.egraph.stages import RegionEntry
from egshape.egraph.twins import Twins
from egshape.facts import Relation
from egshape.ir.calls import substitute
from egshape.ir.graph import Block, Op, Value
from egshape.ops import REGISTRY

Run = Callable[[Block, RegionEntry], Block]
"""Optimizes a block."""


_TIMES = 6
"""Behind how many checks of a program: each time all that stands there goes through the stages again."""


def optimize_behind(run: Run, body: Block, context: Context, believed: Sequence[Believed]) -> Block:
    """The block, with what stands behind checks of sizes that data gives optimized anew.

    ``context`` and ``believed``: what holds where the block is entered."""
    place = _next(body, 0)
    for _ in range(_TIMES):
        if place is None:
            break
        body = _optimized(run, body, place, context, believed)
        place = _next(body, place + 1)
    return body


def _next(body: Block, start: int) -> int | None:
    """The place of the first such check, the last one where several stand in a row, that sizes behind it speak of."""
    entry = {each.name for each in body.symbols if each.value in body.args}
    told: set[str] = set()
    for place, op in enumerate(body.ops[start:], start):
        if _is_of_sizes(op):
            told |= _relation(op).symbols() - entry
        elif told and _speak(body.ops[place:], told):
            return place - 1
        else:
            told.clear()
    return None


def _speak(ops: Sequence[Op], names: Set[str]) -> bool:
    """Whether more than one op, which is what the check is for, gives sizes that have one of the names."""
    sizes = ((size for value in op.results for size in value.type.shape or ()) for op in ops)
    return sum(any(size.symbols() & names for size in each) for each in sizes) > 1


def _is_of_sizes(op: Op) -> bool:
    return op.name == "check" and bool(op.attrs["sides"])


def _relation(op: Op) -> Relation:
    return Relation(op.attrs["relation"], *op.attrs["sides"])


def _optimized(run: Run, body: Block, place: int, context: Context, believed: Sequence[Believed]) -> Block:
    first, rest = body.ops[: place + 1], body.ops[place + 1 :]
    made = {value for op in rest for value in op.results}
    own = tuple(each for each in body.symbols if each.value in made)
    outer = tuple(each for each in body.symbols if each.value not in made)
    read = Block((), rest, body.results, own).captures()
    arguments = tuple(dict.fromkeys((*read, *(each.value for each in outer))))
    checks = filter(_is_of_sizes, first)
    held = [(_relation(op), Check(location=str(op.location))) for op in checks]
    known = context.copy()
    known.assume_all(held)
    twins = Twins(body, REGISTRY)
    for op in first:
        twins.step(op)
    entry = RegionEntry(known, [*believed, *held], same=twins.same)
    found = run(Block(arguments, rest, body.results, (*outer, *own)), entry)
    back: dict[Value, Value] = dict(zip(found.args, arguments, strict=True))
    inner = substitute(
        replace(found, args=(), symbols=tuple(each for each in found.symbols if each.value not in back)), back
    )
    return Block(body.args, (*first, *inner.ops), inner.results, (*outer, *inner.symbols))
