"""The tables of one call of a program that drives a device."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from egshape.runtime.call import WORDS as CALL_WORDS
from egshape.runtime.call import Call, Output
from egshape.runtime.cublaslt import WORKSPACE, Products
from egshape.runtime.cuda import Driver

FUNCTIONS = {
    "push": "cuCtxPushCurrent_v2", "pop": "cuCtxPopCurrent_v2", "launch": "cuLaunchKernel",
    "allocate": "cuMemAllocFromPoolAsync", "free": "cuMemFreeAsync", "up": "cuMemcpyHtoDAsync_v2",
    "down": "cuMemcpyDtoHAsync_v2", "across": "cuMemcpyDtoDAsync_v2", "wait": "cuStreamSynchronize",
    "record": "cuEventRecord", "begin_capture": "cuStreamBeginCapture_v2", "end_capture": "cuStreamEndCapture",
    "instantiate": "cuGraphInstantiateWithFlags", "graph_launch": "cuGraphLaunch", "graph_free": "cuGraphDestroy",
    "exec_free": "cuGraphExecDestroy",
}
WORDS = (*FUNCTIONS, "context", "stream", "pool", "functions", "constants", "hosted", "graphs", "capture",
         "gemm")
"""Words of the device's table (lower/cuda/table.py has the same)."""
HOSTED, UNALIGNED = 1, 2
"""What the table ``hosted`` says of an array that is not computed with where it lies."""
GRAPH_HEAD = 3
_NON_BLOCKING = 1
"""A stream that other streams never wait for, so that no work of others falls into a capture."""
GRAPHS = 16
"""Graphs that a call's tables hold at most."""
_ARENA = CALL_WORDS.index("arena")


@dataclass
class Loaded:
    """A program on a device: its kernels, its constants, its streams."""

    driver: Driver
    functions: np.ndarray
    constants: np.ndarray
    memory: int
    stream: int
    module: int
    products: Mapping[str, int] | None = None
    """A library of products, where there is one and the program has some."""
    graphs: bool = True
    """Whether sizes that come again are captured."""

    def __del__(self) -> None:
        driver = self.driver
        with driver.current():
            driver("cuCtxSynchronize", fails=False)
            driver("cuStreamDestroy_v2", self.stream, fails=False)
            if self.memory:
                driver("cuMemFree_v2", self.memory, fails=False)
            if self.module:
                driver("cuModuleUnload", self.module, fails=False)


def loaded(driver: Driver, images: Mapping[str, bytes], manifest: Mapping[str, object],
           constants: Sequence[np.ndarray]) -> Loaded:
    """A program's kernels and constants on a device. Raises RunError where it cannot run there."""
    functions: list[Mapping[str, object]] = manifest["functions"]  # type: ignore[assignment]
    toolkit: Sequence[int] = manifest["toolkit"]  # type: ignore[assignment]
    with driver.current():
        module, found = driver.load(driver.image(images, toolkit), functions) if functions else (0, [])
        stream = driver.made("cuStreamCreate", 0)
        memory, places = driver.uploaded(constants)
        products = driver.library() if manifest["products"] else None
    return Loaded(driver, np.array(found or [0], np.uint64), np.array(places or [0], np.uint64), memory, stream,
                  module, products)


class DeviceCall(Call):
    """The tables of a call, and those of the device behind them. ``stream``: what all work goes to."""

    def __init__(self, inputs: int, axes: int, outputs: tuple[Output, ...], fixed: dict[str, int], on: Loaded,
                 stream: int, graph_words: int) -> None:
        super().__init__(inputs, axes, outputs, fixed)
        self.loaded, self.stream = on, stream
        self.device = (ctypes.c_int64 * len(WORDS))()
        count = max(1, inputs + len(outputs))
        self.hosted = (ctypes.c_int64 * count)(*[HOSTED] * count)
        words = 1 + graph_words
        self.graphs = np.zeros(GRAPH_HEAD + GRAPHS * words, np.int64)
        self.graphs[:GRAPH_HEAD] = GRAPHS, 0, graph_words
        self.products = _products(on)
        with on.driver.current():
            self.capture = on.driver.made("cuStreamCreate", _NON_BLOCKING) if graph_words else 0
        values = {**{name: on.driver.functions[known] for name, known in FUNCTIONS.items()},
                  "context": on.driver.context, "stream": stream, "pool": on.driver.pool,
                  "functions": on.functions.ctypes.data, "constants": on.constants.ctypes.data,
                  "hosted": ctypes.addressof(self.hosted), "capture": self.capture,
                  "gemm": self.products.address if self.products is not None else 0,
                  "graphs": self.graphs.ctypes.data if graph_words and on.graphs else 0}
        for name, value in values.items():
            self.device[WORDS.index(name)] = value
        self.words[CALL_WORDS.index("device")] = ctypes.addressof(self.device)
        self.keep: object = None
        """The inputs of the last call, which the device may still read."""

    def without_graphs(self) -> None:
        """Launch kernel by kernel from now on."""
        self.loaded.graphs = False
        self.device[WORDS.index("graphs")] = 0

    def _graph_rows(self) -> np.ndarray:
        return self.graphs[GRAPH_HEAD:].reshape(GRAPHS, -1)

    def __del__(self) -> None:
        driver, arena = self.loaded.driver, self.words[_ARENA]
        with driver.current():
            driver("cuCtxSynchronize", fails=False)
            for graph in self._graph_rows()[:, 0]:
                if graph:
                    driver("cuGraphExecDestroy", int(graph), fails=False)
            if self.products is not None:
                self.products.close()
                driver("cuMemFree_v2", self.products.workspace, fails=False)
            if arena:
                driver("cuMemFree_v2", arena, fails=False)
            if self.capture:
                driver("cuStreamDestroy_v2", self.capture, fails=False)


def _products(on: Loaded) -> Products | None:
    """A library's products for one stream; None where there is no library, or it does not start."""
    if on.products is None:
        return None
    with on.driver.current():
        place = ctypes.c_uint64(0)
        if on.driver("cuMemAlloc_v2", ctypes.addressof(place), WORKSPACE, fails=False):
            return None
        try:
            return Products(on.products, place.value)
        except OSError:
            on.driver("cuMemFree_v2", place.value, fails=False)
            return None
