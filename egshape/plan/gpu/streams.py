"""Elements that a thread takes in rounds: what they need is loaded for all rounds at once into registers, so that many
loads are under way, and is read from memory once however many loops use it. Rounds of elements that lie side by side
load and store them by 16 bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, const, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.gpu.wide import loads, multiple
from egshape.plan.ir.launch import BYTES, Wide
from egshape.plan.ir.loops import (
    Bounds,
    Buffer,
    Expr,
    If,
    LetIndex,
    Load,
    Loop,
    Stmt,
    Store,
    Test,
    name_of,
)
from egshape.plan.ir.visit import Moved

ELEMENT = symbol("$element")
"""Stands for the variable of any of the loops that go over the same elements."""
Place = tuple[Buffer, Dim]
"""A buffer, and the index of ``ELEMENT`` in it."""


@dataclass(frozen=True)
class Rounds:
    """``count`` rounds of ``lanes`` elements side by side, of each of ``threads`` threads. ``first``: the first element
    of a round; ``inside``: what is >= 0 in the rounds that have elements (all of them, or none)."""

    count: int
    lanes: int
    thread: Dim
    threads: int
    first: Callable[[Dim], Dim]
    inside: Callable[[Dim], tuple[Dim, ...]]
    place: Callable[[Dim], tuple[Stmt, ...]] = lambda _: ()
    """What says where a round is, for ``first`` and ``inside``."""
    outer: frozenset[str] = frozenset()
    """Other variables than that of the elements which change from round to round."""

    @property
    def each(self) -> int:
        """Elements of a thread."""
        return self.count * self.lanes

    def register(self, round_: Dim, lane: Dim) -> Dim:
        """The thread's register of an element."""
        return self.thread * self.each + round_ * self.lanes + lane


def places(body: Sequence[Stmt], var: str, outer: frozenset[str] = frozenset()) -> tuple[list[Place], list[Place]]:
    """Where a loop over elements loads whatever the data, or could as it stores there, and where it stores, but for
    places that each element computes for itself; each place once, in order."""
    inner = {stmt.name for stmt in body if isinstance(stmt, LetIndex)}
    stored = dict.fromkeys(
        (stmt.buffer, _element(stmt.index, var))
        for stmt in body
        if isinstance(stmt, Store) and not stmt.index.symbols() & inner
    )
    read: dict[Place, None] = {}
    for load, always in loads(body):
        place = load.buffer, _element(load.index, var)
        names = load.index.symbols()
        if (always or place in stored) and names & {var, *outer} and not names & inner:
            read[place] = None
    return list(read), list(stored)


def _element(index: Dim, var: str) -> Dim:
    return index.substitute({var: ELEMENT})


def lanes_of(found: Sequence[Place]) -> int:
    """Elements of an access of 16 bytes to what goes along memory; 1 if nothing does."""
    near = [buffer for buffer, index in found if along(index)]
    return BYTES // max((itemsize(buffer.dtype) for buffer in near), default=BYTES)


def along(index: Dim) -> bool:
    """Whether neighbouring elements lie side by side."""
    return coefficient(index, "$element") is const(1)


def wide(place: Place, lanes: int, whole: Dim, known: Mapping[str, int]) -> bool:
    """Whether ``lanes`` elements are one access, where each line is a multiple of them, as ``whole`` is."""
    rest = place[1].substitute({"$element": 0})
    return lanes > 1 and along(place[1]) and multiple(rest, lanes, whole, known)


class Streams:
    """Loops over the same elements, in rounds. ``kept``: buffers whose elements stay in registers from their first
    access on; ``own``: those that are registers; ``whole``: what is a multiple of the lanes."""

    def __init__(
        self,
        name: str,
        rounds: Rounds,
        registers: list[Buffer],
        bounds: Sequence[Bounds],
        whole: Dim,
        kept: frozenset[Buffer] = frozenset(),
        own: frozenset[Buffer] = frozenset(),
    ) -> None:
        self.name, self.rounds, self.registers = name, rounds, registers
        self.known = {each.name: each.divisor for each in bounds}
        self.whole, self.kept, self.own = whole, kept, own
        self.held: dict[Place, Buffer] = {}

    def read(self, body: Sequence[Stmt], var: str) -> list[Stmt]:
        """What loads the elements that no loop has loaded before."""
        found = [
            place
            for place in places(body, var, self.rounds.outer)[0]
            if place not in self.held and place[0] not in self.own
        ]
        for place in found:
            self.held[place] = self._room(place[0].dtype, self.rounds.each)

        def round_(at: Dim) -> list[Stmt]:
            return [stmt for place in found for stmt in self._copies(place, at, True)]

        return [self._each_round(round_)] if found else []

    def run(self, body: tuple[Stmt, ...], var: str, without: frozenset[Buffer] = frozenset()) -> list[Stmt]:
        """The rounds of a loop whose elements are loaded. ``without``: buffers that it need not write to memory,
        because a later loop does or nobody reads them there."""
        rounds = self.rounds
        lane = symbol(f"{self.name}.lane") if rounds.lanes > 1 else const(0)
        rooms: dict[Place, Buffer] = {}
        stored = [place for place in places(body, var)[1] if place[0] not in self.own]
        for place in stored:
            buffer = place[0]
            if buffer in self.kept:
                if place not in self.held:
                    self.held[place] = self._room(buffer.dtype, rounds.each)
            elif self._wide(place) and sum(isinstance(s, Store) and s.buffer is buffer for s in body) == 1:
                rooms[place] = self._room(buffer.dtype, rounds.lanes)

        def round_(at: Dim) -> list[Stmt]:
            mine = rounds.register(at, lane), rounds.register(at, const(0))
            inner = _Held(
                var, rounds.first(at) + lane, self.held, mine, rooms, rounds.thread * rounds.lanes + lane, self.kept
            ).body(body)
            behind: list[Stmt] = []
            for place in stored:
                if place[0] in self.kept and place[0] not in without:
                    behind += self._copies(place, at, False)
                elif place in rooms:
                    behind += self._copies(place, at, False, rooms[place])
            return [*(inner if rounds.lanes == 1 else (Loop(name_of(lane), const(rounds.lanes), inner),)), *behind]

        return [self._each_round(round_)]

    def _room(self, dtype: str, each: int) -> Buffer:
        room = Buffer(f"$held{len(self.registers)}", dtype, const(each * self.rounds.threads), "temp")
        self.registers.append(room)
        return room

    def _each_round(self, body: Callable[[Dim], Sequence[Stmt]]) -> Stmt:
        at = symbol(f"{self.name}.round")
        inner = If(Test(self.rounds.inside(at)), tuple(body(at)))
        return Loop(name_of(at), const(self.rounds.count), (*self.rounds.place(at), inner))

    def _wide(self, place: Place) -> bool:
        """Whether the elements of a round are one access."""
        return wide(place, self.rounds.lanes, self.whole, self.known)

    def _copies(self, place: Place, at: Dim, read: bool, room: Buffer | None = None) -> list[Stmt]:
        """The elements of a round from memory to registers, or back."""
        buffer, index = place
        rounds, var = self.rounds, f"{self.name}.copied"
        alone = rounds.lanes == 1 or "$element" not in index.symbols()
        lane = const(0) if alone else symbol(var)
        mine = rounds.register(at, lane) if room is None else rounds.thread * rounds.lanes + lane
        held = self.held[place] if room is None else room
        far = index.substitute({"$element": rounds.first(at) + lane})
        copy = (
            Store(held, mine, Load(buffer.dtype, buffer, far))
            if read
            else Store(buffer, far, Load(buffer.dtype, held, mine))
        )
        if alone:
            return [copy]
        kind = Wide if self._wide(place) else Loop
        return [kind(var, const(rounds.lanes), (copy,))]


class _Held(Moved):
    """Statements of one element, with registers in the place of memory."""

    def __init__(
        self,
        var: str,
        element: Dim,
        held: Mapping[Place, Buffer],
        registers: tuple[Dim, Dim],
        rooms: Mapping[Place, Buffer],
        lane: Dim,
        kept: frozenset[Buffer],
    ) -> None:
        super().__init__({var: element})
        self.var, self.held, self.rooms, self.lane, self.kept = var, held, rooms, lane, kept
        self.register, self.first = registers

    def stmt(self, stmt: Stmt) -> Stmt:
        """One statement, changed."""
        if isinstance(stmt, Store):
            value = self.expr(stmt.value)
            place = stmt.buffer, _element(stmt.index, self.var)
            if stmt.buffer in self.kept:
                return Store(self.held[place], self.register, value)
            if place in self.rooms:
                return Store(self.rooms[place], self.lane, value)
            return Store(*self.element(stmt.buffer, stmt.index), value)
        return super().stmt(stmt)

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Load):
            held = self.held.get((expr.buffer, _element(expr.index, self.var)))
            if held is not None:
                return Load(expr.dtype, held, self.register if self.var in expr.index.symbols() else self.first)
        return super()._expr(expr)
