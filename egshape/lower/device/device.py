"""Programs that drive a device: this processor computes sizes and decides, through a table of the driver's functions.

Every pointer of a buffer is an address of the device, and is only computed with; what the host decides by lies in
memory of its own (``plan/gpu/placement.py``) or is copied back when it is read. Codes that the entry may leave with
besides those of ``lower/host/entry.py``: 11, the driver refuses (error = [its code, row, function]); 12, it has no
memory (error = [its code, request, bytes]); 13, a graph cannot be captured (error = [its code])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egshape.dims import const, symbol
from egshape.errors import Unsupported
from egshape.ir.types import itemsize
from egshape.lower.cuda.kernel import CudaKernel, kernel
from egshape.lower.device import gemm, graphs, objects
from egshape.lower.device.calls import number_of
from egshape.lower.device.decide import Decider
from egshape.lower.device.memory import DECLARATIONS
from egshape.lower.host import redzones
from egshape.lower.host.entry import Entry
from egshape.plan.analysis.memory import THREADS
from egshape.plan.analysis.work import flops, traffic
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer, Kernel
from egshape.plan.ir.program import Copy, Gemm, Run, Step
from egshape.runtime.abi.call import DEVICE_CALL
from egshape.runtime.abi.device import FUNCTIONS

MOST_BLOCKS = 2**31 - 1


class Device(Decider):
    """Writes memory and steps for a CUDA device. ``functions``: its kernels, in the order of the table."""

    constants = "%device_constants"

    def __init__(self, host: Entry, redzones: bool = False) -> None:
        super().__init__(host, redzones)
        self.functions: dict[str, CudaKernel] = {}
        """By their text with another name."""
        self.launches: dict[str, Launch] = {}
        """By the names of their functions."""
        self.products = False
        """Whether there are some that a library runs."""
        self.words = 1
        whole = graphs.may_capture(host, self.placed_on_host)
        captured = not redzones and (whole or graphs.has_parts(host, self.placed_on_host))
        self.graphs = graphs.Graphs(self, whole) if captured else None

    def declarations(self) -> str:
        """The C library, the entry that reads arrays of the device."""
        return DECLARATIONS + (redzones.DECLARATIONS if self.gap else "") + objects.ENTRY

    def manifest(self) -> dict[str, Any]:
        """Kernels, the names of their functions, requests for memory."""
        rows = [{"name": name, "where": where} for name, where in self.places]
        zones = list(self.watched) if self.gap else None
        return {
            "target": "cuda",
            "pool": 0,
            "zones": zones,
            "kernels": rows,
            "functions": [{"name": each.name, "shared": each.shared_bytes} for each in self.functions.values()],
            "requests": [{"what": each.what, "expression": each.expression} for each in self.requests],
            "products": self.products,
            "pinned": self.pinned,
            "graph_words": self.graphs.words if self.graphs is not None else 0,
            "graphs": self.graphs.count if self.graphs is not None else 0,
        }

    # -- the entry ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the table, and make the device's context current."""
        w, host = self.w, self.host
        w.symbols[THREADS] = "1"
        w.line(f"%device = load ptr, ptr {host.word('device')}")
        for name in (*FUNCTIONS, "context", "functions", "hosted", "pool", "graphs", "capture", "pinned"):
            w.line(f"%device_{name} = load ptr, ptr {self.word(name)}")
        w.line(f"%device_constants = load ptr, ptr {self.word('constants')}")
        self.dropped = w.slot("ptr")
        own = w.value(f"load ptr, ptr {self.word('stream')}")
        w.line(f"store ptr {own}, ptr {self.stream_slot}")
        code = w.value("call i32 %device_push(ptr %device_context)")
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {w.value(f'icmp ne i32 {code}, 0')}, label %{bad}, label %{good}")
        w.block(bad)
        self.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("push"))])
        w.line(f"ret i32 {DEVICE_CALL}")
        w.block(good)
        self._alone()
        self.begin_memory()

    def _alone(self) -> None:
        """Leave where the caller captures the stream: what is allocated or copied up is no work to be repeated."""
        w = self.w
        status = w.slot("i32")
        w.line(f"store i32 0, ptr {status}")
        code = w.value(f"call i32 %device_capturing(ptr {self.stream()}, ptr {status})")
        found = w.value(f"or i32 {code}, {w.value(f'load i32, ptr {status}')}")
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {w.value(f'icmp ne i32 {found}, 0')}, label %{bad}, label %{good}")
        w.block(bad)
        self.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("capturing"))])
        w.value(f"call i32 %device_pop(ptr {self.dropped})")
        w.line(f"ret i32 {DEVICE_CALL}")
        w.block(good)

    def end(self) -> None:
        """Wait where the caller's memory is the host's, as its arrays are the caller's again; give the context back."""
        w, host = self.w, self.host
        if self.graphs is not None:
            self.graphs.abandon()
        for buffer, slot in host.late.items():
            if buffer in host.ports:
                with w.when(self.output_hosted(buffer)):
                    self.free(w.value(f"load ptr, ptr {slot}"))
        with w.when(w.value(f"load i1, ptr {self.waits}")):
            code = w.value(f"call i32 %device_wait(ptr {self.stream()})")
            fine = w.value(f"icmp eq i32 {w.value(f'load i32, ptr {host.code}')}, 0")
            failed = w.value(f"icmp ne i32 {code}, 0")
            with w.when(w.value(f"and i1 {fine}, {failed}")):
                self.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("wait"))])
                w.line(f"store i32 {DEVICE_CALL}, ptr {host.code}")
        for slot in self.borrowed_slots.values():
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
        w.line(f"%popped = call i32 %device_pop(ptr {self.dropped})")
        w.head.append(f"  %words = alloca [{self.words} x i64]")
        w.head.append(f"  %params = alloca [{self.words} x ptr]")
        for k in range(self.words):
            host.first += [
                f"  %wordat{k} = getelementptr i64, ptr %words, i64 {k}",
                f"  %paramat{k} = getelementptr ptr, ptr %params, i64 {k}",
                f"  store ptr %wordat{k}, ptr %paramat{k}",
            ]

    # -- steps --------------------------------------------------------------------------------------------------------

    def all_steps(self) -> None:
        """All steps, or the graph that was captured of them."""
        if self.graphs is not None and self.graphs.whole:
            self.graphs.steps(self.host.program.steps)
        else:
            super().all_steps()
        self.settle()

    def write(self, steps: Sequence[Step]) -> None:
        """Steps in order, in groups that are graphs of their own."""
        if self.graphs is None or self.graphs.inside:
            super().write(steps)
            return
        for captured, group in graphs.parts(steps, self.placed_on_host):
            if captured:
                self.graphs.steps(group)
            else:
                super().write(group)

    def run(self, step: Run) -> None:
        """Launch a kernel, or call it where it runs on the host."""
        if step in self.placed_on_host.steps:
            self._run_here(step)
        elif isinstance(step, Gemm):
            self.products = True
            gemm.emit(self, step, lambda: self.kernel(step))
            self._inspect_after(f"gemm_{step.kernel.label}", step.kernel.where, [step.out])
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
            with w.when(fits):
                self._launched(step, launch)
            with w.when(w.value(f"xor i1 {fits}, true")):
                self._version(step, launch.otherwise)
        else:
            self._launched(step, launch)

    def _launched(self, step: Run, launch: Launch) -> None:
        found, number = self._function(launch)
        moved, done = traffic(launch.kernel, launch.shared), flops(launch.kernel)
        with self.named(f"{number}_{step.kernel.label}", step.kernel.where, moved, done):
            self.launch(found, number)
            self.inspect(found.buffers)

    def _function(self, launch: Launch) -> tuple[CudaKernel, int]:
        """The function of a launch, which equal launches share, and its number."""
        made = kernel(launch, "k")
        if made.source not in self.functions:
            name = f"egs_{len(self.functions)}_{_identifier(launch.kernel)}"
            self.functions[made.source] = kernel(launch, name)
            self.launches[name], self.bodies[name] = launch, launch.kernel
        return made, list(self.functions).index(made.source)

    def launch(self, found: CudaKernel, number: int) -> None:
        """Launch a function of the table, unless its grid is empty."""
        w, host = self.w, self.host
        blocks = w.dim(found.blocks)
        with w.when(w.value(f"icmp sgt i64 {blocks}, 0")):
            host.fail(w.value(f"icmp sgt i64 {blocks}, {MOST_BLOCKS}"), 4, [])
            words = [
                *(("ptr", host.pointers[buffer]) for buffer in found.buffers),
                *(("i64", w.dim(symbol(size))) for size in found.sizes),
            ]
            self.words = max(self.words, len(words))
            for k, (type, value) in enumerate(words):
                w.line(f"store {type} {value}, ptr %wordat{k}")
            function = host.entry_of("%device_functions", number)
            one = ("i32", "1")
            self.call(
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
                    ("ptr", self.stream()),
                    ("ptr", "%params"),
                    ("ptr", "null"),
                ],
            )

    def copy(self, step: Copy) -> None:
        """A copy on the device, or on the host."""
        w, pointers = self.w, self.host.pointers
        whole = step.source.size * itemsize(step.source.dtype)
        if step in self.placed_on_host.steps:
            size = str(whole.const)
            source, target = self._host_pointers([step.source])[0], self._mirror(step.target)
            w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
            self._written(step.target)
            return
        size = w.dim(whole)
        with self.timed("copy", 2 * whole, const(0)), w.when(w.value(f"icmp sgt i64 {size}, 0")):
            self.across(pointers[step.target], pointers[step.source], size)
        self._inspect_after("copy", "", [step.target])

    def _inspect_after(self, name: str, where: str, buffers: Sequence[Buffer]) -> None:
        if self.gap:
            with self.named(name, where, const(0), const(0)):
                self.inspect(buffers)

    # -- on the host --------------------------------------------------------------------------------------------------


def _identifier(kernel: Kernel) -> str:
    return "".join(each if each.isalnum() else "_" for each in kernel.label)
