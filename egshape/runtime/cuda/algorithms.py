"""Which algorithm of a library computes a product: the one that it proposes first, or, where that is wished, the
fastest of several, timed once for each shape of a program, at the first call that has it, on that call's own arrays.

Measured on an H200, timing gains or loses 4 % of BERT, and costs 2 to 7 ms at each new size (docs/gpu-kernels.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda.driver import Driver

SWITCH = "EGSHAPE_CUDA_ALGORITHMS"
"""Environment: ``first``, the default: what the library proposes first, the same in every process; ``timed``."""
PROPOSED = 8
"""Algorithms that the library is asked for where they are timed."""
ROUNDS = 3
"""Runs that are timed together, behind one that is not."""
MOST = 256
"""Shapes of a program that are timed: where sizes never come again it is not worth it."""
LEAST_WORK = 1 << 24
"""Additions and multiplications from which a product takes longer than its launch."""

Run = Callable[[np.ndarray], int]
"""Starts a product by an algorithm; the library's status."""


class Algorithms:
    """The choices of a program, for all of its streams."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._chosen: dict[bytes, np.ndarray] = {}
        self.timed = _timed()

    @property
    def wanted(self) -> int:
        """How many algorithms are to be chosen from."""
        return PROPOSED if self.timed else 1

    def best(self, key: bytes, found: Sequence[np.ndarray], work: int, run: Run | None, stream: int) -> np.ndarray:
        """One of the algorithms ``found``. ``run`` computes the product on the stream; None where it must not run
        again and again."""
        known = self._chosen.get(key)
        if known is not None:
            return known
        if run is None or len(found) < 2 or not self._may_time(work, stream):
            return found[0]
        times = self._times(found, run, stream)
        self._chosen[key] = found[min(range(len(found)), key=lambda number: times[number])]
        return self._chosen[key]

    def _may_time(self, work: int, stream: int) -> bool:
        if not self.timed or work < LEAST_WORK or len(self._chosen) >= MOST:
            return False
        captured = np.zeros(1, np.int32)  # of a stream that is captured nothing can be waited for
        return not self._driver("cuStreamIsCapturing", stream, captured.ctypes.data, fails=False) and not captured[0]

    def _times(self, found: Sequence[np.ndarray], run: Run, stream: int) -> list[float]:
        """Milliseconds of each, infinity for one that fails. All of them are queued before the first is waited for."""
        driver, events, times = self._driver, list[tuple[int, int] | None](), list[float]()
        made: list[int] = []
        try:
            for algorithm in found:
                begin, end = (driver.made("cuEventCreate", 0) for _ in range(2))
                made += [begin, end]
                works = not run(algorithm)
                driver("cuEventRecord", begin, stream)
                works = works and not any(run(algorithm) for _ in range(ROUNDS))
                driver("cuEventRecord", end, stream)
                events.append((begin, end) if works else None)
            driver("cuStreamSynchronize", stream)
            for pair in events:
                place = np.zeros(1, np.float32)
                if pair is not None:
                    driver("cuEventElapsedTime", place.ctypes.data, *pair)
                times.append(float(place[0]) if pair is not None else float("inf"))
            return times
        except RunError:  # which the call finds too, and names
            return [0.0] * len(found)
        finally:
            for event in made:
                driver("cuEventDestroy_v2", event, fails=False)


def _timed() -> bool:
    wished = os.environ.get(SWITCH, "") or "first"
    if wished not in ("first", "timed"):
        raise RunError(
            f"{SWITCH}={wished!r} is neither 'first' nor 'timed': unset it, and the first one is taken", "input"
        )
    return wished == "timed"
