"""An emulated device whose streams run when they like: work is queued, and runs as late as it may, or in a random
order that respects only what the driver promises.

That is: the order of a stream, waits for events, synchronization, and the default stream, which waits for the streams
that were made without CU_STREAM_NON_BLOCKING and which those wait for; streams that the device did not make wait for
nothing, as torch's do not. A copy of pageable memory returns when that memory is read, which the device may get later.
Copies between the device and the host read and write the host's memory when their turn
comes, as they do with pinned memory and may do with any. Memory that a stream allocates or frees is there from, and
until, that turn: what reads it before or after is an error, and finds rubbish."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.cuda.device import APART, INVALID, NO_CAPTURE, Emulated

NOT_READY = 600
PER_THREAD = 2


class Op:
    """Work of a stream. ``after``: what must be done before."""

    def __init__(self, stream: int, run: Callable[[], int | None], after: list[Op]) -> None:
        self.stream, self.run, self.after, self.done = stream, run, after, False


class Adversary(Emulated):
    """``seed``: of a random order; None: work runs only when something waits for it."""

    def __init__(self, seed: int | None = None, **options: Any) -> None:
        self.lock = threading.RLock()
        self.random = Random(seed) if seed is not None else None
        self.queues: dict[int, list[Op]] = {}
        self.last: dict[int, Op] = {}
        self.blocking: set[int] = set()
        self.events: dict[int, Op] = {}
        self.pending: set[int] = set()
        """Addresses that a stream has allocated, which is not yet its turn."""
        self.error = 0
        super().__init__(**options)

    def _address(self, name: str, kinds: str) -> int:
        does = getattr(self, f"_{name}", self._nothing)

        def locked(*arguments: Any) -> int | None:
            with self.lock:
                found: int | None = does(*arguments)
                self._some()
                return found

        setattr(self, f"_{name}", locked)
        return super()._address(name, kinds)

    # -- order --------------------------------------------------------------------------------------------------------

    def _key(self, stream: int) -> int:
        return 0 if stream == 1 else -threading.get_ident() if stream == PER_THREAD else stream

    def put(self, stream: int, run: Callable[[], int | None], after: Op | None = None) -> Op:
        """Queue work."""
        key = self._key(stream)
        if key in self.gone:
            self.faults.append("a stream is used that is destroyed")
        needs = [self.last[key]] if key in self.last else []
        if key == 0:
            needs += [op for other, op in self.last.items() if other in self.blocking or other < 0]
        elif (key in self.blocking or key < 0) and 0 in self.last:
            needs.append(self.last[0])
        op = Op(key, run, [*needs, *([after] if after is not None else [])])
        self.queues.setdefault(key, []).append(op)
        self.last[key] = op
        return op

    def _do(self, op: Op) -> None:
        """Run work and all that must be done before, nothing else."""
        stack = [op]
        while stack:
            top = stack[-1]
            waits = [each for each in top.after if not each.done]
            if not waits or top.done:
                stack.pop()
                if not top.done:
                    self.queues[top.stream].remove(top)
                    top.done = True
                    top.after = []
                    self.error = self.error or top.run() or 0
            else:
                stack += waits

    def _ready(self) -> list[Op]:
        return [queue[0] for queue in self.queues.values() if queue and all(each.done for each in queue[0].after)]

    def _some(self) -> None:
        """Run some work in some order."""
        if self.random is None:
            return
        favourite = self.random.choice([*self.queues, None])
        for _ in range(self.random.choice((0, 0, 1, 3, 20))):
            ready = self._ready()
            if not ready:
                return
            mine = [op for op in ready if op.stream == favourite]
            self._do(mine[0] if mine else self.random.choice(ready))

    def drain(self) -> None:
        """Run all that is left."""
        with self.lock:
            while any(self.queues.values()):
                ready = self._ready()
                self._do((self.random or Random(0)).choice(ready))

    # -- what runs in a stream ----------------------------------------------------------------------------------------

    def _run(self, number: int, words: bytes) -> int:
        """A kernel, whose launch is noted when it is made."""
        found = super()._run(number, words)
        self.launched.pop()
        return found

    def _cuLaunchKernel(self, kernel: int, *rest: Any) -> int:
        x, y, z, _, ty, tz, _, stream, params, extra = rest
        if kernel not in self._kernels or not x or (y, z, ty, tz, extra) != (1, 1, 1, 1, 0):
            return INVALID
        self.streams.add(stream)
        table = (ctypes.c_uint64 * self._kernels[kernel].words).from_address(params)
        words = b"".join(ctypes.string_at(each, 8) for each in table)
        if stream in self.capturing:
            self.capturing[stream].append((kernel, words, ()))
            return self.error
        self.launched.append(self._kernels[kernel].name)
        self.put(stream, lambda: self._run(kernel, words))
        return self.error

    def _queued_copy(self, target: int, source: int, size: int, stream: int, kinds: str) -> int:
        if stream not in self.capturing:
            self.put(stream, lambda: self._copy(target, source, size, kinds))
            return self.error
        plain = kinds == "dd" or (kinds == "hd" and self._is_pinned(target))
        return self._captured(stream, kinds, target, source, size) if plain else NO_CAPTURE

    def _cuMemsetD8Async(self, target: int, byte: int, size: int, stream: int) -> int:
        self.put(stream, lambda: self._fill(target, byte, size))
        return self.error

    def _cuMemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._queued_copy(target, source, size, stream, "dh")

    def _cuMemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._queued_copy(target, source, size, stream, "hd")

    def _cuMemcpyDtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int:
        return self._queued_copy(target, source, size, stream, "dd")

    def _cuGraphLaunch(self, graph: int, stream: int) -> int:
        steps = list(self._graphs[graph])
        self.launched += [self._kernels[kernel].name for kernel, _, _ in steps if kernel]

        def run() -> int:
            for kernel, words, rest in steps:
                code = self._run(kernel, words) if kernel else self._copy(*rest, words.decode())
                if code:
                    return code
            return 0

        self.put(stream, run)
        return self.error

    # -- memory -------------------------------------------------------------------------------------------------------

    def _inside(self, address: int, size: int = 1) -> bool:
        found = super()._inside(address, size)
        return found and not any(start <= address < start + self.blocks[start][0] for start in self.pending)

    def _cuMemAllocFromPoolAsync(self, place: int, size: int, pool: int, stream: int) -> int:
        code = super()._cuMemAllocFromPoolAsync(place, size, pool, stream)
        if not code:
            address = ctypes.c_uint64.from_address(place).value
            self.pending.add(address)
            self.put(stream, lambda: self.pending.discard(address))
        return code

    def _cuMemFreeAsync(self, address: int, stream: int) -> int:
        if address not in self.blocks:
            return self._cuMemFree_v2(address)

        def run() -> int:
            if address in self.pending:
                self.faults.append(f"{address:x} is freed before it is allocated")
            if address in self.blocks:
                size = self.blocks[address][0]
                ctypes.memset(address - APART, 0xFD, size)
                self._keep.append(self.blocks[address][1])  # so that no other memory comes to lie there
            return self._cuMemFree_v2(address)

        self.put(stream, run)
        return 0

    # -- waits --------------------------------------------------------------------------------------------------------

    def _cuStreamCreate(self, place: int, flags: int) -> None:
        self._made(place)
        if not flags:
            self.blocking.add(ctypes.c_uint64.from_address(place).value)

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        if self.queues.pop(stream, None):
            self.faults.append("a stream is destroyed that has work")

    def _cuEventRecord(self, event: int, stream: int) -> None:
        if stream not in self.capturing:
            self.events[event] = self.put(stream, lambda: None)

    def _cuStreamWaitEvent(self, stream: int, event: int, _: int) -> None:
        if event in self.events:
            self.put(stream, lambda: None, self.events[event])

    def _cuEventQuery(self, event: int) -> int:
        return 0 if event not in self.events or self.events[event].done else NOT_READY

    def _cuEventSynchronize(self, event: int) -> int:
        if event in self.events:
            self._do(self.events[event])
        return self.error

    def _cuEventDestroy_v2(self, event: int) -> None:
        self.events.pop(event, None)

    def _cuStreamSynchronize(self, stream: int) -> int:
        if stream in self.capturing:
            return NO_CAPTURE
        key = self._key(stream)
        op = self.last.get(key)
        if op is not None:
            self._do(op)
        error, self.error = self.error, 0
        return error

    def _cuCtxSynchronize(self) -> int:
        if self.capturing:
            return super()._cuCtxSynchronize()
        self.drain()
        error, self.error = self.error, 0
        return error


def modes() -> Iterator[int | None]:
    """Orders to test with."""
    yield from (None, 1, 2)
