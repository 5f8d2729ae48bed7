"""A corpus of programs that go wrong in every way a process can."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from benchmarks.robustness.outcome import Row

SERVED = 3


def programs() -> list[str]:
    return ["fine", "hangs", "aborts", "eats", "leaves", "oracle aborts", "again"]


def run(program: str, say: Callable[[str], None]) -> Row:
    """Do what the name says."""
    say("oracle" if program.startswith("oracle") else "optimize")
    match program.rpartition(" ")[2]:
        case "hangs":
            time.sleep(60)
        case "aborts":
            os.abort()
        case "eats":
            held = b"x" * 2**29
            time.sleep(60)
            del held
        case "leaves":
            print("out of luck: an Error", file=sys.stderr, flush=True)
            os._exit(7)
    return Row("awkward", program, "right", seconds={"optimize": 0.5})
