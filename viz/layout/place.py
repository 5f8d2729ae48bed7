"""Where the nodes of a row stand: each as near to what it is joined with as its neighbours let it.

A row for itself is a least-squares problem with an order, which pooling adjacent violators solves exactly (Ayer et al.
1955); the rows are gone through down and up in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.viz.layout.order import Joined

_ROUNDS = 8
_STRAIGHT, _NEXT, _TURN = 6.0, 2.0, 0.3
"""How much two places hold together that an arrow goes through, two boxes, and one of each: arrows over many rows are
straight, and turn where they meet a box rather than pull it aside."""


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
                held = [force(node, each) for each in others]
                weight = sum(held)
                wanted.append(
                    sum(pull * x[each] for pull, each in zip(held, others, strict=True)) / weight if others else x[node]
                )
                weights.append(weight or 0.05)
            for node, found in zip(row, _spread(wanted, weights, gaps[number]), strict=True):
                x[node] = found

    down, up = range(len(grid)), range(len(grid) - 1, -1, -1)
    for _ in range(_ROUNDS):
        towards(lambda node: joined.above[node], down)
        towards(lambda node: joined.below[node], up)
    towards(lambda node: [*joined.above[node], *joined.below[node]], down)
    left = min((x[node] - widths[node] / 2 for row in grid for node in row), default=0.0)
    return [each - left for each in x]


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
