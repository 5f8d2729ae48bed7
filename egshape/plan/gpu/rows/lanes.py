"""Rows on a grid: neighbouring lanes share a row, fold it by shuffles and hold it in registers.

Rows that fit are read from memory once, whatever number of loops goes over them. Where a warp or a part of it has a row
nobody waits; longer rows are folded by warps, whose results go through shared memory behind one barrier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from egshape.dims import Dim, ceildiv, const, floordiv, product, symbol
from egshape.plan.gpu.boards import tell
from egshape.plan.gpu.folds import Likely, identity, joined, zero
from egshape.plan.gpu.joint import Joint, stepped
from egshape.plan.gpu.lanes import lane_fold, lane_folds
from egshape.plan.gpu.rows import choice as policy
from egshape.plan.gpu.rows.choice import Choice, choices, holds
from egshape.plan.gpu.rows.program import Program, program_of
from egshape.plan.gpu.rows.sections import Block, Section, joined_sections
from egshape.plan.gpu.streams import Rounds, Streams, places
from egshape.plan.gpu.wide import divides, left, line
from egshape.plan.ir.launch import WARP, Grid, Launch, Pieces, at_round, with_pieces
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    If,
    Index,
    Kernel,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    name_of,
)
from egshape.plan.ir.walk import expressions


def rows(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...], likely: Likely, threads: int) -> Launch | None:
    """The launch of a nest around rows; None where a loop over the row keeps its order or stores over others."""
    program = program_of(kernel, loops, body)
    if program is None:
        return None
    found, count = None, product(loop.extent for loop in loops)
    rooms = {each: Buffer(each.name, each.dtype, each.size * count, each.kind) for each in kernel.private}
    for choice in reversed(choices(kernel, loops, program, likely, threads)):
        mapped = _Mapped(kernel, loops, program, choice, likely, rooms).launch()
        found = replace(mapped, otherwise=found) if mapped.fits else mapped
    return found


class _Mapped:
    def __init__(
        self,
        kernel: Kernel,
        loops: Sequence[Loop],
        program: Program,
        choice: Choice,
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
        found: list[Dim] = [choice.most - self.count] if choice.most else []
        if choice.wide > 1 and whole is not None and not divides(whole, choice.wide, self.kernel.bounds):
            found.append(left(whole, choice.wide))
        room = choice.lanes * choice.each
        if room and program.extent is not None and not holds(program, room, self.kernel.bounds):
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
            return self.lane * size + (chunk * policy.AHEAD + at) * choice.wide

        rounds = Rounds(
            policy.AHEAD,
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
            Loop(name_of(chunk), ceildiv(size, policy.AHEAD * choice.wide), inner),
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
            place = self.thread - floordiv(self.thread, warps) * warps
            told = {b: Load(state.dtype, state, self.thread) for state, b in zip(states, boards, strict=True)}
            take: list[Stmt] = [
                Store(state, self.thread, Load(state.dtype, board, place))
                for state, board in zip(states, boards, strict=True)
            ]
            self.sections.append(Section(always=[tell(self.thread, told)], wait=True))
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
        chunk, ahead = symbol(self.name()), policy.AHEAD
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
