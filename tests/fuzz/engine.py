"""Optimize random programs and compare them with what they were."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from egshape.api import Limits, Result, optimize
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from egshape.ir.verify import verify
from tests.fuzz.differential import compare, wanted
from tests.fuzz.maker import Maker, arrays_at, bearable, variations
from tests.fuzz.pieces import steps

VARIATIONS = 4
LIMITS = Limits(seconds=5, nodes=200_000)


@dataclass
class Tally:
    """What a run has seen: firings by rule, comparisons by outcome, differences."""

    fired: Counter[str] = field(default_factory=Counter)
    status: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def program(seed: int, rules: Sequence[str] = (), most: int = 6) -> tuple[Maker, Graph]:
    """The random program of a seed; ``rules`` restricts the left sides that it is made of."""
    maker = Maker(random.Random(seed))
    steps(maker, maker.chooser.randint(1, most), rules=rules)
    graph = maker.graph()
    verify(graph)
    return maker, graph


def optimized(graph: Graph) -> Result | None:
    """The result, None for a program that is refused since a check of it is false at every size."""
    try:
        return optimize(graph, validate=False, limits=LIMITS)
    except EgshapeError as error:
        if error.code in ("violated", "contradiction"):
            return None
        raise


def differences(maker: Maker, graph: Graph, seed: int, tally: Tally) -> str:
    """The first difference at the witness and at other sizes, "" if there is none."""
    result = optimized(graph)
    if result is not None:
        tally.fired.update({row.rule: row.count for row in result.report.rewrites})
        tally.status[result.report.status] += 1
        if result.report.status == "fallback":
            return f"fallback: {'; '.join(result.report.notes)}\n{graph}"
    for sizes, numbers in variations(maker, seed, VARIATIONS):
        if not bearable(graph, sizes):
            continue
        arrays = arrays_at(graph, sizes, numbers, seed)
        if result is None:
            if wanted(graph, arrays).error is None:
                return f"refused, but it runs at {sizes}\n{graph}"
            continue
        found = compare(graph, result.graph, arrays)
        tally.compared["different" if found else "equal"] += 1
        if found:
            return f"seed {seed}, sizes {sizes} {numbers}\n{found}"
    return ""


def try_seed(seed: int, tally: Tally, rules: Sequence[str] = (), most: int = 6) -> str:
    """One random program; anything but equality is described and tallied."""
    maker, graph = program(seed, rules, most)
    try:
        found = differences(maker, graph, seed, tally)
    except Exception as error:
        found = f"seed {seed}: {type(error).__name__}: {error}\n{graph}"
    if found:
        tally.differences.append(found)
    return found
