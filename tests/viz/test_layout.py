"""The layout: boxes in rows, in an order, at places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from egshape.viz.layout.layered import SPACE, Layout, layered
from egshape.viz.layout.order import crossings, ordered
from egshape.viz.layout.rows import WIDEST, Band, rows_of

BOX = (80.0, 40.0)


class Joined:
    """Rows that are joined by arrows."""

    def __init__(self, count: int, arrows: Sequence[tuple[int, int]]) -> None:
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        for tail, head in arrows:
            self.above[head].append(tail)
            self.below[tail].append(head)


def drawn(count: int, arrows: Sequence[tuple[int, int]], items: Sequence[int | Band] | None = None) -> Layout:
    return layered([BOX] * count, arrows, range(count) if items is None else items)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_and_one_box(count: int) -> None:
    found = drawn(count, [])
    assert (len(found.x), found.width) == (count, BOX[0] * count)


def test_a_chain_stands_upright() -> None:
    found = drawn(5, list(pairwise(range(5))))
    assert found.row == (0, 1, 2, 3, 4)
    assert len(set(found.x)) == 1


def test_two_arms_stand_side_by_side_below_the_middle() -> None:
    found = drawn(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert found.row == (0, 1, 1, 2)
    assert found.x[0] == found.x[3] == pytest.approx((found.x[1] + found.x[2]) / 2)


@pytest.mark.parametrize("seed", range(6))
def test_boxes_of_a_row_do_not_overlap_and_arrows_go_down(seed: int) -> None:
    draw = random.Random(seed)
    count = 60
    arrows = sorted({(draw.randrange(max(0, head - 12), head), head) for head in range(1, count) for _ in range(2)})
    sizes = [(draw.uniform(40, 200), 40.0) for _ in range(count)]
    found = layered(sizes, arrows, range(count))
    assert all(found.row[tail] < found.row[head] for tail, head in arrows)
    rows: dict[int, list[int]] = {}
    for box in range(count):
        rows.setdefault(found.row[box], []).append(box)
    for row in rows.values():
        for one, two in pairwise(sorted(row, key=lambda box: found.x[box])):
            between = found.x[two] - sizes[two][0] / 2 - found.x[one] - sizes[one][0] / 2
            assert between >= SPACE - 0.2, "two boxes overlap"
    assert found == layered(sizes, arrows, range(count)), "another layout for the same"


def test_layers_with_residuals_do_not_drift() -> None:
    """Each layer is a trunk of six boxes with an arrow past it, always on the same side."""
    arrows = [(box, box + 1) for box in range(600)] + [(box, box + 6) for box in range(0, 595, 6)]
    found = drawn(601, sorted(arrows))
    assert max(found.x) - min(found.x) < 4 * BOX[0]


def test_bands_have_rows_of_their_own() -> None:
    found = drawn(6, [(0, 1), (0, 2), (2, 3)], [0, Band("a", "layer", (1,)), Band("b", "layer", (2, 3)), 4, 5])
    one, two = found.frames
    assert (one.first, one.last, two.first, two.last) == (1, 1, 2, 3)
    assert [box for box in range(6) if one.first <= found.row[box] <= one.last] == [1]


def test_a_wide_row_goes_on_in_the_next() -> None:
    count = int(2 * WIDEST / BOX[0])
    rows = rows_of([BOX[0]] * count, [], range(count))
    assert len(rows.boxes) == 2 and sum(map(len, rows.boxes)) == count


def test_crossings_are_counted_and_taken_out() -> None:
    joined = Joined(4, [(0, 3), (1, 2)])
    place = [0, 1, 0, 1]
    assert crossings([[0, 1], [2, 3]], joined, place) == 1
    better = ordered([[0, 1], [2, 3]], joined)
    for row in better:
        for k, node in enumerate(row):
            place[node] = k
    assert crossings(better, joined, place) == 0
