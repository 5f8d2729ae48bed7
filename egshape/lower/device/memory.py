"""Memory of a program on a device: its arena, the caller's arrays, results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.dims import Dim, const
from egshape.ir.types import itemsize
from egshape.lower.device.calls import Calls
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.target import Outputs, Request
from egshape.plan.ir.loops import Buffer
from egshape.plan.ir.program import Port
from egshape.runtime.abi.call import DEVICE_MEMORY, REDZONE, REDZONE_BYTES, REDZONE_PATTERN
from egshape.runtime.abi.device import HOSTED

DECLARATIONS = (
    "declare ptr @aligned_alloc(i64, i64)\ndeclare void @free(ptr)\n"
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
)


class Memory:
    """Writes where buffers lie. ``redzones``: with red zones around them (lower/host/redzones.py): the device
    fills them, and behind each kernel those of its buffers are read back. The caller's own arrays have none: in this
    mode the runtime has all of them copied."""

    constants = "%device_constants"

    def __init__(self, host: Entry, checks: Checks, calls: Calls, redzones: bool) -> None:
        self.host, self.checks, self.calls = host, checks, calls
        self.w = host.w
        self.gap = REDZONE_BYTES if redzones else 0
        self.guarded: dict[Buffer, tuple[str, str]] = {}
        """Exact bytes and room of each buffer that has red zones."""
        self.watched: dict[str, int] = {}
        self.requests: list[Request] = []
        self.given_inputs: list[str] = []
        self.hosted: list[str] = []
        """For each input, then each output: an i1, the caller's memory is the host's."""
        self.moved: list[str] = []
        """The same: an i1, it is computed with in a piece of the arena."""
        self.output_pieces: dict[Buffer, str] = {}
        self.hosts = "false"
        """An i1: some of the caller's memory is the host's."""
        self.waits = self.w.slot("i1")
        host.first.append(f"  store i1 false, ptr {self.waits}")

    def begin(self) -> None:
        """Read where the caller's arrays lie."""
        w, count = self.w, len(self.host.program.inputs) + len(self.host.program.outputs)
        for k in range(count):
            flag = w.value(f"load i64, ptr {w.value(f'getelementptr i64, ptr %device_hosted, i64 {k}')}")
            self.hosted.append(w.value(f"icmp eq i64 {flag}, {HOSTED}"))
            self.moved.append(w.value(f"icmp ne i64 {flag}, 0"))
            self.hosts = w.value(f"or i1 {self.hosts}, {self.hosted[-1]}")

    def allocate(self, size: str, what: Request) -> str:
        """Memory of the device, in the order of the stream."""
        w = self.w
        self.requests.append(what)
        slot = w.slot("ptr")
        whole = w.value(f"add i64 {size}, {self.gap}") if self.gap else size
        code = w.value(
            f"call i32 %device_allocate(ptr {slot}, i64 {whole}, ptr %device_pool, ptr {self.calls.stream()})"
        )
        words = [w.value(f"sext i32 {code} to i64"), str(len(self.requests) - 1), size]
        self.checks.fail(w.value(f"icmp ne i32 {code}, 0"), DEVICE_MEMORY, words)
        return w.value(f"load ptr, ptr {slot}")

    def free(self, pointer: str) -> None:
        """Give it back in the order of the stream."""
        w = self.w
        with w.when(w.value(f"icmp ne ptr {pointer}, null")):
            w.value(f"call i32 %device_free(ptr {pointer}, ptr {self.calls.stream()})")

    def further(self) -> Sequence[str]:
        """Room for inputs and outputs whose memory is the host's."""
        return [
            self.w.value(f"select i1 {self.moved[k]}, i64 {rounded}, i64 0")
            for k, rounded in enumerate(self._port_bytes())
            if rounded
        ]

    def _port_bytes(self) -> Iterator[str]:
        """Bytes, rounded, of each input and output; "" for outputs whose size only data tells."""
        w, host = self.w, self.host
        for number, port in enumerate(host.program.inputs):
            exact = self._input_bytes(number, port)
            yield w.value(f"and i64 {w.value(f'add i64 {exact}, 63')}, -64")
        for port in host.program.outputs:
            late = port.buffer in host.layout.late
            yield "" if late else self.checks.bytes(port.buffer.size, itemsize(port.buffer.dtype))

    def _input_bytes(self, number: int, port: Port) -> str:
        """Bytes of an input, an array that exists: the product of its axes does not wrap unless one is 0."""
        total = str(itemsize(port.buffer.dtype))
        for axis in range(len(port.shape)):
            total = self.w.value(f"mul i64 {total}, {self.host.axes[number, axis]}")
        return total

    def laid_out(self, arena: str, total: str, rooms: Sequence[str], further: Sequence[str]) -> None:
        """Inputs of the host go up to their pieces."""
        w, host = self.w, self.host
        left = list(further)
        if self.gap:
            self.calls.fill(arena, REDZONE_PATTERN, total)
            for buffer, number in host.layout.slot.items():
                exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(host.layout.slots[number])}, i64 0)")
                self.guarded[buffer] = exact, rooms[number]
        w.line(f"store i1 {self.hosts}, ptr {self.waits}")
        for number, port in enumerate(host.program.inputs):
            given, piece = host.pointers[port.buffer], left.pop(0)
            if self.gap:
                room = rooms[len(host.layout.slots) + number]
                self.guarded[port.buffer] = self._input_bytes(number, port), room
            self.given_inputs.append(given)
            moved, hosted = self.moved[number], self.hosted[number]
            host.pointers[port.buffer] = w.value(f"select i1 {moved}, ptr {piece}, ptr {given}")
            exact = self._input_bytes(number, port)
            some, known = w.value(f"icmp ne i64 {exact}, 0"), port.buffer.size.symbols() <= w.symbols.keys()
            bytes = port.buffer.size * itemsize(port.buffer.dtype) if known else const(0)
            with w.when(w.value(f"and i1 {some}, {hosted}")), self.calls.timed("upload", bytes, const(0)):
                self.calls.up(piece, given, exact)
            unaligned = w.value(f"xor i1 {moved}, {hosted}")
            with w.when(w.value(f"and i1 {some}, {unaligned}")), self.calls.timed("align", 2 * bytes, const(0)):
                self.calls.across(piece, given, exact)
        for port in host.program.outputs:
            if port.buffer not in host.layout.late:
                self.output_pieces[port.buffer] = left.pop(0)

    def output_hosted(self, buffer: Buffer) -> str:
        """An i1: the caller's memory for an output is the host's."""
        return self.hosted[len(self.host.program.inputs) + self.host.ports[buffer]]

    def output(self, buffer: Buffer, outputs: Outputs) -> str:
        """Where an output is computed: in the caller's memory if that is the device's."""
        w, host, hosted = self.w, self.host, self.output_hosted(buffer)
        slot = host.late.get(buffer) or w.slot("ptr")
        if buffer in host.late:
            need = self.checks.bytes(buffer.size, itemsize(buffer.dtype))
            with w.when(hosted):
                outputs.grow(buffer, need)
        else:
            w.line(f"store ptr {self.output_pieces[buffer]}, ptr {slot}")
        with w.when(w.value(f"xor i1 {hosted}, true")):
            w.line(f"store ptr {outputs.given(buffer)}, ptr {slot}")
        found = w.value(f"load ptr, ptr {slot}")
        if self.gap:
            size = buffer.size * itemsize(buffer.dtype)
            self._redzone_behind(buffer, found, size, w.value(f"add i64 {self.checks.bytes(size, 1)}, {self.gap}"))
        return found

    def finish(self) -> None:
        """Outputs that the caller wants in the host's memory go down."""
        w, host = self.w, self.host
        for port in host.program.outputs:
            whole = port.buffer.size * itemsize(port.buffer.dtype)
            size = w.dim(whole)
            some = w.value(f"icmp sgt i64 {size}, 0")
            with w.when(self.output_hosted(port.buffer)):
                target = self._host_memory(port)
                with w.when(some), self.calls.timed("download", whole, const(0)):
                    source = host.pointers[port.buffer]
                    if port.buffer in host.late:
                        source = w.value(f"load ptr, ptr {host.late[port.buffer]}")
                    self.calls.down(target, source, size)

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
                need = self.checks.bytes(port.buffer.size, itemsize(port.buffer.dtype))
                new = w.value(f"call ptr @aligned_alloc(i64 64, i64 {need})")
                self.checks.fail(w.value(f"icmp eq ptr {new}, null"), 3, [])
                w.line(f"store ptr {new}, ptr {place}")
                w.line(f"store i64 {need}, ptr {room}")
        return w.value(f"load ptr, ptr {place}")

    # -- red zones ----------------------------------------------------------------------------------------------------

    def grown(self, buffer: Buffer, size: Dim) -> None:
        """The red zone behind a buffer whose size only data tells."""
        if self.gap:
            room = self.w.value(f"load i64, ptr {self.host.rooms[buffer]}")
            self._redzone_behind(buffer, self.host.pointers[buffer], size, room)

    def _redzone_behind(self, buffer: Buffer, start: str, size: Dim, room: str) -> None:
        w = self.w
        exact = w.value(f"call i64 @llvm.smax.i64(i64 {w.dim(size)}, i64 0)")
        self.guarded[buffer] = exact, room
        end = w.value(f"getelementptr i8, ptr {start}, i64 {exact}")
        self.calls.fill(end, REDZONE_PATTERN, w.value(f"sub i64 {room}, {exact}"))

    def inspect(self, buffers: Sequence[Buffer]) -> None:
        """Leave if what has just run wrote to a zone of one of its buffers."""
        w, host, row = self.w, self.host, self.calls.row
        for buffer in dict.fromkeys(buffers):
            if buffer not in self.guarded:
                continue
            exact, room = self.guarded[buffer]
            number = self.watched.setdefault(buffer.name, len(self.watched))
            start = host.pointers[buffer]
            end, rest = w.value(f"getelementptr i8, ptr {start}, i64 {exact}"), w.value(f"sub i64 {room}, {exact}")
            parts = [(end, rest)]
            if buffer in host.layout.slot or buffer.kind == "input":
                parts.append((w.value(f"getelementptr i8, ptr {start}, i64 -{REDZONE_BYTES}"), str(REDZONE_BYTES)))
            for first, count in parts:
                copy = w.value(f"call ptr @aligned_alloc(i64 64, i64 {w.value(f'add i64 {count}, 63')})")
                self.checks.fail(w.value(f"icmp eq ptr {copy}, null"), 3, [])
                self.calls.down(copy, first, count)
                self.calls.wait()
                bad = w.value(f"call i1 @egs_broken(ptr {copy}, i64 {count})")
                w.line(f"call void @free(ptr {copy})")
                self.checks.fail(bad, REDZONE, [str(row), str(number)])
