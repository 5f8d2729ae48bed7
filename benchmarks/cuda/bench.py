"""What the groups of ``benchmarks.cuda`` measure with: one device, times between events, arrays that are made there.

Numpy and a CUDA driver are enough; where torch is installed, arrays are its tensors."""

from __future__ import annotations

import ctypes
import math
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cuda.weights import TYPES, filled, named
from benchmarks.tools.equal import distance, double
from egshape.runtime import load
from egshape.runtime.cuda.driver import Driver
from egshape.runtime.cuda.function import CudaFunction

Array = np.ndarray[Any, np.dtype[Any]]
Loader = Callable[[Path], CudaFunction]
Sets = Sequence[Sequence[Any]]
RUNS, WARM = 20, 3
CACHE = 60 << 20
"""Bytes of the second cache of an H200; buffers rotate so that several times as much lies between two uses of one."""
BATCH_SECONDS, MOST_CALLS, LAUNCHES = 3e-3, 40, 400
START = 1 << 28
"""Bytes of the copies that keep the device busy while a batch of calls is queued."""


def loaded(path: Path) -> CudaFunction:
    """The function of an artifact."""
    found = load(path)
    assert isinstance(found, CudaFunction)
    return found


class Memory:
    """Bytes on the device, as ``__cuda_array_interface__`` gives them."""

    def __init__(self, driver: Driver, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self.driver, self.size = driver, max(1, math.prod(shape) * dtype.itemsize)
        with driver.current():
            self.address = driver.made("cuMemAlloc_v2", self.size)
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": tuple(shape),
            "typestr": dtype.str,
            "data": (self.address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        with suppress(Exception), self.driver.current():
            self.driver("cuMemFree_v2", self.address, fails=False)


class Bench:
    """Measures on one device. ``torch``: the module, None without it; ``place``: where its tensors are made; ``real``:
    whether there is a device behind the driver, in whose memory they lie."""

    def __init__(
        self,
        folder: Path,
        driver: Driver,
        load: Loader = loaded,
        torch: Any = None,
        place: str = "cuda",
        runs: int = RUNS,
        real: bool | None = None,
    ) -> None:
        self.folder, self.driver, self.load, self.torch, self.place = folder, driver, load, torch, place
        self.runs, self.real = runs, place == "cuda" if real is None else real
        self._room = tempfile.TemporaryDirectory()
        self._rates: dict[int, float] = {}
        self.queue: Any = None
        """torch's stream, which all that is measured runs on."""
        with driver.current():
            self.events = [driver.made("cuEventCreate", 0) for _ in range(2)]
            if torch is not None and self.real:
                self.queue = torch.cuda.Stream()
                torch.cuda.set_stream(self.queue)
                self.stream = int(self.queue.cuda_stream)
            else:
                self.stream = driver.made("cuStreamCreate", 0)
        self._busy = Memory(driver, (START if self.real else 256,), np.dtype(np.uint8))

    def function(self, file: str) -> CudaFunction:
        """The function of an artifact of the folder; its weights are made first if they did not travel."""
        return self.load(filled(self.folder / file, Path(self._room.name, file)))

    # -- time ---------------------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until the device is done, on all streams. Raises what went wrong on it."""
        with self.driver.current():
            self.driver("cuCtxSynchronize")

    def healthy(self) -> bool:
        """Whether the device still takes work: some errors end a process's use of it."""
        with self.driver.current():
            return not self.driver("cuCtxSynchronize", fails=False)

    def keep_busy(self, count: int) -> None:
        """Queue copies, so that what is queued next waits behind them."""
        half = self._busy.size // 2
        with self.driver.current():
            for _ in range(count):
                self.driver("cuMemcpyDtoDAsync_v2", self._busy.address + half, self._busy.address, half, self.stream)

    def seconds(self, call: Callable[..., object], sets: Sets, launches: int = 1, most: float = 2.0) -> float:
        """Median time of a call on the device, over batches that are queued while the device is busy with something
        else: what the host needs between calls is not in it. ``sets``: arguments that calls take in turn; as many
        results stay alive. ``launches``: kernels of a call, of which the driver queues only so many."""
        begin, kept = time.perf_counter(), deque[object](maxlen=len(sets))
        for number in range(WARM):
            kept.append(call(*sets[number % len(sets)]))
        self.wait()
        start = time.perf_counter()
        kept.append(call(*sets[0]))
        queued = time.perf_counter() - start
        self.wait()
        once = max(time.perf_counter() - start, 1e-6)
        room = max(1, LAUNCHES // launches)
        count = max(1, min(MOST_CALLS, room, max(len(sets), math.ceil(BATCH_SECONDS / once))))
        copies = 1 + min(100, math.ceil(queued * count / (START / 4e12)))
        found = list[float]()
        for _ in range(self.runs):
            self.keep_busy(copies)
            with self.driver.current():
                self.driver("cuEventRecord", self.events[0], self.stream)
            for number in range(count):
                kept.append(call(*sets[number % len(sets)]))
            with self.driver.current():
                self.driver("cuEventRecord", self.events[1], self.stream)
                self.driver("cuStreamSynchronize", self.stream)
                place = ctypes.c_float(0)
                self.driver("cuEventElapsedTime", ctypes.addressof(place), *self.events)
            found.append(place.value / 1e3 / count)
            if time.perf_counter() - begin > most and len(found) > 2:
                break
        return statistics.median(found)

    def latency(self, call: Callable[..., object], sets: Sets, most: float = 2.0) -> tuple[float, float]:
        """Median times by the host's clock, the device idle before: until the results are there, until the call
        returns."""
        begin, whole, host = time.perf_counter(), list[float](), list[float]()
        kept = deque[object](maxlen=len(sets))
        for number in range(WARM * len(sets) + 5 * self.runs):
            arguments = sets[number % len(sets)]
            self.wait()
            start = time.perf_counter()
            kept.append(call(*arguments))
            returned = time.perf_counter()
            self.wait()
            if number >= WARM * len(sets):
                whole.append(time.perf_counter() - start)
                host.append(returned - start)
            if time.perf_counter() - begin > most and len(whole) > 2:
                break
        return statistics.median(whole), statistics.median(host)

    def copy_rate(self, size: int) -> float:
        """Bytes a second that a copy on the device reads and writes, for arrays of so many bytes together."""
        half = max(256, size // 2)
        if half not in self._rates:
            pairs = [
                [Memory(self.driver, (half,), np.dtype(np.uint8)) for _ in range(2)]
                for _ in range(self.rotations(size))
            ]

            def copy(one: Memory, two: Memory) -> None:
                with self.driver.current():
                    self.driver("cuMemcpyDtoDAsync_v2", two.address, one.address, half, self.stream)

            self._rates[half] = 2 * half / self.seconds(copy, pairs)
        return self._rates[half]

    def rotations(self, size: int) -> int:
        """How many sets of arrays of so many bytes together are used in turn."""
        return max(2, min(12, math.ceil(4 * CACHE / max(1, size)))) if self.real else 2

    # -- arrays -------------------------------------------------------------------------------------------------------

    def up(self, array: Array) -> Any:
        """An array on the device."""
        if self.torch is not None:
            return self._tensor(array)
        found = Memory(self.driver, array.shape, array.dtype)
        if array.nbytes:
            plain = np.ascontiguousarray(array)
            with self.driver.current():
                self.driver("cuMemcpyHtoDAsync_v2", found.address, plain.ctypes.data, array.nbytes, 0)
                self.driver("cuStreamSynchronize", 0)
        return found

    def _tensor(self, array: Array) -> Any:
        plain = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(plain.view(np.int16)).view(self.torch.bfloat16).to(self.place)
        return self.torch.from_numpy(plain).to(self.place)

    def drawn(self, inputs: Sequence[Mapping[str, Any]], sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
        """New random inputs on the device."""
        if self.torch is not None:
            self.torch.manual_seed(seed)
            return [self._random(each, shape_at(each["shape"], sizes)) for each in inputs]
        return [self.up(array) for array in random_arrays(inputs, sizes, seed)]

    def _random(self, each: Mapping[str, Any], shape: Sequence[int]) -> Any:
        dtype = getattr(self.torch, TYPES[each["dtype"]])
        draw, *limits = each["draw"]
        if draw == "integers":
            return self.torch.randint(*limits, shape, dtype=dtype, device=self.place)
        if draw == "ones":
            return self.torch.ones(shape, dtype=dtype, device=self.place)
        found = self.torch.randn(shape, dtype=self.torch.float32, device=self.place)
        return (found.abs() if draw == "positive" else found).to(dtype)

    def call(self, function: CudaFunction, out: Sequence[Any] | None = None) -> Callable[..., Any]:
        """A function on the stream that is measured; its results stay on the device, or go to ``out``."""
        device = None if out is not None else True

        def run(*items: Any) -> Any:
            return function(*map(self._given, items), out=out, stream=self.stream, device=device)

        return (
            run
            if self.torch is not None and not self.real
            else lambda *items: function(*items, out=out, stream=self.stream, device=device)
        )

    def _given(self, item: Any) -> Any:
        """A tensor of the host as numpy's array, in bf16 too."""
        if item.dtype == self.torch.bfloat16:
            return item.view(self.torch.int16).numpy().view(named("bfloat16"))
        return item.numpy()

    def tensor(self, result: Any) -> Any:
        """A result as torch's tensor."""
        if isinstance(result, self.torch.Tensor):
            return result
        return self.torch.from_dlpack(result) if self.real else self._tensor(np.asarray(result))

    def same(self, one: Any, two: Any) -> bool:
        """Whether two results have the same bits."""
        if self.torch is None or not self.real:
            return np.asarray(one).tobytes() == np.asarray(two).tobytes()
        left, right = (self.tensor(each).reshape(-1).view(self.torch.uint8) for each in (one, two))
        return bool(self.torch.equal(left, right))

    def error(self, results: Any, exact: Any) -> float:
        """How far results are from exact ones, tensors: the largest, over the outputs, of the length of the difference
        over the length of the exact."""
        worst = 0.0
        for mine, other in zip(listed(results), listed(exact), strict=True):
            one, two = self.tensor(mine), self.tensor(other)
            if tuple(one.shape) != tuple(two.shape):
                return math.inf
            if not self.real:
                found = distance(double(np.asarray(one.double())), np.asarray(two.double()))
            else:
                one, two = one.double(), two.double()
                same = (one == two) | (one.isnan() & two.isnan())
                apart = self.torch.where(same, 0.0, one - two)
                size = self.torch.where(same & ~two.isfinite(), 0.0, two)
                found = float(apart.norm()) / max(float(size.norm()), 1e-30)
            worst = found if math.isnan(found) else max(worst, found)
        return worst


def listed(found: Any) -> list[Any]:
    """Results as a list."""
    return list(found) if isinstance(found, list | tuple) else [found]


def shape_at(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape at some sizes."""
    return tuple(sizes[each] if isinstance(each, str) else each for each in shape)


def random_arrays(inputs: Sequence[Mapping[str, Any]], sizes: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Random inputs of the host, the same for a seed."""
    rng, found = np.random.default_rng(seed), list[Array]()
    for each in inputs:
        shape, dtype = shape_at(each["shape"], sizes), named(TYPES[each["dtype"]])
        draw, *limits = each["draw"]
        array: Array
        if draw == "integers":
            array = rng.integers(*limits, shape)
        else:
            array = np.ones(shape) if draw == "ones" else rng.standard_normal(shape, np.float32)
            array = np.abs(array) if draw == "positive" else array
        found.append(array.astype(dtype))
    return found


def moved(arrays: Sequence[Any]) -> int:
    """Bytes of arrays: numpy's, torch's, or others of the device."""
    return sum(math.prod(shape) * size for shape, size in map(_extent, arrays))


def _extent(item: Any) -> tuple[Sequence[int], int]:
    if isinstance(item, Memory):
        about = item.__cuda_array_interface__
        return about["shape"], np.dtype(about["typestr"]).itemsize
    size = getattr(item, "itemsize", None)
    return item.shape, size if isinstance(size, int) else item.dtype.itemsize
