"""Programs that drive a device: this processor computes sizes and decides, through a table of the driver's functions.

Every pointer of a buffer is an address of the device, and is only computed with; what the host decides by lies in
memory of its own (``plan/placement.py``) or is copied back when it is read. Codes that the entry may leave with
besides those of ``lower/host.py``: 11, the driver refuses (error = [its code, row, function]); 12, it has no memory
(error = [its code, request, bytes]); 13, a graph cannot be captured (error = [its code])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from egshape.dims import Dim, const, symbol
from egshape.errors import Unsupported
from egshape.ir.types import itemsize
from egshape.lower import scalar
from egshape.lower.backend import Backend, Request
from egshape.lower.cuda import events, gemm, graphs
from egshape.lower.cuda.kernel import CudaKernel, kernel
from egshape.lower.cuda.table import FUNCTIONS, WORDS
from egshape.lower.kernel import function
from egshape.plan.grid import Launch
from egshape.plan.loops import Buffer, Kernel
from egshape.plan.memory import THREADS
from egshape.plan.placement import is_small, placement
from egshape.plan.program import Copy, Gemm, Port, Run
from egshape.plan.work import flops, traffic

if TYPE_CHECKING:
    from egshape.lower.host import Host

DRIVER, MEMORY = 11, 12
MOST_BLOCKS = 2**31 - 1
HOSTED, UNALIGNED = 1, 2
"""What the table ``hosted`` says of an array that cannot be computed with where it lies."""
DECLARATIONS = ("declare ptr @aligned_alloc(i64, i64)\ndeclare void @free(ptr)\n"
                "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n")


class Device(Backend):
    """Writes memory and steps for a CUDA device. ``functions``: its kernels, in the order of the table."""

    constants = "%device_constants"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.placed_on_host = placement(host.program)
        self.functions: dict[str, CudaKernel] = {}
        """By their text with another name."""
        self.launches: dict[str, Launch] = {}
        """By the names of their functions."""
        self.requests: list[Request] = []
        self.places: dict[tuple[str, str], int] = {}
        """Rows of the tables of times and errors: what runs, and its place in the model."""
        self.row = -1
        self.products = False
        """Whether there are some that a library runs."""
        self.words = 1
        self.mirrors: dict[Buffer, str] = {}
        self.given_inputs: list[str] = []
        self.hosted: list[str] = []
        """For each input, then each output: an i1, the caller's memory is the host's."""
        self.moved: list[str] = []
        """The same: an i1, it is computed with in a piece of the arena."""
        self.lent_slots: dict[Buffer, str] = {}
        """Memory of the host that Python functions read and write."""
        self.output_pieces: dict[Buffer, str] = {}
        self.functions_of_host: dict[str, str] = {}
        self.graphs = graphs.Graphs(self) if graphs.may_capture(host, self.placed_on_host) else None

    def declarations(self) -> str:
        """The C library, and the search for captured graphs."""
        return DECLARATIONS + graphs.DECLARATIONS + events.DECLARATIONS + (gemm.DECLARATIONS if self.products else "")

    def manifest(self) -> dict[str, Any]:
        """Kernels, the names of their functions, requests for memory."""
        rows = [{"name": name, "where": where} for name, where in self.places]
        return {"target": "cuda", "pool": 0, "zones": None, "kernels": rows,
                "functions": [{"name": each.name, "shared": each.shared_bytes} for each in self.functions.values()],
                "requests": [{"what": each.what, "expression": each.expression} for each in self.requests],
                "products": self.products, "graph_words": self.graphs.words if self.graphs is not None else 0}

    # -- the entry ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the table, and make the device's context current."""
        w, host = self.w, self.host
        w.symbols[THREADS] = "1"
        w.line(f"%device = load ptr, ptr {host.word('device')}")
        for name in (*FUNCTIONS, "context", "functions", "hosted", "pool", "graphs", "capture"):
            w.line(f"%device_{name} = load ptr, ptr {self.word(name)}")
        w.line(f"%device_constants = load ptr, ptr {self.word('constants')}")
        self.stream_slot, self.dropped = w.slot("ptr"), w.slot("ptr")
        own = w.value(f"load ptr, ptr {self.word('stream')}")
        w.line(f"store ptr {own}, ptr {self.stream_slot}")
        code = w.value("call i32 %device_push(ptr %device_context)")
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {w.value(f'icmp ne i32 {code}, 0')}, label %{bad}, label %{good}")
        w.block(bad)
        self._error([w.value(f"sext i32 {code} to i64"), "-1", str(_number("push"))])
        w.line(f"ret i32 {DRIVER}")
        w.block(good)
        count = len(host.program.inputs) + len(host.program.outputs)
        waits = "false"
        for k in range(count):
            flag = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %device_hosted, i64 {k}')}")
            self.hosted.append(w.value(f"icmp eq i64 {flag}, {HOSTED}"))
            self.moved.append(w.value(f"icmp ne i64 {flag}, 0"))
            waits = w.value(f"or i1 {waits}, {self.hosted[-1]}")
        self.hosts, self.waits = waits, w.slot("i1")
        host.first.append(f"  store i1 false, ptr {self.waits}")

    def word(self, name: str) -> str:
        """The address of a word of the device's table."""
        return self.w.value(f"getelementptr i64, ptr %device, i64 {WORDS.index(name)}")

    def stream(self) -> str:
        """The stream that all work goes to."""
        return self.w.value(f"load ptr, ptr {self.stream_slot}")

    def end(self) -> None:
        """Wait where the caller's memory is the host's, as its arrays are the caller's again; give the context back."""
        w, host = self.w, self.host
        if self.graphs is not None:
            self.graphs.abandon()
        for buffer, slot in host.late.items():
            if buffer in host.ports:
                with w.when(self._output_hosted(buffer)):
                    self.free(w.value(f"load ptr, ptr {slot}"))
        with w.when(w.value(f"load i1, ptr {self.waits}")):
            code = w.value(f"call i32 %device_wait(ptr {self.stream()})")
            fine = w.value(f"icmp eq i32 {w.value(f'load i32, ptr {host.code}')}, 0")
            failed = w.value(f"icmp ne i32 {code}, 0")
            with w.when(w.value(f"and i1 {fine}, {failed}")):
                self._error([w.value(f"sext i32 {code} to i64"), "-1", str(_number("wait"))])
                w.line(f"store i32 {DRIVER}, ptr {host.code}")
        for slot in self.lent_slots.values():
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
        w.line(f"%popped = call i32 %device_pop(ptr {self.dropped})")
        w.head.append(f"  %words = alloca [{self.words} x i64]")
        w.head.append(f"  %params = alloca [{self.words} x ptr]")
        for k in range(self.words):
            host.first += [f"  %wordat{k} = getelementptr i64, ptr %words, i64 {k}",
                           f"  %paramat{k} = getelementptr ptr, ptr %params, i64 {k}",
                           f"  store ptr %wordat{k}, ptr %paramat{k}"]

    def _error(self, words: Sequence[str]) -> None:
        for k, word in enumerate(words):
            self.w.line(f"store i64 {word}, ptr {self.w.value(f'getelementptr i64, ptr %error, i64 {k}')}")

    def call(self, name: str, arguments: Sequence[tuple[str, str]]) -> None:
        """Call a function of the table; leaves the program with what it reports."""
        listed = ", ".join(f"{type} {value}" for type, value in arguments)
        code = self.w.value(f"call i32 %device_{name}({listed})")
        words = [self.w.value(f"sext i32 {code} to i64"), str(self.row), str(_number(name))]
        self.host.fail(self.w.value(f"icmp ne i32 {code}, 0"), DRIVER, words)

    @contextmanager
    def named(self, name: str, where: str, bytes: Dim, operations: Dim) -> Iterator[None]:
        """What is written inside belongs to a row of the tables of times and errors."""
        before, self.row = self.row, self.places.setdefault((name, where), len(self.places))
        with events.timed(self, self.row, bytes, operations):
            yield
        self.row = before

    def timed(self, name: str, traffic: Dim, flops: Dim) -> Any:
        """The same, of no place in the model."""
        return self.named(name, "", traffic, flops)

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, size: str, what: Request) -> str:
        """Memory of the device, in the order of the stream."""
        w = self.w
        self.requests.append(what)
        slot = w.slot("ptr")
        code = w.value(f"call i32 %device_allocate(ptr {slot}, i64 {size}, ptr %device_pool, ptr {self.stream()})")
        words = [w.value(f"sext i32 {code} to i64"), str(len(self.requests) - 1), size]
        self.host.fail(w.value(f"icmp ne i32 {code}, 0"), MEMORY, words)
        return w.value(f"load ptr, ptr {slot}")

    def free(self, pointer: str) -> None:
        """Give it back in the order of the stream."""
        w = self.w
        with w.when(w.value(f"icmp ne ptr {pointer}, null")):
            w.value(f"call i32 %device_free(ptr {pointer}, ptr {self.stream()})")

    def pieces(self) -> Sequence[str]:
        """Room for inputs and outputs whose memory is the host's."""
        return [self.w.value(f"select i1 {self.moved[k]}, i64 {rounded}, i64 0")
                for k, rounded in enumerate(self._port_bytes()) if rounded]

    def _port_bytes(self) -> Iterator[str]:
        """Bytes, rounded, of each input and output; "" for outputs whose size only data tells."""
        w, host = self.w, self.host
        for number, port in enumerate(host.program.inputs):
            exact = self._input_bytes(number, port)
            yield w.value(f"and i64 {w.value(f'add i64 {exact}, 63')}, -64")
        for port in host.program.outputs:
            late = port.buffer in host.layout.late
            yield "" if late else host.bytes(port.buffer.size, itemsize(port.buffer.dtype))

    def _input_bytes(self, number: int, port: Port) -> str:
        """Bytes of an input, an array that exists: the product of its axes does not wrap unless one is 0."""
        total = str(itemsize(port.buffer.dtype))
        for axis in range(len(port.shape)):
            total = self.w.value(f"mul i64 {total}, {self.host.axes[number, axis]}")
        return total

    def placed(self, arena: str, total: str, rooms: Sequence[str], pieces: Sequence[str]) -> None:
        """Inputs of the host go up to their pieces."""
        w, host = self.w, self.host
        left = list(pieces)
        w.line(f"store i1 {self.hosts}, ptr {self.waits}")
        for number, port in enumerate(host.program.inputs):
            given, piece = host.pointers[port.buffer], left.pop(0)
            self.given_inputs.append(given)
            moved, hosted = self.moved[number], self.hosted[number]
            host.pointers[port.buffer] = w.value(f"select i1 {moved}, ptr {piece}, ptr {given}")
            exact = self._input_bytes(number, port)
            some, known = w.value(f"icmp ne i64 {exact}, 0"), port.buffer.size.symbols() <= w.symbols.keys()
            bytes = port.buffer.size * itemsize(port.buffer.dtype) if known else const(0)
            with w.when(w.value(f"and i1 {some}, {hosted}")), self.timed("upload", bytes, const(0)):
                self._up(piece, given, exact)
            unaligned = w.value(f"xor i1 {moved}, {hosted}")
            with w.when(w.value(f"and i1 {some}, {unaligned}")), self.timed("align", 2 * bytes, const(0)):
                self._across(piece, given, exact)
        for port in host.program.outputs:
            if port.buffer not in host.layout.late:
                self.output_pieces[port.buffer] = left.pop(0)

    def _up(self, target: str, source: str, size: str) -> None:
        self.call("up", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def _down(self, target: str, source: str, size: str) -> None:
        self.call("down", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def _across(self, target: str, source: str, size: str) -> None:
        self.call("across", [("ptr", target), ("ptr", source), ("i64", size), ("ptr", self.stream())])

    def _wait(self) -> None:
        self.call("wait", [("ptr", self.stream())])

    def _output_hosted(self, buffer: Buffer) -> str:
        return self.hosted[len(self.host.program.inputs) + self.host.ports[buffer]]

    def given(self, buffer: Buffer) -> str:
        """Where an output is computed: in the caller's memory if that is the device's."""
        w, host, hosted = self.w, self.host, self._output_hosted(buffer)
        slot = host.late.get(buffer) or w.slot("ptr")
        if buffer in host.late:
            need = host.bytes(buffer.size, itemsize(buffer.dtype))
            with w.when(hosted):
                host.grow(buffer, need)
        else:
            w.line(f"store ptr {self.output_pieces[buffer]}, ptr {slot}")
        with w.when(w.value(f"xor i1 {hosted}, true")):
            w.line(f"store ptr {host.given(buffer)}, ptr {slot}")
        return w.value(f"load ptr, ptr {slot}")

    def done(self) -> None:
        """Outputs that the caller wants in the host's memory go down."""
        w, host = self.w, self.host
        for port in host.program.outputs:
            whole = port.buffer.size * itemsize(port.buffer.dtype)
            size = w.dim(whole)
            some = w.value(f"icmp sgt i64 {size}, 0")
            with w.when(self._output_hosted(port.buffer)):
                target = self._host_memory(port)
                with w.when(some), self.timed("download", whole, const(0)):
                    source = host.pointers[port.buffer]
                    if port.buffer in host.late:
                        source = w.value(f"load ptr, ptr {host.late[port.buffer]}")
                    self._down(target, source, size)

    def _host_memory(self, port: Port) -> str:
        """The caller's memory for an output; new memory where its size was not known before."""
        w, host, k = self.w, self.host, self.host.ports[port.buffer]
        place = w.value(f"getelementptr ptr, ptr %outputs, i64 {k}")
        if port.buffer in host.late:
            room = w.value(f"getelementptr i64, ptr %rooms, i64 {k}")
            exact = w.dim(port.buffer.size * itemsize(port.buffer.dtype))
            small = w.value(f"icmp slt i64 {w.value(f'load i64, ptr {room}')}, {exact}")
            none = w.value(f"icmp eq ptr {w.value(f'load ptr, ptr {place}')}, null")
            with w.when(w.value(f"or i1 {small}, {none}")):
                need = host.bytes(port.buffer.size, itemsize(port.buffer.dtype))
                new = w.value(f"call ptr @aligned_alloc(i64 64, i64 {need})")
                host.fail(w.value(f"icmp eq ptr {new}, null"), 3, [])
                w.line(f"store ptr {new}, ptr {place}")
                w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {place}")

    # -- steps --------------------------------------------------------------------------------------------------------

    def all_steps(self) -> None:
        """All steps, or the graph that was captured of them."""
        if self.graphs is None:
            super().all_steps()
        else:
            self.graphs.all_steps()

    def run(self, step: Run) -> None:
        """Launch a kernel, or call it where it runs on the host."""
        if step in self.placed_on_host.steps:
            self._run_here(step)
        elif isinstance(step, Gemm):
            gemm.emit(self, step)
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
        with self.named(f"{number}_{step.kernel.label}", step.kernel.where, traffic(step.kernel), flops(step.kernel)):
            self.launch(found, number)

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
            words = [*(("ptr", host.pointers[buffer]) for buffer in found.buffers),
                     *(("i64", w.dim(symbol(size))) for size in found.sizes)]
            self.words = max(self.words, len(words))
            for k, (type, value) in enumerate(words):
                w.line(f"store {type} {value}, ptr %wordat{k}")
            function = host.entry_of("%device_functions", number)
            one = ("i32", "1")
            self.call("launch", [("ptr", function), ("i32", w.value(f"trunc i64 {blocks} to i32")), one, one,
                                 ("i32", str(found.threads)), one, one, ("i32", str(found.shared_bytes)),
                                 ("ptr", self.stream()), ("ptr", "%params"), ("ptr", "null")])

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
            self._across(pointers[step.target], pointers[step.source], size)

    def lent(self, buffers: Sequence[Buffer], read: bool) -> Sequence[str]:
        """Memory of the host for buffers, which lives until the next time or the program's end."""
        w, host, found = self.w, self.host, []
        for buffer in buffers:
            if buffer not in self.lent_slots:
                self.lent_slots[buffer] = w.slot("ptr")
                host.first.append(f"  store ptr null, ptr {self.lent_slots[buffer]}")
            slot, whole = self.lent_slots[buffer], buffer.size * itemsize(buffer.dtype)
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
            w.line(f"store ptr null, ptr {slot}")
            found.append(w.value(f"call ptr @aligned_alloc(i64 64, i64 {host.bytes(whole, 1)})"))
            host.fail(w.value(f"icmp eq ptr {found[-1]}, null"), 3, [])
            w.line(f"store ptr {found[-1]}, ptr {slot}")
            if read:
                size = w.dim(whole)
                with w.when(w.value(f"icmp sgt i64 {size}, 0")), self.timed("download", whole, const(0)):
                    self._down(found[-1], host.pointers[buffer], size)
        if read:
            self._wait()
        return found

    def taken(self, buffers: Sequence[Buffer]) -> None:
        """What Python wrote goes up."""
        w = self.w
        for buffer in buffers:
            whole = buffer.size * itemsize(buffer.dtype)
            size = w.dim(whole)
            with w.when(w.value(f"icmp sgt i64 {size}, 0")), self.timed("upload", whole, const(0)):
                self._up(self.host.pointers[buffer], w.value(f"load ptr, ptr {self.lent_slots[buffer]}"), size)
        self._wait()

    # -- on the host --------------------------------------------------------------------------------------------------

    def _run_here(self, step: Run) -> None:
        """Call a kernel of little work on this processor."""
        w, found = self.w, function(step.kernel)
        name = self.functions_of_host.setdefault(found.text, f"egs_host_{len(self.functions_of_host)}")
        self.kernels[name] = f"define internal void @{name}{found.text}"
        pointers = [self._mirror(buffer) if buffer in self.placed_on_host.buffers else "" for buffer in found.buffers]
        others = iter(self._host_pointers([b for b, mine in zip(found.buffers, pointers, strict=True) if not mine]))
        words = [f"ptr {mine or next(others)}" for mine in pointers]
        words += [f"i64 {w.dim(symbol(size))}" for size in found.sizes]
        words += ["i64 0", f"i64 {w.dim(found.split.units)}"] if found.split is not None else []
        w.line(f"call void @{name}({', '.join(words)})")
        for buffer in step.kernel.outputs:
            self._written(buffer)

    def _mirror(self, buffer: Buffer) -> str:
        """The host's own memory of a small buffer."""
        if buffer not in self.mirrors:
            count = max(1, (buffer.size.const or 0) * itemsize(buffer.dtype))
            self.mirrors[buffer] = self.w.slot(f"[{count} x i8], align 16")
        return self.mirrors[buffer]

    def _written(self, buffer: Buffer) -> None:
        """The host has written a buffer of its own; the device gets it if it reads it."""
        size = (buffer.size.const or 0) * itemsize(buffer.dtype)
        if buffer in self.placed_on_host.mirrored and size:
            with self.timed("upload", const(size), const(0)):
                self._up(self.host.pointers[buffer], self._mirror(buffer), str(size))

    def _host_pointers(self, buffers: Sequence[Buffer]) -> list[str]:
        """Where small buffers can be read by this processor; what the device computes is copied back, once for all."""
        found, waits = [], False
        for buffer in buffers:
            known = self.w.find(("host", buffer))
            if known is None and buffer in self.placed_on_host.buffers:
                known = self._mirror(buffer)
            if known is None and buffer.kind == "const":
                known = self.host.entry_of("%constants", self.host.program.constants.index(buffer))
            if known is None and buffer.kind == "input":
                known = self.w.keep(("host", buffer), self._input_mirror(buffer))
            if known is None:
                size = str((buffer.size.const or 0) * itemsize(buffer.dtype))
                known, waits = self._mirror(buffer), True
                if size != "0":
                    self._down(known, self.host.pointers[buffer], size)
            found.append(known)
        if waits:
            self._wait()
        return found

    def _input_mirror(self, buffer: Buffer) -> str:
        """A small input: where the caller has it, or a copy."""
        w, inputs = self.w, self.host.program.inputs
        number = next(k for k, port in enumerate(inputs) if port.buffer is buffer)
        mirror, hosted = self._mirror(buffer), self.hosted[number]
        size = str((buffer.size.const or 0) * itemsize(buffer.dtype))
        if size != "0":
            with w.when(w.value(f"xor i1 {hosted}, true")):
                self._down(mirror, self.given_inputs[number], size)
                self._wait()
        return w.value(f"select i1 {hosted}, ptr {self.given_inputs[number]}, ptr {mirror}")

    def scalar(self, buffer: Buffer, element: int = 0) -> str:
        """An element: of the host's memory, or copied back."""
        w, dtype = self.w, buffer.dtype
        if is_small(buffer):
            address = self._host_pointers([buffer])[0]
            if element:
                address = w.value(f"getelementptr {scalar.memory(dtype)}, ptr {address}, i64 {element}")
            return scalar.load(w, dtype, address)
        slot = w.slot("[16 x i8], align 16")
        width = itemsize(dtype)
        source = w.value(f"getelementptr i8, ptr {self.host.pointers[buffer]}, i64 {element * width}")
        self._down(slot, source, str(width))
        self._wait()
        return scalar.load(w, dtype, slot)


def _number(name: str) -> int:
    return list(FUNCTIONS).index(name)


def _identifier(kernel: Kernel) -> str:
    return "".join(each if each.isalnum() else "_" for each in kernel.label)
