"""Where buffers lie: one arena of slots, a slot reused where its size is shown to suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, const
from egshape.dims.core import is_nonnegative
from egshape.ir.types import itemsize
from egshape.plan.loops import Buffer, buffers
from egshape.plan.program import BindSize, Branch, CheckValue, Copy, Program, Repeat, Run, Step

ALIGN = 64


@dataclass(frozen=True)
class Layout:
    """``slots``: sizes in bytes (each rounded up to 64 when it is laid out); ``slot`` of each arena buffer;
    ``late``: buffers whose size is known only while the program runs; ``peak`` in bytes."""

    slots: tuple[Dim, ...]
    slot: dict[Buffer, int]
    late: tuple[Buffer, ...]

    @property
    def peak(self) -> Dim:
        """Bytes of the arena, rounding left out."""
        return sum(self.slots, const(0))


def touched(step: Step) -> Iterator[Buffer]:
    """The buffers that a step itself reads or writes."""
    match step:
        case Run():
            yield from buffers(step.kernel.body)
        case Copy():
            yield from (step.source, step.target)
        case CheckValue():
            yield from (step.value, *step.args)
        case BindSize():
            yield step.buffer
        case Branch():
            yield step.index
        case Repeat():
            yield step.condition


def layout(program: Program) -> Layout:
    """Greedy: in order of first use, the first free slot that is large enough at all sizes, else a new one."""
    lives = _lives(program.steps)
    known = program.symbols.keys()
    slots: list[Dim] = []
    free_from: list[int] = []
    slot: dict[Buffer, int] = {}
    late = []
    for buffer, (first, last) in sorted(lives.items(), key=lambda item: item[1][0]):
        if buffer.kind not in ("temp", "output"):
            continue
        if not buffer.size.symbols() <= known:
            late.append(buffer)
        elif buffer.kind == "temp":
            size = buffer.size * itemsize(buffer.dtype)
            found = _fitting(size, first, slots, free_from)
            if found is None:
                slots.append(size)
                free_from.append(last)
                found = len(slots) - 1
            slot[buffer], free_from[found] = found, last
    return Layout(tuple(slots), slot, tuple(late))


def _fitting(size: Dim, first: int, slots: Sequence[Dim], free_from: Sequence[int]) -> int | None:
    free = [k for k, last in enumerate(free_from) if last < first]
    fits = [k for k in free if is_nonnegative(slots[k] - size)]
    exact = [k for k in fits if slots[k] is size]
    return exact[0] if exact else fits[0] if fits else None


def _lives(steps: Sequence[Step]) -> dict[Buffer, tuple[int, int]]:
    """First and last time of use; what a loop touches lives through all of it, what a branch touches likewise."""
    lives: dict[Buffer, tuple[int, int]] = {}
    clock = 0

    def use(buffer: Buffer, first: int, last: int) -> None:
        old = lives.get(buffer, (first, last))
        lives[buffer] = min(old[0], first), max(old[1], last)

    def walk(part: Sequence[Step]) -> set[Buffer]:
        nonlocal clock
        seen: set[Buffer] = set()
        for step in part:
            clock += 1
            begin = clock
            for buffer in touched(step):
                seen.add(buffer)
                use(buffer, clock, clock)
            inner = (step.test, step.body) if isinstance(step, Repeat) else \
                step.branches if isinstance(step, Branch) else ()
            found: set[Buffer] = set()
            for each in inner:
                found |= walk(each)
            clock += 1
            for buffer in found if isinstance(step, Repeat) else ():
                use(buffer, begin, clock)
            seen |= found
        return seen

    walk(steps)
    return lives
