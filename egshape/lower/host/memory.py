"""Memory of a program: its arena, its outputs, buffers whose size only running tells."""

from __future__ import annotations

from egshape.ir.types import itemsize
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.target import Memory, Request
from egshape.plan.analysis.memory import room as room_of
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import Extend, Swap
from egshape.runtime.abi.call import MEASURE, MEASURED


class Buffers:
    """Writes where the buffers of a program lie. ``memory``: where that comes from."""

    def __init__(self, entry: Entry, checks: Checks, memory: Memory) -> None:
        self.entry, self.checks, self.memory = entry, checks, memory
        self.w = entry.w

    def lay_out(self) -> None:
        """The arena and the outputs, as far as their sizes are known; and the table of constants."""
        w, entry, memory = self.w, self.entry, self.memory
        offsets, total = [], "0"
        rooms = []
        for size in [*(self.checks.bytes(size, 1) for size in entry.layout.slots), *memory.further()]:
            rooms.append(w.value(f"add i64 {size}, {memory.gap}") if memory.gap else size)
            offsets.append(w.value(f"add i64 {total}, {memory.gap}") if memory.gap else total)
            total = w.value(f"add i64 {offsets[-1]}, {rooms[-1]}")
        if entry.program.images:
            strict = w.value(f"load i64, ptr {entry.word('strict')}")
            measure = w.value(f"and i64 {strict}, {MEASURE}")
            self.checks.fail(w.value(f"icmp ne i64 {measure}, 0"), MEASURED, [total])
        self._arena(total)
        arena = w.value(f"load ptr, ptr {entry.word('arena')}")
        at = [w.value(f"getelementptr i8, ptr {arena}, i64 {offset}") for offset in offsets]
        for buffer, number in entry.layout.slot.items():
            entry.pointers[buffer] = at[number]
        late = dict.fromkeys(entry.layout.late)
        for buffer in late:
            entry.late[buffer], entry.rooms[buffer] = w.slot("ptr"), w.slot("i64")
            for slot, type, zero in ((entry.late[buffer], "ptr", "null"), (entry.rooms[buffer], "i64", "0")):
                entry.first.append(f"  store {type} {zero}, ptr {slot}")
        memory.laid_out(arena, total, rooms, at[len(entry.layout.slots) :])
        for buffer in entry.ports:
            if buffer not in late:
                entry.pointers[buffer] = memory.output(buffer, self)
        for k, buffer in enumerate(entry.program.constants):
            entry.pointers[buffer] = entry.entry_of(memory.constants, k)

    def _arena(self, total: str) -> None:
        """Grow the context's arena where it is too small."""
        w = self.w
        arena, room = self.entry.word("arena"), self.entry.word("room")
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {total}")):
            self.memory.free(w.value(f"load ptr, ptr {arena}"))
            w.line(f"store ptr null, ptr {arena}")
            w.line(f"store i64 0, ptr {room}")
            new = self.memory.allocate(total, Request("the arena", str(self.entry.layout.peak)))
            w.line(f"store ptr {new}, ptr {arena}")
            w.line(f"store i64 {total}, ptr {room}")

    def given(self, buffer: Buffer) -> str:
        """An output's memory: the caller's where it is large enough, else new."""
        w, k = self.w, self.entry.ports[buffer]
        need = self.checks.bytes(buffer.size, itemsize(buffer.dtype))
        exact = w.dim(buffer.size * itemsize(buffer.dtype))
        place = w.value(f"getelementptr ptr, ptr %outputs, i64 {k}")
        room = w.value(f"getelementptr i64, ptr %rooms, i64 {k}")
        what = Request.of(buffer)
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {exact}")):
            w.line(f"store ptr {self.memory.allocate(need, what)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        found = w.value(f"load ptr, ptr {place}")
        with w.when(w.value(f"icmp eq ptr {found}, null")):
            w.line(f"store ptr {self.memory.allocate(need, what)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {place}")

    # -- sizes that only running tells --------------------------------------------------------------------------------

    def ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""
        entry = self.entry
        if buffer not in entry.late:
            return
        if buffer in entry.ports:
            entry.pointers[buffer] = self.memory.output(buffer, self)
            self.w.line(f"store ptr {entry.pointers[buffer]}, ptr {entry.late[buffer]}")
            return
        size = room_of(buffer, buffer in entry.private)
        need = self.checks.bytes(size, 1)
        entry.pointers[buffer] = self.grow(buffer, self.w.value(f"add i64 {need}, {self.memory.gap}"))
        self.memory.grown(buffer, size)

    def grow(self, buffer: Buffer, need: str) -> str:
        """Memory of so many bytes for a buffer whose size only data tells: what it has, if that is enough."""
        w, slot, room = self.w, self.entry.late[buffer], self.entry.rooms[buffer]
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {need}")):
            self.memory.free(w.value(f"load ptr, ptr {slot}"))
            w.line(f"store ptr null, ptr {slot}")
            self._renew(buffer, need)
        return w.value(f"load ptr, ptr {slot}")

    def _renew(self, buffer: Buffer, need: str) -> None:
        """New memory of so many bytes, and half as much again as there was: a loop that makes a buffer grow does not
        ask for memory each round."""
        w, slot, room = self.w, self.entry.late[buffer], self.entry.rooms[buffer]
        old = w.value(f"load i64, ptr {room}")
        half = w.value(f"lshr i64 {old}, 1")
        more = w.value(f"and i64 {w.value(f'add i64 {old}, {half}')}, -64")
        new = w.value(f"call i64 @llvm.smax.i64(i64 {need}, i64 {more})")
        w.line(f"store ptr {self.memory.allocate(new, Request.of(buffer))}, ptr {slot}")
        w.line(f"store i64 {new}, ptr {room}")

    def extend(self, step: Extend) -> None:
        """More memory where the buffer has too little, to which its elements move."""
        w, slot, room = self.w, self.entry.late[step.buffer], self.entry.rooms[step.buffer]
        width = itemsize(step.buffer.dtype)
        need = w.value(f"add i64 {self.checks.bytes(step.size, width)}, {self.memory.gap}")
        held = w.dim(step.buffer.size * width)
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {need}")):
            old = w.value(f"load ptr, ptr {slot}")
            self._renew(step.buffer, need)
            new = w.value(f"load ptr, ptr {slot}")
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {new}, ptr {old}, i64 {held}, i1 false)")
            self.memory.free(old)

    def swap(self, step: Swap) -> None:
        """Each of two buffers gets the other's memory."""
        for type, slots in (("ptr", self.entry.late), ("i64", self.entry.rooms)):
            one, two = (self.w.value(f"load {type}, ptr {slots[each]}") for each in (step.one, step.two))
            self.w.line(f"store {type} {two}, ptr {slots[step.one]}")
            self.w.line(f"store {type} {one}, ptr {slots[step.two]}")

    def free_all(self) -> None:
        """Give back what buffers have whose size only running told, but for outputs."""
        for buffer, slot in self.entry.late.items():
            if buffer not in self.entry.ports:
                self.memory.free(self.w.value(f"load ptr, ptr {slot}"))
