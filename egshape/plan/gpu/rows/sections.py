"""What the threads of a block do, in sections between which lanes or warps meet: what one section computes for a later
one stays in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from egshape.dims import Dim, const, symbol
from egshape.plan.ir.launch import Pieces, Threads
from egshape.plan.ir.loops import Assign, Buffer, If, Index, Let, LetIndex, Load, Local, Stmt, Store, Test, Var, name_of
from egshape.plan.ir.visit import Moved
from egshape.plan.ir.walk import expressions, statements


@dataclass
class Section:
    """What each thread does before lanes meet. ``always``: also threads that have no row."""

    always: list[Stmt] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    behind: list[Stmt] = field(default_factory=list)
    """Where lanes meet."""
    wait: bool = False


@dataclass(frozen=True)
class Block:
    """``threads`` with the number ``thread``, the registers that they have, to which others are added, and where
    buffers of theirs lie."""

    threads: int
    thread: Dim
    registers: list[Buffer]
    own: Pieces

    def room(self, name: str, dtype: str) -> Buffer:
        """A new register of each thread."""
        found = Buffer(f"$kept{len(self.registers)}.{name}", dtype, const(self.threads), "temp")
        self.registers.append(found)
        return found


def joined_sections(
    sections: Sequence[Section], block: Block, place: tuple[Stmt, ...], inside: Test | None
) -> tuple[Stmt, ...]:
    """The sections as loops over threads, one behind the other. ``place`` stands before what each does, which it only
    does ``inside``."""
    out: list[Stmt] = []
    made: dict[str, Let | Local] = {}
    indices: list[Stmt] = []
    rooms: dict[str, Buffer] = {}
    left = [each for each in sections if each.always or each.body or each.behind]
    for number, section in enumerate(left):
        var = f"$t{number}"
        again = [_again(stmt, section, block) for stmt in section.body if isinstance(stmt, LetIndex)]
        kept = _imports(section, made, rooms, block)
        made |= {stmt.name: stmt for stmt in section.body if isinstance(stmt, Let | Local)}
        needed = {name for each in left[number + 1 :] for name in _touched(each.body)} & made.keys()
        changed = {stmt.name for stmt in section.body if isinstance(stmt, Let | Local | Assign)}
        for name in sorted(needed & changed):
            if name not in rooms:
                rooms[name] = block.room(name, made[name].value.dtype)
            section.body.append(Store(rooms[name], block.thread, Var(rooms[name].dtype, name)))
        inner: tuple[Stmt, ...] = (*indices, *kept, *section.body)
        if inner and inside is not None:
            inner = (If(inside, inner),)
        indices += again
        moved = Moved({name_of(block.thread): symbol(var)}, block.own)
        body = moved.body((*section.always, *(place if inner else ()), *inner))
        out += [Threads(var, const(block.threads), body, wait=section.wait), *section.behind]
    return tuple(out)


def _imports(
    section: Section, made: Mapping[str, Let | Local], rooms: Mapping[str, Buffer], block: Block
) -> list[Stmt]:
    """What earlier sections have computed for this one."""
    found: list[Stmt] = []
    for name in sorted(_touched(section.body) & rooms.keys()):
        value = Load(rooms[name].dtype, rooms[name], block.thread)
        found.append(Local(name, value) if isinstance(made[name], Local) else Let(name, value))
    return found


def _again(stmt: LetIndex, section: Section, block: Block) -> Stmt:
    """An index for later sections: computed again, or held if it is a number from data."""
    if isinstance(stmt.value, Index):
        return stmt
    room = block.room(stmt.name, "i64")
    section.body.insert(section.body.index(stmt) + 1, Store(room, block.thread, Index("i64", symbol(stmt.name))))
    return LetIndex(stmt.name, Load("i64", room, block.thread))


def _touched(body: Sequence[Stmt]) -> set[str]:
    """The names that statements read or change."""
    found = {expr.name for expr in expressions(tuple(body)) if isinstance(expr, Var)}
    return found | {stmt.name for stmt in statements(tuple(body)) if isinstance(stmt, Assign)}
