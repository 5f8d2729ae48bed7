"""How optimize scales: synthetic models of 1,000, 3,000 and 10,000 ops and a chain, each in a fresh process.

python -m benchmarks.scale            the table, and whether each target is met
python -m benchmarks.scale --quick    the 1,000-op model only"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from dataclasses import dataclass

from benchmarks.tools.fresh import measured

ROUNDS = 3
MEMORY_MB = 700
GROWTH = 12
FRESH_SECONDS = 3.0


@dataclass(frozen=True)
class Case:
    """A model and the seconds that optimize may take on two cores."""

    kind: str
    n: int
    seconds: float


CASES = (
    Case("transformer", 1_000, 0.4),
    Case("transformer", 3_000, 1.0),
    Case("transformer", 10_000, 3.0),
    Case("chain", 10_000, 3.0),
)


def measure(kind: str, n: int, started: float) -> dict[str, object]:
    """Build and optimize ``ROUNDS`` models in this process. ``started`` is the time at which it was started."""
    from benchmarks import synth
    from egshape.api import Limits, optimize

    build = synth.transformer_like if kind == "transformer" else synth.chain
    left: list[str] = []
    seconds: list[float] = []
    before, after, planted, fresh = 0, 0, 0, 0.0
    status: set[str] = set()
    notes: set[str] = set()
    for seed in range(ROUNDS):
        graph = build(n, seed)
        begin = time.perf_counter()
        result = optimize(graph, validate=False, limits=Limits(seconds=60))
        seconds.append(time.perf_counter() - begin)
        fresh = fresh or time.time() - started
        left += synth.planted_left(result.graph)
        planted += len(synth.planted_left(graph))
        before, after = len(graph.ops), len(result.graph.ops)
        status.add(result.report.status)
        notes.update(result.report.notes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": statistics.median(seconds),
        "all": seconds,
        "mb": peak,
        "before": before,
        "after": after,
        "planted": planted,
        "left": left,
        "status": sorted(status),
        "fresh": fresh,
        "notes": sorted(notes),
    }


def table(cases: tuple[Case, ...]) -> bool:
    """Print a row a case; True if all targets are met."""
    print("model         ops in  ops out  seconds  target  MB peak  planted  left  fresh s  status")
    seconds, good = {}, True
    for case in cases:
        row = measured("benchmarks.scale", case.kind, case.n, time.time())
        seconds[case], left, megabytes, fresh = (row[each] for each in ("seconds", "left", "mb", "fresh"))
        met = seconds[case] <= case.seconds and megabytes <= MEMORY_MB and not left
        met = met and (case.n > 1_000 or fresh <= FRESH_SECONDS) and row["status"] == ["saturated"]
        good = good and met
        print(
            f"{case.kind:<12} {row['before']:>7} {row['after']:>8} {seconds[case]:>8.2f} {case.seconds:>7.1f} "
            f"{megabytes:>8.0f} {row['planted']:>8} {len(left):>5} {fresh:>8.2f}  {','.join(row['status'])}"
            f"{'' if met else '  MISSED'}"
        )
        for note in row["notes"]:
            print(f"    {note}")
        for each in sorted({text.split(" %")[0] for text in left}):
            print(f"    left: {each}, for example {next(text for text in left if text.startswith(each))}")
    small, large = CASES[0], CASES[2]
    if large in seconds:
        ratio = seconds[large] / seconds[small]
        good = good and ratio <= GROWTH
        missed = "" if ratio <= GROWTH else "  MISSED"
        print(f"growth from 1,000 to 10,000 ops: {ratio:.1f}x (at most {GROWTH}x){missed}")
    return good


def main() -> int:
    """Exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "STARTED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, n, started = options.one
        print(json.dumps(measure(kind, int(n), float(started))))
        return 0
    return 0 if table(CASES[:1] if options.quick else CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
