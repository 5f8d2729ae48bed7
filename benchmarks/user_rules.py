"""What a user's ruleset costs where it does not match: five rules on the synthetic 1,000-op model.

    python -m benchmarks.user_rules

Runs with and without the rules alternate in one process; printed is the median ratio of the two runs on one model."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import synth
from egshape.api import Limits, optimize

ROUNDS = 21
MOST = 1.10
RULES = """; ruleset: idle
; about:   five rules that match nothing in the model
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    each removes an op

; reverse(negate(reverse(x, d)), d) = negate(x)
(rewrite (reverse (Unary "negate" (reverse x d)) d) (Unary "negate" x) :ruleset idle :name "idle/reverse-negated")
;; example   reverse(negate(reverse(x: [a], [0])), [0])  =>  negate(x)

; not(not(not(x))) = not(x)
(rewrite (Unary "not" (Unary "not" (Unary "not" x))) (Unary "not" x) :ruleset idle :name "idle/not-not-not")
;; example   not(not(not(x: i1[a])))  =>  not(x)

; reverse of a splat = the splat
(rewrite (reverse (broadcast_in_dim x (vec-empty) s) d) (broadcast_in_dim x (vec-empty) s)
  :ruleset idle :name "idle/reverse-splat")
;; example   reverse(broadcast_in_dim(x: [], [], [a]), [0])  =>  broadcast_in_dim(x, [], [a])

; (x xor y) xor y = x
(rewrite (Binary "xor" (Binary "xor" x y) y) x :ruleset idle :name "idle/xor-xor")
;; example   xor(xor(x: i32[a], y: i32[a]), y)  =>  x

; reverse(abs(x)) = abs(reverse(x))
(rewrite (reverse (Unary "abs" x) d) (Unary "abs" (reverse x d)) :ruleset idle :name "idle/reverse-below-abs")
;; example   reverse(abs(x: [a]), [0])  =>  abs(reverse(x, [0]))
"""


def measure(rounds: int = ROUNDS) -> tuple[float, float]:
    """Median seconds without the rules, and the median ratio."""
    graphs = [synth.transformer_like(1_000, seed) for seed in range(rounds + 1)]
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "idle.egg"
        path.write_text(RULES)
        for number, graph in enumerate(graphs):
            for with_rules in (False, True) if number % 2 else (True, False):
                began = time.process_time()
                rules = [str(path)] if with_rules else []
                optimize(graph, rules=rules, validate=False, limits=Limits(seconds=60))
                if number:  # the first one loads the engine
                    seconds[with_rules].append(time.process_time() - began)
    ratios = [two / one for one, two in zip(seconds[False], seconds[True], strict=True)]
    return statistics.median(seconds[False]), statistics.median(ratios)


def main() -> int:
    """Exit 1 if the rules cost more than a tenth."""
    without, ratio = measure()
    print(f"1,000 ops: {without:.3f} s, with five rules that do not match {ratio:.3f} times that")
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
