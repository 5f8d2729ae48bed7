"""The largest peaks of memory of `optimize` and of the comparison in ONNX Runtime, over model files.

`python -m benchmarks.peaks --memory 1000 --seconds 10 MODEL ...`: each file is loaded, optimized, saved and compared in
one process; its peak is what this process, its engines and the guest take together beyond what they had before. Rows
of the ten largest in MB, with the seconds that it took; exit 1 where one is more than 300 MB above the limit."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import egshape
from benchmarks.soak import memory_mb
from egshape.adapters.onnx_verify import compare_models
from egshape.errors import EgshapeError
from egshape.limits import Deadlines, Limits, holding

LOOK_EVERY = 0.02
MOST_BEYOND_MB = 300
SHOWN = 10


class Peak:
    """The largest memory while it is open, beyond what there was."""

    def __enter__(self) -> Peak:
        self.before = self.most = memory_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            self.most = max(self.most, memory_mb())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def once(path: Path, limits: Limits, folder: str) -> None:
    """Load, optimize, save and compare a model within limits."""
    deadlines = Deadlines.of(limits)
    result = egshape.optimize(egshape.load(path), limits=limits)
    if path.suffix == ".onnx":
        written = Path(folder, "written.onnx")
        egshape.save(result.graph, written)
        with holding(deadlines.end, deadlines.memory_mb):
            compare_models(path, written, result.source, result.facts, result=result.graph)


def main() -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--memory", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    limits = Limits(seconds=given.seconds, memory_mb=given.memory)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in given.models:
            began = time.monotonic()
            with Peak() as peak:
                try:
                    once(path, limits, folder)
                except EgshapeError as error:
                    print(f"{path}: {error}", file=sys.stderr)
            rows.append((peak.most - peak.before, time.monotonic() - began, "/".join(path.parts[-2:])))
            print(f"{rows[-1][0]:.0f}\t{rows[-1][1]:.1f}\t{path}", file=sys.stderr, flush=True)
    print("| model | limit, MB | peak, MB | seconds |\n|---|---|---|---|")
    rows.sort(reverse=True)
    for most, seconds, name in rows[:SHOWN]:
        print(f"| {name} | {given.memory:.0f} | {most:.0f} | {seconds:.1f} |")
    return rows[0][0] > given.memory + MOST_BEYOND_MB


if __name__ == "__main__":
    sys.exit(main())
