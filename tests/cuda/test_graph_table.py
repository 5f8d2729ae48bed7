"""The table of graphs that were captured, called natively: which keys get a row, and when."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from itertools import count, islice

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the table is native code")

from egshape.lower.llvm import native
from egshape.runtime.abi.device import GRAPH_HEAD, GRAPH_LIVE, GRAPH_ROW, GRAPH_SEEN, GRAPH_WAYS

ROWS = 8


@pytest.fixture(scope="module")
def search() -> Callable[[np.ndarray, int, int], int]:
    address = native.library_symbols()["egs_graph_row"]
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)

    def row(table: np.ndarray, key: int, free: int) -> int:
        return call(table.ctypes.data, np.array([key], np.int64).ctypes.data, free) or 0

    return row


def _table() -> np.ndarray:
    table = np.zeros(GRAPH_HEAD + ROWS * (len(GRAPH_ROW) + 1) + GRAPH_SEEN, np.int64)
    table[:GRAPH_HEAD] = ROWS, 0, 1
    return table


def _hash(key: int) -> int:
    mixed = ((1 ^ key) * 11400714819323198485) % 2**64
    return mixed ^ (mixed >> 29)


def _of_one_set() -> Iterator[int]:
    """Keys whose hashes are sought in the same places."""
    return (key for key in count(2) if _hash(key) & (GRAPH_SEEN - GRAPH_WAYS) == _hash(2) & (GRAPH_SEEN - GRAPH_WAYS))


Freed = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def test_keys_of_one_set_in_turn_get_a_row_the_second_time(search: Callable[[np.ndarray, int, int], int]) -> None:
    table, keys = _table(), list(islice(_of_one_set(), GRAPH_WAYS))
    assert not any(search(table, key, 0) for key in keys)
    rows = [search(table, key, 0) for key in keys]
    assert all(rows) and len(set(rows)) == len(keys)
    assert [search(table, key, 0) for key in keys] == rows


def test_the_key_that_was_seen_first_is_forgotten_first(search: Callable[[np.ndarray, int, int], int]) -> None:
    table, (first, *others) = _table(), list(islice(_of_one_set(), GRAPH_WAYS + 1))
    for key in (first, *others):
        assert not search(table, key, 0)
    assert all(search(table, key, 0) for key in others)
    assert not search(table, first, 0)


def test_a_graph_that_is_used_no_more_gives_way(search: Callable[[np.ndarray, int, int], int]) -> None:
    freed: list[int] = []
    free = Freed(lambda graph: freed.append(graph or 0) or 0)
    address = ctypes.cast(free, ctypes.c_void_p).value or 0
    table = _table()
    for key in range(1, ROWS + 1):
        search(table, key, address)
        ctypes.c_int64.from_address(search(table, key, address)).value = 100 + key
    assert not any(search(table, key, address) for key in (50, 50))
    for _ in range(GRAPH_LIVE * ROWS):
        search(table, 2, address)
    assert not freed and search(table, 50, address) and freed == [101]
