"""Limits against measured ends: exploding rulesets at several limits.

    python -m benchmarks.limits [--seconds 1 2 5] [--memory 500]

Each row is one `optimize` in this process; the time that it may take is 1.2 times its seconds plus 1."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import psutil

import egshape
from benchmarks.exploding import chain, write

LENGTH = 13


class Peak:
    """The largest resident memory of this process and its children while it is open, in MiB beyond that before."""

    def __enter__(self) -> Peak:
        self.before = self._now()
        self.most = self.before
        self._open = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._open = False
        self._thread.join()

    @property
    def grown(self) -> float:
        return self.most - self.before

    def _watch(self) -> None:
        while self._open:
            self.most = max(self.most, self._now())
            time.sleep(0.01)

    @staticmethod
    def _now() -> float:
        process, total = psutil.Process(), 0.0
        for each in (process, *process.children()):
            try:
                total += each.memory_info().rss / 2**20
            except psutil.Error:
                continue
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="*", default=[1, 2, 5])
    parser.add_argument("--memory", type=float, default=500)
    options = parser.parse_args()
    graph = egshape.load(chain(LENGTH).encode(), format="mlir")
    limits = [egshape.Limits(seconds=seconds) for seconds in options.seconds]
    limits.append(egshape.Limits(seconds=10, memory_mb=options.memory))
    print("rules\tseconds\tmemory\tended after\tallowed\tmemory taken\tstatus\tops\tleft out")
    late = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write(Path(folder)):
            for limit in limits:
                assert limit.seconds is not None
                with Peak() as peak:
                    began = time.monotonic()
                    result = egshape.optimize(graph, rules=[str(path)], limits=limit)
                    took = time.monotonic() - began
                allowed = 1.2 * limit.seconds + 1
                late += took > allowed
                report = result.report
                print(
                    f"{name}\t{limit.seconds:g}\t{limit.memory_mb:g}\t{took:.2f}\t{allowed:.1f}\t{peak.grown:.0f}\t"
                    f"{report.status}\t{report.ops.after.total}\t{', '.join(report.dropped_rules)}",
                    flush=True,
                )
    print(f"{late} late")


if __name__ == "__main__":
    main()
