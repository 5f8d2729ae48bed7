"""Kernels on this processor: called as functions, in the pool where they are cut."""

from __future__ import annotations

from contextlib import AbstractContextManager

from egshape.dims import Dim, const, symbol
from egshape.ir.types import itemsize
from egshape.lower.host import redzones
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.timing import timed
from egshape.lower.llvm import tasks
from egshape.lower.llvm.kernel import function_of
from egshape.plan.analysis.work import flops, traffic
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import Copy, Run
from egshape.runtime.abi.call import REDZONE


class Calls:
    """Writes calls of kernels. ``guarded``: exact bytes and room of each buffer that has red zones."""

    def __init__(self, entry: Entry, checks: Checks, guarded: dict[Buffer, tuple[str, str]]) -> None:
        self.entry, self.checks, self.guarded = entry, checks, guarded
        self.w = entry.w
        self.functions: dict[str, str] = {}
        self.bodies: dict[str, Kernel] = {}
        self.rows: dict[str, int] = {}
        """Rows of the table of times."""
        self.watched: dict[str, int] = {}
        """Buffers whose red zones are looked at, by their names in the program."""
        self.clock = ""
        self._names: dict[tuple[str, tuple[bool, ...]], str] = {}

    def run(self, step: Run) -> None:
        """Call the function of a kernel, which equal kernels share."""
        w, entry = self.w, self.entry
        found = function_of(step)
        private = tuple(buffer in step.kernel.private for buffer in found.buffers)
        name = self._names.get((found.text, private))
        if name is None:
            name = self._names[found.text, private] = f"egs_{len(self._names)}_{step.kernel.label}"
            self.functions[name] = f"define internal void @{name}{found.text}"
            self.bodies[name] = step.kernel
        args = []
        for buffer in found.buffers:
            own = self.checks.bytes(buffer.size, itemsize(buffer.dtype)) if buffer in step.kernel.private else ""
            args.append(tasks.Argument("ptr", entry.pointers[buffer], own))
        args += [tasks.Argument("i64", w.dim(symbol(size))) for size in found.sizes]
        with self.timed(name.removeprefix("egs_"), traffic(step.kernel), flops(step.kernel)):
            if found.split is None:
                w.line(f"call void @{name}({', '.join(f'{each.type} {each.value}' for each in args)})")
            else:
                self.functions[f"{name}_task"] = tasks.task(name, args)
                entry.table_words = max(entry.table_words, tasks.table_words(args))
                tasks.call(w, name, args, found.split, "%table")
        for buffer in found.buffers:
            if buffer in self.guarded:
                number = self.watched.setdefault(buffer.name, len(self.watched))
                alone = buffer in entry.late
                bad = redzones.broken(w, entry.pointers[buffer], *self.guarded[buffer], before=not alone)
                self.checks.fail(bad, REDZONE, [str(self.rows[name.removeprefix("egs_")]), str(number)])

    def copy(self, step: Copy) -> None:
        """memcpy; nothing where a caller gave an input's memory for the output that it is copied to."""
        w, source, target = self.w, self.entry.pointers[step.source], self.entry.pointers[step.target]
        whole = step.source.size * itemsize(step.source.dtype)
        size = w.dim(whole)
        some = w.value(f"icmp sgt i64 {size}, 0")
        if step.source.kind == "input" and step.target.kind == "output":
            some = w.value(f"and i1 {some}, {w.value(f'icmp ne ptr {source}, {target}')}")
        with self.timed("copy", 2 * whole, const(0)), w.when(some):
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """Times by the clock."""
        row = self.rows.setdefault(name, len(self.rows))
        return timed(self.w, self.clock, row, traffic, flops)
