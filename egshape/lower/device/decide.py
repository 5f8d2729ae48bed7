"""What the host of a device decides by: kernels that run on it, values that are copied back, checks of data."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import const, symbol
from egshape.ir.types import itemsize
from egshape.lower.device.calls import Calls
from egshape.lower.device.memory import Memory
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.llvm import scalar
from egshape.lower.llvm.kernel import function_of
from egshape.plan.analysis.placement import Placement, is_small, placement
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import CheckValue, Run

RING = 1 << 14
"""Bytes of the host's memory from which small things go up, one behind the other: a copy may read them at any time up
to the next wait."""
_LASTING = ("const", "input")
"""Buffers that hold the same as long as a program runs."""
_PLACE = 16
"""Bytes of the host's memory for the flag of a check, and for each value that its message shows."""


class Decider:
    """Writes what the host computes and reads.

    What goes up or comes down without a wait lies in memory of the host that belongs to the tables of a call
    (``pinned``): the ring, then places for checks. A check of data that the device computes is such a copy; the host
    looks at all of them at once, in their order, before it does what depends on one (``settle``): before it reads
    anything else by which it decides, and at the end. Until then the device computes on, as it may: what indices from
    data reach is inside of their buffers whatever they are, and sizes from data are read behind the checks."""

    def __init__(self, host: Entry, checks: Checks, calls: Calls, memory: Memory) -> None:
        self.host, self.checks, self.calls, self.memory = host, checks, calls, memory
        self.w = host.w
        self.functions: dict[str, str] = {}
        """Texts of kernels that run on the host, by their names."""
        self.placed_on_host = placement(host.program)
        self.mirrors: dict[Buffer, str] = {}
        self.python_slots: dict[Buffer, str] = {}
        """Memory of the host that Python functions read and write."""
        self._names: dict[str, str] = {}
        self.ring = False
        """Whether the ring is used."""
        self.check_bytes = 0
        self.unsettled: list[tuple[CheckValue, int]] = []
        """Checks that are not looked at yet, and their places."""

    @property
    def pinned(self) -> int:
        """Bytes of the host's memory that copies need."""
        return RING + self.check_bytes if self.ring or self.check_bytes else 0

    def for_python(self, buffers: Sequence[Buffer], read: bool) -> Sequence[str]:
        """Memory of the host for buffers, which lives until the next time or the program's end."""
        w, host, found = self.w, self.host, []
        for buffer in buffers:
            if buffer not in self.python_slots:
                self.python_slots[buffer] = w.slot("ptr")
                host.first.append(f"  store ptr null, ptr {self.python_slots[buffer]}")
            slot, whole = self.python_slots[buffer], buffer.size * itemsize(buffer.dtype)
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
            w.line(f"store ptr null, ptr {slot}")
            found.append(w.value(f"call ptr @aligned_alloc(i64 64, i64 {self.checks.bytes(whole, 1)})"))
            self.checks.fail(w.value(f"icmp eq ptr {found[-1]}, null"), 3, [])
            w.line(f"store ptr {found[-1]}, ptr {slot}")
            if read:
                size = w.dim(whole)
                with w.when(w.value(f"icmp sgt i64 {size}, 0")), self.calls.timed("download", whole, const(0)):
                    self.calls.down(found[-1], host.pointers[buffer], size)
        if read:
            self.calls.wait()
        return found

    def from_python(self, buffers: Sequence[Buffer]) -> None:
        """What Python wrote goes up."""
        w = self.w
        for buffer in buffers:
            whole = buffer.size * itemsize(buffer.dtype)
            size = w.dim(whole)
            with w.when(w.value(f"icmp sgt i64 {size}, 0")), self.calls.timed("upload", whole, const(0)):
                self.calls.up(self.host.pointers[buffer], w.value(f"load ptr, ptr {self.python_slots[buffer]}"), size)
        self.calls.wait()

    def run_here(self, step: Run) -> None:
        """Call a kernel of little work on this processor."""
        w, found = self.w, function_of(step)
        name = self._names.setdefault(found.text, f"egs_host_{len(self._names)}")
        self.functions[name] = f"define internal void @{name}{found.text}"
        pointers = [self.mirror(buffer) if buffer in self.placed_on_host.buffers else "" for buffer in found.buffers]
        others = iter(self.host_pointers([b for b, mine in zip(found.buffers, pointers, strict=True) if not mine]))
        words = [f"ptr {mine or next(others)}" for mine in pointers]
        words += [f"i64 {w.dim(symbol(size))}" for size in found.sizes]
        words += ["i64 0", f"i64 {w.dim(found.split.units)}"] if found.split is not None else []
        w.line(f"call void @{name}({', '.join(words)})")
        for buffer in step.kernel.outputs:
            self.written(buffer)

    def mirror(self, buffer: Buffer) -> str:
        """The host's own memory of a small buffer."""
        if buffer not in self.mirrors:
            count = max(1, (buffer.size.const or 0) * itemsize(buffer.dtype))
            self.mirrors[buffer] = self.w.slot(f"[{count} x i8], align 16")
        return self.mirrors[buffer]

    def written(self, buffer: Buffer) -> None:
        """The host has written a buffer of its own; the device gets it if it reads it."""
        size = (buffer.size.const or 0) * itemsize(buffer.dtype)
        if buffer in self.placed_on_host.mirrored and size:
            with self.calls.timed("upload", const(size), const(0)):
                self.calls.up(self.host.pointers[buffer], self._staged(self.mirror(buffer), size), str(size))

    def _staged(self, source: str, size: int) -> str:
        """A copy in the ring, which nothing overwrites before it is read."""
        w, room = self.w, -(-size // 16) * 16
        self.ring = True
        cursor = self.calls.word("ring")
        full = w.value(f"icmp sgt i64 {w.value(f'load i64, ptr {cursor}')}, {RING - room}")
        with w.when(full):
            self.calls.wait()
            w.line(f"store i64 0, ptr {cursor}")
        at = w.value(f"load i64, ptr {cursor}")
        target = w.value(f"getelementptr i8, ptr %device_pinned, i64 {at}")
        w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        w.line(f"store i64 {w.value(f'add i64 {at}, {room}')}, ptr {cursor}")
        return target

    # -- checks of data -----------------------------------------------------------------------------------------------

    def defer(self, step: CheckValue) -> bool:
        """Whether a check was written as a copy that is looked at later."""
        if not can_defer(step, self.placed_on_host):
            return False
        place = RING + self.check_bytes
        self.unsettled.append((step, place))
        for buffer in (step.value, *step.args):
            if buffer.kind not in _LASTING:
                target = _pinned_at(self, place)
                self.calls.down(target, self.host.pointers[buffer], str(itemsize(buffer.dtype)))
            place += _PLACE
        self.check_bytes = place - RING
        return True

    def settle(self) -> None:
        """Leave if a check does not hold, the first one of all."""
        w = self.w
        if not self.unsettled:
            return
        self.calls.wait()
        for step, place in self.unsettled:
            places = {buffer: place + _PLACE * k for k, buffer in enumerate((step.value, *step.args))}

            def read(buffer: Buffer, places: dict[Buffer, int] = places) -> str:
                if buffer.kind in _LASTING:
                    return self.scalar(buffer)
                return scalar.load(w, buffer.dtype, _pinned_at(self, places[buffer]))

            with w.when(w.value(f"xor i1 {read(step.value)}, true")):
                self.checks.refuse(step, read)
        self.unsettled.clear()

    # -- kernels of little work ---------------------------------------------------------------------------------------

    def host_pointers(self, buffers: Sequence[Buffer]) -> list[str]:
        """Where small buffers can be read by this processor; what the device computes is copied back, once for all."""
        found, waits = [], False
        for buffer in buffers:
            known = self.w.find(("host", buffer))
            if known is None and buffer in self.placed_on_host.buffers:
                known = self.mirror(buffer)
            if known is None and buffer.kind == "const":
                known = self.host.entry_of("%constants", self.host.program.constants.index(buffer))
            if known is None and buffer.kind == "input":
                known = self.w.keep(("host", buffer), self._input_mirror(buffer))
            if known is None:
                size = str((buffer.size.const or 0) * itemsize(buffer.dtype))
                known, waits = self.mirror(buffer), True
                if size != "0":
                    self.calls.down(known, self.host.pointers[buffer], size)
            found.append(known)
        if waits:
            self.calls.wait()
        return found

    def _input_mirror(self, buffer: Buffer) -> str:
        """A small input: where the caller has it, or a copy."""
        w, inputs = self.w, self.host.program.inputs
        number = next(k for k, port in enumerate(inputs) if port.buffer is buffer)
        mirror, hosted = self.mirror(buffer), self.memory.hosted[number]
        size = str((buffer.size.const or 0) * itemsize(buffer.dtype))
        if size != "0":
            with w.when(w.value(f"xor i1 {hosted}, true")):
                self.calls.down(mirror, self.memory.given_inputs[number], size)
                self.calls.wait()
        return w.value(f"select i1 {hosted}, ptr {self.memory.given_inputs[number]}, ptr {mirror}")

    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """An element: of the host's memory, or copied back."""
        w, dtype = self.w, buffer.dtype
        if is_small(buffer):
            address = self.host_pointers([buffer])[0]
            if element:
                address = w.value(f"getelementptr {scalar.memory(dtype)}, ptr {address}, i64 {element}")
            return scalar.load(w, dtype, address)
        slot = w.slot("[16 x i8], align 16")
        width = itemsize(dtype)
        source = w.value(f"getelementptr i8, ptr {self.host.pointers[buffer]}, i64 {element * width}")
        self.calls.down(slot, source, str(width))
        self.calls.wait()
        return scalar.load(w, dtype, slot)


def can_defer(step: CheckValue, placed: Placement) -> bool:
    """Whether the device computes what a check is of, and what its message shows, so that both can be copied back
    without a wait."""
    return step.value.kind not in _LASTING and not any(buffer in placed.buffers for buffer in (step.value, *step.args))


def _pinned_at(device: Decider, place: int) -> str:
    """An address in the host's memory for copies."""
    return device.w.value(f"getelementptr i8, ptr %device_pinned, i64 {place}")
