"""Which steps of a program for a device run on the processor that drives it.

A loop counter, the condition of a loop, the index of a branch, an element of a computed shape: the host decides by
them, so it must have their values. Computed on the device, each would cost a copy back and a wait for all that runs
there. Kernels of little integer work whose results the host needs, directly or through other such kernels, therefore
run on the host, from values that lie there (sizes, small inputs, constants) or are copied back once. What the device
reads of them is copied up, which waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egshape.ir.types import is_float, itemsize
from egshape.plan.analysis.work import FLOPS, operations
from egshape.plan.ir.loops import Attend, Buffer, Contract, Kernel, Pack, Product, While
from egshape.plan.ir.program import BindSize, Branch, CheckValue, Copy, HostCall, Program, Repeat, Run, Step
from egshape.plan.ir.walk import buffers, statements

SMALL_BYTES = 1024
"""Of a buffer that the host computes with: some shapes of the highest rank there is."""
LITTLE_WORK = 4096
"""Operations of a kernel on the host: a few microseconds, less than a copy back and a wait take."""


@dataclass(frozen=True)
class Placement:
    """``steps`` run on the host, where ``buffers``, their results, lie; ``mirrored`` are those of them that the device
    reads too. ``decides``: the host decides by a value while the program runs."""

    steps: frozenset[Step]
    buffers: frozenset[Buffer]
    mirrored: frozenset[Buffer]
    decides: bool


def is_small(buffer: Buffer) -> bool:
    """Whether a buffer is small at any size."""
    size = buffer.size.const
    return size is not None and size * itemsize(buffer.dtype) <= SMALL_BYTES


def placement(program: Program) -> Placement:
    """What runs on the host."""
    steps = tuple(flat(program.steps))
    writers: dict[Buffer, list[Step]] = {}
    for step in steps:
        for buffer in _results(step):
            writers.setdefault(buffer, []).append(step)
    able = _able(writers)
    free = _free(able, writers)
    wanted = {
        buffer for step in steps for buffer in _decides(step) if not isinstance(step, CheckValue) or buffer in free
    }
    hosted: set[Buffer] = set()
    chosen: set[Step] = set()
    queue = [buffer for buffer in wanted if buffer in able]
    while queue:
        buffer = queue.pop()
        if buffer in hosted:
            continue
        hosted.add(buffer)
        for step in writers[buffer]:
            chosen.add(step)
            queue += [each for each in (*_results(step), *_operands(step)) if each in able]
    device = {buffer for step in steps if step not in chosen for buffer in (*_operands(step), *_outside(step))}
    outputs = {port.buffer for port in program.outputs}
    decided = any(isinstance(step, CheckValue | BindSize | Branch | Repeat | HostCall) for step in steps)
    return Placement(frozenset(chosen), frozenset(hosted), frozenset(hosted & (device | outputs)), decided)


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside of others too."""
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from flat((*step.test, *step.body))
        elif isinstance(step, Branch):
            for branch in step.branches:
                yield from flat(branch)


def _able(writers: dict[Buffer, list[Step]]) -> set[Buffer]:
    """The buffers all of whose writers can run on the host, and write nothing else."""
    able = {buffer for buffer, steps in writers.items() if is_small(buffer) and all(map(_is_little, steps))}
    while True:
        mixed = {
            buffer for buffer in able if any(other not in able for step in writers[buffer] for other in _results(step))
        }
        if not mixed:
            return able
        able -= mixed


def _free(able: set[Buffer], writers: dict[Buffer, list[Step]]) -> set[Buffer]:
    """Those of them for which nothing that the device computes must be copied back. A check of others is left to the
    device: its result is copied back with those of other checks, and only then waited for."""
    free = set(able)
    while True:
        bound = {
            buffer
            for buffer in free
            for step in writers[buffer]
            for each in _operands(step)
            if each in writers and each not in free
        }
        if not bound:
            return free
        free -= bound


def _is_little(step: Step) -> bool:
    if isinstance(step, Copy):
        return is_small(step.source) and not is_float(step.source.dtype)
    return isinstance(step, Run) and step.launch is None and _is_little_kernel(step.kernel)


def _is_little_kernel(kernel: Kernel) -> bool:
    if not all(is_small(buffer) for buffer in buffers(kernel.body)) or kernel.private:
        return False
    if any(is_float(buffer.dtype) for buffer in kernel.outputs):
        return False
    if any(isinstance(stmt, While | Pack | Product | Contract | Attend) for stmt in statements(kernel.body)):
        return False
    work = operations(kernel.body, FLOPS).const
    return work is not None and work <= LITTLE_WORK


def _decides(step: Step) -> Iterator[Buffer]:
    """What the host must read of a step itself."""
    match step:
        case CheckValue():
            yield step.value
        case BindSize():
            yield step.buffer
        case Branch():
            yield step.index
        case Repeat():
            yield step.condition


def _results(step: Step) -> tuple[Buffer, ...]:
    match step:
        case Run():
            return step.kernel.outputs
        case Copy():
            return (step.target,)
        case HostCall():
            return tuple(port.buffer for port in step.outputs)
    return ()


def _operands(step: Step) -> tuple[Buffer, ...]:
    """What a step that computes touches, its results too: it may read what it wrote before."""
    match step:
        case Run():
            return buffers(step.kernel.body)
        case Copy():
            return (step.source,)
    return ()


def _outside(step: Step) -> Iterator[Buffer]:
    """What Python reads."""
    if isinstance(step, HostCall):
        yield from (port.buffer for port in step.inputs)
