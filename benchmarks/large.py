"""Large models: an 80-layer decoder with caches, unrolled over tokens, of 10,000, 30,000 and 100,000 ops.

    python -m benchmarks.large            the table, and whether each target is met
    python -m benchmarks.large --quick    10,000 ops only

Each size is optimized as it is, and with repeated layers shared (`share_layers=True`); the targets are for the first.
Each row is one `optimize` in a fresh process, validation included; memory is that of the process and of its engine
together, at its largest."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from benchmarks.tools.fresh import measured

if TYPE_CHECKING:
    from egshape.report import StageRow

SIZES = (10_000, 30_000, 100_000)
SECONDS, MEMORY_MB, GROWTH = 20.0, 2048.0, 12.0
"""What 100,000 ops may take, and how many times what 10,000 do."""


def measure(n: int, shared: bool) -> dict[str, object]:
    """Build a decoder and optimize it in this process, with or without repeated layers shared."""
    import psutil

    import egshape
    from benchmarks.decoder import decoder
    from benchmarks.limits import Peak

    graph = decoder(n)
    before = psutil.Process().memory_info().rss / 2**20
    limits = egshape.Limits(seconds=120)
    with Peak() as peak:
        began = time.perf_counter()
        result = egshape.optimize(graph, limits=limits, share_layers=shared)
        seconds = time.perf_counter() - began
    return {
        "before": len(graph.ops),
        "after": len(result.graph.ops),
        "seconds": seconds,
        "mb": before + peak.grown,
        "status": result.report.status,
        "stages": _stages(result.report.stages),
    }


def _stages(rows: Iterable[StageRow]) -> dict[str, float]:
    """Seconds by stage; with layers shared each runs more than once."""
    total: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        total[row.name] += row.seconds
    return {name: round(spent, 2) for name, spent in total.items()}


def table(sizes: tuple[int, ...]) -> bool:
    """Print two rows a size, with repeated layers shared and without; True if the targets are met."""
    print(f"{'ops in':>8} {'ops out':>8} {'layers':>8} {'seconds':>8} {'MB peak':>8}  status     stages")
    seconds: dict[int, float] = {}
    good = True
    for n, shared in ((n, shared) for n in sizes for shared in (False, True)):
        row = measured("benchmarks.large", n, int(shared))
        spent, megabytes = row["seconds"], row["mb"]
        met = shared or (spent <= SECONDS and megabytes <= MEMORY_MB and row["status"] == "saturated")
        good = good and met
        if not shared:
            seconds[n] = spent
        stages = ", ".join(f"{name} {spent}" for name, spent in row["stages"].items())
        how = "shared" if shared else "apart"
        print(
            f"{row['before']:>8} {row['after']:>8} {how:>8} {spent:>8.2f} {megabytes:>8.0f}  "
            f"{row['status']!s:<10} {stages}{'' if met else '  MISSED'}",
            flush=True,
        )
    if len(sizes) > 1:
        ratio = seconds[sizes[-1]] / seconds[sizes[0]]
        good = good and ratio <= GROWTH
        print(f"growth from {sizes[0]:,} to {sizes[-1]:,} ops: {ratio:.1f}x (at most {GROWTH:g}x)")
    return good


def main() -> int:
    """Exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("N", "SHARED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(int(options.one[0]), options.one[1] == "1")))
        return 0
    return 0 if table(SIZES[:1] if options.quick else SIZES) else 1


if __name__ == "__main__":
    sys.exit(main())
