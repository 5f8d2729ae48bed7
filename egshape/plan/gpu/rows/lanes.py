"""Rows on a grid: neighbouring lanes share a row, fold it by shuffles and hold it in registers.

Rows that fit are read from memory once, whatever number of loops goes over them. Where a warp or a part of it has a row
nobody waits; longer rows are folded by warps, whose results go through shared memory behind one barrier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import blocked, independent
from egshape.plan.gpu import folds as policy
from egshape.plan.gpu.folds import Likely, identity, joined, totals, zero
from egshape.plan.gpu.joint import Joint, joint, stepped
from egshape.plan.gpu.lanes import lane_fold, lane_folds
from egshape.plan.gpu.rows.sections import Block, Section, joined_sections
from egshape.plan.gpu.streams import Place, Rounds, Streams, lanes_of, places, wide
from egshape.plan.gpu.wide import at_most, divides, left, likely_divides, line
from egshape.plan.ir.launch import WARP, Grid, Launch, Pieces, at_round, is_closed, with_pieces
from egshape.plan.ir.loops import (
    Assign,
    Bounds,
    Buffer,
    Call,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    expressions,
    name_of,
    statements,
)
from egshape.plan.ir.visit import Moved

EACH = 16
"""Words of a row that a thread holds before more threads share it."""
MOST = 32
"""Words of a row that a thread may hold."""
ROOM = 64
"""Words of all that a thread holds at once."""
FEWEST = 4
"""Elements for a lane before more lanes share a row."""
AHEAD = 4
"""Rounds whose elements are loaded at once where a row is not held."""


@dataclass(frozen=True)
class _Choice:
    """``lanes`` threads for a row, ``rows`` of them in a block; ``wide``: elements of an access; ``each``: elements
    that a thread holds, 0 where it holds none."""

    lanes: int
    rows: int
    wide: int
    each: int

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


@dataclass(frozen=True)
class _Program:
    """A row's statements, and what its loops touch."""

    body: tuple[Stmt, ...]
    loops: tuple[Loop, ...]
    folds: Mapping[Loop, Mapping[str, Call] | Joint]
    extent: Dim | None
    """Of all of its loops, if they have one."""
    whole: Dim | None
    """What that divides by it divides by: of pieces of a line, the line. None if it is not known before a launch."""
    most: int | None
    """What the extent is at most, where it is that of a piece."""
    kept: frozenset[Buffer] | None
    """Buffers that are written and read, each element by one round of the loops only; None if others are."""


def rows(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int) -> Launch | None:
    """The launch of a nest around rows; None where a loop over the row keeps its order or stores over others."""
    program = _program(kernel, loops, body)
    if program is None:
        return None
    found, count = None, product(loop.extent for loop in loops)
    rooms = {each: Buffer(each.name, each.dtype, each.size * count, each.kind) for each in kernel.private}
    for choice in reversed(_choices(kernel, loops, program, likely, threads)):
        mapped = _Mapped(kernel, loops, program, choice, likely, rooms).launch()
        found = replace(mapped, otherwise=found) if mapped.fits else mapped
    return found


def _program(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...]) -> _Program | None:
    fixed = Moved({loop.var: symbol(f"row{loop.var}") for loop in loops})
    folds: dict[Loop, Mapping[str, Call] | Joint] = {}
    for stmt in body:
        if isinstance(stmt, Loop):
            found, row = _fold(stmt), fixed.stmt(stmt)
            assert isinstance(row, Loop)
            if found is None or not independent((row,)):
                return None
            folds[stmt] = found
        elif not isinstance(stmt, Let | Local | LetIndex | Assign | Store):
            return None
    alone = {stmt.buffer for stmt in body if isinstance(stmt, Store)}
    if alone & {expr.buffer for expr in expressions(body) if isinstance(expr, Load)}:
        return None
    extents = {loop.extent for loop in folds}
    extent = next(iter(extents)) if len(extents) == 1 else None
    whole = None if extent is None else line(next(iter(folds)))
    piece = None if whole is None or whole is extent or extent is None else _piece(extent)
    ordered = any(isinstance(each, Joint) for each in folds.values())
    return _Program(
        body,
        tuple(folds),
        folds,
        extent,
        whole if whole is None or is_closed(whole) else None,
        piece,
        None if ordered else _kept(kernel, body, tuple(folds)),
    )


def _fold(loop: Loop) -> Mapping[str, Call] | Joint | None:
    """What a loop folds, if it may be taken apart."""
    found = totals(loop)
    return joint(loop) if found is None else found


def _piece(extent: Dim) -> int | None:
    """The length of a piece of a line, if the extent is that of one."""
    found = (blocked(extent, var) for var in extent.symbols() if var.startswith("$"))
    return next((each[1].const for each in found if each is not None), None)


def _kept(kernel: Kernel, body: tuple[Stmt, ...], loops: Sequence[Loop]) -> frozenset[Buffer] | None:
    """The buffers whose elements pass from loop to loop; None where one does in another way than round by round."""
    found = {stmt.buffer for stmt in statements(body) if isinstance(stmt, Store)}
    read = {expr.buffer for expr in expressions(body) if isinstance(expr, Load)}
    kept = (found & read) | (found & set(kernel.private))
    for buffer in kept:
        touched: set[Place] = set()
        for loop in loops:
            inner = {stmt.name for stmt in loop.body if isinstance(stmt, LetIndex)}
            if any(
                isinstance(stmt, Store) and stmt.buffer is buffer and stmt.index.symbols() & inner for stmt in loop.body
            ):
                return None
            touched.update(place for part in places(loop.body, loop.var) for place in part if place[0] is buffer)
            index = [expr.index for expr in expressions(loop.body) if isinstance(expr, Load) and expr.buffer is buffer]
            if any((buffer, each.substitute({loop.var: symbol("$element")})) not in touched for each in index):
                return None
        if len(touched) != 1 or any(
            isinstance(expr, Load) and expr.buffer is buffer
            for stmt in body
            if not isinstance(stmt, Loop)
            for expr in expressions((stmt,))
        ):
            return None
    return frozenset(kept)


# -- the choice -------------------------------------------------------------------------------------------------------


def _choices(kernel: Kernel, loops: Sequence[Loop], program: _Program, likely: Likely, threads: int) -> list[_Choice]:
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
    if held[0] is not None:
        return [*(each for each in held if each is not None), streamed[-1]]
    return streamed


def _lanes(kernel: Kernel, program: _Program, likely: Likely) -> int:
    """Elements of an access; 1 where nothing goes along memory or the length is no multiple, shown or likely."""
    if program.whole is None:
        return 1
    found = [place for loop in program.loops for part in places(loop.body, loop.var) for place in part]
    lanes, known = lanes_of(found), {each.name: each.divisor for each in kernel.bounds}
    if lanes == 1 or not any(wide(place, lanes, program.whole, known) for place in found):
        return 1
    fits = divides(program.whole, lanes, kernel.bounds) or likely_divides(program.whole, lanes, likely)
    return lanes if fits else 1


def _held(program: _Program, kernel: Kernel, length: float, count: float, several: int, threads: int) -> _Choice | None:
    """Lanes that hold a row of the likely length, and of all lengths where ranges allow it."""
    if program.extent is None or program.kept is None or (program.most is None and not is_closed(program.extent)):
        return None
    long, short = _live(program)
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
        (bound for bound in range(each, MOST // long + 1, several) if _holds(program, lanes * bound, kernel.bounds)),
        each,
    )
    return _Choice(lanes, _rows(lanes, count, threads), several, high if high * short <= ROOM else each)


def _holds(program: _Program, room: int, bounds: Sequence[Bounds]) -> bool:
    """Whether all rows are shown to have room."""
    assert program.extent is not None
    return program.most <= room if program.most is not None else at_most(program.extent, room, bounds)


def _each(length: float, lanes: int, several: int) -> int:
    """Elements of a lane: a power of two of accesses, so that longer rows fit too."""
    each = several
    while each * lanes < length:
        each *= 2
    return each


def _streamed(length: float, count: float, several: int, threads: int, held: _Choice | None) -> _Choice:
    """Lanes for rows that are not held, which are longer than what is."""
    if held is not None:
        length = max(length, held.lanes * held.each + 1)
    lanes = min(WARP, threads)
    while lanes < threads and lanes * several * AHEAD < length:
        lanes *= 2
    while lanes < min(4 * threads, 1024) and count * lanes < policy.BUSY and lanes * several * AHEAD < length:
        lanes *= 2
    return _Choice(lanes, _rows(lanes, count, threads), several, 0)


def _rows(lanes: int, count: float, threads: int) -> int:
    """Rows of a block."""
    found = threads // lanes if lanes <= WARP else 1
    while found > 1 and found * lanes > WARP and count < policy.BLOCKS * found:
        found //= 2
    return max(found, 1)


def _live(program: _Program) -> tuple[int, int]:
    """Words of an element that a row needs in registers at most: what differs between rows or passes from loop to
    loop, and all."""
    first: dict[Place, int] = {}
    last: dict[Place, int] = {}
    born: set[Place] = set()
    for number, loop in enumerate(program.loops):
        read, stored = places(loop.body, loop.var)
        kept = [place for place in stored if place[0] in (program.kept or ())]
        born.update(place for place in kept if place not in first and place not in read)
        for place in (*read, *kept):
            first.setdefault(place, number)
            last[place] = number

    def most(counted: set[Place]) -> int:
        words = {place: max(1, itemsize(place[0].dtype) // 4) for place in counted}
        found = [1]
        for number in range(len(program.loops)):
            live = [place for place in counted if first[place] <= number <= last[place]]
            found.append(sum(words[each] for each in live if not (each in born and first[each] == number)))
            found.append(sum(words[each] for each in live if last[each] > number))
        return max(found)

    passing = {place for place in first if first[place] < last[place] or place[1].symbols() - {"$element"}}
    return most(passing), most(set(first))


# -- the launch -------------------------------------------------------------------------------------------------------


class _Mapped:
    def __init__(
        self,
        kernel: Kernel,
        loops: Sequence[Loop],
        program: _Program,
        choice: _Choice,
        likely: Likely,
        rooms: Mapping[Buffer, Buffer],
    ) -> None:
        self.kernel, self.loops, self.program, self.choice, self.rooms = kernel, loops, program, choice, rooms
        self.length = max((likely(loop.extent) for loop in program.loops), default=1.0)
        self.thread = symbol("$t")
        self.lane = self.thread - floordiv(self.thread, choice.lanes) * choice.lanes if choice.rows > 1 else self.thread
        self.count = product(loop.extent for loop in loops)
        self.block = symbol("$block")
        self.row = self.block * choice.rows + floordiv(self.thread, choice.lanes) if choice.rows > 1 else self.block
        self.registers: list[Buffer] = []
        self.boards: list[Buffer] = []
        self.sections = [Section()]
        self.fresh = 0
        self.written: set[Buffer] = set()
        self.kept = program.kept if choice.each and program.kept is not None else frozenset()
        self.streams: Streams | None = None

    def name(self) -> str:
        """A new name."""
        self.fresh += 1
        return f"$r{self.fresh}"

    def launch(self) -> Launch:
        """All of it."""
        for stmt in self.program.body:
            self.stmt(stmt)
        blocks = ceildiv(self.count, self.choice.rows)
        own: Pieces = {each: (room, self.row * each.size) for each, room in self.rooms.items() if each not in self.kept}
        place = tuple(LetIndex(var, Index("i64", at)) for var, at in at_round(self.loops, self.row).items())
        several = self.choice.rows > 1
        inside = Test((self.count - 1 - self.row,)) if several else None
        inner = joined_sections(
            self.sections,
            Block(self.choice.threads, self.thread, self.registers, own),
            place if several else (),
            inside,
        )
        body = (() if several else place) + inner
        outputs = tuple(each for each in self.kernel.outputs if each not in self.rooms or each in own)
        whole = with_pieces(replace(self.kernel, outputs=outputs), Grid("$block", blocks, body), own)
        return Launch(
            whole,
            blocks,
            self.choice.threads,
            (*self.boards, *self.registers),
            tuple(self.registers),
            fits=tuple(self._fits()),
            why=self.choice.text(self.length),
        )

    def _fits(self) -> list[Dim]:
        program, choice, whole = self.program, self.choice, self.program.whole
        found: list[Dim] = []
        if choice.wide > 1 and whole is not None and not divides(whole, choice.wide, self.kernel.bounds):
            found.append(left(whole, choice.wide))
        room = choice.lanes * choice.each
        if room and program.extent is not None and not _holds(program, room, self.kernel.bounds):
            found.append(room - program.extent)
        return found

    # -- statements -----------------------------------------------------------------------------------------------

    def stmt(self, stmt: Stmt) -> None:
        """Add a statement of the row."""
        now = self.sections[-1]
        match stmt:
            case Loop():
                self._loop(stmt)
            case Store():
                now.body.append(If(Test((-self.lane,)), (stmt,)))
            case _:
                now.body.append(stmt)

    def _loop(self, loop: Loop) -> None:
        folds = self.program.folds[loop]
        now = self.sections[-1]
        if not self.choice.each and self.written & {
            expr.buffer for expr in expressions(loop.body) if isinstance(expr, Load)
        }:
            now.wait = True
            self.sections.append(now := Section())
        self.written |= {stmt.buffer for stmt in loop.body if isinstance(stmt, Store)}
        if isinstance(folds, Joint):
            self._ordered(loop, folds, now)
            return
        states = {
            name: Buffer(f"$fold{self.name()}", call.dtype, const(self.choice.threads), "temp")
            for name, call in folds.items()
        }
        self.registers += states.values()
        now.always += [Store(state, self.thread, identity(folds[name])) for name, state in states.items()]
        parts = {name: f"{self.name()}{name}" for name in folds}
        body = tuple(_into_part(stmt, folds, parts) for stmt in loop.body)
        rounds = self._held_rounds(loop, body) if self.choice.each else self._streamed_rounds(loop, body)
        now.body += [
            *(Local(parts[name], identity(call)) for name, call in folds.items()),
            *rounds,
            *(Store(states[name], self.thread, Var(call.dtype, parts[name])) for name, call in folds.items()),
        ]
        if not folds:
            return
        threads = self.choice.threads
        self._meet(
            [*states.values()],
            lambda width: [
                lane_fold(self.name(), folds[name], state, threads, width) for name, state in states.items()
            ],
        )
        behind = self.sections[-1]
        for name, call in folds.items():
            total = Load(call.dtype, states[name], self.thread)
            behind.body.append(Assign(name, joined(call, Var(call.dtype, name), total)))

    def _ordered(self, loop: Loop, fold: Joint, now: Section) -> None:
        """A fold of several states: each thread takes a piece of the row, so that parts keep their order."""
        choice, thread, chunk = self.choice, self.thread, symbol(self.name())
        states = {
            state.name: Buffer(f"$fold{self.name()}", state.dtype, const(choice.threads), "temp")
            for state in fold.states
        }
        self.registers += states.values()
        now.always += [Store(state, thread, zero(state.dtype)) for state in states.values()]
        mine = [Load(state.dtype, state, thread) for state in states.values()]
        body = (*fold.lets, *stepped(fold, mine, fold.items, lambda state, new: Store(states[state.name], thread, new)))
        size = ceildiv(loop.extent, choice.lanes * choice.wide) * choice.wide

        def first(at: Dim) -> Dim:
            return self.lane * size + (chunk * AHEAD + at) * choice.wide

        rounds = Rounds(
            AHEAD,
            choice.wide,
            thread,
            choice.threads,
            first,
            lambda at: (loop.extent - 1 - first(at), (self.lane + 1) * size - 1 - first(at)),
        )
        streams = Streams(
            self.name(), rounds, self.registers, self.kernel.bounds, line(loop), own=frozenset(states.values())
        )
        inner = (*streams.read(body, loop.var), *streams.run(body, loop.var))
        now.body += [
            *(Store(states[state.name], thread, state) for state in fold.states),
            Loop(name_of(chunk), ceildiv(size, AHEAD * choice.wide), inner),
        ]
        self._meet(
            [*states.values()],
            lambda width: [lane_folds(self.name(), [*states.values()], choice.threads, width, fold.join)],
        )
        self.sections[-1].body += [Assign(name, Load(state.dtype, state, thread)) for name, state in states.items()]

    def _meet(self, states: Sequence[Buffer], folded: Callable[[int], list[Stmt]]) -> None:
        """Parts become totals: over the lanes of a warp, then over warps. ``folded``: the fold of so many lanes."""
        lanes = self.choice.lanes
        self.sections[-1].behind += folded(min(lanes, WARP))
        if lanes > WARP:
            warps = lanes // WARP
            boards = [Buffer(f"$board{self.name()}", state.dtype, const(warps), "temp") for state in states]
            self.boards += boards
            warp, place = floordiv(self.thread, WARP), self.thread - floordiv(self.thread, warps) * warps
            first = Test((warp * WARP - self.thread,))
            give = If(
                first,
                tuple(
                    Store(board, warp, Load(state.dtype, state, self.thread))
                    for state, board in zip(states, boards, strict=True)
                ),
            )
            take: list[Stmt] = [
                Store(state, self.thread, Load(state.dtype, board, place))
                for state, board in zip(states, boards, strict=True)
            ]
            self.sections.append(Section(always=[give], wait=True))
            self.sections.append(Section(always=take, behind=folded(warps)))
        self.sections.append(Section())

    def _rounds(self, count: int, chunk: Dim, extent: Dim) -> Rounds:
        lanes, several = self.choice.lanes, self.choice.wide

        def first(at: Dim) -> Dim:
            return (self.lane + (chunk * count + at) * lanes) * several

        return Rounds(count, several, self.thread, self.choice.threads, first, lambda at: (extent - 1 - first(at),))

    def _held_rounds(self, loop: Loop, body: tuple[Stmt, ...]) -> list[Stmt]:
        """The rounds of a loop over what is held."""
        if self.streams is None:
            rounds = self._rounds(self.choice.each // self.choice.wide, const(0), loop.extent)
            self.streams = Streams(self.name(), rounds, self.registers, self.kernel.bounds, line(loop), self.kept)
        loops = self.program.loops
        later = {
            stmt.buffer for each in loops[loops.index(loop) + 1 :] for stmt in each.body if isinstance(stmt, Store)
        }
        without = frozenset(self.kept & (later | set(self.kernel.private)))
        return [*self.streams.read(body, loop.var), *self.streams.run(body, loop.var, without)]

    def _streamed_rounds(self, loop: Loop, body: tuple[Stmt, ...]) -> list[Stmt]:
        """The rounds of a loop, some at once."""
        chunk, ahead = symbol(self.name()), AHEAD
        rounds = self._rounds(ahead, chunk, loop.extent)
        kept = {place[0] for place in places(body, loop.var)[1]} & {place[0] for place in places(body, loop.var)[0]}
        streams = Streams(self.name(), rounds, self.registers, self.kernel.bounds, line(loop), frozenset(kept))
        inner = (*streams.read(body, loop.var), *streams.run(body, loop.var))
        return [Loop(name_of(chunk), ceildiv(loop.extent, ahead * self.choice.lanes * self.choice.wide), inner)]


def _into_part(stmt: Stmt, folds: Mapping[str, Call], parts: Mapping[str, str]) -> Stmt:
    """A step of a fold, into a part of the total."""
    if not isinstance(stmt, Assign):
        return stmt
    call, part = folds[stmt.name], parts[stmt.name]
    return Assign(part, joined(call, Var(call.dtype, part), call.args[1]))
