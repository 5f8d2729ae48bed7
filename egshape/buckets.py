"""Buckets: sizes to which inputs are padded, so that few sizes occur; the cheapest for a distribution of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from egshape.egraph.cost import CostModel, likely_sizes
from egshape.errors import InvalidInput
from egshape.facts import Facts
from egshape.ir.graph import Graph
from egshape.observed import Observed

MOST_POINTS = 256
"""Sizes of a range that are looked at where nothing is known of how often each occurs."""


@dataclass(frozen=True)
class Bucket:
    """Sizes from ``first`` to ``last`` are padded to ``last``; ``share`` of the calls, 0 to 1, fall into it."""

    first: int
    last: int
    share: float


@dataclass(frozen=True)
class Buckets:
    """Buckets of a symbol; ``padding``: the cost of a mean call beyond that of one without padding (0.25: a quarter
    more), ``single``: the same with one bucket."""

    symbol: str
    rows: tuple[Bucket, ...]
    padding: float
    single: float


def cheapest(weights: Mapping[int, float], cost: Callable[[int], float], most: int) -> tuple[int, ...]:
    """At most ``most`` ends of buckets, the least cost over sizes of these weights where each pays for the next end.

    Exact for a cost that does not fall: an end between two sizes could then be lowered to a size that occurs, so ends
    are among the sizes. Of equally cheap ones that with the fewest ends. Raises InvalidInput without sizes or ends."""
    if most < 1 or not weights:
        raise InvalidInput("buckets want at least one size and one bucket")
    sizes = sorted(weights)
    until = [0.0]
    for size in sizes:
        until.append(until[-1] + weights[size])
    costs = [cost(size) for size in sizes]
    count = len(sizes)
    # best[j]: the least cost of the first j sizes, and where their last bucket begins, with as many buckets as rounds
    best = [0.0] + [float("inf")] * count
    begins: list[list[int]] = []
    totals: list[float] = []
    for _ in range(min(most, count)):
        new, begin = [float("inf")] * (count + 1), [0] * (count + 1)
        for j in range(1, count + 1):
            new[j], begin[j] = min((best[i] + (until[j] - until[i]) * costs[j - 1], i) for i in range(j))
        best = new
        begins.append(begin)
        totals.append(best[count])
    ends, at = [], count
    for level in range(totals.index(min(totals)), -1, -1):
        ends.append(sizes[at - 1])
        at = begins[level][at]
    return tuple(reversed(ends))


def buckets(graph: Graph, facts: Facts, most: int = 4, seen: Observed | None = None) -> tuple[Buckets, ...]:
    """Buckets of each size of the inputs of which sizes are known: seen, likely (the same weight each), or in a range
    with an end (even). What a call costs is bytes moved by the cost model, other sizes at their likely values."""
    names = [each.name for each in graph.body.symbols if each.value in graph.inputs]
    counts = seen.counts if seen is not None else {}
    found = []
    for name in names:
        weights = {size: float(n) for size, n in counts[name].items()} if name in counts else _expected(facts, name)
        if weights:
            found.append(_bucketed(name, weights, _cost(graph, facts, name), most))
    return tuple(found)


def _expected(facts: Facts, name: str) -> dict[int, float]:
    known = facts.symbol(name)
    if known.likely:
        return dict.fromkeys(known.likely, 1.0)
    low, high = known.ranges[0][0] or 0, known.ranges[-1][1]
    if high is None:
        return {}
    step = max((high - low) // MOST_POINTS, 1)
    return dict.fromkeys((*range(low, high, step), high), 1.0)


def _bucketed(name: str, weights: Mapping[int, float], cost: Callable[[int], float], most: int) -> Buckets:
    ends = cheapest(weights, cost, most)
    total, exact = sum(weights.values()), sum(weight * cost(size) for size, weight in weights.items())
    rows, first, spent = [], min(weights), 0.0
    for end in ends:
        inside = sum(weight for size, weight in weights.items() if first <= size <= end)
        rows.append(Bucket(first, end, inside / total))
        spent, first = spent + inside * cost(end), end + 1
    return Buckets(name, tuple(rows), _beyond(spent, exact), _beyond(total * cost(max(weights)), exact))


def _beyond(cost: float, exact: float) -> float:
    return cost / exact - 1 if exact else 0.0


def _cost(graph: Graph, facts: Facts, name: str) -> Callable[[int], float]:
    """The cost of a call by the size of a symbol."""
    likely = likely_sizes(facts, sorted(each.name for each in graph.body.symbols))
    known: dict[int, float] = {}

    def cost(size: int) -> float:
        if size not in known:
            model = CostModel({**likely, name: size})
            known[size] = sum(
                model.bytes(value.type.dtype, value.type.shape or ())
                for value in (*graph.inputs, *(each for op in graph.body.walk() for each in op.results))
            )
        return known[size]

    return cost
