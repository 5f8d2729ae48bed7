"""PyTorch's own samples of its ops (``op_db``) through egshape, compiled for this processor, against eager.

python -m benchmarks.torch_ops                   all; --seconds 600 for ten minutes, the rest with the next call
python -m benchmarks.torch_ops --only "add float32"

Programs are entries with a dtype (``benchmarks/robustness/torch_corpus.py``); the table counts samples: the first one
of each, or as many as EGSHAPE_SAMPLES says. torch's lists of samples need the package expecttest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.robustness.__main__ import run_corpus
from benchmarks.robustness.outcome import OUTCOMES, Row
from benchmarks.robustness.torch_corpus import counted, programs
from egshape.hints import install

NAME = "benchmarks.robustness.torch_corpus"
_SHOWN = 40


def table(rows: Iterable[Row]) -> str:
    """Samples by outcome for each kind of program, then what is not right, by reason."""
    kinds: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    for row in rows:
        opened = "open " if row.program.startswith("open ") else ""
        found = kinds.setdefault(opened + row.program.rsplit(" ", 1)[1], Counter())
        found.update(counted(row))
        if row.outcome not in ("right", "opaque"):
            said = row.detail.partition("; sample")[2].partition(": ")[2] or row.detail
            reasons[f"{row.outcome}: {said[:100]}"] += 1
    held = [each for each in OUTCOMES if any(found[each] for found in kinds.values())]
    lines = ["| samples | " + " | ".join(held) + " |", "|---" * (len(held) + 1) + "|"]
    lines += [f"| {kind} | " + " | ".join(str(found[each]) for each in held) + " |" for kind, found in kinds.items()]
    return "\n".join([*lines, "", *(f"- {count}: {text}" for text, count in reasons.most_common(_SHOWN))])


def main() -> int:
    """Exit 1 if a sample is wrong, or shows a fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_ops", description=__doc__)
    parser.add_argument("--only", action="append", help="this program, by name; may be repeated")
    parser.add_argument("--kind", default="", help="programs whose names have this in them, such as float32 or open")
    parser.add_argument("--limit", type=int, help="so many programs, a sample of them")
    parser.add_argument("--seconds", type=float, help="for all together; what is left is run by the next call")
    parser.add_argument("--out", type=Path, default=Path("out/torch_ops.jsonl"), help="file of the results")
    options = parser.parse_args()
    if not programs():
        parser.error(f"torch's samples need torch and expecttest: {install('torch', 'expecttest')}")
    chosen = options.only or [each for each in programs() if options.kind in each][: options.limit]
    rows = run_corpus(NAME, chosen, options.out, options.seconds, 1)
    print(table(rows))
    return 1 if any(row.fault for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
