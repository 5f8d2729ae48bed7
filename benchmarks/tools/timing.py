"""Alternating samples, medians and ratios, and the tables they are printed in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]
SAMPLE = 1e-3
"""Seconds that one sample takes at least: short calls are repeated."""


def _time(run: Call, repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    return (time.perf_counter() - start) / repeat


@dataclass(frozen=True)
class Samples:
    """Seconds of a call, by name, a sample a round."""

    times: Mapping[str, Sequence[float]]
    best: bool = False
    """Take the shortest sample, not the median: what says more on a busy machine."""

    def typical(self, name: str) -> float:
        """Seconds of a call."""
        return min(self.times[name]) if self.best else statistics.median(self.times[name])

    def ratio(self, name: str, base: str) -> float:
        """How many times longer than base it takes: the median of the ratios of samples of one round, which were
        taken one after the other; or the ratio of the shortest samples."""
        if self.best:
            return self.typical(name) / self.typical(base)
        return statistics.median(one / two for one, two in zip(self.times[name], self.times[base], strict=True))


def sampled(runs: Mapping[str, Call], rounds: int, seconds: float, *, best: bool = False) -> Samples:
    """Alternating samples: at most so many rounds, at least 5, and no more than so many seconds where that is enough
    for 5."""
    repeats = {}
    for name, run in runs.items():
        run()
        repeats[name] = max(1, round(SAMPLE / _time(run, 1)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > end:
            break
        for name, run in runs.items():
            times[name].append(_time(run, repeats[name]))
    return Samples(times, best)


class Table:
    """Rows printed as they come, in columns or as Markdown."""

    def __init__(self, columns: Sequence[str], *, markdown: bool) -> None:
        self._widths = [max(len(name), 34 if not k else 9) for k, name in enumerate(columns)]
        self._markdown = markdown
        self.row(columns)
        if markdown:
            print("|" + "---|" * len(columns), flush=True)

    def row(self, cells: Sequence[str]) -> None:
        """Print one row."""
        if self._markdown:
            print(f"| {' | '.join(cells)} |", flush=True)
        else:
            print(
                "  ".join(
                    cell.rjust(width) if k else cell.ljust(width)
                    for k, (cell, width) in enumerate(zip(cells, self._widths, strict=True))
                ),
                flush=True,
            )


def shown(seconds: float) -> str:
    """A time with a unit."""
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"
