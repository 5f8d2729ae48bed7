"""Many random questions compared with brute force over small sizes; exit 1 for one wrong answer.

python -m tests.prove.long --questions 50000"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from egshape.errors import EgshapeError
from egshape.prove import check_counterexample, prove
from tests.prove.families import FAMILIES, question, wrong_answer

_NAMES = ("a", "b", "c")
_KINDS = ("==", "==", "<=", "<", ">=", "!=")
_SHARE = 0.95


def expression(r: random.Random, depth: int) -> str:
    """Any size."""
    if depth == 0 or r.random() < 0.25:
        return r.choice([*_NAMES, *_NAMES, str(r.choice([0, 1, 2, 3, 4, 5, 8]))])
    one, two, number = expression(r, depth - 1), expression(r, depth - 1), str(r.choice([2, 3, 4]))
    return r.choice(
        [
            *(f"({one} {op} {two})" for op in "+-*"),
            *(f"(({one}) {op} ({r.choice([two, number])}))" for op in ("//", "%")),
            *(f"{name}({one}, {two})" for name in ("min", "max", "bcast")),
            f"cdiv({one}, {r.choice([two, number])})",
        ]
    )


def statement(r: random.Random, depth: int) -> str:
    """Any relation."""
    name = r.choice(_NAMES)
    if r.random() < 0.3:
        return r.choice(
            [
                f"{name} % {r.choice([2, 3, 4, 6])} == {r.randrange(3)}",
                f"{name} in {{{r.randrange(5)}, {r.randrange(9)}}}",
                f"{expression(r, 1)} in [{r.randrange(4)},{r.randrange(3, 9)}] or [10,14]",
            ]
        )
    return f"{expression(r, depth)} {r.choice(_KINDS)} {expression(r, depth)}"


def any_question(r: random.Random) -> tuple[list[str], str]:
    """Givens and a goal of which nothing is known beforehand."""
    given = [statement(r, r.choice([0, 1, 1, 2])) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
    return given, statement(r, r.choice([1, 2, 2]))


def fault(given: list[str], goal: str, want: str = "") -> tuple[str, str, float]:
    """(status, what is wrong with the answer or "", seconds)."""
    start = time.process_time()
    try:
        proof = prove(goal, given)
    except EgshapeError as error:
        return "raised", str(error), time.process_time() - start
    seconds = time.process_time() - start
    if proof.status == "refuted":
        point = proof.counterexample
        valid = point is not None and check_counterexample(goal, given, point)
        wrong = "" if valid and want in ("", "refuted") else f"counterexample {point}"
    elif want and proof.status not in (want, "unknown"):
        wrong = f"should be {want}"
    else:
        point = wrong_answer(proof.status, given, goal)
        wrong = "" if point is None else f"false at {point}"
    return proof.status, wrong, seconds


def main() -> int:
    """Half of the questions are random, half of the families'."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    r = random.Random(options.seed)
    tally: Counter[tuple[str, str]] = Counter()
    slowest = (0.0, "")
    wrongs = 0
    families = list(FAMILIES)
    for number in range(options.questions):
        if number % 2:
            made = question(families[number // 2 % len(families)], r)
            family, given, goal, want = made.family, [made.given] if made.given else [], made.goal, made.want
        else:
            family, want = "random", ""
            given, goal = any_question(r)
        status, wrong, seconds = fault(given, goal, want)
        tally[family, status] += 1
        slowest = max(slowest, (seconds, f"{given} |- {goal}"))
        if wrong:
            wrongs += 1
            print(f"WRONG {status}, {wrong}: {given} |- {goal}", flush=True)
    low = report(tally)
    print(f"{wrongs} wrong; slowest {slowest[0] * 1000:.0f} ms: {slowest[1]}")
    return 1 if wrongs or low else 0


def report(tally: Counter[tuple[str, str]]) -> list[str]:
    """Print the answers by family; the families with too few decided."""
    low: list[str] = []
    for family in dict.fromkeys(f for f, _ in tally):
        counts = {s: n for (f, s), n in tally.items() if f == family}
        decided = 1 - counts.get("unknown", 0) / sum(counts.values())
        print(f"{family:<14} {decided:7.1%} decided  {counts}")
        if family != "random" and decided < _SHARE:
            low.append(family)
    return low


if __name__ == "__main__":
    sys.exit(main())
