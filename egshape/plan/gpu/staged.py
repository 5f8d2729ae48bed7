"""Results of a block on their way through shared memory: registers of tensor cores hold two neighbours of a line, and
what follows reads and writes memory by 16 bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from egshape.dims import Dim, const, symbol
from egshape.ir.types import itemsize
from egshape.plan.gpu.product.mma import LINE
from egshape.plan.gpu.product.operands import lines_of_parts, parts_of
from egshape.plan.gpu.wide import Lines, lines
from egshape.plan.ir.launch import Wide
from egshape.plan.ir.loops import Bounds, Buffer, Let, Load, Loop, Stmt, Store, name_of

STAGE_APART = 8
"""Added to the pitch of results in shared memory, so that two for each lane of a half warp lie in different banks."""


def taken_lines(loop: Loop, bounds: Sequence[Bounds]) -> tuple[Lines | None, Dim]:
    """How what follows results takes places of a line several at a time, and what must be a multiple of their number
    for that; None for one by one."""
    found = lines(loop, bounds)
    if found is not None:
        return found, loop.extent
    for part in parts_of(loop):
        found = lines_of_parts(loop, part, bounds)
        if found is not None:
            return found, part
    return None, loop.extent


def together(
    found: Lines,
    value: str,
    stage: Buffer,
    place: Dim,
    first: Dim,
    thread: Dim,
    threads: int,
    registers: list[Buffer],
    names: Callable[[], Dim],
) -> tuple[Stmt, ...]:
    """What follows some results side by side, those of a line from ``first`` on, which lie in the stage from ``place``
    on and are the local ``value`` one after the other. What registers it takes is added."""
    lanes, step = found.lanes, LINE // itemsize("f32")
    own = Buffer("$taken", "f32", const(threads * lanes), "temp")
    registers.append(own)
    copies, lane, part = [], names(), names()
    for begin in range(0, lanes, step):
        copy = Store(own, thread * lanes + begin + lane, Load("f32", stage, place + begin + lane))
        copies.append(Wide(name_of(lane), const(min(step, lanes)), (copy,)))
    read = Let(value, Load("f32", own, thread * lanes + symbol(found.loop.var) - first))
    inner = replace(found, loop=replace(found.loop, body=(read, *found.loop.body)))
    return (*copies, *inner.body(first, thread, threads, registers, name_of(part)))
