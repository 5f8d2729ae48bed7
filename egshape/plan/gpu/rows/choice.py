"""How many threads share a row, and what they hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egshape.dims import product
from egshape.plan.gpu import folds as policy
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.rows.program import Program, live
from egshape.plan.gpu.streams import lanes_of, places, wide
from egshape.plan.gpu.wide import at_most, divides, likely_divides
from egshape.plan.ir.launch import WARP, is_closed
from egshape.plan.ir.loops import Bounds, Kernel, Loop

EACH = 16
"""Words of a row that a thread holds before more threads share it."""
MOST = 32
"""Words of a row that a thread may hold."""
ROOM = 64
"""Words of all that a thread holds at once."""
FEWEST = 4
"""Elements for a lane before more lanes share a row."""
FEW = 256
"""Rows that a version for few rows is made for."""
AHEAD = 4
"""Rounds whose elements are loaded at once where a row is not held."""


@dataclass(frozen=True)
class Choice:
    """``lanes`` threads for a row, ``rows`` of them in a block; ``wide``: elements of an access; ``each``: elements
    that a thread holds, 0 where it holds none; ``most``: rows up to which it is taken, 0 for any number."""

    lanes: int
    rows: int
    wide: int
    each: int
    most: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.rows

    def text(self, length: float) -> str:
        """Why it is so."""
        held = f"{self.each} elements a thread stay in registers" if self.each else "the row is read by each loop"
        return (
            f"rows of likely {length:g} elements: {self.lanes} threads a row, {self.rows} rows a block, "
            f"{self.wide} elements an access; {held}"
        )


def choices(kernel: Kernel, loops: Sequence[Loop], program: Program, likely: Likely, threads: int) -> list[Choice]:
    """The versions, in the order in which they are tried at the sizes of a launch."""
    length = max((likely(loop.extent) for loop in program.loops), default=1.0)
    count = likely(product(loop.extent for loop in loops))
    several = _lanes(kernel, program, likely)
    shown = program.whole is not None and divides(program.whole, several, kernel.bounds)
    if product(loop.extent for loop in loops).const == 1:
        widths = [1]  # one row: what a few threads save is not worth another version
    else:
        widths = [several] if shown else list(dict.fromkeys((several, 1)))
    held = [_held(program, kernel, length, count, each, threads) for each in widths]
    streamed = [_streamed(length, count, each, threads, held[0]) for each in widths]
    if held[0] is None:
        return streamed
    few = _few(held[0], _held(program, kernel, length, FEW, widths[0], threads), count)
    return [*few, *(each for each in held if each is not None), streamed[-1]]


def _few(usual: Choice, narrow: Choice | None, count: float) -> list[Choice]:
    """A version for few rows, where many are likely: more lanes share a row, which would not keep a GPU busy else."""
    most = policy.BUSY // (2 * usual.lanes)
    several = narrow is not None and narrow.lanes > max(usual.lanes, WARP)
    return [replace(narrow, most=most)] if narrow is not None and several and count > most else []


def _lanes(kernel: Kernel, program: Program, likely: Likely) -> int:
    """Elements of an access; 1 where nothing goes along memory or the length is no multiple, shown or likely."""
    if program.whole is None:
        return 1
    found = [place for loop in program.loops for part in places(loop.body, loop.var) for place in part]
    lanes, known = lanes_of(found), {each.name: each.divisor for each in kernel.bounds}
    if lanes == 1 or not any(wide(place, lanes, program.whole, known) for place in found):
        return 1
    fits = divides(program.whole, lanes, kernel.bounds) or likely_divides(program.whole, lanes, likely)
    return lanes if fits else 1


def _held(program: Program, kernel: Kernel, length: float, count: float, several: int, threads: int) -> Choice | None:
    """Lanes that hold a row of the likely length, and of all lengths where ranges allow it."""
    if program.extent is None or program.kept is None or (program.most is None and not is_closed(program.extent)):
        return None
    long, short = live(program)
    lanes = 2
    while lanes < min(threads, WARP) and lanes * max(several, FEWEST) < length:
        lanes *= 2
    while lanes < 4 * threads and (
        _each(length, lanes, several) * long > (EACH if lanes < threads else MOST)
        or _each(length, lanes, several) * short > ROOM
        or (count * lanes < policy.BUSY and lanes * several < length)
    ):
        lanes *= 2
    lanes = min(lanes, 1024)
    each = _each(length, lanes, several)
    if each * long > MOST or each * short > ROOM:
        return None
    high = next(
        (bound for bound in range(each, MOST // long + 1, several) if holds(program, lanes * bound, kernel.bounds)),
        each,
    )
    return Choice(lanes, _rows(lanes, count, threads), several, high if high * short <= ROOM else each)


def holds(program: Program, room: int, bounds: Sequence[Bounds]) -> bool:
    """Whether all rows are shown to have room."""
    assert program.extent is not None
    return program.most <= room if program.most is not None else at_most(program.extent, room, bounds)


def _each(length: float, lanes: int, several: int) -> int:
    """Elements of a lane: a power of two of accesses, so that longer rows fit too."""
    each = several
    while each * lanes < length:
        each *= 2
    return each


def _streamed(length: float, count: float, several: int, threads: int, held: Choice | None) -> Choice:
    """Lanes for rows that are not held, which are longer than what is."""
    if held is not None:
        length = max(length, held.lanes * held.each + 1)
    lanes = min(WARP, threads)
    while lanes < threads and lanes * several * AHEAD < length:
        lanes *= 2
    while lanes < min(4 * threads, 1024) and count * lanes < policy.BUSY and lanes * several * AHEAD < length:
        lanes *= 2
    return Choice(lanes, _rows(lanes, count, threads), several, 0)


def _rows(lanes: int, count: float, threads: int) -> int:
    """Rows of a block."""
    found = threads // lanes if lanes <= WARP else 1
    while found > 1 and found * lanes > WARP and count < policy.BLOCKS * found:
        found //= 2
    return max(found, 1)
