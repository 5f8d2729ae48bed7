"""Kernels on blocks and threads: the same loop IR, with outer loops that are blocks and inner ones that are threads of
a block. ``plan/gpu/mapping.py`` maps them.

Run one after the other, the mapped loops compute what the kernel did, which is how a machine without a GPU tests
the mapping; what the CUDA printer adds is only that they run at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from egshape.dims import Dim, const, floordiv
from egshape.ir.types import itemsize
from egshape.plan.ir.loops import (
    Buffer,
    Call,
    Expr,
    Kernel,
    Loop,
    Matrix,
    Var,
)

WARP = 32
"""Threads that run together."""


@dataclass(frozen=True, eq=False, slots=True)
class Grid(Loop):
    """A loop over the blocks of a launch: its rounds may run in any order, or at the same time."""


@dataclass(frozen=True, eq=False, slots=True)
class Threads(Loop):
    """A loop over the threads of a block: its rounds may run in any order, or at the same time; where ``wait`` is
    set, none goes on to what follows before all are done. ``landed``: behind it all copies of the threads that were on
    their way have arrived."""

    wait: bool = True
    landed: bool = False


@dataclass(frozen=True)
class Launch:
    """A mapped kernel. ``shared``: buffers of a block's own (static sizes); ``kernel.private`` buffers have become
    one piece for each block."""

    kernel: Kernel
    blocks: Dim
    threads: int
    shared: tuple[Buffer, ...] = ()
    registers: tuple[Buffer, ...] = ()
    """Those of ``shared`` that are registers: element thread * count + r is the thread's own."""
    over: tuple[Buffer, ...] = ()
    """Those of ``shared`` that lie where the others lie which are no registers: whichever are written, what was in the
    others is lost, and a barrier must stand between."""
    resident: int = 0
    """Blocks that a large multiprocessor is to hold at the same time, where registers would be too many; 0: as many as
    the compiler makes of it."""
    narrow: bool = False
    """Whether indices are computed in 32 bits."""
    fits: tuple[Dim, ...] = ()
    """What must be >= 0 for this launch; ``otherwise`` is the one for where it is not."""
    otherwise: Launch | None = None
    why: str = ""
    """What was chosen, and why."""

    def places(self) -> tuple[dict[Buffer, int], int]:
        """Where each buffer begins in a block's shared memory, and the bytes of that."""
        starts: dict[Buffer, int] = {}
        ends = {False: 0, True: 0}
        for buffer in self.shared:
            if buffer not in self.registers:
                over = buffer in self.over
                starts[buffer] = ends[over]
                ends[over] += -(-(buffer.size.const or 0) * itemsize(buffer.dtype) // BYTES) * BYTES
        return starts, max(ends.values())


def at_round(loops: Sequence[Loop], flat: Dim) -> dict[str, Dim]:
    """The loop variables of the flat number of an iteration."""
    env, size = {}, const(1)
    for number, loop in reversed(list(enumerate(loops))):
        quotient = floordiv(flat, size)
        env[loop.var] = quotient if number == 0 else quotient - floordiv(flat, size * loop.extent) * loop.extent
        size = size * loop.extent
    return env


Pieces = Mapping[Buffer, tuple[Buffer, Dim]]


def pieces(kernel: Kernel, count: Dim, number: Dim) -> Pieces:
    """A piece of each private buffer for each of ``count`` rounds."""
    return {
        buffer: (Buffer(buffer.name, buffer.dtype, buffer.size * count, buffer.kind), number * buffer.size)
        for buffer in kernel.private
    }


def with_pieces(kernel: Kernel, grid: Grid, own: Pieces) -> Kernel:
    """A mapped kernel in which private buffers are these pieces."""
    outputs = tuple(own[buffer][0] if buffer in own else buffer for buffer in kernel.outputs)
    return replace(kernel, body=(grid,), outputs=outputs, private=())


def is_closed(dim: Dim) -> bool:
    """Whether a size is known before the launch."""
    return not any(name.startswith("$") for name in dim.symbols())


BYTES = 16
"""Of an access."""


@dataclass(frozen=True, eq=False, slots=True)
class Wide(Loop):
    """A loop of a few rounds that copies elements from or to registers, side by side at a multiple of its extent: a
    printer for a GPU makes it one access."""


@dataclass(frozen=True, eq=False, slots=True)
class Ahead(Wide):
    """One of 16 bytes from memory to shared memory that takes no registers: of elements, or of a choice between these
    and 0, which is the same for all of them. It is on its way, and nobody may touch what
    it copies to, until its thread has come to the end of ``Threads`` with ``landed``; others until they have waited for
    that thread besides."""


COMMUTATIVE = frozenset(("maximum", "minimum", "add", "multiply", "and", "or", "xor"))
"""Ops that give the same bits whichever operand comes first."""


@dataclass(frozen=True, eq=False, slots=True)
class LaneFold(Loop):
    """Each group of ``width`` neighbouring threads ends with the fold of its members' registers in every one of them.

    All threads of a block do it together, outside of loops over threads. Of each buffer of ``states`` (registers: of
    ``count`` elements thread * count + r is the thread's own) the values of two lanes are joined by ``new``, in which
    ``one`` names those of the lower and ``two`` those of the higher one: neighbours first, then pairs of them, and so
    on, in every lane the same bits. The extent is the number of groups, the body does it for one."""

    width: int
    count: int
    states: tuple[Buffer, ...]
    one: tuple[str, ...]
    two: tuple[str, ...]
    new: tuple[Expr, ...]

    @property
    def commutes(self) -> bool:
        """Whether it does not matter which lane is the lower one."""
        if len(self.new) != 1 or not isinstance(self.new[0], Call) or self.new[0].op not in COMMUTATIVE:
            return False
        names = [arg.name for arg in self.new[0].args if isinstance(arg, Var)]
        return sorted(names) == sorted((*self.one, *self.two))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Mma(Threads):
    """sums += left @ right. Warp w stands at (w // across, w % across) of a grid of warps and has ``rows`` by
    ``columns`` tiles of 16 x 8 sums, whose places ``row_at`` and ``column_at`` give. All threads of the block come
    here together, and the lanes of a warp meet; ``wait``: whether the block waits behind it."""

    dtype: str
    """Of the sides: f16, bf16 or f32. Sums are f32."""
    sums: Buffer
    """Registers: tile (i, j) of a thread is its elements (i * columns + j) * 4 + 0 to 3."""
    left: Matrix
    """(row, deep) in shared memory, one of the strides 1. ``held``: registers of f32 like sums, which are rounded to
    the dtype; tile (i, j), j along the depth, is the thread's elements offset + i * row + j * column + 0 to 3."""
    right: Matrix
    """(deep, column) in shared memory, one of the strides 1."""
    rows: int
    columns: int
    depth: int
    across: int = 1
    held: bool = False
