"""Attention through cuDNN: a call back to the runtime (runtime/cuda/cudnn.py), where the work is worth its time.

The table's word ``attend`` is null where there is no library. Whether it ran is kept for the kernels behind it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from egshape.dims import Dim, const
from egshape.ir.types import itemsize
from egshape.lower.device.calls import Calls
from egshape.plan.ir.program import Attention, Heads
from egshape.runtime.abi.attention import KINDS, WORDS
from egshape.runtime.abi.call import DONE

LEAST_WORK = 1 << 34
"""Additions and multiplications from which the library is called: they take a fast device about as long as the call
takes the host."""


def emit(device: Calls, step: Attention, done: str) -> None:
    """Call the library; ``done``: the place of an i1, whether it ran."""
    w = device.w
    sizes = (step.batch, step.heads, step.groups, step.rows, step.columns, step.depth, step.width)
    scores = step.batch * step.heads * step.rows * step.columns
    work = const(2) * scores * (step.depth + step.width)
    w.line(f"store i1 false, ptr {done}")
    call = w.value(f"load ptr, ptr {device.word('attend')}")
    enough = w.value(f"icmp sge i64 {w.dim(work)}, {LEAST_WORK}")
    usable = w.value(f"and i1 {w.value(f'icmp ne ptr {call}, null')}, {enough}")
    name, moved = f"attention_{step.kernel.label}", _moved(step)
    with w.when(usable), device.named(name, step.kernel.where, moved, work):
        bits = struct.unpack("<q", struct.pack("<d", step.scale))[0]
        words = [str(KINDS.index(step.out.buffer.dtype)), str(int(step.causal)), str(bits), *map(w.dim, sizes)]
        for tensor in (step.queries, step.keys, step.values, step.out):
            words += _words(device, tensor)
        assert len(words) == len(WORDS)
        code = w.value(f"call i32 {call}(ptr {device.listed(words)}, ptr {device.stream()})")
        w.line(f"store i1 {w.value(f'icmp eq i32 {code}, {DONE}')}, ptr {done}")


def _words(device: Calls, tensor: Heads) -> Iterator[str]:
    yield device.place(tensor.buffer, tensor.offset)
    yield from map(device.w.dim, tensor.steps)


def _moved(step: Attention) -> Dim:
    """Bytes that are read and written."""
    of_queries = step.batch * step.heads * step.rows * (step.depth + step.width)
    of_keys = step.batch * step.groups * step.columns * (step.depth + step.width)
    return (of_queries + of_keys) * itemsize(step.out.buffer.dtype)
