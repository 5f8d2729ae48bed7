"""Panels of right operands: full ones, and a last one that takes a rest of one vector with it."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.plan.cpu.packing import Right, joined, packs
from egshape.plan.cpu.pages import LINE
from egshape.plan.ir.loops import Buffer, Matrix
from egshape.plan.ir.packs import pack_count


@pytest.mark.parametrize(
    ("columns", "count"), [(0, 0), (1, 1), (16, 1), (48, 1), (49, 1), (64, 1), (65, 2), (112, 2), (113, 3), (256, 5)]
)
def test_a_rest_of_one_vector_is_part_of_the_panel_before(columns, count):
    assert pack_count(columns, "f32") == count


@pytest.mark.parametrize("columns", [0, 5, 48, 60, 64, 65, 112, 150, 256])
def test_panels_hold_each_column_once(columns):
    k, n = const(3), const(columns)
    whole = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
    data = packs(whole)
    buffer = Buffer("w", "f32", const(data.size), "const", data)
    right = Right("f32", k, n, symbol("m"), Matrix(buffer, const(0), n, const(1)), buffer, const(0))
    assert right.count.const is not None
    seen = []
    for number in range(right.count.const):
        some = right.some(const(number)).const
        assert some is not None
        width = -(-some // 16) * 16
        seen.append(data[3 * 48 * number : 3 * (48 * number + width)].reshape(3, width)[:, :some])
    np.testing.assert_array_equal(np.concatenate([np.zeros((3, 0), np.float32), *seen], 1), whole)
    assert sum(each.shape[1] for each in seen) == columns


@pytest.mark.parametrize("count", [1, 2, 3])
def test_panels_begin_where_a_line_of_the_cache_does(count):
    parts = [np.full((5, 7 + k), k, np.float32) for k in range(count)]
    data = joined([packs(each) for each in parts], np.dtype(np.float32))
    assert data.ctypes.data % LINE == 0
    np.testing.assert_array_equal(data, np.concatenate([packs(each) for each in parts]))
