"""Rewrites behind a check: what stands behind a check of sizes that data gives may rely on it, what stands before may
not, and so it is optimized as a program of its own, which is entered where the check has held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from egshape.decide.context import Context
from egshape.decide.reason import Believed, Check
from egshape.egraph.stages import RegionEntry
from egshape.facts import Relation
from egshape.ir.calls import substitute
from egshape.ir.graph import Block, Op, Value

Run = Callable[[Block, RegionEntry], Block]
"""Optimizes a block."""


def optimize_behind(run: Run, body: Block, context: Context, believed: Sequence[Believed]) -> Block:
    """The block, with what stands behind each check of an assumed fact on sizes that data gives optimized anew.

    ``context`` and ``believed``: what holds where the block is entered."""
    place = _next(body, 0)
    while place is not None:
        body = _optimized(run, body, place, context, believed)
        place = _next(body, place + 1)
    return body


def _next(body: Block, start: int) -> int | None:
    """The place of the first such check."""
    entry = {each.name for each in body.symbols if each.value in body.args}
    for place, op in enumerate(body.ops[start:], start):
        assumed = op.name == "check" and op.attrs["sides"] and op.attrs.get("fact")
        if assumed and not _relation(op).symbols() <= entry:
            return place
    return None


def _relation(op: Op) -> Relation:
    return Relation(op.attrs["relation"], *op.attrs["sides"])


def _optimized(run: Run, body: Block, place: int, context: Context, believed: Sequence[Believed]) -> Block:
    first, rest = body.ops[: place + 1], body.ops[place + 1 :]
    made = {value for op in rest for value in op.results}
    own = tuple(each for each in body.symbols if each.value in made)
    outer = tuple(each for each in body.symbols if each.value not in made)
    read = Block((), rest, body.results, own).captures()
    arguments = tuple(dict.fromkeys((*read, *(each.value for each in outer))))
    checks = [op for op in first if op.name == "check" and op.attrs["sides"]]
    held = [(_relation(op), Check(location=str(op.location))) for op in checks]
    known = context.copy()
    known.assume_all(held)
    found = run(Block(arguments, rest, body.results, (*outer, *own)), RegionEntry(known, [*believed, *held]))
    back: dict[Value, Value] = dict(zip(found.args, arguments, strict=True))
    inner = substitute(
        replace(found, args=(), symbols=tuple(each for each in found.symbols if each.value not in back)), back
    )
    return Block(body.args, (*first, *inner.ops), inner.results, (*outer, *inner.symbols))
