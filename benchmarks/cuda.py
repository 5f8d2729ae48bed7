"""Programs on a GPU: results against the interpreter's, memory bandwidth, latency, what the host does for a call.

``python -m benchmarks.cuda FOLDER`` on a machine with a GPU, on a folder that ``benchmarks.cuda_cases`` made elsewhere.
It needs numpy and a CUDA driver; where torch is installed, its eager mode and ``torch.compile(dynamic=True)`` are
measured beside. Times are medians of runs between two events; bandwidth counts inputs and outputs once."""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from egshape.runtime import load
from egshape.runtime.cuda import Driver, opened
from egshape.runtime.cuda_arrays import DeviceArray
from egshape.runtime.cuda_function import CudaFunction

Array = np.ndarray[Any, np.dtype[Any]]
Loader = Callable[[Path], CudaFunction]
RUNS, WARM, MOST_SECONDS = 30, 5, 1.0
PLAIN = {"f32": np.float32, "f16": np.float16, "f64": np.float64}


def loaded(path: Path) -> CudaFunction:
    """The function of an artifact."""
    found = load(path)
    assert isinstance(found, CudaFunction)
    return found


def torch_here() -> Any:
    """torch with a GPU, else None."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


class Bench:
    """Measures on one device."""

    def __init__(self, folder: Path, driver: Driver, load: Loader = loaded, torch: Any = None,
                 runs: int = RUNS) -> None:
        self.folder, self.driver, self.load, self.torch, self.runs = folder, driver, load, torch, runs
        with driver.current():
            self.events = [driver.made("cuEventCreate", 0) for _ in range(2)]
            self.stream = driver.made("cuStreamCreate", 0)
        self.copy_rates: dict[int, float] = {}

    # -- time ---------------------------------------------------------------------------------------------------------

    def seconds(self, call: Callable[[], object], stream: int) -> float:
        """Median time of a call on the device."""
        driver, found, begin = self.driver, list[float](), time.perf_counter()
        for number in range(WARM + self.runs):
            with driver.current():
                driver("cuEventRecord", self.events[0], stream)
            kept = call()
            with driver.current():
                driver("cuEventRecord", self.events[1], stream)
                driver("cuStreamSynchronize", stream)
                place = ctypes.c_float(0)
                driver("cuEventElapsedTime", ctypes.addressof(place), *self.events)
            del kept
            if number >= WARM:
                found.append(place.value / 1e3)
            if time.perf_counter() - begin > MOST_SECONDS and len(found) > 2:
                break
        return statistics.median(found)

    def host_seconds(self, call: Callable[[], object], stream: int) -> float:
        """Median time until a call returns, the device idle before it."""
        found = []
        for _ in range(self.runs):
            with self.driver.current():
                self.driver("cuStreamSynchronize", stream)
            begin = time.perf_counter()
            kept = call()
            found.append(time.perf_counter() - begin)
            del kept
        return statistics.median(found)

    def copy_rate(self, size: int) -> float:
        """Bytes a second that a copy on the device reads and writes, for arrays that take so many bytes together."""
        half = max(256, size // 2)
        if half not in self.copy_rates:
            one, two = (self.memory(half) for _ in range(2))

            def copy() -> None:
                with self.driver.current():
                    self.driver("cuMemcpyDtoDAsync_v2", two.address, one.address, half, self.stream)

            self.copy_rates[half] = 2 * half / self.seconds(copy, self.stream)
        return self.copy_rates[half]

    # -- arrays -------------------------------------------------------------------------------------------------------

    def memory(self, size: int) -> DeviceArray:
        """New bytes on the device."""
        with self.driver.current():
            address = self.driver.made("cuMemAllocFromPoolAsync", max(size, 1), self.driver.pool, self.stream)
        return DeviceArray(address, (size,), np.dtype(np.uint8), self.driver, self.stream, self)

    def up(self, array: Array) -> Any:
        """An array on the device: torch's where it is installed."""
        if self.torch is not None:
            return self.torch.from_numpy(array).cuda()
        found = self.memory(array.nbytes)
        with self.driver.current():
            if array.nbytes:
                self.driver("cuMemcpyHtoDAsync_v2", found.address, array.ctypes.data, array.nbytes, self.stream)
            self.driver("cuStreamSynchronize", self.stream)
        found.shape, found.dtype = array.shape, array.dtype
        return found

    def inputs(self, case: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Array]:
        """Inputs of a case at some sizes."""
        rng, found = np.random.default_rng(0), []
        for dtype, shape in case["inputs"]:
            real = [sizes[each] if each in sizes else int(each) for each in shape]
            found.append(rng.standard_normal(real, np.float32).astype(PLAIN[dtype]))
        return found

    # -- cases --------------------------------------------------------------------------------------------------------

    def check(self, case: Mapping[str, Any], function: CudaFunction) -> str:
        """What is wrong with the results at the sizes that are stored, on the host and on the device; "" if nothing."""
        with np.load(self.folder / case["arrays"]) as stored:
            for number in range(case["checks"]):
                inputs = [stored[f"{number}_in{k}"] for k in range(len(case["inputs"]))]
                for device in (False, True, True, True):  # the third time a graph is launched
                    found = function(*inputs, device=device)
                    results = found if isinstance(found, tuple) else (found,)
                    for k, mine in enumerate(results):
                        wanted = stored[f"{number}_out{k}"].astype(np.float64)
                        bound = 1e-2 if stored[f"{number}_out{k}"].dtype == np.float16 else 1e-4
                        array = np.asarray(mine).astype(np.float64)
                        if array.shape != wanted.shape or not np.allclose(array, wanted, bound, bound):
                            return f"WRONG: output {k} of {[each.shape for each in inputs]}, device={device}"
        return ""

    def rows(self, case: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """The rows of a case in the table."""
        functions = {kind: self.load(self.folder / file) for kind, file in case["files"].items()}
        wrong = self.check(case, functions[""])
        if wrong:
            return [(case["name"], wrong, *[""] * (len(HEAD) - 2))]
        peers = self.peers(case)
        found = []
        for point in case["points"]:
            arrays = self.inputs(case, point["own"])
            items = [self.up(array) for array in arrays]
            usable = {kind: each for kind, each in functions.items() if not kind or point["fits"]}
            times = {kind: self.timed(each, items) for kind, each in usable.items()}
            results = functions[""](*items)
            results = results if isinstance(results, tuple) else (results,)
            moved = sum(each.nbytes for each in (*arrays, *results))
            del results
            others = [self.seconds(partial(peer, *items), 0) for peer in peers]
            host = self.host_seconds(partial(functions[""], *items), functions[""].stream)
            best = min(times.values())
            rate = f"{moved / best / 1e9:.0f}" if case["bandwidth"] else ""
            share = f"{moved / best / self.copy_rate(moved):.0%}" if case["bandwidth"] else ""
            ratios = [f"{other / best:.2f}" for other in others] or ["", ""]
            sizes = " ".join(f"{name} {size}" for name, size in point["sizes"].items())
            with_facts = f"{times['facts'] * 1e6:.1f}" if "facts" in times else ""
            found.append((case["name"], sizes, f"{times[''] * 1e6:.1f}", with_facts, rate, share, *ratios,
                          f"{host * 1e6:.1f}"))
        return found

    def timed(self, function: CudaFunction, items: Sequence[Any]) -> float:
        """Time of a call on arrays of the device."""
        return self.seconds(partial(function, *items, device=True), function.stream)

    def peers(self, case: Mapping[str, Any]) -> list[Callable[..., Any]]:
        """torch's eager mode and its compiler on the same function; nothing without torch."""
        if self.torch is None:
            return []
        from benchmarks.cuda_torch import functions

        eager = functions(self.torch, case["kind"], case["options"])
        return [eager, self.torch.compile(eager, dynamic=True)]


HEAD = ("case", "sizes", "us", "us, facts", "GB/s", "of a copy", "torch / ours", "compiled / ours", "host us")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table of Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def run(bench: Bench) -> list[tuple[str, ...]]:
    """All cases of a folder; each that fails is a row that says why."""
    found: list[tuple[str, ...]] = []
    for case in json.loads((bench.folder / "cases.json").read_text()):
        try:
            found += bench.rows(case)
        except Exception as error:  # the other cases are measured all the same
            found.append((case["name"], f"{type(error).__name__}: {str(error)[:200]}", *[""] * (len(HEAD) - 2)))
        print(table([found[-1]]).split("\n")[-1], flush=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-torch", action="store_true")
    chosen = parser.parse_args()
    torch = None if chosen.without_torch else torch_here()
    bench = Bench(chosen.folder, opened(), torch=torch)
    print(f"device sm_{bench.driver.capability[0]}{bench.driver.capability[1]}, driver {bench.driver.version}, "
          f"copy of 1 GiB {bench.copy_rate(1 << 30) / 1e9:.0f} GB/s, torch {getattr(torch, '__version__', 'none')}")
    print(table(run(bench)))


if __name__ == "__main__":
    main()
