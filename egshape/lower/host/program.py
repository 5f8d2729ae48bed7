"""The native entry: sizes, checks, memory and kernel calls in one function (``lower/host/entry.py`` says how it is
called). What runs the steps, and where their memory lies, is a ``Backend``: this processor or a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from egshape.ir.types import itemsize
from egshape.lower.host.backend import Backend, Maker, Request
from egshape.lower.host.callbacks import described, host_call
from egshape.lower.host.cpu import Cpu
from egshape.lower.host.entry import Entry
from egshape.lower.host.objects import python_entry
from egshape.lower.host.sizes import LARGEST
from egshape.lower.llvm import scalar
from egshape.lower.llvm.functions import text as functions_text
from egshape.plan.analysis.memory import Layout, touched
from egshape.plan.analysis.memory import room as room_of
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Extend,
    HostCall,
    Program,
    Repeat,
    Run,
    Step,
    Swap,
)

_ATTRIBUTES = 'nounwind "prefer-vector-width"="512" "no-trapping-math"="true"'
ATTRIBUTES = f"attributes #0 = {{ {_ATTRIBUTES} }}\nattributes #1 = {{ noinline noduplicate {_ATTRIBUTES} }}\n"
"""Of kernels: those that are cut into ranges (#1) are one function whoever calls it. A copy of it in one of its callers
would be vectorized in a way of its own, and its sums would have other bits."""
_RELATIONS = {"==": "eq", "!=": "ne", "<=": "sle", "<": "slt"}


@dataclass
class Module:
    """LLVM IR of a program and what the runtime must know of it."""

    text: str
    manifest: dict[str, Any]
    constants: tuple[Buffer, ...]
    layout: Layout
    kernels: dict[str, Kernel]
    """By the names of their functions; equal kernels once."""


def module(program: Program, make: Maker = Cpu, reuse: bool = True) -> Module:
    """The module of a program for what runs it. ``reuse=False``: no two buffers in the same memory, as tests want."""
    host = Host(program, make, reuse)
    host.build()
    entry = "\n".join([*host.w.head, *host.first, *host.w.lines])
    late = [port.buffer in host.layout.late for port in program.outputs]
    backend = host.backend
    kernels = "".join(backend.kernels.values())
    text = (
        functions_text(kernels)
        + backend.declarations()
        + kernels
        + f"define i32 @egshape_entry(ptr %call) {{\nentry:\n{entry}\n}}\n"
        + python_entry(program, late)
        + ATTRIBUTES
    )
    manifest = {
        "version": 4,
        "name": program.name,
        "inputs": [described(port) for port in program.inputs],
        "outputs": [{**described(port), "late": each} for port, each in zip(program.outputs, late, strict=True)],
        "over": {port.name: port.over for port in program.outputs if port.over is not None},
        "checks": host.tables.checks,
        "sizes": host.tables.sizes,
        "host_calls": host.tables.host_calls,
        "peak": {"arena": str(host.layout.peak)},
        **backend.manifest(),
    }
    return Module(text, manifest, program.constants, host.layout, backend.bodies)


class Host(Entry):
    """Writes the entry; what runs the steps, and where their memory lies, is a ``Backend``."""

    def __init__(self, program: Program, make: Maker, reuse: bool = True) -> None:
        first = tuple(takewhile(lambda step: isinstance(step, CheckSizes | DefineSize), program.steps))
        super().__init__(replace(program, steps=program.steps[len(first) :]), reuse)
        self.checked_first = first
        self.backend: Backend = make(self)

    def build(self) -> None:
        """Write the entry and all kernels."""
        w, self.code = self.w, self.w.slot("i32")
        w.line(f"store i32 0, ptr {self.code}")
        for name in ("inputs", "sizes", "constants", "outputs", "rooms", "shapes", "error"):
            w.line(f"%{name} = load ptr, ptr {self.word(name)}")
        w.line(f"%profile = load ptr, ptr {self.word('profile')}")
        w.line("%profiling = icmp ne ptr %profile, null")
        self.backend.begin()
        self._inputs()
        for step in self.checked_first:  # before any memory is asked for
            self._step(step)
        self._expected()
        self._memory()
        for k, buffer in enumerate(self.program.constants):
            self.pointers[buffer] = self.entry_of(self.backend.constants, k)
        w.frames.append({})
        self.backend.all_steps()
        self._store(self._axes(late=True))
        self.backend.done()
        w.line("br label %finish")
        w.block("finish")
        for buffer, slot in self.late.items():
            if buffer not in self.ports:
                self.backend.free(w.value(f"load ptr, ptr {slot}"))
        self.backend.end()
        w.line(f"ret i32 {w.value(f'load i32, ptr {self.code}')}")
        w.head.append(f"  %table = alloca [{self.table_words} x i64]")

    # -- entry ----------------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        w, axes, flat = self.w, self.axes, 0
        for number, port in enumerate(self.program.inputs):
            self.pointers[port.buffer] = self.entry_of("%inputs", number)
            for axis in range(len(port.shape)):
                axes[number, axis] = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %sizes, i64 {flat}')}")
                self.fail(w.value(f"icmp ugt i64 {axes[number, axis]}, {int(LARGEST)}"), 4, [])
                flat += 1
        for name, (number, axis, factor, offset) in self.program.symbols.items():
            size = axes[number, axis]
            if (factor, offset) != (1, 0):
                size = w.value(f"sdiv i64 {w.value(f'sub i64 {size}, {offset}')}, {factor}")
                size = w.value(f"call i64 @llvm.smax.i64(i64 {size}, i64 0)")
            w.symbols[name] = size
        for (number, axis), found in axes.items():
            dim = self.program.inputs[number].shape[axis]
            if dim.symbols() <= w.symbols.keys():
                wanted = w.dim(dim)
                if wanted != found:
                    self.fail(w.value(f"icmp ne i64 {wanted}, {found}"), 2, [str(number), str(axis), wanted, found])

    def _memory(self) -> None:
        w, backend = self.w, self.backend
        offsets, total = [], "0"
        rooms = []
        for size in [*(self.bytes(size, 1) for size in self.layout.slots), *backend.pieces()]:
            rooms.append(w.value(f"add i64 {size}, {backend.gap}") if backend.gap else size)
            offsets.append(w.value(f"add i64 {total}, {backend.gap}") if backend.gap else total)
            total = w.value(f"add i64 {offsets[-1]}, {rooms[-1]}")
        self._arena(total)
        arena = w.value(f"load ptr, ptr {self.word('arena')}")
        at = [w.value(f"getelementptr i8, ptr {arena}, i64 {offset}") for offset in offsets]
        for buffer, number in self.layout.slot.items():
            self.pointers[buffer] = at[number]
        late = dict.fromkeys(self.layout.late)
        for buffer in late:
            self.late[buffer], self.rooms[buffer] = w.slot("ptr"), w.slot("i64")
            for slot, type, zero in ((self.late[buffer], "ptr", "null"), (self.rooms[buffer], "i64", "0")):
                self.first.append(f"  store {type} {zero}, ptr {slot}")
        backend.placed(arena, total, rooms, at[len(self.layout.slots) :])
        for buffer in self.ports:
            if buffer not in late:
                self.pointers[buffer] = backend.given(buffer)

    def _arena(self, total: str) -> None:
        """Grow the context's arena where it is too small."""
        w = self.w
        arena, room = self.word("arena"), self.word("room")
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {total}")):
            self.backend.free(w.value(f"load ptr, ptr {arena}"))
            w.line(f"store ptr null, ptr {arena}")
            w.line(f"store i64 0, ptr {room}")
            new = self.backend.allocate(total, Request("the arena", str(self.layout.peak)))
            w.line(f"store ptr {new}, ptr {arena}")
            w.line(f"store i64 {total}, ptr {room}")

    def given(self, buffer: Buffer) -> str:
        """An output's memory: the caller's where it is large enough, else new."""
        w, k = self.w, self.ports[buffer]
        need = self.bytes(buffer.size, itemsize(buffer.dtype))
        exact = w.dim(buffer.size * itemsize(buffer.dtype))
        place = w.value(f"getelementptr ptr, ptr %outputs, i64 {k}")
        room = w.value(f"getelementptr i64, ptr %rooms, i64 {k}")
        what = Request.of(buffer)
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {exact}")):
            w.line(f"store ptr {self.backend.allocate(need, what)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        found = w.value(f"load ptr, ptr {place}")
        with w.when(w.value(f"icmp eq ptr {found}, null")):
            w.line(f"store ptr {self.backend.allocate(need, what)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {place}")

    def _axes(self, late: bool) -> list[tuple[str, str]]:
        """Place in the table of shapes and size of each axis of the outputs known at the entry, or of the others."""
        w, found, flat = self.w, [], 0
        for port in self.program.outputs:
            for dim in port.shape:
                if (port.buffer in self.layout.late) == late:
                    size = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(dim)}, i64 0)")
                    found.append((w.value(f"getelementptr i64, ptr %shapes, i64 {flat}"), size))
                flat += 1
        return found

    def _store(self, axes: Sequence[tuple[str, str]]) -> None:
        for place, size in axes:
            self.w.line(f"store i64 {size}, ptr {place}")

    def _expected(self) -> None:
        """The shapes that are known now: written, and compared with the caller's before anything runs."""
        w = self.w
        for port in self.program.outputs:
            if port.buffer not in self.layout.late:
                self.bytes(port.buffer.size, itemsize(port.buffer.dtype))
        axes = self._axes(late=False)
        if not axes:
            return
        strict = w.value(f"load i64, ptr {self.word('strict')}")
        differ = w.value(f"icmp ne i64 {strict}, 0")
        same = "true"
        for place, size in axes:
            found = w.value(f"load i64, ptr {place}")
            same = w.value(f"and i1 {same}, {w.value(f'icmp eq i64 {found}, {size}')}")
        self._store(axes)
        self.fail(w.value(f"and i1 {differ}, {w.value(f'xor i1 {same}, true')}"), 6, [])

    # -- steps ----------------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps in order."""
        self.backend.write(steps)

    def step(self, step: Step) -> None:
        """Write a step."""
        if isinstance(step, HostCall | BindSize | Branch | Repeat):
            self.backend.settle()
        if isinstance(step, HostCall):
            host_call(self, self.backend, step)
            return
        for buffer in touched(step):
            self.ready(buffer)
        self._step(step)

    def ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""
        if buffer not in self.late:
            return
        w, slot = self.w, self.late[buffer]
        if buffer in self.ports:
            self.pointers[buffer] = self.backend.given(buffer)
            w.line(f"store ptr {self.pointers[buffer]}, ptr {slot}")
            return
        size = room_of(buffer, buffer in self.private)
        need = self.bytes(size, 1)
        self.pointers[buffer] = self.grow(buffer, w.value(f"add i64 {need}, {self.backend.gap}"))
        self.backend.grown(buffer, size)

    def grow(self, buffer: Buffer, need: str) -> str:
        """Memory of so many bytes for a buffer whose size only data tells: what it has, if that is enough."""
        w, slot, room = self.w, self.late[buffer], self.rooms[buffer]
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {need}")):
            self.backend.free(w.value(f"load ptr, ptr {slot}"))
            w.line(f"store ptr null, ptr {slot}")
            self._renew(buffer, need)
        return w.value(f"load ptr, ptr {slot}")

    def _renew(self, buffer: Buffer, need: str) -> None:
        """New memory of so many bytes, and half as much again as there was: a loop that makes a buffer grow does not
        ask for memory each round."""
        w, slot, room = self.w, self.late[buffer], self.rooms[buffer]
        old = w.value(f"load i64, ptr {room}")
        half = w.value(f"lshr i64 {old}, 1")
        more = w.value(f"and i64 {w.value(f'add i64 {old}, {half}')}, -64")
        new = w.value(f"call i64 @llvm.smax.i64(i64 {need}, i64 {more})")
        w.line(f"store ptr {self.backend.allocate(new, Request.of(buffer))}, ptr {slot}")
        w.line(f"store i64 {new}, ptr {room}")

    def _extend(self, step: Extend) -> None:
        """More memory where the buffer has too little, to which its elements move."""
        w, slot, room = self.w, self.late[step.buffer], self.rooms[step.buffer]
        width = itemsize(step.buffer.dtype)
        need = w.value(f"add i64 {self.bytes(step.size, width)}, {self.backend.gap}")
        held = w.dim(step.buffer.size * width)
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {need}")):
            old = w.value(f"load ptr, ptr {slot}")
            self._renew(step.buffer, need)
            new = w.value(f"load ptr, ptr {slot}")
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {new}, ptr {old}, i64 {held}, i1 false)")
            self.backend.free(old)

    def _swap(self, step: Swap) -> None:
        for type, slots in (("ptr", self.late), ("i64", self.rooms)):
            one, two = (self.w.value(f"load {type}, ptr {slots[each]}") for each in (step.one, step.two))
            self.w.line(f"store {type} {two}, ptr {slots[step.one]}")
            self.w.line(f"store {type} {one}, ptr {slots[step.two]}")

    def _step(self, step: Step) -> None:
        w = self.w
        match step:
            case CheckSizes():
                self.exact(step.lhs, step.rhs)
                one, two = w.dim(step.lhs), w.dim(step.rhs)
                holds = w.value(f"icmp {_RELATIONS[step.relation]} i64 {one}, {two}")
                words = [w.dim(arg) for arg in step.args]
                text = f"{step.lhs} {step.relation} {step.rhs}"
                self.failed_check(holds, step.message, step.where, words, ["i64"] * len(words), text)
            case CheckValue():
                self._check_value(step)
            case BindSize():
                self._bind(step)
            case DefineSize():
                self.exact(step.value)
                self.define(step.name, w.dim(step.value))
            case Run():
                self.backend.run(step)
            case Copy():
                self.backend.copy(step)
            case Swap():
                self._swap(step)
            case Extend():
                self._extend(step)
            case Branch():
                self._branch(step)
            case Repeat():
                self._repeat(step)

    def _check_value(self, step: CheckValue) -> None:
        """What the message shows is read only where the check fails."""
        w = self.w
        if not self.backend.deferred(step):
            with w.when(w.value(f"xor i1 {self.backend.scalar(step.value)}, true")):
                self.refuse(step, self.backend.scalar)

    def _bind(self, step: BindSize) -> None:
        w, dtype = self.w, step.buffer.dtype
        raw = scalar.convert(w, dtype, "i64", self.backend.scalar(step.buffer, step.element))
        size = w.value(f"add i64 {raw}, {step.offset}")
        number = len(self.tables.sizes)
        self.tables.sizes.append({"name": step.name, "where": step.where})
        self.fail(w.value(f"icmp slt i64 {size}, 0"), 5, [str(number), raw])
        self.fail(w.value(f"icmp sgt i64 {size}, {int(LARGEST)}"), 4, [])
        self.define(step.name, size)

    def _branch(self, step: Branch) -> None:
        w = self.w
        dtype = step.index.dtype
        index = self.backend.scalar(step.index)
        labels = [w.label("arm") for _ in step.branches]
        end = w.label("end")
        if dtype == "i1":
            w.line(f"br i1 {index}, label %{labels[0]}, label %{labels[1]}")
        else:
            cases = " ".join(f"i32 {k}, label %{label}" for k, label in enumerate(labels[:-1]))
            w.line(f"switch i32 {index}, label %{labels[-1]} [ {cases} ]")
        pointers = dict(self.pointers)
        for label, steps in zip(labels, step.branches, strict=True):
            w.block(label)
            with w.frame():
                self.steps(steps)
                self.backend.settle()
            w.line(f"br label %{end}")
            self.pointers = dict(pointers)
        w.block(end)

    def _repeat(self, step: Repeat) -> None:
        w = self.w
        for name in _defined((*step.test, *step.body)):
            self.forget(name)  # a later round has another value
        head, body, end = w.label("head"), w.label("round"), w.label("after")
        w.line(f"br label %{head}")
        w.block(head)
        with w.frame():
            self.steps(step.test)
            self.backend.settle()
            go_on = self.backend.scalar(step.condition)
        w.line(f"br i1 {go_on}, label %{body}, label %{end}")
        w.block(body)
        with w.frame():
            self.steps(step.body)
            self.backend.settle()
        w.line(f"br label %{head}")
        w.block(end)


def _defined(steps: Sequence[Step]) -> Iterator[str]:
    """The symbols that steps give values."""
    for step in steps:
        if isinstance(step, BindSize | DefineSize):
            yield step.name
        elif isinstance(step, HostCall):
            yield from (name for name, _, _ in step.defines)
        for part in (
            (step.test, step.body) if isinstance(step, Repeat) else step.branches if isinstance(step, Branch) else ()
        ):
            yield from _defined(part)
