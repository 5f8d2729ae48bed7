"""The long fuzz: random programs until every rule over tensors has fired so often, then every mutant.

python -m tests.fuzz.run --seconds 600 --until-all 100"""

from __future__ import annotations

import argparse
import sys
import time

from egshape.egraph import program
from tests.fuzz.engine import Tally, try_seed
from tests.fuzz.mutation import caught_apart, mutants
from tests.fuzz.patterns import PATTERNS


def rules() -> list[str]:
    """The rewrites over tensors; types are stated, not rewritten."""
    return [
        rule.name
        for rule in program.program().rules.rules
        if rule.ruleset in program.TENSOR_RULESETS and rule.ruleset != "tensor.types"
    ]


def fuzz(seconds: float, until: int, seed: int, tally: Tally, stop_at: int = 5) -> list[str]:
    """Run until each rule has fired ``until`` times or the time is up; the rules that have not."""
    end = time.monotonic() + seconds
    names = rules()
    left = names
    while time.monotonic() < end and len(tally.differences) < stop_at:
        left = [name for name in names if tally.fired[name] < until]
        if not left:
            break
        wanted = tuple(name for name in left if name in PATTERNS) if seed % 2 else ()
        try_seed(seed, tally, wanted, most=8)
        seed += 1
    return [name for name in names if tally.fired[name] < until]


def main() -> int:
    """Exit 1 for a difference, for a rule that has not fired often enough, or for a mutant that lived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--until-all", type=int, default=100, metavar="TIMES")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=40, metavar="PROGRAMS", help="programs a mutant; 0: none")
    options = parser.parse_args()
    tally = Tally()
    missing = fuzz(options.seconds, options.until_all, options.seed, tally)
    for name in rules():
        print(f"{tally.fired[name]:>7}  {name}")
    print(f"compared {dict(tally.compared)}, status {dict(tally.status)}, {len(tally.differences)} differences")
    for each in tally.differences:
        print(f"\n== {each}")
    for name in missing:
        print(f"fired less than {options.until_all} times: {name}")
    lived = []
    for number, mutant in enumerate(mutants() if options.mutants and not tally.differences else ()):
        found = caught_apart(number, range(options.seed, options.seed + options.mutants))
        verdict = "LIVED " if not found else "no rule" if found.startswith("load") else "caught"
        print(f"{verdict:<8} {mutant}", flush=True)
        if not found:
            lived.append(mutant)
    return 1 if tally.differences or missing or lived else 0


if __name__ == "__main__":
    sys.exit(main())
