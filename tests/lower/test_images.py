"""Programs on images that are run on some of them after the others (``runtime/native/images.c``): the values of each
image alone, the same bits with any number of threads."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.frontends.builder import Network
from egshape.ir.graph import Graph
from egshape.runtime import CompiledFunction
from egshape.runtime.abi.call import WORDS

RNG = np.random.default_rng(3)
SIDE = 96
"""Of images whose values between layers fill a part of the cache by three of them or less."""


def network() -> Graph:
    """Images and a mask for all of them to two results of an image each."""
    net = Network()
    x, mask = net.input("x", ["n", 3, "h", "w"]), net.input("mask", [1, 24, 1, 1])
    y = net.max_pool(net.relu(net.conv2d(x, 24)), 3, 2, 1)
    y = net.multiply(net.conv2d(net.relu(net.conv2d(y, 24, groups=24)), 24, 1), mask)
    return net.graph(place=y, mean=net.mean_pool(y))


@cache
def function(threads: int = 1) -> CompiledFunction:
    return egshape.compile(network(), target="llvm", threads=threads)


def some(count: int) -> tuple[np.ndarray, np.ndarray]:
    images = RNG.standard_normal((count, 3, SIDE, SIDE)).astype(np.float32)
    return images, RNG.standard_normal((1, 24, 1, 1)).astype(np.float32)


def arena(fn: CompiledFunction) -> int:
    """Bytes of the arena of the last call."""
    return int(fn._calls[-1].words[WORDS.index("room")])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 13])
def test_each_image_has_the_values_that_it_has_alone(count: int) -> None:
    x, mask = some(count)
    found = function()(x, mask)
    assert [each.shape for each in found] == [(count, 24, SIDE // 2, SIDE // 2), (count, 24)]
    for k in range(count):
        for all_of_them, alone in zip(found, function()(x[k : k + 1], mask), strict=True):
            np.testing.assert_allclose(all_of_them[k], alone[0], 1e-4, 1e-5)


@pytest.mark.parametrize("count", [4, 7, 16])
@pytest.mark.parametrize("threads", [2, 3, 40])
def test_the_same_bits_with_any_number_of_threads(threads: int, count: int) -> None:
    x, mask = some(count)
    for one, many in zip(function()(x, mask), function(threads)(x, mask), strict=True):
        np.testing.assert_array_equal(one, many)


def test_many_images_take_the_memory_of_some() -> None:
    function()._calls.clear()
    x, mask = some(8)
    function()(x, mask)
    few = arena(function())
    function()(np.concatenate([x] * 4), mask)
    assert arena(function()) == few


def test_results_in_arrays_of_the_caller() -> None:
    x, mask = some(9)
    wanted = function(2)(x, mask)
    into = tuple(np.full_like(each, np.nan) for each in wanted)
    found = function(2)(x, mask, out=into)
    assert all(one is two for one, two in zip(found, into, strict=True))
    for one, two in zip(into, wanted, strict=True):
        np.testing.assert_array_equal(one, two)


def test_callers_side_by_side() -> None:
    fn, given = function(2), [some(count) for count in (5, 8, 11, 16)]
    wanted = [fn(*each) for each in given]
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(6):
            found = fn(*given[k])
            if any(not np.array_equal(one, two) for one, two in zip(found, wanted[k], strict=True)):
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(len(given))]
    for each in callers:
        each.start()
    for each in callers:
        each.join(60)
    assert not wrong and not any(each.is_alive() for each in callers)


def test_a_profile_counts_the_parts() -> None:
    x, mask = some(16)
    rows = function(2).profile(x, mask, runs=2).kernels
    assert rows and all(row.calls >= 2 for row in rows)


def test_shapes_are_asked_of_all_images() -> None:
    assert function().result_shapes((16, 3, SIDE, SIDE), (1, 24, 1, 1)) == ((16, 24, 48, 48), (16, 24))


def test_what_is_wrong_is_said_of_all_images() -> None:
    x, mask = some(6)
    with pytest.raises(EgshapeError, match="shape"):
        function()(x, mask, out=(np.empty((5, 24, 48, 48), np.float32), None))
    with pytest.raises(EgshapeError, match="3"):
        function()(np.concatenate([x, x], axis=1), mask)


@pytest.mark.parametrize("fact", ["n % 4 == 0", "n >= 3", "n <= 20"])
def test_facts_about_their_number_hold_for_all(fact: str) -> None:
    fn: Any = egshape.compile(network(), target="llvm", threads=2, assume=fact)
    x, mask = some(16)
    for one, two in zip(fn(x, mask), function(2)(x, mask), strict=True):
        np.testing.assert_allclose(one, two, 1e-4, 1e-5)
    with pytest.raises(EgshapeError, match="n"):
        fn(*some({"n % 4 == 0": 6, "n >= 3": 2, "n <= 20": 21}[fact]))


def test_red_zones_are_around_all_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGSHAPE_REDZONES", "1")
    x, mask = some(6)
    watched = egshape.compile(network(), target="llvm", threads=1)
    for one, two in zip(watched(x, mask), function()(x, mask), strict=True):
        np.testing.assert_allclose(one, two, 1e-4, 1e-5)
