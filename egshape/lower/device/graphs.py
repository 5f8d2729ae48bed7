"""Graphs of the device: what launches the same kernels whenever sizes and addresses are the same is captured the second
time, and from then on launched at once.

That is a whole program that decides nothing by data, or else each part of one between two places where the host
decides, loops' bodies too, if it has enough launches. Some graphs are kept, one that is used no more goes first. Copies
of the caller's arrays stay outside: they lie elsewhere at each call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from egshape.dims import const
from egshape.lower.device.calls import Calls
from egshape.lower.device.decide import can_defer
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.target import StepWriter
from egshape.plan.analysis.memory import touched
from egshape.plan.analysis.placement import Placement, flat
from egshape.plan.ir.program import Branch, CheckSizes, CheckValue, Copy, DefineSize, HostCall, Repeat, Run, Step
from egshape.runtime.abi.call import DEVICE_CAPTURE
from egshape.runtime.abi.device import RELAXED

LEAST, LEAST_OF_A_PART = 2, 4
"""Launches from which one launch of a graph is less work."""


def may_capture(host: Entry, placed: Placement) -> bool:
    """Whether a program launches the same at the same sizes, and allocates nothing on the way."""
    work = [step for step in flat(host.program.steps) if not isinstance(step, CheckSizes | DefineSize)]
    return all(_is_plain(step, placed) for step in work) and not host.layout.late and len(work) >= LEAST


def parts(steps: Sequence[Step], placed: Placement) -> Iterator[tuple[bool, Sequence[Step]]]:
    """Steps in order, in groups: whether each may be a graph of its own."""
    for plain, group in groupby(steps, lambda step: isinstance(step, CheckSizes) or _is_plain(step, placed)):
        found = list(group)
        yield plain and sum(isinstance(step, Run | Copy) for step in found) >= LEAST_OF_A_PART, found


def has_parts(host: Entry, placed: Placement) -> bool:
    """Whether some part of a program may be a graph. A call whose capture fails is begun again, which one that has
    called Python must not be."""
    steps = list(flat(host.program.steps))
    inner = [
        part
        for step in steps
        for part in (
            (step.test, step.body) if isinstance(step, Repeat) else step.branches if isinstance(step, Branch) else ()
        )
    ]
    return not any(isinstance(step, HostCall) for step in steps) and any(
        good for part in (host.program.steps, *inner) for good, _ in parts(part, placed)
    )


def _is_plain(step: Step, placed: Placement) -> bool:
    """Whether a step only gives work to the device."""
    if isinstance(step, CheckValue):
        return can_defer(step, placed)
    return isinstance(step, Run | Copy) and step not in placed.steps


class Graphs:
    """Writes the search for a graph, its capture and its launch. ``whole``: all of a program is one."""

    def __init__(self, device: Calls, checks: Checks, placed: Placement, whole: bool) -> None:
        self.device, self.checks, self.placed, self.whole = device, checks, placed, whole
        self.words, self.count = 0, 0
        """Of the longest key: the number of the graph, the arena, the addresses of inputs, outputs and buffers whose
        size only data tells, the sizes. How many graphs there are."""
        self.inside = False
        """Whether a graph's steps are being written."""
        w, host = device.w, device.host
        self.state, self.graph, self.exec = w.slot("i64"), w.slot("ptr"), w.slot("ptr")
        host.first += [
            f"  store i64 0, ptr {self.state}",
            f"  store ptr null, ptr {self.graph}",
            f"  store ptr null, ptr {self.exec}",
        ]
        self._known: set[str] = set()

    def program(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """All steps, or the graph that was captured of them."""
        if self.whole:
            self._captured(steps, writer)
        else:
            self.steps(steps, writer)

    def steps(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """Steps in order, in groups that are graphs of their own."""
        groups = [(False, steps)] if self.inside else parts(steps, self.placed)
        for captured, group in groups:
            if captured:
                self._captured(group, writer)
            else:
                for step in group:
                    writer.step(step)

    def _captured(self, steps: Sequence[Step], writer: StepWriter) -> None:
        """Steps, captured where they are due, or the graph that was captured of them."""
        device, w, host = self.device, self.device.w, self.device.host
        self.inside = True
        for step in steps if not self.whole else ():
            for buffer in touched(step):
                writer.ready(buffer)  # memory that is allocated now is not while they are captured
        pointers, row, stream = dict(host.pointers), w.slot("ptr"), device.stream()
        w.line(f"store ptr null, ptr {row}")
        w.line(f"store ptr null, ptr {self.exec}")
        some = w.value("icmp ne ptr %device_graphs, null")
        with w.when(w.value(f"and i1 {some}, {w.value('xor i1 %profiling, true')}")):
            self._key()
            found = w.value("call ptr @egs_graph_row(ptr %device_graphs, ptr %graph_key, ptr %device_exec_free)")
            w.line(f"store ptr {found}, ptr {row}")
            with w.when(w.value(f"icmp ne ptr {found}, null")):
                w.line(f"store ptr {w.value(f'load ptr, ptr {found}')}, ptr {self.exec}")
        place = w.value(f"load ptr, ptr {row}")
        ready = w.value(f"icmp ne ptr {w.value(f'load ptr, ptr {self.exec}')}, null")
        due = w.value(f"xor i1 {w.value(f'icmp eq ptr {place}, null')}, true")
        with w.when(w.value(f"xor i1 {ready}, true")):
            with w.when(due):
                self._begin()
            writer.steps(steps)
            with w.when(due):
                self._end(stream)
                w.line(f"store ptr {w.value(f'load ptr, ptr {self.exec}')}, ptr {place}")
        host.pointers = pointers
        captured = w.value(f"load ptr, ptr {self.exec}")
        with w.when(w.value(f"icmp ne ptr {captured}, null")), device.named("graph", "", const(0), const(0)):
            device.call("graph_launch", [("ptr", captured), ("ptr", stream)])
        self.inside = False

    def _key(self) -> None:
        """Write the key; what is behind its end is 0."""
        w, host = self.device.w, self.device.host
        program, late = host.program, host.layout.late
        self.count += 1
        ports = [port.buffer for port in (*program.inputs, *program.outputs) if port.buffer not in late]
        arena = w.value(f"load ptr, ptr {host.word('arena')}")
        pointers = [
            arena,
            *(host.pointers[buffer] for buffer in ports),
            *(w.value(f"load ptr, ptr {slot}") for slot in host.late.values()),
        ]
        words = [
            str(self.count),
            *(w.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers),
            *host.axes.values(),
            *(w.value(f"load i64, ptr {slot}") for slot in w.slots.values()),
        ]
        for name, slot in w.slots.items():
            if name not in self._known:  # one that another arm of the program defines
                self._known.add(name)
                host.first.append(f"  store i64 0, ptr {slot}")
        self.words = max(self.words, len(words))
        room = w.value(f"load i64, ptr {w.value('getelementptr i64, ptr %device_graphs, i64 2')}")
        w.line(f"call void @llvm.memset.p0.i64(ptr %graph_key, i8 0, i64 {w.value(f'mul i64 {room}, 8')}, i1 false)")
        for k, word in enumerate(words):
            w.line(f"store i64 {word}, ptr {w.value(f'getelementptr i64, ptr %graph_key, i64 {k}')}")

    def _try(self, name: str, arguments: str) -> None:
        """Call a function of the table; the caller of the program goes on without graphs if it fails."""
        w = self.device.w
        code = w.value(f"call i32 %device_{name}({arguments})")
        self.checks.fail(w.value(f"icmp ne i32 {code}, 0"), DEVICE_CAPTURE, [w.value(f"sext i32 {code} to i64")])

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
        w.value(f"call i32 %device_graph_free(ptr {graph})")
        w.line(f"store ptr null, ptr {self.graph}")

    def abandon(self) -> None:
        """End a capture that the program left; what was captured is in use as what was made of it, or not at all."""
        w, device = self.device.w, self.device
        w.head.append(f"  %graph_key = alloca [{max(1, self.words)} x i64]")
        with w.when(w.value(f"icmp ne i64 {w.value(f'load i64, ptr {self.state}')}, 0")):
            own = w.value(f"load ptr, ptr {device.word('stream')}")
            w.line(f"store ptr {own}, ptr {device.stream_slot}")
            w.value(f"call i32 %device_end_capture(ptr %device_capture, ptr {self.graph})")
        graph = w.value(f"load ptr, ptr {self.graph}")
        with w.when(w.value(f"icmp ne ptr {graph}, null")):
            w.value(f"call i32 %device_graph_free(ptr {graph})")
