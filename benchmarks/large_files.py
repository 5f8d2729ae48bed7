"""Files of large models: the decoder of ``benchmarks.large`` written and read, as StableHLO text and as ONNX.

    python -m benchmarks.large_files            the table, and whether reading grows as the file does
    python -m benchmarks.large_files --quick    10,000 ops only

Each row is one ``save`` and one ``load``, each in a fresh process; memory is that of the one that loads, at its
largest. What a file holds is counted as its format does: statements, nodes."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.large import GROWTH, SIZES
from benchmarks.tools.fresh import measured

FORMATS = ("mlir", "onnx")
MODULE = "benchmarks.large_files"


def saved(n: int, path: Path) -> dict[str, Any]:
    """Build a decoder and write it."""
    import egshape
    from benchmarks.decoder import decoder

    graph = decoder(n)
    began = time.perf_counter()
    egshape.save(graph, path)
    return {"ops": len(graph.ops), "save": time.perf_counter() - began}


def loaded(path: Path) -> dict[str, Any]:
    """Read it, after a small one, so that what is imported does not count."""
    import egshape
    from benchmarks.decoder import decoder
    from egshape.frontends.registry import form_of, of_form

    small = path.with_name(f"small{path.suffix}")
    egshape.save(decoder(200, layers=1), small)
    egshape.load(small)
    began = time.perf_counter()
    egshape.load(path)
    seconds = time.perf_counter() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _, kinds = of_form(form_of(path)).kinds(path)
    return {"load": seconds, "mb": megabytes, "parts": sum(kinds.values()), "bytes": path.stat().st_size}


def table(sizes: Sequence[int]) -> bool:
    """Print a row a size and format; True if reading grows no more than is allowed."""
    print(f"{'format':>7} {'ops':>8} {'in file':>8} {'MB file':>8} {'save s':>7} {'load s':>7} {'MB peak':>8}")
    good = True
    for form in FORMATS:
        seconds = []
        for n in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / f"decoder.{form}")
                row = measured(MODULE, n, path) | measured(MODULE, path)
            seconds.append(row["load"])
            print(
                f"{form:>7} {row['ops']:>8} {row['parts']:>8} {row['bytes'] / 1e6:>8.1f} {row['save']:>7.2f} "
                f"{row['load']:>7.2f} {row['mb']:>8.0f}",
                flush=True,
            )
        if len(sizes) > 1:
            ratio = seconds[-1] / seconds[0]
            good = good and ratio <= GROWTH
            print(f"{form}: growth from {sizes[0]:,} to {sizes[-1]:,} ops: {ratio:.1f}x (at most {GROWTH:g}x)")
    return good


def main() -> int:
    """Exit 1 if reading grows more than is allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        *count, path = options.one
        print(json.dumps(saved(int(count[0]), Path(path)) if count else loaded(Path(path))))
        return 0
    return 0 if table(SIZES[:1] if options.quick else SIZES) else 1


if __name__ == "__main__":
    sys.exit(main())
