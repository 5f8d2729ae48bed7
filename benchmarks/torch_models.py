"""Models of the package ``transformers`` through egshape, compiled for this processor, against eager.

python -m benchmarks.torch_models               all; --seconds 600 for ten minutes, the rest with the next call
python -m benchmarks.torch_models --only GPT2

They are small, from configurations, with random weights (``benchmarks/robustness/hub_corpus.py``). Needs
``pip install transformers`` beside the extra torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.robustness.__main__ import run_corpus
from benchmarks.robustness.hub_corpus import programs
from benchmarks.robustness.outcome import Row
from egshape.hints import install

NAME = "benchmarks.robustness.hub_corpus"


def table(rows: Iterable[Row]) -> str:
    """A model a line."""
    heading = ("model", "ended", "sizes equal", "refused by both", "ops before, after", "in torch", "export, s",
               "optimize, s", "compile, s")  # fmt: skip
    lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
    for row in sorted(rows, key=lambda row: row.program):
        seconds = [f"{row.seconds.get(stage, 0):.1f}" for stage in ("export", "optimize", "save")]
        ops = f"{row.ops[0]}, {row.ops[1]}"
        cells = (row.program, row.outcome, row.points, row.rejected, ops, len(row.opaque), *seconds)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    said = [f"- {row.program}: {row.detail}" for row in rows if row.detail]
    return "\n".join([*lines, "", *said])


def main() -> int:
    """Exit 1 if a model is wrong, or shows a fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_models", description=__doc__)
    parser.add_argument("--only", action="append", help="this model, by name; may be repeated")
    parser.add_argument("--seconds", type=float, help="for all together; what is left is run by the next call")
    parser.add_argument("--out", type=Path, default=Path("out/torch_models.jsonl"), help="file of the results")
    options = parser.parse_args()
    if not programs():
        parser.error(f"the models need torch and transformers: {install('torch', 'transformers')}")
    chosen = options.only or programs()
    rows = run_corpus(NAME, chosen, options.out, options.seconds, 1)
    print(table(rows))
    return 1 if any(row.fault for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
