"""Kernels on a device: launched through the table, by a library where that is faster, or called on the host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from egshape.dims import Dim, const, symbol
from egshape.errors import Unsupported
from egshape.ir.types import itemsize
from egshape.lower.common.sizes import cannot_wrap
from egshape.lower.cuda.kernel import CudaKernel, kernel
from egshape.lower.device import attend, gemm
from egshape.lower.device.calls import Calls
from egshape.lower.device.decide import Decider
from egshape.lower.device.memory import Memory
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.sizes import wraps
from egshape.plan.analysis.work import flops, traffic
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import Attention, Copy, Gemm, Run

MOST_BLOCKS = 2**31 - 1


class Launcher:
    """Writes launches. ``kernels``: those of the device, by their text with another name, in the order of the
    table."""

    def __init__(self, host: Entry, checks: Checks, calls: Calls, memory: Memory, values: Decider) -> None:
        self.host, self.checks, self.calls, self.memory, self.values = host, checks, calls, memory, values
        self.w = host.w
        self.functions = values.functions
        self.bodies: dict[str, Kernel] = {}
        self.kernels: dict[str, CudaKernel] = {}
        self.launches: dict[str, Launch] = {}
        """By the names of their functions."""
        self.products = False
        """Whether there are some that a library runs."""
        self.attended: dict[str, str] = {}
        """Where attention's steps say whether a library ran."""
        self.words = 1
        """Of the longest list of arguments."""

    def run(self, step: Run) -> None:
        """Launch a kernel, or call it where it runs on the host."""
        if step in self.values.placed_on_host.steps:
            self.values.run_here(step)
        elif isinstance(step, Gemm):
            self.products = True
            gemm.emit(self.calls, step, lambda: self.kernel(step))
            self._inspect_after(f"gemm_{step.kernel.label}", step.kernel.where, [step.out])
        elif isinstance(step, Attention):
            attend.emit(self.calls, step, self.attended.setdefault(step.done, self.w.slot("i1")))
            self._inspect_after(f"attention_{step.kernel.label}", step.kernel.where, [step.out.buffer])
        elif step.unless:
            done = self.w.value(f"load i1, ptr {self.attended[step.unless]}")
            with self.w.when(self.w.value(f"xor i1 {done}, true")):
                self.kernel(step)
        else:
            self.kernel(step)

    def kernel(self, step: Run) -> None:
        """Launch a kernel."""
        if step.launch is None:
            raise Unsupported(f"the kernel {step.kernel.label} is not mapped to a device", where=step.kernel.where)
        self._version(step, step.launch)

    def _version(self, step: Run, launch: Launch) -> None:
        """Launch what fits the sizes."""
        w = self.w
        if launch.otherwise is not None:
            fits = "true"
            for dim in launch.fits:
                fits = w.value(f"and i1 {fits}, {w.value(f'icmp sge i64 {w.dim(dim)}, 0')}")
                if not cannot_wrap(dim):
                    fits = w.value(f"and i1 {fits}, {w.value(f'xor i1 {wraps(w, dim)}, true')}")
            with w.when(fits):
                self._launched(step, launch)
            with w.when(w.value(f"xor i1 {fits}, true")):
                self._version(step, launch.otherwise)
        else:
            self._launched(step, launch)

    def _launched(self, step: Run, launch: Launch) -> None:
        found, number = self._function(launch)
        moved, done = traffic(launch.kernel, launch.shared), flops(launch.kernel)
        with self.calls.named(f"{number}_{step.kernel.label}", step.kernel.where, moved, done):
            self.launch(found, number)
            self.memory.inspect(found.buffers)

    def _function(self, launch: Launch) -> tuple[CudaKernel, int]:
        """The function of a launch, which equal launches share, and its number."""
        made = kernel(launch, "k")
        if made.source not in self.kernels:
            name = f"egs_{len(self.kernels)}_{_identifier(launch.kernel)}"
            self.kernels[made.source] = kernel(launch, name)
            self.launches[name], self.bodies[name] = launch, launch.kernel
        return made, list(self.kernels).index(made.source)

    def launch(self, found: CudaKernel, number: int) -> None:
        """Launch a function of the table, unless its grid is empty."""
        w, host = self.w, self.host
        blocks = w.dim(found.blocks)
        with w.when(w.value(f"icmp sgt i64 {blocks}, 0")):
            self.checks.fail(w.value(f"icmp sgt i64 {blocks}, {MOST_BLOCKS}"), 4, [])
            words = [
                *(("ptr", host.pointers[buffer]) for buffer in found.buffers),
                *(("i64", w.dim(symbol(size))) for size in found.sizes),
            ]
            self.words = max(self.words, len(words))
            for k, (type, value) in enumerate(words):
                w.line(f"store {type} {value}, ptr %wordat{k}")
            function = host.entry_of("%device_functions", number)
            one = ("i32", "1")
            self.calls.call(
                "launch",
                [
                    ("ptr", function),
                    ("i32", w.value(f"trunc i64 {blocks} to i32")),
                    one,
                    one,
                    ("i32", str(found.threads)),
                    one,
                    one,
                    ("i32", str(found.shared_bytes)),
                    ("ptr", self.calls.stream()),
                    ("ptr", "%params"),
                    ("ptr", "null"),
                ],
            )

    def copy(self, step: Copy) -> None:
        """A copy on the device, or on the host."""
        w, pointers = self.w, self.host.pointers
        whole = step.source.size * itemsize(step.source.dtype)
        if step in self.values.placed_on_host.steps:
            size = str(whole.const)
            source, target = self.values.host_pointers([step.source])[0], self.values.mirror(step.target)
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
            self.values.written(step.target)
            return
        size = w.dim(whole)
        with self.timed("copy", 2 * whole, const(0)), w.when(w.value(f"icmp sgt i64 {size}, 0")):
            self.calls.across(pointers[step.target], pointers[step.source], size)
        self._inspect_after("copy", "", [step.target])

    def _inspect_after(self, name: str, where: str, buffers: Sequence[Buffer]) -> None:
        if self.memory.gap:
            with self.calls.named(name, where, const(0), const(0)):
                self.memory.inspect(buffers)

    def timed(self, name: str, traffic: Dim, flops: Dim) -> AbstractContextManager[None]:
        """Times by events."""
        return self.calls.timed(name, traffic, flops)


def _identifier(kernel: Kernel) -> str:
    return "".join(each if each.isascii() and each.isalnum() else "_" for each in kernel.label)
