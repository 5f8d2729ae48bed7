"""Graphs of the device: a program that decides nothing by data launches the same kernels whenever sizes and addresses
are the same, so the second time they are captured, and from then on launched at once.

A few are kept, the oldest goes first. Copies of the caller's arrays stay outside: they lie elsewhere at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from egshape.dims import const
from egshape.lower.cuda.table import GRAPH_ROW, RELAXED
from egshape.plan.placement import Placement, flat
from egshape.plan.program import CheckSizes, DefineSize

if TYPE_CHECKING:
    from egshape.lower.cuda.device import Device
    from egshape.lower.host import Host

DECLARATIONS = GRAPH_ROW
CODE = 13
LEAST = 2
"""Launches from which one launch of a graph is less work."""


def may_capture(host: Host, placed: Placement) -> bool:
    """Whether a program launches the same at the same sizes, and allocates nothing on the way."""
    work = [step for step in flat(host.program.steps) if not isinstance(step, CheckSizes | DefineSize)]
    return not placed.decides and not host.layout.late and len(work) >= LEAST


class Graphs:
    """Writes the search for a graph, its capture and its launch."""

    def __init__(self, device: Device) -> None:
        self.device = device
        program = device.host.program
        axes = sum(len(port.shape) for port in program.inputs)
        self.words = 2 + len(program.inputs) + len(program.outputs) + axes
        """Of a key: 1, the arena, the addresses of inputs and outputs, the sizes."""
        w, host = device.w, device.host
        self.state, self.graph, self.exec = w.slot("i64"), w.slot("ptr"), w.slot("ptr")
        host.first += [f"  store i64 0, ptr {self.state}", f"  store ptr null, ptr {self.graph}",
                       f"  store ptr null, ptr {self.exec}"]

    def all_steps(self) -> None:
        """The steps, captured where they are due, or the graph that was captured of them."""
        device, w, host = self.device, self.device.w, self.device.host
        row, stream = w.slot("ptr"), device.stream()
        w.line(f"store ptr null, ptr {row}")
        some = w.value("icmp ne ptr %device_graphs, null")
        with w.when(w.value(f"and i1 {some}, {w.value('xor i1 %profiling, true')}")):
            key = self._key()
            found = w.value(f"call ptr @egs_graph_row(ptr %device_graphs, ptr {key}, i64 {self.words}, "
                            "ptr %device_exec_free)")
            w.line(f"store ptr {found}, ptr {row}")
            with w.when(w.value(f"icmp ne ptr {found}, null")):
                w.line(f"store ptr {w.value(f'load ptr, ptr {found}')}, ptr {self.exec}")
        place = w.value(f"load ptr, ptr {row}")
        ready = w.value(f"icmp ne ptr {w.value(f'load ptr, ptr {self.exec}')}, null")
        due = w.value(f"xor i1 {w.value(f'icmp eq ptr {place}, null')}, true")
        with w.when(w.value(f"xor i1 {ready}, true")):
            with w.when(due):
                self._begin()
            host.steps(host.program.steps)
            with w.when(due):
                self._end(stream)
                w.line(f"store ptr {w.value(f'load ptr, ptr {self.exec}')}, ptr {place}")
        captured = w.value(f"load ptr, ptr {self.exec}")
        with w.when(w.value(f"icmp ne ptr {captured}, null")), device.named("graph", "", const(0), const(0)):
            device.call("graph_launch", [("ptr", captured), ("ptr", stream)])

    def _key(self) -> str:
        w, host = self.device.w, self.device.host
        program = host.program
        key = w.slot(f"[{self.words} x i64]")
        arena = w.value(f"load ptr, ptr {host.word('arena')}")
        pointers = [arena, *(host.pointers[port.buffer] for port in (*program.inputs, *program.outputs))]
        words = ["1", *(w.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers), *host.axes.values()]
        assert len(words) == self.words
        for k, word in enumerate(words):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr {key}, i64 {k}')}")
        return key

    def _try(self, name: str, arguments: str) -> None:
        """Call a function of the table; the caller of the program goes on without graphs if it fails."""
        w = self.device.w
        code = w.value(f"call i32 %device_{name}({arguments})")
        self.device.host.fail(w.value(f"icmp ne i32 {code}, 0"), CODE, [w.value(f"sext i32 {code} to i64")])

    def _begin(self) -> None:
        w, device = self.device.w, self.device
        self._try("begin_capture", f"ptr %device_capture, i32 {RELAXED}")
        w.line(f"store i64 1, ptr {self.state}")
        w.line(f"store ptr %device_capture, ptr {device.stream_slot}")

    def _end(self, stream: str) -> None:
        w, device = self.device.w, self.device
        w.line(f"store ptr {stream}, ptr {device.stream_slot}")
        w.line(f"store i64 0, ptr {self.state}")
        self._try("end_capture", f"ptr %device_capture, ptr {self.graph}")
        graph = w.value(f"load ptr, ptr {self.graph}")
        self._try("instantiate", f"ptr {self.exec}, ptr {graph}, i64 0")

    def abandon(self) -> None:
        """End a capture that the program left; what was captured is in use as what was made of it, or not at all."""
        w, device = self.device.w, self.device
        with w.when(w.value(f"icmp ne i64 {w.value(f'load i64, ptr {self.state}')}, 0")):
            own = w.value(f"load ptr, ptr {device.word('stream')}")
            w.line(f"store ptr {own}, ptr {device.stream_slot}")
            w.value(f"call i32 %device_end_capture(ptr %device_capture, ptr {self.graph})")
        graph = w.value(f"load ptr, ptr {self.graph}")
        with w.when(w.value(f"icmp ne ptr {graph}, null")):
            w.value(f"call i32 %device_graph_free(ptr {graph})")
