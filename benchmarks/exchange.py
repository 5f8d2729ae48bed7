"""Time of the exchange between rules and polynomials on many sizes.

`python benchmarks/exchange.py [SIZES]` builds SIZES sizes (default 4,000) of a network whose layers split,
merge, pad and concatenate axes, states the equalities that its ops imply, and prints the time of each part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from egshape.decide.reason import Given
from egshape.dims import Dim, const, floordiv, minimum, symbol
from egshape.egraph.budget import Budget
from egshape.egraph.engine import POOL
from egshape.egraph.exchange import ExchangeState, shape_phases, shape_program

Equation = tuple[Dim, Dim]


def layers(count: int) -> Iterator[tuple[list[Dim], list[Equation], Dim]]:
    """Per layer: sizes of its values, the equations of its ops, and a size that 8 divides."""
    batch = symbol("batch")
    before = symbol("seq")
    for i in range(count):
        here, heads, width = symbol(f"s{i}"), symbol(f"h{i}"), symbol(f"w{i}")
        merged, split, total = symbol(f"m{i}"), symbol(f"p{i}"), symbol(f"t{i}")
        window = minimum(before, const(64)) if i % 4 == 0 else before
        sizes = [
            batch * here,
            batch * here * heads,
            merged,
            total + 1,
            8 * floordiv(width, 8),
            floordiv(width, 4),
            here + window,
            split * heads,
            floordiv(merged + heads, heads),
            2 * here + 3 * before - 1,
        ]
        equations = [
            (here, before),
            (merged, batch * here * heads),
            (split * heads, merged),
            (total, here + before),
        ]
        yield sizes, equations, width
        before = here


def measure(sizes: int, logged: bool) -> None:
    """Run once and print."""
    rules = shape_program(provenance=logged)
    with POOL.lend(rules.pieces):
        pass
    dims: list[Dim] = []
    with POOL.lend(rules.pieces) as engine:
        parts = list(layers(sizes // 10))
        began = time.perf_counter()
        state = ExchangeState(engine, rules, shape_phases(rules))
        for some, equations, width in parts:
            dims += some
            state.add_dims(some)
            for equation in equations:
                state.add_equation(*equation, Given())
            state.add_divisor(const(8), width, Given())
        state.load()
        loaded = time.perf_counter()
        state.run(Budget(seconds=30, steps=1000))
        done = time.perf_counter()
        forms = {state.normal_form(dim) for dim in dims}
        formed = time.perf_counter()
    rule_seconds = state.seconds
    print(
        f"{'logged' if logged else 'plain':7} {len(dims)} sizes, {len(state.dims)} polynomials, "
        f"{len(state.equalities)} equalities, {len(forms)} forms, {state.rounds} rounds, {state.status}: "
        f"load {loaded - began:.3f} s, rules {rule_seconds:.3f} s, "
        f"exchange {done - loaded - rule_seconds:.3f} s, forms {formed - done:.3f} s"
    )


def main() -> None:
    """Entry point."""
    sizes = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    for logged in (False, True):
        measure(sizes, logged)


if __name__ == "__main__":
    main()
