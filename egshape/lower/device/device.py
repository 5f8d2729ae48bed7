"""Programs that drive a device: this processor computes sizes and decides, through a table of the driver's functions.

Every pointer of a buffer is an address of the device, and is only computed with; what the host decides by lies in
memory of its own (``plan/analysis/placement.py``) or is copied back when it is read. Codes that the entry may leave
with besides those of ``lower/host/entry.py``: 11, the driver refuses (error = [its code, row, function]); 12, it has no
memory (error = [its code, request, bytes]); 13, a graph cannot be captured (error = [its code])."""

from __future__ import annotations

from typing import Any

from egshape.lower.device import graphs, objects
from egshape.lower.device.calls import Calls, number_of
from egshape.lower.device.decide import Decider
from egshape.lower.device.launch import Launcher
from egshape.lower.device.memory import DECLARATIONS, Memory
from egshape.lower.host import redzones
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.target import InOrder, Order
from egshape.plan.analysis.memory import THREADS
from egshape.runtime.abi.call import DEVICE_CALL
from egshape.runtime.abi.device import FUNCTIONS


class Device:
    """A CUDA device, in its parts."""

    def __init__(self, host: Entry, checks: Checks, redzones: bool = False) -> None:
        self.host = host
        self.w = host.w
        self.calls = Calls(host, checks)
        self.memory = Memory(host, checks, self.calls, redzones)
        self.values = Decider(host, checks, self.calls, self.memory)
        self.launcher = Launcher(host, checks, self.calls, self.memory, self.values)
        placed = self.values.placed_on_host
        whole = graphs.may_capture(host, placed)
        captured = not redzones and (whole or graphs.has_parts(host, placed))
        self.graphs = graphs.Graphs(self.calls, checks, placed, whole) if captured else None
        self.order: Order = self.graphs or InOrder()

    def declarations(self) -> str:
        """The C library, the entry that reads arrays of the device."""
        return DECLARATIONS + (redzones.DECLARATIONS if self.memory.gap else "") + objects.ENTRY

    def manifest(self) -> dict[str, Any]:
        """Kernels, the names of their functions, requests for memory."""
        rows = [{"name": name, "where": where} for name, where in self.calls.places]
        zones = list(self.memory.watched) if self.memory.gap else None
        return {
            "target": "cuda",
            "pool": 0,
            "zones": zones,
            "kernels": rows,
            "functions": [{"name": each.name, "shared": each.shared_bytes} for each in self.launcher.kernels.values()],
            "requests": [{"what": each.what, "expression": each.expression} for each in self.memory.requests],
            "products": self.launcher.products,
            "attention": bool(self.launcher.attended),
            "pinned": self.values.pinned,
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
            w.line(f"%device_{name} = load ptr, ptr {self.calls.word(name)}")
        w.line(f"%device_constants = load ptr, ptr {self.calls.word('constants')}")
        self.dropped = w.slot("ptr")
        own = w.value(f"load ptr, ptr {self.calls.word('stream')}")
        w.line(f"store ptr {own}, ptr {self.calls.stream_slot}")
        code = w.value("call i32 %device_push(ptr %device_context)")
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {w.value(f'icmp ne i32 {code}, 0')}, label %{bad}, label %{good}")
        w.block(bad)
        self.calls.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("push"))])
        w.line(f"ret i32 {DEVICE_CALL}")
        w.block(good)
        self._alone()
        self.memory.begin()

    def _alone(self) -> None:
        """Leave where the caller captures the stream: what is allocated or copied up is no work to be repeated."""
        w = self.w
        status = w.slot("i32")
        w.line(f"store i32 0, ptr {status}")
        code = w.value(f"call i32 %device_capturing(ptr {self.calls.stream()}, ptr {status})")
        found = w.value(f"or i32 {code}, {w.value(f'load i32, ptr {status}')}")
        bad, good = w.label("bad"), w.label("good")
        w.line(f"br i1 {w.value(f'icmp ne i32 {found}, 0')}, label %{bad}, label %{good}")
        w.block(bad)
        self.calls.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("capturing"))])
        w.value(f"call i32 %device_pop(ptr {self.dropped})")
        w.line(f"ret i32 {DEVICE_CALL}")
        w.block(good)

    def finish(self) -> None:
        """Outputs that the caller wants in the host's memory go down."""
        self.memory.finish()

    def end(self) -> None:
        """Wait where the caller's memory is the host's, as its arrays are the caller's again; give the context back."""
        w, host = self.w, self.host
        if self.graphs is not None:
            self.graphs.abandon()
        for buffer, slot in host.late.items():
            if buffer in host.ports:
                with w.when(self.memory.output_hosted(buffer)):
                    self.memory.free(w.value(f"load ptr, ptr {slot}"))
        with w.when(w.value(f"load i1, ptr {self.memory.waits}")):
            code = w.value(f"call i32 %device_wait(ptr {self.calls.stream()})")
            fine = w.value(f"icmp eq i32 {w.value(f'load i32, ptr {host.code}')}, 0")
            failed = w.value(f"icmp ne i32 {code}, 0")
            with w.when(w.value(f"and i1 {fine}, {failed}")):
                self.calls.error([w.value(f"sext i32 {code} to i64"), "-1", str(number_of("wait"))])
                w.line(f"store i32 {DEVICE_CALL}, ptr {host.code}")
        for slot in self.values.python_slots.values():
            w.line(f"call void @free(ptr {w.value(f'load ptr, ptr {slot}')})")
        w.line(f"%popped = call i32 %device_pop(ptr {self.dropped})")
        w.head.append(f"  %words = alloca [{self.launcher.words} x i64]")
        w.head.append(f"  %params = alloca [{self.launcher.words} x ptr]")
        for k in range(self.launcher.words):
            host.first += [
                f"  %wordat{k} = getelementptr i64, ptr %words, i64 {k}",
                f"  %paramat{k} = getelementptr ptr, ptr %params, i64 {k}",
                f"  store ptr %wordat{k}, ptr %paramat{k}",
            ]
