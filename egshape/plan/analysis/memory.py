"""Where buffers lie: one arena of slots, a slot reused where its size is shown to suffice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egshape.decide.context import Context
from egshape.decide.reason import Check
from egshape.dims import Dim, const, maximum, symbol
from egshape.dims.core import is_nonnegative
from egshape.errors import Contradiction, UndefinedSize
from egshape.facts import Relation
from egshape.ir.types import itemsize
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    Extend,
    HostCall,
    Program,
    Repeat,
    Run,
    Step,
    Swap,
)
from egshape.plan.ir.walk import buffers

ALIGN = 64
_SOME = 64
_MOST_TERMS = 6
"""Of a slot's size: a longer one costs more to compute than it saves."""
_QUESTIONS = 200
THREADS = "$threads"
"""The symbol of the number of threads, each of which has its own copy of a kernel's private buffers."""


@dataclass(frozen=True)
class Layout:
    """``slots``: sizes in bytes (each rounded up to 64 when it is laid out); ``slot`` of each arena buffer;
    ``late``: buffers whose size, or for an output whose shape, is known only while the program runs; ``peak`` in
    bytes."""

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
        case Run(kernel=kernel, launch=None):
            yield from buffers(kernel.body)
        case Run(launch=launch):
            found: dict[Buffer, None] = {}
            while launch is not None:
                found.update(dict.fromkeys(each for each in buffers(launch.kernel.body) if each not in launch.shared))
                launch = launch.otherwise
            yield from found
        case Copy():
            yield from (step.source, step.target)
        case Swap():
            yield from (step.one, step.two)
        case Extend():
            yield step.buffer
        case CheckValue():
            yield from (step.value, *step.args)
        case BindSize():
            yield step.buffer
        case HostCall():
            yield from (port.buffer for port in (*step.inputs, *step.outputs))
        case Branch():
            yield step.index
        case Repeat():
            yield step.condition


def constants(steps: Sequence[Step]) -> tuple[Buffer, ...]:
    """The constant arrays that steps read, in order of first use."""
    found: dict[Buffer, None] = {}
    for step in steps:
        found.update(dict.fromkeys(buffer for buffer in touched(step) if buffer.kind == "const"))
        inner = (
            (step.test, step.body) if isinstance(step, Repeat) else step.branches if isinstance(step, Branch) else ()
        )
        for part in inner:
            found.update(dict.fromkeys(constants(part)))
    return tuple(found)


def layout(program: Program, reuse: bool = True) -> Layout:
    """Greedy, in order of first use: a free slot that is shown to be large enough, else one that may grow to the larger
    of both, else a new one. ``reuse=False``: a slot of its own for every buffer, which tests want.

    What is shown may rest on relations that earlier steps check: where one does not hold, the program stops before it
    uses the buffer."""
    times, order = lives(program.steps), _Order(program.steps)
    known = program.symbols.keys()
    private = privates(program.steps)
    slots: list[_Slot] = []
    slot: dict[Buffer, int] = {}
    late = [port.buffer for port in program.outputs if any(not size.symbols() <= known for size in port.shape)]
    for buffer, (first, last) in sorted(times.items(), key=lambda item: item[1][0]):
        if buffer.kind != "temp":
            continue
        if not buffer.size.symbols() <= known:
            late.append(buffer)
        else:
            size = room(buffer, buffer in private)
            order.reach(first)
            found = _fitting(size, first, slots, order) if reuse else None
            if found is None:
                slots.append(_Slot(size, last))
                found = len(slots) - 1
            slot[buffer], slots[found].last = found, last
    return Layout(tuple(each.size for each in slots), slot, tuple(late))


def room(buffer: Buffer, private: bool) -> Dim:
    """Bytes that a buffer takes: of a private one each thread has its own, aligned."""
    size = buffer.size * itemsize(buffer.dtype)
    return (size + ALIGN) * symbol(THREADS) if private else size


@dataclass
class _Slot:
    """``last``: the last time that its buffer is used."""

    size: Dim
    last: int


def _fitting(size: Dim, first: int, slots: Sequence[_Slot], order: _Order) -> int | None:
    """The free slot that wastes least at likely sizes; its size grows where that is not shown to be enough."""
    free = sorted((abs(_likely(each.size) - _likely(size)), k) for k, each in enumerate(slots) if each.last < first)
    for _, k in free:
        if slots[k].size is size:
            return k
    for _, k in free:
        if order.at_most(size, slots[k].size):
            return k
    for _, k in free:
        larger = size if is_nonnegative(size - slots[k].size) else maximum(slots[k].size, size)
        if len(larger.terms) <= _MOST_TERMS:
            slots[k].size = larger
            return k
    return None


def _likely(size: Dim) -> float:
    try:
        return float(size.evaluate(dict.fromkeys(size.symbols(), _SOME)))
    except UndefinedSize:
        return 0.0


def _after(step: Step, clock: int) -> int:
    """The time after a step that begins at ``clock`` (as ``lives`` counts)."""
    for part in _inner(step):
        for each in part:
            clock = _after(each, clock + 1)
    return clock + 1


class _Order:
    """Comparisons of sizes under the relations that the program has checked by some time."""

    def __init__(self, steps: Sequence[Step]) -> None:
        clock = 0
        self._coming: deque[tuple[int, Relation]] = deque()
        for step in steps:
            clock += 1
            if isinstance(step, CheckSizes):
                self._coming.append((clock, Relation(step.relation, step.lhs, step.rhs)))
            clock = _after(step, clock)
        self._context = Context()
        self._questions = _QUESTIONS
        self._clashes = False

    def reach(self, clock: int) -> None:
        """All checks before this time hold."""
        new = []
        while self._coming and self._coming[0][0] < clock:
            new.append((self._coming.popleft()[1], Check()))
        if new and not self._clashes:
            try:
                self._context.assume_all(new)
            except Contradiction:  # then no step from here on runs
                self._clashes = True

    def at_most(self, one: Dim, two: Dim) -> bool:
        """Whether a size is shown never to exceed another."""
        if is_nonnegative(two - one):
            return True
        if self._clashes or self._questions == 0 or not self._context.assumptions or _likely(one) > _likely(two):
            return False
        self._questions -= 1
        return self._context.decide(Relation("<=", one, two)) == "proved"


def privates(steps: Sequence[Step]) -> set[Buffer]:
    """The private buffers of all kernels."""
    found: set[Buffer] = set()
    for step in steps:
        if isinstance(step, Run):
            found.update(step.kernel.private)
        for part in _inner(step):
            found |= privates(part)
    return found


def _inner(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The steps inside of a step."""
    if isinstance(step, Repeat):
        return step.test, step.body
    return step.branches if isinstance(step, Branch) else ()


def lives(steps: Sequence[Step]) -> dict[Buffer, tuple[int, int]]:
    """First and last time of use; what a loop touches lives through all of it, what a branch touches likewise."""
    found_lives: dict[Buffer, tuple[int, int]] = {}
    clock = 0

    def use(buffer: Buffer, first: int, last: int) -> None:
        old = found_lives.get(buffer, (first, last))
        found_lives[buffer] = min(old[0], first), max(old[1], last)

    def walk(part: Sequence[Step]) -> set[Buffer]:
        nonlocal clock
        seen: set[Buffer] = set()
        for step in part:
            clock += 1
            begin = clock
            for buffer in touched(step):
                seen.add(buffer)
                use(buffer, clock, clock)
            found: set[Buffer] = set()
            for each in _inner(step):
                found |= walk(each)
            clock += 1
            for buffer in found if isinstance(step, Repeat) else ():
                use(buffer, begin, clock)
            seen |= found
        return seen

    walk(steps)
    return found_lives
