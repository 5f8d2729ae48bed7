"""Programs on this processor: memory of the C library, kernels called as functions, values read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import Dim
from egshape.lower.host import redzones
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.launch import Calls
from egshape.lower.host.target import InOrder, Outputs, Request
from egshape.lower.llvm import scalar
from egshape.plan.analysis.memory import THREADS
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import CheckValue
from egshape.runtime.abi.call import POOL_VERSION, REDZONE_BYTES

DECLARATIONS = """declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


class Heap:
    """Memory of the C library; ``redzones``: with red zones around buffers."""

    constants = "%constants"

    def __init__(self, entry: Entry, checks: Checks, redzones: bool) -> None:
        self.entry, self.checks = entry, checks
        self.w = entry.w
        self.gap = REDZONE_BYTES if redzones else 0
        self.guarded: dict[Buffer, tuple[str, str]] = {}
        """Exact bytes and room of each buffer that has red zones."""

    def allocate(self, size: str, what: Request) -> str:
        """Memory of the C library."""
        found = self.w.value(f"call ptr @egs_memory(i64 {size})")
        self.checks.fail(self.w.value(f"icmp eq ptr {found}, null"), 3, [])
        return found

    def free(self, pointer: str) -> None:
        """Give it back."""
        self.w.line(f"call void @free(ptr {pointer})")

    def further(self) -> Sequence[str]:
        """None."""
        return ()

    def laid_out(self, arena: str, total: str, rooms: Sequence[str], further: Sequence[str]) -> None:
        """Fill the arena with the pattern of the red zones."""
        if not self.gap:
            return
        w, layout = self.w, self.entry.layout
        for buffer, number in layout.slot.items():
            exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(layout.slots[number])}, i64 0)")
            self.guarded[buffer] = exact, rooms[number]
        redzones.fill(w, arena, total)

    def output(self, buffer: Buffer, outputs: Outputs) -> str:
        """The caller's, or new."""
        return outputs.given(buffer)

    def grown(self, buffer: Buffer, size: Dim) -> None:
        """The red zone behind it."""
        if not self.gap:
            return
        w = self.w
        exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size)}, i64 0)")
        self.guarded[buffer] = exact, w.value(f"load i64, ptr {self.entry.rooms[buffer]}")
        redzones.fill_behind(w, self.entry.pointers[buffer], *self.guarded[buffer])


class InPlace:
    """Values in memory of this processor."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """Read it."""
        w, address = self.entry.w, self.entry.pointers[buffer]
        if element:
            address = w.value(f"getelementptr {scalar.memory(buffer.dtype)}, ptr {address}, i64 {element}")
        return scalar.load(w, buffer.dtype, address)

    def defer(self, step: CheckValue) -> bool:
        """Nothing waits for another machine."""
        return False

    def settle(self) -> None:
        """Nothing is deferred."""

    def for_python(self, buffers: Sequence[Buffer], read: bool) -> Sequence[str]:
        """Where they lie."""
        return [self.entry.pointers[buffer] for buffer in buffers]

    def from_python(self, buffers: Sequence[Buffer]) -> None:
        """They lie there."""


class Cpu:
    """This processor; ``redzones``: with red zones around buffers."""

    def __init__(self, entry: Entry, checks: Checks, redzones: bool = False) -> None:
        self.entry = entry
        self.memory = Heap(entry, checks, redzones)
        self.launcher = Calls(entry, checks, self.memory.guarded)
        self.values = InPlace(entry)
        self.order = InOrder()

    def declarations(self) -> str:
        """The C library."""
        return DECLARATIONS + (redzones.DECLARATIONS if self.memory.gap else "")

    def manifest(self) -> dict[str, Any]:
        """The pool's layout, kernels, red zones."""
        return {
            "pool": POOL_VERSION,
            "kernels": [{"name": name} for name in self.launcher.rows],
            "zones": list(self.launcher.watched) if self.memory.gap else None,
        }

    def begin(self) -> None:
        """Wake the pool."""
        w = self.entry.w
        self.launcher.clock = w.slot("i64")
        w.line(f"%pool = load ptr, ptr {self.entry.word('pool')}")
        w.line("%wide = icmp ne ptr %pool, null")
        most = w.value(f"load i64, ptr {self.entry.word('threads')}")
        w.line(f"%threads = call i64 @llvm.smax.i64(i64 {most}, i64 1)")
        w.symbols[THREADS] = "%threads"
        w.line("call void @egs_session(ptr %pool, i32 1)")

    def finish(self) -> None:
        """Results lie where the caller has them."""

    def end(self) -> None:
        """The pool may sleep."""
        self.entry.w.line("call void @egs_session(ptr %pool, i32 -1)")
