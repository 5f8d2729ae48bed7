"""What the loops over a row touch and fold, and which elements pass from loop to loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egshape.dims import Dim, symbol
from egshape.ir.types import itemsize
from egshape.plan.analysis.parallel import blocked, independent
from egshape.plan.gpu.folds import totals
from egshape.plan.gpu.joint import Joint, joint
from egshape.plan.gpu.streams import Place, places
from egshape.plan.gpu.wide import line
from egshape.plan.ir.launch import is_closed
from egshape.plan.ir.loops import Assign, Buffer, Call, Kernel, Let, LetIndex, Load, Local, Loop, Stmt, Store
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions, statements


@dataclass(frozen=True)
class Program:
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


def program_of(kernel: Kernel, loops: Sequence[Loop], body: tuple[Stmt, ...]) -> Program | None:
    """The program of a row; None where a loop keeps its order or stores over others."""
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
    return Program(
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


def live(program: Program) -> tuple[int, int]:
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
