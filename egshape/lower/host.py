"""The native entry: sizes, checks, memory and kernel calls in one function.

``i32 entry(ptr context, ptr inputs, ptr sizes, ptr constants, ptr outputs, ptr capacities, ptr shapes, ptr error)``
with context = {arena, its bytes, bytes wanted}; sizes and shapes hold the axes of all inputs and outputs. It returns
0, or 1 a check (error = [number, values...]), 2 an input axis (error = [input, axis, wanted, found]),
3 out of memory, 4 a size too large, 5 a negative data-dependent size (error = [number, value])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from egshape.dims import Dim, symbol
from egshape.ir.types import is_float, itemsize
from egshape.lower import gemm, scalar
from egshape.lower.functions import HEADER
from egshape.lower.functions import text as functions_text
from egshape.lower.kernel import BLAS, function
from egshape.lower.writer import Writer
from egshape.plan.loops import Buffer
from egshape.plan.memory import Layout, layout, touched
from egshape.plan.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Port,
    Program,
    Repeat,
    Run,
    Step,
)

LARGEST = float(2**46)
"""Bytes that a buffer may have: beyond, no address computation would be safe."""
ERROR_WORDS = 24
_RELATIONS = {"==": "eq", "!=": "ne", "<=": "sle", "<": "slt"}


@dataclass
class Module:
    """LLVM IR of a program and what the runtime must know of it."""

    text: str
    manifest: dict[str, Any]
    constants: tuple[Buffer, ...]
    layout: Layout


@dataclass
class _Tables:
    checks: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)


def module(program: Program) -> Module:
    """The module of a program."""
    host = _Host(program)
    host.build()
    declares = "".join(sorted(host.declares))
    entry = "\n".join([*host.w.head, *host.first, *host.w.lines])
    params = ("ptr %context, ptr %inputs, ptr %sizes, ptr %constants, ptr %outputs, ptr %capacities, ptr %shapes, "
              "ptr %error")
    own = gemm.DECLARATIONS + gemm.text() if host.uses_blas else ""
    text = (HEADER + functions_text() + own + declares + "".join(host.kernels.values())
            + f"define i32 @egshape_entry({params}) {{\nentry:\n{entry}\n}}\n"
            + 'attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }\n')
    manifest = {
        "version": 1, "name": program.name,
        "inputs": [_port(port) for port in program.inputs], "outputs": [_port(port) for port in program.outputs],
        "checks": host.tables.checks, "sizes": host.tables.sizes,
        "libraries": ["scipy_openblas32"] if host.uses_blas else [], "peak": str(host.layout.peak),
    }
    return Module(text, manifest, program.constants, host.layout)


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "dtype": port.buffer.dtype, "shape": [str(size) for size in port.shape]}


class _Host:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.w = Writer()
        self.layout = layout(program)
        self.kernels: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.declares: set[str] = set()
        self.tables = _Tables()
        self.pointers: dict[Buffer, str] = {}
        self.late: dict[Buffer, str] = {}
        self.rooms: dict[Buffer, str] = {}
        self.ports = {port.buffer: k for k, port in enumerate(program.outputs)}
        self.uses_blas = False
        self.first: list[str] = []
        """Stores that stand before anything can fail."""

    def build(self) -> None:
        """Write the entry and all kernels."""
        w, self.code = self.w, self.w.slot("i32")
        self.declares |= {"declare ptr @aligned_alloc(i64, i64)\n", "declare void @free(ptr)\n",
                          "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"}
        w.line(f"store i32 0, ptr {self.code}")
        self._inputs()
        self._memory()
        for k, buffer in enumerate(self.program.constants):
            self.pointers[buffer] = self._entry_of("%constants", k)
        w.frames.append({})
        self._steps(self.program.steps)
        self._shapes()
        w.line("br label %finish")
        w.block("finish")
        for buffer, slot in self.late.items():
            if buffer not in self.ports:
                w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
        w.line(f"ret i32 {w.value(f'load i32, ptr {self.code}')}")

    # -- entry ----------------------------------------------------------------------------------------------------

    def _entry_of(self, table: str, k: int) -> str:
        return self.w.value(f"load ptr, ptr {self.w.value(f'getelementptr ptr, ptr {table}, i64 {k}')}")

    def _fail(self, condition: str, code: int, words: Sequence[str]) -> None:
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
        w, axes, flat = self.w, {}, 0
        for number, port in enumerate(self.program.inputs):
            self.pointers[port.buffer] = self._entry_of("%inputs", number)
            for axis in range(len(port.shape)):
                axes[number, axis] = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %sizes, i64 {flat}')}")
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
                    self._fail(w.value(f"icmp ne i64 {wanted}, {found}"), 2, [str(number), str(axis), wanted, found])

    def _bytes(self, size: Dim, width: int) -> str:
        """Bytes of a buffer, at least 1, rounded up for alignment; leaves if there are too many."""
        w = self.w
        many = w.value(f"fcmp ugt double {w.dim_float(size * width)}, {scalar.constant('f64', LARGEST)}")
        self._fail(many, 4, [])
        least = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size * width)}, i64 1)")
        return w.value(f"and i64 {w.value(f'add i64 {least}, 63')}, -64")

    def _allocate(self, size: str) -> str:
        w = self.w
        found = w.value(f"call ptr @aligned_alloc(i64 64, i64 {size})")
        self._fail(w.value(f"icmp eq ptr {found}, null"), 3, [])
        return found

    def _memory(self) -> None:
        w = self.w
        offsets, total = [], "0"
        for size in self.layout.slots:
            offsets.append(total)
            total = w.value(f"add i64 {total}, {self._bytes(size, 1)}")
        self._arena(total)
        arena = w.value("load ptr, ptr %context")
        at = [w.value(f"getelementptr i8, ptr {arena}, i64 {offset}") for offset in offsets]
        for buffer, number in self.layout.slot.items():
            self.pointers[buffer] = at[number]
        late = dict.fromkeys(self.layout.late)
        for buffer in late:
            self.late[buffer], self.rooms[buffer] = w.slot("ptr"), w.slot("i64")
            for slot, type, zero in ((self.late[buffer], "ptr", "null"), (self.rooms[buffer], "i64", "0")):
                self.first.append(f"  store {type} {zero}, ptr {slot}")
        for buffer in self.ports:
            if buffer not in late:
                self.pointers[buffer] = self._given(buffer)

    def _arena(self, total: str) -> None:
        """Grow the context's arena where it is too small."""
        w = self.w
        room = w.value("getelementptr i64, ptr %context, i64 1")
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {total}")):
            w.line(f"call void @free(ptr {w.value('load ptr, ptr %context')})")
            w.line("store ptr null, ptr %context")
            w.line(f"store i64 0, ptr {room}")
            w.line(f"store ptr {self._allocate(total)}, ptr %context")
            w.line(f"store i64 {total}, ptr {room}")

    def _given(self, buffer: Buffer) -> str:
        """An output's memory: the caller's where it is large enough, else new."""
        w, k = self.w, self.ports[buffer]
        need = self._bytes(buffer.size, itemsize(buffer.dtype))
        exact = w.dim(buffer.size * itemsize(buffer.dtype))
        place = w.value(f"getelementptr ptr, ptr %outputs, i64 {k}")
        room = w.value(f"getelementptr i64, ptr %capacities, i64 {k}")
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {exact}")):
            w.line(f"store ptr {self._allocate(need)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        found = w.value(f"load ptr, ptr {place}")
        with w.when(w.value(f"icmp eq ptr {found}, null")):
            w.line(f"store ptr {self._allocate(need)}, ptr {place}")
            w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {place}")

    def _shapes(self) -> None:
        w = self.w
        flat = 0
        for port in self.program.outputs:
            for dim in port.shape:
                w.line(f"store i64 {w.dim(dim)}, ptr {w.value(f'getelementptr i64, ptr %shapes, i64 {flat}')}")
                flat += 1

    # -- steps ----------------------------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            for buffer in touched(step):
                self._ready(buffer)
            self._step(step)

    def _ready(self, buffer: Buffer) -> None:
        """Memory for a buffer whose size was not known at the entry; a larger one if a loop made it grow."""
        if buffer not in self.late:
            return
        w, slot = self.w, self.late[buffer]
        if buffer in self.ports:
            self.pointers[buffer] = self._given(buffer)
            w.line(f"store ptr {self.pointers[buffer]}, ptr {slot}")
            return
        need = self._bytes(buffer.size, itemsize(buffer.dtype))
        room = self.rooms[buffer]
        with w.when(w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {need}")):
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
            w.line(f"store ptr null, ptr {slot}")
            w.line(f"store ptr {self._allocate(need)}, ptr {slot}")
            w.line(f"store i64 {need}, ptr {room}")
        self.pointers[buffer] = w.value(f"load ptr, ptr {slot}")

    def _step(self, step: Step) -> None:
        w = self.w
        match step:
            case CheckSizes():
                one, two = w.dim(step.lhs), w.dim(step.rhs)
                holds = w.value(f"icmp {_RELATIONS[step.relation]} i64 {one}, {two}")
                words = [w.dim(arg) for arg in step.args]
                self._failed_check(holds, step.message, step.where, words, ["i64"] * len(words))
            case CheckValue():
                self._check_value(step)
            case BindSize():
                self._bind(step)
            case DefineSize():
                self._define(step.name, w.dim(step.value))
            case Run():
                self._run(step)
            case Copy():
                size = w.dim(step.source.size * itemsize(step.source.dtype))
                with w.when(w.value(f"icmp sgt i64 {size}, 0")):
                    w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {self.pointers[step.target]}, "
                           f"ptr {self.pointers[step.source]}, i64 {size}, i1 false)")
            case Branch():
                self._branch(step)
            case Repeat():
                self._repeat(step)

    def _failed_check(self, holds: str, message: str, where: str, words: Sequence[str], kinds: Sequence[str]) -> None:
        number = len(self.tables.checks)
        self.tables.checks.append({"message": message, "where": where, "args": list(kinds)})
        self._fail(self.w.value(f"xor i1 {holds}, true"), 1, [str(number), *words])

    def _check_value(self, step: CheckValue) -> None:
        w = self.w
        words, kinds = [], []
        for buffer in step.args:
            value = scalar.load(w, buffer.dtype, self.pointers[buffer])
            kinds.append("f64" if is_float(buffer.dtype) else buffer.dtype if buffer.dtype in ("i1", "ui64") else "i64")
            if is_float(buffer.dtype):
                value = w.value(f"bitcast double {scalar.convert(w, buffer.dtype, 'f64', value)} to i64")
            else:
                value = scalar.convert(w, buffer.dtype, "i64", value)
            words.append(value)
        if not words:
            words, kinds = [w.dim(size) for size in step.sizes], ["i64"] * len(step.sizes)
        self._failed_check(scalar.load(w, "i1", self.pointers[step.value]), step.message, step.where, words, kinds)

    def _bind(self, step: BindSize) -> None:
        w, dtype = self.w, step.buffer.dtype
        address = w.value(f"getelementptr {scalar.memory(dtype)}, ptr {self.pointers[step.buffer]}, i64 {step.element}")
        raw = scalar.convert(w, dtype, "i64", scalar.load(w, dtype, address))
        size = w.value(f"add i64 {raw}, {step.offset}")
        number = len(self.tables.sizes)
        self.tables.sizes.append({"name": step.name, "where": step.where})
        self._fail(w.value(f"icmp slt i64 {size}, 0"), 5, [str(number), raw])
        self._define(step.name, size)

    def _define(self, name: str, value: str) -> None:
        if name not in self.w.slots:
            self.w.slots[name] = self.w.slot("i64")
        self.w.line(f"store i64 {value}, ptr {self.w.slots[name]}")
        for frame in self.w.frames:
            for key in [key for key in frame if _reads(key, name)]:
                del frame[key]

    def _run(self, step: Run) -> None:
        w = self.w
        found = function(step.kernel)
        name = self.names.get(found.text)
        if name is None:
            name = self.names[found.text] = f"egs_{len(self.names)}_{step.kernel.label}"
            self.kernels[name] = f"define internal void @{name}{found.text}"
        if found.uses_blas:
            self.uses_blas = True
            for dtype, routine in BLAS.items():
                type = scalar.register(dtype)
                self.declares.add(f"declare void @{routine}(i32, i32, i32, i32, i32, i32, {type}, ptr, i32, ptr, i32, "
                                  f"{type}, ptr, i32)\n")
        args = [f"ptr {self.pointers[buffer]}" for buffer in found.buffers]
        args += [f"i64 {w.dim(symbol(size))}" for size in found.sizes]
        w.line(f"call void @{name}({', '.join(args)})")

    def _branch(self, step: Branch) -> None:
        w = self.w
        dtype = step.index.dtype
        index = scalar.load(w, dtype, self.pointers[step.index])
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
                self._steps(steps)
            w.line(f"br label %{end}")
            self.pointers = dict(pointers)
        w.block(end)

    def _repeat(self, step: Repeat) -> None:
        w = self.w
        head, body, end = w.label("head"), w.label("round"), w.label("after")
        w.line(f"br label %{head}")
        w.block(head)
        with w.frame():
            self._steps(step.test)
            go_on = scalar.load(w, "i1", self.pointers[step.condition])
        w.line(f"br i1 {go_on}, label %{body}, label %{end}")
        w.block(body)
        with w.frame():
            self._steps(step.body)
        w.line(f"br label %{head}")
        w.block(end)


def _reads(key: object, name: str) -> bool:
    """Whether a remembered size or atom reads the symbol."""
    symbols = getattr(key, "symbols", ())
    return name in (symbols() if callable(symbols) else symbols)
