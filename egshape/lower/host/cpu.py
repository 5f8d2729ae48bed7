"""Programs on this processor: memory of the C library, kernels called as functions, in the pool where they are cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from egshape.dims import Dim, const, symbol
from egshape.ir.types import itemsize
from egshape.lower.host import redzones
from egshape.lower.host.backend import Backend, Request
from egshape.lower.host.entry import Entry
from egshape.lower.host.timing import timed
from egshape.lower.llvm import scalar, tasks
from egshape.lower.llvm.kernel import function
from egshape.plan.analysis.memory import THREADS
from egshape.plan.analysis.work import flops, traffic
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import Copy, Run
from egshape.runtime.abi.call import POOL_VERSION, REDZONE, REDZONE_BYTES

DECLARATIONS = """declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


class Cpu(Backend):
    """Writes memory and steps for this processor; ``redzones``: with red zones around buffers."""

    def __init__(self, host: Entry, redzones: bool = False) -> None:
        super().__init__(host)
        self.gap = REDZONE_BYTES if redzones else 0
        self.guarded: dict[Buffer, tuple[str, str]] = {}
        """Exact bytes and room of each buffer that has red zones."""
        self.watched: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        """Rows of the table of times."""
        self.names: dict[tuple[str, tuple[bool, ...]], str] = {}

    def declarations(self) -> str:
        """The C library."""
        return DECLARATIONS + (redzones.DECLARATIONS if self.gap else "")

    def manifest(self) -> dict[str, Any]:
        """The pool's layout, kernels, red zones."""
        return {
            "pool": POOL_VERSION,
            "kernels": [{"name": name} for name in self.rows],
            "zones": list(self.watched) if self.gap else None,
        }

    def begin(self) -> None:
        """Wake the pool."""
        w = self.w
        self.clock = w.slot("i64")
        w.line(f"%pool = load ptr, ptr {self.host.word('pool')}")
        w.line("%wide = icmp ne ptr %pool, null")
        most = w.value(f"load i64, ptr {self.host.word('threads')}")
        w.line(f"%threads = call i64 @llvm.smax.i64(i64 {most}, i64 1)")
        w.symbols[THREADS] = "%threads"
        w.line("call void @egs_session(ptr %pool, i32 1)")

    def end(self) -> None:
        """The pool may sleep."""
        self.w.line("call void @egs_session(ptr %pool, i32 -1)")

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, size: str, what: Request) -> str:
        """Memory of the C library."""
        found = self.w.value(f"call ptr @egs_memory(i64 {size})")
        self.host.fail(self.w.value(f"icmp eq ptr {found}, null"), 3, [])
        return found

    def free(self, pointer: str) -> None:
        """Give it back."""
        self.w.line(f"call void @free(ptr {pointer})")

    def placed(self, arena: str, total: str, rooms: Sequence[str], pieces: Sequence[str]) -> None:
        """Fill the arena with the pattern of the red zones."""
        if not self.gap:
            return
        w, layout = self.w, self.host.layout
        for buffer, number in layout.slot.items():
            exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(layout.slots[number])}, i64 0)")
            self.guarded[buffer] = exact, rooms[number]
        redzones.fill(w, arena, total)

    def grown(self, buffer: Buffer, size: Dim) -> None:
        """The red zone behind it."""
        if not self.gap:
            return
        w = self.w
        exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size)}, i64 0)")
        self.guarded[buffer] = exact, w.value(f"load i64, ptr {self.host.rooms[buffer]}")
        redzones.fill_behind(w, self.host.pointers[buffer], *self.guarded[buffer])

    # -- steps --------------------------------------------------------------------------------------------------------

    def run(self, step: Run) -> None:
        """Call the function of a kernel, which equal kernels share."""
        w, host = self.w, self.host
        found = function(step.kernel)
        private = tuple(buffer in step.kernel.private for buffer in found.buffers)
        name = self.names.get((found.text, private))
        if name is None:
            name = self.names[found.text, private] = f"egs_{len(self.names)}_{step.kernel.label}"
            self.kernels[name] = f"define internal void @{name}{found.text}"
            self.bodies[name] = step.kernel
        args = []
        for buffer in found.buffers:
            own = host.bytes(buffer.size, itemsize(buffer.dtype)) if buffer in step.kernel.private else ""
            args.append(tasks.Argument("ptr", host.pointers[buffer], own))
        args += [tasks.Argument("i64", w.dim(symbol(size))) for size in found.sizes]
        with self.timed(name.removeprefix("egs_"), traffic(step.kernel), flops(step.kernel)):
            if found.split is None:
                w.line(f"call void @{name}({', '.join(f'{each.type} {each.value}' for each in args)})")
            else:
                self.kernels[f"{name}_task"] = tasks.task(name, args)
                host.table_words = max(host.table_words, tasks.table_words(args))
                tasks.call(w, name, args, found.split, "%table")
        for buffer in found.buffers:
            if buffer in self.guarded:
                number = self.watched.setdefault(buffer.name, len(self.watched))
                bad = redzones.broken(w, host.pointers[buffer], *self.guarded[buffer], before=buffer not in host.late)
                host.fail(bad, REDZONE, [str(self.rows[name.removeprefix("egs_")]), str(number)])

    def copy(self, step: Copy) -> None:
        """memcpy; nothing where a caller gave an input's memory for the output that it is copied to."""
        w, source, target = self.w, self.host.pointers[step.source], self.host.pointers[step.target]
        whole = step.source.size * itemsize(step.source.dtype)
        size = w.dim(whole)
        some = w.value(f"icmp sgt i64 {size}, 0")
        if step.source.kind == "input" and step.target.kind == "output":
            some = w.value(f"and i1 {some}, {w.value(f'icmp ne ptr {source}, {target}')}")
        with self.timed("copy", 2 * whole, const(0)), w.when(some):
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """Read it."""
        w, address = self.w, self.host.pointers[buffer]
        if element:
            address = w.value(f"getelementptr {scalar.memory(buffer.dtype)}, ptr {address}, i64 {element}")
        return scalar.load(w, buffer.dtype, address)

    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """Times by the clock."""
        row = self.rows.setdefault(name, len(self.rows))
        return timed(self.w, self.clock, row, traffic, flops)
