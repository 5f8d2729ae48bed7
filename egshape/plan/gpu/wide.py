"""Accesses of 16 bytes: a thread takes some elements that lie side by side, loads and stores them at once and computes
on them in registers.

Where each line begins at a multiple of the width is shown by what sizes divide by, or tested before the launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from egshape.dims import Dim, FloorDiv, Symbol, const, floordiv, symbol
from egshape.dims.core import Monomial, divide_monomial
from egshape.errors import UndefinedSize
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import blocked, coefficient
from egshape.plan.ir.launch import BYTES, Wide
from egshape.plan.ir.loops import Assign, Bind, Bounds, Buffer, Choose, Expr, Let, Load, Loop, Stmt, Store
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import children, expressions


@dataclass(frozen=True)
class Lines:
    """A loop whose rounds are taken ``lanes`` at a time. ``wide``: the buffers that are accessed so, and where."""

    loop: Loop
    lanes: int
    wide: dict[Buffer, Dim]
    stored: frozenset[Buffer]

    def body(self, first: Dim, thread: Dim, threads: int, registers: list[Buffer], name: str) -> tuple[Stmt, ...]:
        """The rounds from ``first`` on, of one thread; what registers they take is added."""
        rooms = {}
        for buffer in self.wide:
            rooms[buffer] = Buffer(f"$wide{len(registers)}", buffer.dtype, const(self.lanes * threads), "temp")
            registers.append(rooms[buffer])
        lane = symbol(f"{name}.lane")
        place = thread * self.lanes + lane
        inner = _Held({self.loop.var: first + lane}, {b: rooms[b] for b in self.wide}, place).body(self.loop.body)
        at = {buffer: index.substitute({self.loop.var: first}) for buffer, index in self.wide.items()}
        before, behind = [], []
        for number, (buffer, room) in enumerate(rooms.items()):
            var = f"{name}.wide{number}"
            step, mine = at[buffer] + symbol(var), thread * self.lanes + symbol(var)
            if buffer in self.stored:
                copy = Store(buffer, step, Load(buffer.dtype, room, mine))
                behind.append(Wide(var, const(self.lanes), (copy,)))
            if buffer not in self.stored or self._read(buffer):
                var = f"{name}.wide{number}.in"
                step, mine = at[buffer] + symbol(var), thread * self.lanes + symbol(var)
                copy = Store(room, mine, Load(buffer.dtype, buffer, step))
                before.append(Wide(var, const(self.lanes), (copy,)))
        return (*before, Loop(f"{name}.lane", const(self.lanes), inner), *behind)

    def _read(self, buffer: Buffer) -> bool:
        return any(isinstance(expr, Load) and expr.buffer is buffer for expr in expressions(self.loop.body))


class _Held(Moved):
    """Statements with registers in the place of buffers."""

    def __init__(self, env: dict[str, Dim], held: dict[Buffer, Buffer], place: Dim) -> None:
        super().__init__(env)
        self.held, self.place = held, place

    def element(self, buffer: Buffer, index: Dim) -> tuple[Buffer, Dim]:
        """Where an element lies."""
        return (self.held[buffer], self.place) if buffer in self.held else super().element(buffer, index)


def lines(loop: Loop, bounds: Sequence[Bounds], whole: Dim | None = None) -> Lines | None:
    """How the rounds of a loop are taken several at a time if ``whole``, its extent if not given, divides by their
    number; None if that gains nothing."""
    if not all(isinstance(stmt, Let | Store | Assign) for stmt in loop.body):
        return None
    places: dict[Buffer, set[Dim]] = {}
    stores = Counter(stmt.buffer for stmt in loop.body if isinstance(stmt, Store))
    for stmt in loop.body:
        if isinstance(stmt, Store):
            places.setdefault(stmt.buffer, set()).add(stmt.index)
    certain: set[Buffer] = set()
    for expr, always in loads(loop.body):
        places.setdefault(expr.buffer, set()).add(expr.index)
        if always:
            certain.add(expr.buffer)
    near = {
        buffer: next(iter(found))
        for buffer, found in places.items()
        if len(found) == 1
        and stores[buffer] <= 1
        and (stores[buffer] or buffer in certain)
        and coefficient(next(iter(found)), loop.var) is const(1)
    }
    lanes = BYTES // max((itemsize(buffer.dtype) for buffer in near), default=BYTES)
    known = {each.name: each.divisor for each in bounds}
    whole = line(loop) if whole is None else whole
    wide = {
        buffer: index
        for buffer, index in near.items()
        if multiple(index.substitute({loop.var: 0}), lanes, whole, known)
    }
    if lanes == 1 or not wide:
        return None
    return Lines(loop, lanes, wide, frozenset(buffer for buffer in wide if stores[buffer]))


def line(loop: Loop) -> Dim:
    """The extent whose divisors a loop's own extent has: of blocks of a line, that of the line."""
    for var in loop.extent.symbols():
        found = blocked(loop.extent, var) if var.startswith("$") else None
        if found is not None and (found[1].const or 1) % BYTES == 0:
            return found[0]
    return loop.extent


def loads(body: Sequence[Stmt]) -> list[tuple[Load, bool]]:
    """The loads, and whether each is made whatever a condition says."""
    found: dict[Load, bool] = {}

    def visit(expr: Expr, always: bool) -> None:
        if isinstance(expr, Load):
            found[expr] = found.get(expr, False) or always
        for number, child in enumerate(children(expr)):
            visit(child, always and not (isinstance(expr, Choose) and number) and not isinstance(expr, Bind))

    for stmt in body:
        if isinstance(stmt, Let | Store | Assign):
            visit(stmt.value, True)
    return list(found.items())


def divides(extent: Dim, lanes: int, bounds: Sequence[Bounds]) -> bool:
    """Whether an extent is shown to be a multiple."""
    return multiple(extent, lanes, const(0), {each.name: each.divisor for each in bounds})


def at_most(dim: Dim, most: int, bounds: Sequence[Bounds]) -> bool:
    """Whether ranges show that a size is at most so large."""
    high = {each.name: each.high for each in bounds if each.high is not None}
    if not dim.symbols() <= high.keys() or any(
        isinstance(atom, FloorDiv) and atom.den.const is None for atom in dim.atoms()
    ):
        return False
    try:
        return dim.evaluate(high) <= most
    except UndefinedSize:
        return False


def left(extent: Dim, lanes: int) -> Dim:
    """>= 0 exactly where the extent is a multiple."""
    return floordiv(extent, lanes) * lanes - extent


def likely_divides(extent: Dim, lanes: int, likely: Callable[[Dim], float]) -> bool:
    """Whether the likely extent is a multiple."""
    return int(likely(extent)) % lanes == 0


def multiple(dim: Dim, lanes: int, extent: Dim, known: Mapping[str, int]) -> bool:
    """Whether a size is a multiple, where ``extent`` is one and sizes have known divisors."""
    return all(_is_multiple(mono, factor, lanes, extent, known) for mono, factor in dim.terms)


def _is_multiple(mono: Monomial, factor: int, lanes: int, extent: Dim, known: Mapping[str, int]) -> bool:
    if len(extent.terms) == 1:
        ((line, times),) = extent.terms
        if line and factor % times == 0 and divide_monomial(mono, line) is not None:
            return True
        if not line and factor % times == 0:
            return True
    found = factor
    for atom, power in mono:
        if isinstance(atom, Symbol):
            found *= known.get(atom.name, 1) ** power
    return gcd(found, lanes) == lanes
