"""A process that runs programs of one corpus, one after the other, told their names on its standard input.

    python -m benchmarks.robustness.worker CORPUS

It answers in lines of JSON: ["stage", NAME] as a stage of the program begins, ["row", ROW] at its end."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import warnings
from dataclasses import asdict, replace

import psutil

from benchmarks.robustness.corpora import corpus


def main() -> None:
    """Serve until standard input ends."""
    # Libraries print where they like; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=False)
    warnings.simplefilter("ignore")
    made = corpus(sys.argv[1])

    def say(what: str, held: object) -> None:
        answers.write(json.dumps([what, held]) + "\n")

    for line in sys.stdin:
        row = made.run(line.rstrip("\n"), lambda stage: say("stage", stage))
        say("row", asdict(replace(row, peak_mb=round(psutil.Process().memory_info().rss / 2**20, 1))))


if __name__ == "__main__":
    main()
