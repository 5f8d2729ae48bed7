"""The native entry: sizes, checks, memory and kernel calls in one function.

``i32 egshape_entry(ptr call)`` takes a structure of 64-bit words (``WORDS``): tables of pointers to inputs, constants
and outputs, the axes of all inputs and outputs, memory that the caller lends. It returns 0, or 1 a check
(error = [number, values...]), 2 an input axis (error = [input, axis, wanted, found]), 3 out of memory, 4 a size too
large, 5 a negative data-dependent size (error = [number, value]), 6 shapes (where ``strict``: the outputs known at the
entry have not the shapes that the table of shapes holds; nothing has run, the table has the right ones now),
8 a result of a host call (error = [number, output, axis, wanted, found]), 9 a failed host call (error =
[number]), 10 a red zone (error = [kernel, buffer]), 11 and 12 a device (lower/cuda/device.py). What runs the steps, and
where their memory lies, is a ``Backend``: this processor or a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from egshape.dims import Dim
from egshape.ir.types import is_float, itemsize
from egshape.lower import scalar
from egshape.lower.backend import Backend, Maker, Request
from egshape.lower.callbacks import described, host_call
from egshape.lower.cpu import Cpu
from egshape.lower.functions import text as functions_text
from egshape.lower.objects import python_entry
from egshape.lower.sizes import LARGEST, cannot_wrap, wraps
from egshape.lower.writer import Writer
from egshape.plan.loops import Buffer, Kernel
from egshape.plan.memory import Layout, layout, privates, touched
from egshape.plan.memory import room as room_of
from egshape.plan.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    HostCall,
    Program,
    Repeat,
    Run,
    Step,
)

WORDS = ("arena", "room", "inputs", "sizes", "constants", "outputs", "rooms", "shapes", "error", "pool", "threads",
         "profile", "host", "strict", "device")
"""The call structure (runtime/call.py has the same)."""
ERROR_WORDS = 24
ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }\n'
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


@dataclass
class _Tables:
    checks: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    host_calls: list[dict[str, Any]] = field(default_factory=list)


def module(program: Program, make: Maker = Cpu, reuse: bool = True) -> Module:
    """The module of a program for what runs it. ``reuse=False``: no two buffers in the same memory, as tests want."""
    host = Host(program, make, reuse)
    host.build()
    entry = "\n".join([*host.w.head, *host.first, *host.w.lines])
    late = [port.buffer in host.layout.late for port in program.outputs]
    backend = host.backend
    kernels = "".join(backend.kernels.values())
    text = (functions_text(kernels) + backend.declarations() + kernels
            + f"define i32 @egshape_entry(ptr %call) {{\nentry:\n{entry}\n}}\n"
            + python_entry([len(port.shape) for port in program.inputs], [not each for each in late], WORDS)
            + ATTRIBUTES)
    manifest = {
        "version": 3, "name": program.name,
        "inputs": [described(port) for port in program.inputs],
        "outputs": [{**described(port), "late": each} for port, each in zip(program.outputs, late, strict=True)],
        "checks": host.tables.checks, "sizes": host.tables.sizes,
        "host_calls": host.tables.host_calls,
        "peak": {"arena": str(host.layout.peak)}, **backend.manifest(),
    }
    return Module(text, manifest, program.constants, host.layout, backend.bodies)


class Host:
    """Writes the entry."""

    def __init__(self, program: Program, make: Maker, reuse: bool = True) -> None:
        self.program = program
        self.w = Writer()
        self.layout = layout(program, reuse)
        self.private = privates(program.steps)
        self.tables = _Tables()
        self.pointers: dict[Buffer, str] = {}
        self.late: dict[Buffer, str] = {}
        self.rooms: dict[Buffer, str] = {}
        self.ports = {port.buffer: k for k, port in enumerate(program.outputs)}
        self.axes: dict[tuple[int, int], str] = {}
        """The size of each axis of each input."""
        self.table_words = 1
        self.first: list[str] = []
        """Stores that stand before anything can fail."""
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

    def word(self, name: str) -> str:
        """The address of a word of the call structure."""
        return self.w.value(f"getelementptr i64, ptr %call, i64 {WORDS.index(name)}")

    def entry_of(self, table: str, k: int) -> str:
        """A pointer of a table."""
        return self.w.value(f"load ptr, ptr {self.w.value(f'getelementptr ptr, ptr {table}, i64 {k}')}")

    def fail(self, condition: str, code: int, words: Sequence[str]) -> None:
        """Leave with a code and error words where an i1 holds."""
        w = self.w
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {condition}, label %{bad}, label %{good}")
        w.block(bad)
        for k, word in enumerate(words[:ERROR_WORDS]):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr %error, i64 {k}')}")
        w.line(f"store i32 {code}, ptr {self.code}")
        w.line("br label %finish")
        w.block(good)

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

    def bytes(self, size: Dim, width: int) -> str:
        """Bytes of a buffer, at least 1, rounded up for alignment; leaves if there are too many."""
        w = self.w
        self._exact(size * width)
        many = w.value(f"fcmp ugt double {w.dim_float(size * width)}, {scalar.constant('f64', LARGEST)}")
        self.fail(many, 4, [])
        least = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size * width)}, i64 1)")
        return w.value(f"and i64 {w.value(f'add i64 {least}, 63')}, -64")

    def _exact(self, *sizes: Dim) -> None:
        """Leave if computing a size may wrap."""
        for size in sizes:
            if not cannot_wrap(size) and self.w.find(("exact", size)) is None:
                self.w.keep(("exact", size), "shown")
                self.fail(wraps(self.w, size), 4, [])

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
        backend.placed(arena, total, rooms, at[len(self.layout.slots):])
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
            host_call(self, step)
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
            w.line(f"store ptr {self.backend.allocate(need, Request.of(buffer))}, ptr {slot}")
            w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {slot}")

    def _step(self, step: Step) -> None:
        w = self.w
        match step:
            case CheckSizes():
                self._exact(step.lhs, step.rhs)
                one, two = w.dim(step.lhs), w.dim(step.rhs)
                holds = w.value(f"icmp {_RELATIONS[step.relation]} i64 {one}, {two}")
                words = [w.dim(arg) for arg in step.args]
                text = f"{step.lhs} {step.relation} {step.rhs}"
                self._failed_check(holds, step.message, step.where, words, ["i64"] * len(words), text)
            case CheckValue():
                self._check_value(step)
            case BindSize():
                self._bind(step)
            case DefineSize():
                self._exact(step.value)
                self.define(step.name, w.dim(step.value))
            case Run():
                self.backend.run(step)
            case Copy():
                self.backend.copy(step)
            case Branch():
                self._branch(step)
            case Repeat():
                self._repeat(step)

    def _failed_check(self, holds: str, message: str, where: str, words: Sequence[str], kinds: Sequence[str],
                      text: str = "") -> None:
        number = len(self.tables.checks)
        self.tables.checks.append({"message": message, "where": where, "args": list(kinds), "text": text})
        self.fail(self.w.value(f"xor i1 {holds}, true"), 1, [str(number), *words])

    def _check_value(self, step: CheckValue) -> None:
        """What the message shows is read only where the check fails."""
        w = self.w
        if not self.backend.deferred(step):
            with w.when(w.value(f"xor i1 {self.backend.scalar(step.value)}, true")):
                self.refuse(step, self.backend.scalar)

    def refuse(self, step: CheckValue, read: Callable[[Buffer], str]) -> None:
        """Leave with the message of a check that does not hold. ``read``: how its values are read."""
        w, words, kinds = self.w, list[str](), list[str]()
        for buffer in step.args:
            value = read(buffer)
            kinds.append("f64" if is_float(buffer.dtype) else buffer.dtype if buffer.dtype in ("i1", "ui64") else "i64")
            if is_float(buffer.dtype):
                value = w.value(f"bitcast double {scalar.convert(w, buffer.dtype, 'f64', value)} to i64")
            else:
                value = scalar.convert(w, buffer.dtype, "i64", value)
            words.append(value)
        if not words:
            words, kinds = [w.dim(size) for size in step.sizes], ["i64"] * len(step.sizes)
        self._failed_check("false", step.message, step.where, words, kinds)

    def _bind(self, step: BindSize) -> None:
        w, dtype = self.w, step.buffer.dtype
        raw = scalar.convert(w, dtype, "i64", self.backend.scalar(step.buffer, step.element))
        size = w.value(f"add i64 {raw}, {step.offset}")
        number = len(self.tables.sizes)
        self.tables.sizes.append({"name": step.name, "where": step.where})
        self.fail(w.value(f"icmp slt i64 {size}, 0"), 5, [str(number), raw])
        self.fail(w.value(f"icmp sgt i64 {size}, {int(LARGEST)}"), 4, [])
        self.define(step.name, size)

    def define(self, name: str, value: str) -> None:
        """The symbol has this value from here on."""
        if name not in self.w.slots:
            self.w.slots[name] = self.w.slot("i64")
        self.w.line(f"store i64 {value}, ptr {self.w.slots[name]}")
        self._forget(name)

    def _forget(self, name: str) -> None:
        """What was computed from a symbol is not reused."""
        for frame in self.w.frames:
            for key in [key for key in frame if _reads(key, name)]:
                del frame[key]

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
            self._forget(name)  # a later round has another value
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
        for part in (step.test, step.body) if isinstance(step, Repeat) else \
                step.branches if isinstance(step, Branch) else ():
            yield from _defined(part)


def _reads(key: object, name: str) -> bool:
    """Whether a remembered size or atom reads the symbol."""
    symbols = getattr(key[1] if isinstance(key, tuple) else key, "symbols", ())
    return name in (symbols() if callable(symbols) else symbols)
