"""What each warp of a block has found, in shared memory, with a place for each warp: its first thread tells it there,
and behind a barrier each thread that needs what all have found folds the places, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from egshape.dims import Dim, const, floordiv
from egshape.plan.gpu.lanes import lane_fold
from egshape.plan.ir.launch import WARP, LaneFold
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Expr,
    If,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    name_of,
)


def tell(thread: Dim, told: Mapping[Buffer, Expr]) -> Stmt:
    """The first thread of each warp stores values, each at the warp's place of a buffer."""
    warp = floordiv(thread, WARP)
    return If(Test((warp * WARP - thread,)), tuple(Store(buffer, warp, value) for buffer, value in told.items()))


def step(op: str, name: str, value: Expr) -> Stmt:
    """A variable takes in one value more."""
    return Assign(name, Call(value.dtype, op, (Var(value.dtype, name), value)))


@dataclass(frozen=True, eq=False)
class Board:
    """The places of the warps of so many threads, which are folded by ``op`` from ``begin`` on."""

    name: str
    threads: int
    op: str
    begin: Const

    @cached_property
    def places(self) -> Buffer:
        """Where they are."""
        return Buffer(self.name, self.begin.dtype, const(self.threads // WARP), "temp")

    def lanes(self, own: Buffer, names: Callable[[], Dim]) -> LaneFold:
        """What each thread has found, in a register, becomes what its warp has found."""
        return lane_fold(name_of(names()), self.op, own, self.threads, WARP)

    def all(self, name: str, names: Callable[[], Dim]) -> list[Stmt]:
        """A new variable: what all warps have told."""
        warp = names()
        more = step(self.op, name, Load(self.begin.dtype, self.places, warp))
        return [Local(name, self.begin), Loop(name_of(warp), self.places.size, (more,))]
