"""Run the corpora, print what became of their programs (docs/robustness.md)."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.robustness.corpora import NAMES, corpus
from benchmarks.robustness.outcome import Row, append, read
from benchmarks.robustness.runner import run_all
from benchmarks.robustness.table import table


class Progress:
    """A line that is rewritten as programs end, if somebody watches."""

    def __init__(self, corpus: str, total: int) -> None:
        self.corpus, self.total, self.done, self.faults = corpus, total, 0, 0
        self.lock = threading.Lock()

    def __call__(self, row: Row) -> None:
        with self.lock:
            self.done += 1
            self.faults += row.fault
            if sys.stderr.isatty():
                said = f"{self.corpus} {self.done} of {self.total}, {self.faults} faults: {row.program} {row.outcome}"
                print(f"\r\033[K{said[:110]}", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)


def run_corpus(name: str, chosen: list[str], file: Path, seconds: float | None, jobs: int) -> list[Row]:
    """Run programs of a corpus that are not in the file yet, and add their rows to it; the rows that there are."""
    known = {row.program for row in read(file)}
    left = [program for program in chosen if program not in known]
    progress = Progress(name, len(left))

    def keep(row: Row) -> None:
        append(file, row)
        progress(row)

    stop = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        try:  # around the first thread's start too: an interrupt may come while the others are started
            running = [
                pool.submit(run_all, name, left[first::jobs], keep, seconds=seconds, stop=stop) for first in range(jobs)
            ]
            for each in running:
                each.result()
        finally:  # also when interrupted: no worker is left behind
            stop.set()
    wanted = set(chosen)
    return [row for row in read(file) if row.program in wanted]


def main() -> int:
    """Exit 1 if a program has a fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__)
    parser.add_argument("--only", default=",".join(NAMES), help="corpora, separated by commas")
    parser.add_argument("--limit", type=int, help="programs of each corpus, a sample of it")
    parser.add_argument("--program", action="append", help="this program, by name; may be repeated")
    parser.add_argument("--seconds", type=float, help="for all together; what is left is run by the next call")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; several make the seconds longer")
    parser.add_argument("--out", type=Path, default=Path("out/robustness"), help="folder of the results")
    parser.add_argument("--fresh", action="store_true", help="forget the results that are there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started, rows = time.monotonic(), list[Row]()
    for name in options.only.split(","):
        if name not in NAMES:
            parser.error(f"there is no corpus {name}: known are {', '.join(NAMES)}")
        file = options.out / f"{name}.jsonl"
        if options.fresh:
            file.unlink(missing_ok=True)
        every = corpus(name).programs()
        unknown = [program for program in options.program or () if program not in every]
        if unknown:
            parser.error(f"the corpus {name} has no program {unknown[0]!r}")
        chosen = options.program or every[: options.limit]
        # Corpora share the time by their number, so that a part of each is run.
        after = len(NAMES) - NAMES.index(name)
        left = None if options.seconds is None else max(options.seconds - (time.monotonic() - started), 0) / after
        rows += run_corpus(name, chosen, file, left, options.jobs)
    print(table(rows))
    return 1 if any(row.fault for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
