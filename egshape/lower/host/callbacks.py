"""Calls of Python functions from the entry."""

from __future__ import annotations

from typing import Any

from egshape.dims import const
from egshape.lower.host.backend import Backend
from egshape.lower.host.entry import Entry
from egshape.plan.ir.program import HostCall, Port


def described(port: Port) -> dict[str, Any]:
    """What the runtime must know of an array."""
    return {"name": port.name, "dtype": port.buffer.dtype, "shape": [str(size) for size in port.shape]}


def host_call(host: Entry, backend: Backend, step: HostCall) -> None:
    """Call Python twice: for the function and its results' sizes, and, once these have memory, for the results."""
    w, number = host.w, len(host.tables.host_calls)
    host.tables.host_calls.append(
        {
            "target": step.target,
            "where": step.where,
            "call": list(step.call),
            "inputs": [described(port) for port in step.inputs],
            "outputs": [described(port) for port in step.outputs],
        }
    )
    for port in step.inputs:
        host.ready(port.buffer)
    borrowed = backend.borrowed([port.buffer for port in step.inputs], read=True)
    words = [
        *(("ptr", pointer) for pointer in borrowed),
        *(("i64", w.dim(size)) for port in step.inputs for size in port.shape),
    ]
    places: list[str] = []
    host.table_words = max(host.table_words, len(words) + sum(len(port.shape) + 1 for port in step.outputs))
    for k, (type, value) in enumerate(words):
        w.line(f"store {type} {value}, ptr {w.value(f'getelementptr i64, ptr %table, i64 {k}')}")
    for k in range(sum(len(port.shape) for port in step.outputs)):
        places.append(w.value(f"getelementptr i64, ptr %table, i64 {len(words) + k}"))
    _call_python(host, backend, number, 0, step.target)
    axes = [(k, axis) for k, port in enumerate(step.outputs) for axis in range(len(port.shape))]
    found = {at: w.value(f"load i64, ptr {place}") for at, place in zip(axes, places, strict=True)}
    for name, k, axis in step.defines:
        host.define(name, found[k, axis])
    for (k, axis), size in found.items():
        wanted = w.dim(step.outputs[k].shape[axis])
        differs = w.value(f"icmp ne i64 {size}, {wanted}")
        host.fail(differs, 8, [str(number), str(k), str(axis), wanted, size])
    results = [port.buffer for port in step.outputs]
    for buffer in results:
        host.ready(buffer)
    for k, pointer in enumerate(backend.borrowed(results, read=False)):
        at = w.value(f"getelementptr i64, ptr %table, i64 {len(words) + len(axes) + k}")
        w.line(f"store ptr {pointer}, ptr {at}")
    _call_python(host, backend, number, 1, step.target)
    backend.taken(results)


def _call_python(host: Entry, backend: Backend, number: int, phase: int, target: str) -> None:
    w = host.w
    callback = w.value(f"load ptr, ptr {host.word('host')}")
    with backend.timed(target, const(0), const(0)):
        code = w.value(f"call i32 {callback}(i64 {number}, i64 {phase}, ptr %table)")
    host.fail(w.value(f"icmp ne i32 {code}, 0"), 9, [str(number)])
