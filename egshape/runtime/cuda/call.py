"""The tables of one call of a program that drives a device."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from egshape.runtime.abi.call import WORDS as CALL_WORDS
from egshape.runtime.abi.device import FUNCTIONS, GRAPH_HEAD, GRAPH_ROW, GRAPH_SEEN, HOSTED, KEPT, RESULT_WORDS, WORDS
from egshape.runtime.core.call import Call, Output
from egshape.runtime.cuda.algorithms import Algorithms
from egshape.runtime.cuda.arrays import Block
from egshape.runtime.cuda.attending import Attending
from egshape.runtime.cuda.cublaslt import WORKSPACE, Products
from egshape.runtime.cuda.cudnn import Attentions
from egshape.runtime.cuda.driver import EVENT_WITHOUT_TIME, Driver

_NON_BLOCKING = 1
"""A stream that other streams never wait for, so that no work of others falls into a capture."""
GRAPHS, MOST_GRAPHS = 64, 1024
"""Graphs that a call's tables hold at most: of each part of the program, of all."""
_MOST_FAILURES = 2
"""Captures that may fail before there are none any more."""
_MOST_PENDING = 8
_UNUSED = 2
"""References to a block that only its table has, as Python counts them."""
_ARENA = CALL_WORDS.index("arena")


@dataclass
class Loaded:
    """A program on a device: its kernels, its constants, its streams. They are given back behind all that needs them
    (tables of calls, blocks of results), in whatever order the collector of cycles comes to these objects."""

    driver: Driver
    functions: np.ndarray
    constants: np.ndarray
    memory: int
    stream: int
    module: int
    products: Mapping[str, int] | None = None
    """A library of products, where there is one and the program has some."""
    attentions: Attentions | None = None
    """A library of attention, the same."""
    graphs: bool = True
    """Whether sizes that come again are captured."""
    failed: int = 0
    """Captures that failed."""
    libraries: weakref.WeakSet[Products] = field(default_factory=weakref.WeakSet)
    """The states of that library, one for each table of calls."""
    algorithms: Algorithms = field(init=False)
    """What it computes products by."""
    refused: dict[str, None] = field(default_factory=dict)
    """Why the library did not start for some of them."""

    _users: set[int] = field(default_factory=set)
    _dropped: bool = False

    def __post_init__(self) -> None:
        self.algorithms = Algorithms(self.driver)

    def enter(self, user: object) -> None:
        """A user needs what is loaded until it leaves."""
        self._users.add(id(user))

    def leave(self, user: object) -> None:
        """A user needs it no longer."""
        self._users.discard(id(user))
        if self._dropped and not self._users:
            self._close()

    def __del__(self) -> None:
        self._dropped = True
        if not self._users:
            self._close()

    def _close(self) -> None:
        driver = self.driver
        with driver.aside():  # tables and blocks have waited for the caller's streams
            if self.attentions is not None:
                self.attentions.close()
            if self.stream:
                driver("cuStreamSynchronize", self.stream, fails=False)
                driver.blocking.discard(self.stream)
                driver("cuStreamDestroy_v2", self.stream, fails=False)
            if self.memory:
                driver("cuMemFree_v2", self.memory, fails=False)
            if self.module:
                driver("cuModuleUnload", self.module, fails=False)
            driver.trim()


def loaded(
    driver: Driver, images: Mapping[str, bytes], manifest: Mapping[str, object], constants: Sequence[np.ndarray]
) -> Loaded:
    """A program's kernels and constants on a device. Raises RunError where it cannot run there."""
    functions: list[Mapping[str, object]] = manifest["functions"]  # type: ignore[assignment]
    toolkit: Sequence[int] = manifest["toolkit"]  # type: ignore[assignment]
    made = Loaded(driver, np.zeros(1, np.uint64), np.zeros(1, np.uint64), 0, 0, 0)  # gives back what it has by then
    with driver.aside():
        if functions:
            made.module = driver.module(driver.image(images, toolkit))
            made.functions = np.array(driver.kernels(made.module, functions), np.uint64)
        made.stream = driver.made("cuStreamCreate", 0)
        driver.blocking.add(made.stream)
        made.memory, places = driver.uploaded(constants, made.stream)
        made.constants = np.array(places or [0], np.uint64)
        made.products = driver.library() if manifest["products"] else None
        made.attentions = _attentions(made) if manifest["attention"] else None
    return made


class DeviceCall(Call):
    """The tables of a call, and those of the device behind them. ``stream``: what all work goes to."""

    def __init__(
        self,
        inputs: int,
        axes: int,
        outputs: tuple[Output, ...],
        fixed: dict[str, int],
        on: Loaded,
        stream: int,
        graph_words: int,
        graphs: int,
        pinned: int,
    ) -> None:
        super().__init__(inputs, axes, outputs, fixed)
        self.loaded, self.stream = on, stream
        on.enter(self)
        self.capture = self.pinned = self.event = self.last = 0  # what fails below leaves tables that can be given back
        self.products: Products | None = None
        self.attending = Attending(on.attentions, on.driver) if on.attentions is not None else None
        self.blocks: list[list[Block | None]] = [[None] * KEPT for _ in outputs]
        """Memory of each result, for later calls too."""
        self._pending: deque[tuple[int, object]] = deque()
        self.device = (ctypes.c_int64 * len(WORDS))()
        count = max(1, inputs + len(outputs))
        self.hosted = (ctypes.c_int64 * count)(*[HOSTED] * count)
        rows = min(GRAPHS * max(1, graphs), MOST_GRAPHS) if graph_words else 0
        self.graphs = np.zeros(GRAPH_HEAD + rows * (len(GRAPH_ROW) + graph_words) + GRAPH_SEEN, np.int64)
        self.graphs[:GRAPH_HEAD] = rows, 0, graph_words
        self.products = _products(on)
        with on.driver.current():
            self.capture = on.driver.made("cuStreamCreate", _NON_BLOCKING) if graph_words else 0
            self.pinned = on.driver.made("cuMemAllocHost_v2", pinned) if pinned else 0
            self.event = on.driver.made("cuEventCreate", EVENT_WITHOUT_TIME)
            if stream not in (0, on.stream):  # a stream that may be gone when these tables go
                self.last = on.driver.made("cuEventCreate", EVENT_WITHOUT_TIME)
        sizes = sum(output.rank for output in outputs)
        self.results = (ctypes.c_int64 * (RESULT_WORDS * len(outputs) + sizes + 1))()
        self._shapes: list[tuple[int, ...]] = [()] * len(outputs)
        self.results[RESULT_WORDS * len(outputs) :] = [-1] * (sizes + 1)
        for k, shape in enumerate(self._shapes):
            self.results[k * RESULT_WORDS] = id(shape)
        values = {
            **{name: on.driver.functions[known] for name, known in FUNCTIONS.items()},
            "context": on.driver.context,
            "stream": stream,
            "pool": on.driver.pool,
            "functions": on.functions.ctypes.data,
            "constants": on.constants.ctypes.data,
            "hosted": ctypes.addressof(self.hosted),
            "event": self.event,
            "pinned": self.pinned,
            "results": ctypes.addressof(self.results),
            "capture": self.capture,
            "gemm": self.products.address if self.products is not None else 0,
            "attend": self.attending.address if self.attending is not None else 0,
            "graphs": self.graphs.ctypes.data if graph_words and on.graphs else 0,
        }
        for name, value in values.items():
            self.device[WORDS.index(name)] = value
        self.words[CALL_WORDS.index("device")] = ctypes.addressof(self.device)

    def capture_failed(self) -> None:
        """Launch kernel by kernel from now on, unless it was the first time: what another thread does may end a
        capture."""
        self.loaded.failed += 1
        if self.loaded.failed < _MOST_FAILURES:
            return
        self.loaded.graphs = False
        self.device[WORDS.index("graphs")] = 0

    # -- results ------------------------------------------------------------------------------------------------------

    def pick(self, number: int) -> None:
        """Compute a result in memory that no array is on any more, if there is some."""
        self.give(number, 0, 0)
        blocks = self.blocks[number]
        for k in range(KEPT):
            if _alone(blocks, k):
                self.give(
                    number,
                    self.results[number * RESULT_WORDS + 3 + 3 * k],
                    self.results[number * RESULT_WORDS + 4 + 3 * k],
                )

    def block(self, number: int) -> Block:
        """The memory in which a result was computed; what the program allocated is kept for later calls."""
        address, room, blocks = self.memory(number), self.words[self.at["rooms"] + number], self.blocks[number]
        for known in blocks:
            if known is not None and known.address == address:
                return known
        made = Block(address, room, self.loaded.driver, self.stream, self.loaded, weakref.ref(self))
        if not address:  # the program left before it had memory for it
            return made
        self.loaded.enter(made)
        free = [k for k in range(KEPT) if blocks[k] is None or _alone(blocks, k)]
        self._put(number, free[0] if free else 0, made)
        return made

    def _put(self, number: int, k: int, block: Block | None) -> None:
        at = number * RESULT_WORDS + 2 + 3 * k
        self.results[at : at + 3] = [0, 0, 0] if block is None else [id(block), block.address, block.bytes]
        for each, kept in ((self.blocks[number][k], False), (block, True)):
            if each is not None:
                each.kept = kept
        self.blocks[number][k] = block

    def remember(self) -> list[tuple[int, ...]]:
        """The shapes of the results, for native code to make arrays of the same."""
        self._shapes, count = self.shapes(), len(self._outputs)
        for k, shape in enumerate(self._shapes):
            self.results[k * RESULT_WORDS] = id(shape)
        sizes, first = len(self.results) - RESULT_WORDS * count - 1, self.at["shapes"]
        self.results[RESULT_WORDS * count : RESULT_WORDS * count + sizes] = list(self.words[first : first + sizes])
        return self._shapes

    def forget(self, block: Block) -> None:
        """Compute nothing in a block any more."""
        for number, blocks in enumerate(self.blocks):
            for k, known in enumerate(blocks):
                if known is block:
                    self._put(number, k, None)

    def release(self) -> bool:
        """Give back the memory that no array is on; whether there was some."""
        found = False
        for number, blocks in enumerate(self.blocks):
            for k in range(KEPT):
                if _alone(blocks, k):
                    self._put(number, k, None)
                    found = True
        return found

    def ended(self) -> None:
        """Note where the stream's work of this call ends."""
        if self.last:
            self.loaded.driver("cuEventRecord", self.last, self.stream, fails=False)

    def wait(self) -> None:
        """Wait for the work of these tables' calls, and of no other ones. The context is current."""
        if self.last:
            self.loaded.driver("cuEventSynchronize", self.last, fails=False)
        elif self.stream in (0, self.loaded.stream):
            self.loaded.driver("cuStreamSynchronize", self.stream, fails=False)

    # -- arrays of others ---------------------------------------------------------------------------------------------

    def hold(self, items: object) -> None:
        """Own arrays until what the stream has got now is done: of owners that do not say what they wait for."""
        driver = self.loaded.driver
        with driver.current():
            event = driver.made("cuEventCreate", EVENT_WITHOUT_TIME)
            driver("cuEventRecord", event, self.stream)
            self._pending.append((event, items))
            while self._pending:
                event, _ = self._pending[0]
                if len(self._pending) > _MOST_PENDING:
                    driver("cuEventSynchronize", event, fails=False)
                elif driver("cuEventQuery", event, fails=False):
                    break
                driver("cuEventDestroy_v2", event, fails=False)
                self._pending.popleft()

    def _graph_rows(self) -> np.ndarray:
        count, _, words = map(int, self.graphs[:GRAPH_HEAD])
        return self.graphs[GRAPH_HEAD:-GRAPH_SEEN].reshape(count, len(GRAPH_ROW) + words)

    def __del__(self) -> None:
        driver, arena = self.loaded.driver, self.words[_ARENA]
        with driver.aside():
            self.wait()
            for blocks in self.blocks:
                for k in range(KEPT):
                    done, block = _alone(blocks, k), blocks[k]
                    if block is not None:
                        block.kept, block.settled = False, done or block.dropped
                        if block.settled:
                            block.free()
            for event, _ in self._pending:
                driver("cuEventDestroy_v2", event, fails=False)
            for event in (self.event, self.last):
                if event:
                    driver("cuEventDestroy_v2", event, fails=False)
            if self.pinned:
                driver("cuMemFreeHost", self.pinned, fails=False)
            for graph in self._graph_rows()[:, 0]:
                if graph:
                    driver("cuGraphExecDestroy", int(graph), fails=False)
            if self.products is not None:
                self.products.close()
                driver("cuMemFree_v2", self.products.workspace, fails=False)
            if self.attending is not None:
                self.attending.close()
            if arena:
                driver("cuMemFree_v2", arena, fails=False)
            if self.capture:
                driver("cuStreamDestroy_v2", self.capture, fails=False)
        self.loaded.leave(self)


def _alone(blocks: list[Block | None], k: int) -> bool:
    """Whether there is a block of which only its table knows."""
    return blocks[k] is not None and sys.getrefcount(blocks[k]) == _UNUSED


def _attentions(on: Loaded) -> Attentions | None:
    """A library's attention; None where there is no library, or it does not start, which is noted."""
    found = on.driver.attention()
    try:
        return Attentions(found) if found is not None else None
    except OSError as error:
        on.refused[f"cuDNN does not start: {error}"] = None
        return None


def _products(on: Loaded) -> Products | None:
    """A library's products for one stream; None where there is no library, or it does not start, which is noted."""
    if on.products is None:
        return None
    with on.driver.current():
        place = ctypes.c_uint64(0)
        code = on.driver("cuMemAlloc_v2", ctypes.addressof(place), WORKSPACE, fails=False)
        if code:
            on.refused[f"cuBLASLt has no workspace: {on.driver.error(code)}"] = None
            return None
        try:
            made = Products(on.products, place.value, on.algorithms.best, on.algorithms.wanted)
            on.libraries.add(made)
            return made
        except OSError as error:
            on.refused[f"cuBLASLt does not start: {error}"] = None
            on.driver("cuMemFree_v2", place.value, fails=False)
            return None
