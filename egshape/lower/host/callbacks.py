"""Calls of Python functions from the entry."""

from __future__ import annotations

from typing import Any

from egshape.dims import const
from egshape.dims.joins import rejoined
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.memory import Buffers
from egshape.lower.host.target import Target
from egshape.plan.ir.program import HostCall, Port
from egshape.runtime.abi.call import DONE


def described(port: Port) -> dict[str, Any]:
    """What the runtime must know of an array."""
    return {"name": port.name, "dtype": port.buffer.dtype, "shape": [str(rejoined(size)) for size in port.shape]}


class Callbacks:
    """Writes calls of Python."""

    def __init__(self, entry: Entry, checks: Checks, buffers: Buffers, target: Target) -> None:
        self.entry, self.checks, self.buffers, self.target = entry, checks, buffers, target

    def call(self, step: HostCall) -> None:
        """Call Python twice: for the function and its results' sizes, and, once these have memory, for the results."""
        entry, values = self.entry, self.target.values
        w, number = entry.w, len(entry.tables.host_calls)
        entry.tables.host_calls.append(
            {
                "target": step.target,
                "where": step.where,
                "call": list(step.call),
                "inputs": [described(port) for port in step.inputs],
                "outputs": [described(port) for port in step.outputs],
            }
        )
        for port in step.inputs:
            self.buffers.ready(port.buffer)
        read = values.for_python([port.buffer for port in step.inputs], read=True)
        words = [
            *(("ptr", pointer) for pointer in read),
            *(("i64", w.dim(size)) for port in step.inputs for size in port.shape),
        ]
        places: list[str] = []
        entry.table_words = max(entry.table_words, len(words) + sum(len(port.shape) + 1 for port in step.outputs))
        for k, (type, value) in enumerate(words):
            w.line(f"store {type} {value}, ptr {w.value(f'getelementptr i64, ptr %table, i64 {k}')}")
        for k in range(sum(len(port.shape) for port in step.outputs)):
            places.append(w.value(f"getelementptr i64, ptr %table, i64 {len(words) + k}"))
        self._python(number, 0, step.target)
        axes = [(k, axis) for k, port in enumerate(step.outputs) for axis in range(len(port.shape))]
        found = {at: w.value(f"load i64, ptr {place}") for at, place in zip(axes, places, strict=True)}
        for name, k, axis in step.defines:
            entry.define(name, found[k, axis])
        for (k, axis), size in found.items():
            wanted = w.dim(step.outputs[k].shape[axis])
            differs = w.value(f"icmp ne i64 {size}, {wanted}")
            self.checks.fail(differs, 8, [str(number), str(k), str(axis), wanted, size])
        results = [port.buffer for port in step.outputs]
        for buffer in results:
            self.buffers.ready(buffer)
        for k, pointer in enumerate(values.for_python(results, read=False)):
            at = w.value(f"getelementptr i64, ptr %table, i64 {len(words) + len(axes) + k}")
            w.line(f"store ptr {pointer}, ptr {at}")
        self._python(number, 1, step.target)
        values.from_python(results)

    def _python(self, number: int, phase: int, name: str) -> None:
        w = self.entry.w
        callback = w.value(f"load ptr, ptr {self.entry.word('host')}")
        with self.target.launcher.timed(name, const(0), const(0)):
            code = w.value(f"call i32 {callback}(i64 {number}, i64 {phase}, ptr %table)")
        self.checks.fail(w.value(f"icmp ne i32 {code}, {DONE}"), 9, [str(number)])
