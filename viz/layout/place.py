"""Where the nodes of a row stand: each as near to what it is joined with as its neighbours let it.

A row for itself is a least-squares problem with an order, which pooling adjacent violators solves exactly (Ayer et al.
1955); the rows are gone through down and up in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from egshape.viz.layout.order import Joined

_ROUNDS = 8
_STRAIGHT, _NEXT, _TURN = 6.0, 2.0, 0.3
"""How much two places hold together that an arrow goes through, two boxes, and one of each: arrows over many rows are
straight, and turn where they meet a box. A box that is joined with boxes goes by these alone."""
_AROUND = 30
"""Rows above and below over which a drift is measured."""
_YIELDING = 0.02
"""How much a place of an arrow weighs against a box where both want to stand: were it as heavy, each arrow beside a row
of boxes would push that row a little to its other side, and a long graph would drift sideways."""


def placed(
    grid: Sequence[Sequence[int]], joined: Joined, widths: Sequence[float], space: float, boxes: int
) -> list[float]:
    """The middle of each node; the left of the leftmost is 0. Nodes from ``boxes`` on are places of arrows."""
    x = [0.0] * len(widths)
    gaps = [_gaps(row, widths, space, boxes) for row in grid]
    widest = max((offsets[-1] for offsets in gaps if offsets), default=0.0)
    for row, offsets in zip(grid, gaps, strict=True):
        for node, offset in zip(row, offsets, strict=True):
            x[node] = offset + (widest - offsets[-1]) / 2

    def force(one: int, two: int) -> float:
        return _NEXT if max(one, two) < boxes else _STRAIGHT if min(one, two) >= boxes else _TURN

    def towards(near: Callable[[int], Sequence[int]], rows: Sequence[int]) -> None:
        for number in rows:
            row = grid[number]
            wanted, weights = [], []
            for node in row:
                others = near(node)
                if node < boxes and any(each < boxes for each in others):
                    others = [each for each in others if each < boxes]
                held = [force(node, each) for each in others]
                weight = sum(held)
                mean = sum(pull * x[each] for pull, each in zip(held, others, strict=True))
                wanted.append(mean / weight if others else x[node])
                weights.append((weight or 0.05) * (1 if node < boxes else _YIELDING))
            for node, found in zip(row, _spread(wanted, weights, gaps[number]), strict=True):
                x[node] = found

    down, up = range(len(grid)), range(len(grid) - 1, -1, -1)
    for _ in range(_ROUNDS):
        towards(lambda node: joined.above[node], down)
        towards(lambda node: joined.below[node], up)
    towards(lambda node: [*joined.above[node], *joined.below[node]], down)
    _upright(grid, x, boxes)
    left = min((x[node] - widths[node] / 2 for row in grid for node in row), default=0.0)
    return [each - left for each in x]


def _upright(grid: Sequence[Sequence[int]], x: list[float], boxes: int) -> None:
    """Move each row by the mean of the middles of the rows around it, so that a long graph stands upright: what is left
    of a drift is seen over many rows only, and taken out as slowly."""
    middles: list[float] = []
    for row in grid:
        own = [x[node] for node in row if node < boxes]
        middles.append((min(own) + max(own)) / 2 if own else middles[-1] if middles else 0.0)
    sums = list(accumulate(middles, initial=0.0))
    for number, row in enumerate(grid):
        first, end = max(0, number - _AROUND), min(len(grid), number + _AROUND + 1)
        mean = (sums[end] - sums[first]) / (end - first)
        for node in row:
            x[node] -= mean


def _gaps(row: Sequence[int], widths: Sequence[float], space: float, boxes: int) -> list[float]:
    """How far the middle of each node is from that of the first at least."""
    out: list[float] = []
    for k, node in enumerate(row):
        if not k:
            out.append(0.0)
            continue
        before = row[k - 1]
        between = space if node < boxes or before < boxes else space / 2
        out.append(out[-1] + widths[before] / 2 + between + widths[node] / 2)
    return out


def _spread(wanted: Sequence[float], weights: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """The places nearest to those that are wanted at which each stands so far from the one before."""
    blocks: list[tuple[float, float, int]] = []  # the mean of what is wanted, its weight, how many nodes
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, many = blocks.pop()
            mean = (mean * total + before * heavy) / (total + heavy)
            total, count = total + heavy, count + many
        blocks.append((mean, total, count))
    out: list[float] = []
    for mean, _, count in blocks:
        out.extend(mean + offset for offset in offsets[len(out) : len(out) + count])
    return out
