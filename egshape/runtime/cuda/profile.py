"""The log of events in which a program on a device notes when its kernels began and ended."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from egshape.runtime.abi.device import LOG, LOG_ROW
from egshape.runtime.core.profile import KernelTime
from egshape.runtime.cuda.driver import Driver

MOST = 4096
"""Kernels of a run that are timed."""


class Log:
    """Pairs of events; ``address`` is what the entry takes (abi/device.py, LOG)."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        with driver.current():
            self._events = np.array([driver.made("cuEventCreate", 0) for _ in range(2 * MOST)], np.uint64)
        self._rows = np.zeros((MOST, len(LOG_ROW)), np.int64)
        values = {"count": 0, "most": MOST, "events": self._events.ctypes.data, "rows": self._rows.ctypes.data}
        self._head = np.array([values[word] for word in LOG], np.int64)
        self.address = int(self._head.ctypes.data)
        self._totals: dict[int, list[float]] = {}

    def take(self) -> None:
        """Read the times of a run, whose work is done, and begin again."""
        driver, count = self._driver, int(self._head[0])
        with driver.current():
            for k in range(count):
                place = ctypes.c_float(0)
                driver(
                    "cuEventElapsedTime",
                    ctypes.addressof(place),
                    int(self._events[2 * k]),
                    int(self._events[2 * k + 1]),
                )
                moved, work = self._rows[k, 1:].view(np.float64)
                old = self._totals.setdefault(int(self._rows[k, 0]), [0.0] * 4)
                self._totals[int(self._rows[k, 0])] = [
                    old[0] + 1,
                    old[1] + place.value / 1e3,
                    old[2] + float(moved),
                    old[3] + float(work),
                ]
        self.clear()

    def clear(self) -> None:
        """Forget the run."""
        self._head[0] = 0

    def times(self, names: Sequence[str], runs: int) -> tuple[KernelTime, ...]:
        """The kernels of all runs, the slowest first."""
        totals: dict[str, list[float]] = {}
        for row, found in self._totals.items():  # a kernel that runs at several places of the model has several rows
            totals[names[row]] = [one + two for one, two in zip(totals.get(names[row], [0.0] * 4), found, strict=True)]
        rows = [
            KernelTime(name, calls / runs, seconds / runs, moved / runs, work / runs)
            for name, (calls, seconds, moved, work) in totals.items()
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def __del__(self) -> None:
        with self._driver.current():
            for event in self._events:
                self._driver("cuEventDestroy_v2", int(event), fails=False)
