"""The native entry: sizes, checks, memory and kernel calls in one function (``lower/host/entry.py`` says how it is
called). A machine that runs the steps is a ``Target``: this processor or a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np

from egshape.ir.types import itemsize
from egshape.lower.common.sizes import LARGEST
from egshape.lower.host.callbacks import described
from egshape.lower.host.checks import Checks
from egshape.lower.host.cpu import Cpu
from egshape.lower.host.entry import Entry
from egshape.lower.host.memory import Buffers
from egshape.lower.host.objects import entry_in_parts, python_entry
from egshape.lower.host.steps import Steps
from egshape.lower.host.target import Maker
from egshape.lower.llvm.functions import text as functions_text
from egshape.plan.analysis.memory import Layout
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import CheckSizes, DefineSize, Program
from egshape.runtime.abi.call import STRICT, VERSION

_ATTRIBUTES = 'nounwind "prefer-vector-width"="512" "no-trapping-math"="true"'
ATTRIBUTES = f"attributes #0 = {{ {_ATTRIBUTES} }}\nattributes #1 = {{ noinline noduplicate {_ATTRIBUTES} }}\n"
"""Of kernels: those that are cut into ranges (#1) are one function whoever calls it. A copy of it in one of its callers
would be vectorized in a way of its own, and its sums would have other bits."""


@dataclass
class Module:
    """LLVM IR of a program and what the runtime must know of it."""

    text: str
    manifest: dict[str, Any]
    constants: tuple[Buffer, ...]
    layout: Layout
    kernels: dict[str, Kernel]
    """By the names of their functions; equal kernels once."""

    @property
    def arrays(self) -> list[np.ndarray]:
        """What the entry takes as constants."""
        return [buffer.data for buffer in self.constants if buffer.data is not None]


def module(program: Program, make: Maker = Cpu, reuse: bool = True) -> Module:
    """The module of a program for what runs it. ``reuse=False``: no two buffers in the same memory, as tests want."""
    host = Host(program, make, reuse)
    host.build()
    entry, target = host.entry, host.target
    lines = "\n".join([*entry.w.head, *entry.first, *entry.w.lines])
    parts = bool(program.images) and not target.memory.gap
    late = [port.buffer in entry.layout.late for port in program.outputs]
    kernels = "".join(target.launcher.functions.values())
    text = (
        functions_text(kernels)
        + target.declarations()
        + kernels
        + (entry_in_parts(program) if parts else "")
        + f"define {'internal i32 @egs_whole' if parts else 'i32 @egshape_entry'}(ptr %call) {{\nentry:\n{lines}\n}}\n"
        + python_entry(program, late)
        + ATTRIBUTES
    )
    manifest = {
        "version": VERSION,
        "name": program.name,
        "inputs": [described(port) for port in program.inputs],
        "outputs": [{**described(port), "late": each} for port, each in zip(program.outputs, late, strict=True)],
        "over": {port.name: port.over for port in program.outputs if port.over is not None},
        "checks": entry.tables.checks,
        "sizes": entry.tables.sizes,
        "host_calls": entry.tables.host_calls,
        "peak": {"arena": str(entry.layout.peak)},
        **target.manifest(),
    }
    return Module(text, manifest, program.constants, entry.layout, target.launcher.bodies)


class Host:
    """The writers of an entry, put together."""

    def __init__(self, program: Program, make: Maker, reuse: bool = True) -> None:
        self.first = tuple(takewhile(lambda step: isinstance(step, CheckSizes | DefineSize), program.steps))
        self.entry = Entry(replace(program, steps=program.steps[len(self.first) :]), reuse)
        self.checks = Checks(self.entry)
        self.target = make(self.entry, self.checks)
        self.buffers = Buffers(self.entry, self.checks, self.target.memory)
        self.steps = Steps(self.entry, self.checks, self.buffers, self.target)

    def build(self) -> None:
        """Write the entry and all kernels."""
        entry, w = self.entry, self.entry.w
        entry.code = w.slot("i32")
        w.line(f"store i32 0, ptr {entry.code}")
        for name in ("inputs", "sizes", "constants", "outputs", "rooms", "shapes", "error"):
            w.line(f"%{name} = load ptr, ptr {entry.word(name)}")
        w.line(f"%profile = load ptr, ptr {entry.word('profile')}")
        w.line("%profiling = icmp ne ptr %profile, null")
        self.target.begin()
        self._inputs()
        for step in self.first:  # before any memory is asked for
            self.steps.plain(step)
        self._expected()
        self.buffers.lay_out()
        w.frames.append({})
        self.steps.program()
        self._store(self._axes(late=True))
        self.target.finish()
        w.line("br label %finish")
        w.block("finish")
        self.buffers.free_all()
        self.target.end()
        w.line(f"ret i32 {w.value(f'load i32, ptr {entry.code}')}")
        w.head.append(f"  %table = alloca [{entry.table_words} x i64]")

    def _inputs(self) -> None:
        entry, w, axes, flat = self.entry, self.entry.w, self.entry.axes, 0
        for number, port in enumerate(entry.program.inputs):
            entry.pointers[port.buffer] = entry.entry_of("%inputs", number)
            for axis in range(len(port.shape)):
                axes[number, axis] = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %sizes, i64 {flat}')}")
                self.checks.fail(w.value(f"icmp ugt i64 {axes[number, axis]}, {int(LARGEST)}"), 4, [])
                flat += 1
        for name, (number, axis, factor, offset) in entry.program.symbols.items():
            size = axes[number, axis]
            if (factor, offset) != (1, 0):
                size = w.value(f"sdiv i64 {w.value(f'sub i64 {size}, {offset}')}, {factor}")
                size = w.value(f"call i64 @llvm.smax.i64(i64 {size}, i64 0)")
            w.symbols[name] = size
        for (number, axis), found in axes.items():
            dim = entry.program.inputs[number].shape[axis]
            if dim.symbols() <= w.symbols.keys():
                self.checks.exact(dim)
                wanted = w.dim(dim)
                if wanted != found:
                    words = [str(number), str(axis), wanted, found]
                    self.checks.fail(w.value(f"icmp ne i64 {wanted}, {found}"), 2, words)

    def _axes(self, late: bool) -> list[tuple[str, str]]:
        """Place in the table of shapes and size of each axis of the outputs known at the entry, or of the others."""
        w, found, flat = self.entry.w, [], 0
        for port in self.entry.program.outputs:
            for dim in port.shape:
                if (port.buffer in self.entry.layout.late) == late:
                    self.checks.exact(dim)
                    size = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(dim)}, i64 0)")
                    found.append((w.value(f"getelementptr i64, ptr %shapes, i64 {flat}"), size))
                flat += 1
        return found

    def _store(self, axes: Sequence[tuple[str, str]]) -> None:
        for place, size in axes:
            self.entry.w.line(f"store i64 {size}, ptr {place}")

    def _expected(self) -> None:
        """The shapes that are known now: written, and compared with the caller's before anything runs."""
        entry, w = self.entry, self.entry.w
        for port in entry.program.outputs:
            if port.buffer not in entry.layout.late:
                self.checks.bytes(port.buffer.size, itemsize(port.buffer.dtype))
        axes = self._axes(late=False)
        if not axes:
            return
        strict = w.value(f"load i64, ptr {entry.word('strict')}")
        differ = w.value(f"icmp ne i64 {w.value(f'and i64 {strict}, {STRICT}')}, 0")
        same = "true"
        for place, size in axes:
            found = w.value(f"load i64, ptr {place}")
            same = w.value(f"and i1 {same}, {w.value(f'icmp eq i64 {found}, {size}')}")
        self._store(axes)
        self.checks.fail(w.value(f"and i1 {differ}, {w.value(f'xor i1 {same}, true')}"), 6, [])
