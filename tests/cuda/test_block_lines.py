"""Sorting, running folds and scatter by many threads: no two of them meet, and the order is the interpreter's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

pytest.importorskip("llvmlite", reason="the emulation runs through LLVM (extra llvm)")

import numpy as np

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.plan.form import block_lines, block_sort
from egshape.plan.gpu.launching import launches
from egshape.plan.ir.loops import Kernel
from egshape.plan.ir.walk import buffers
from egshape.plan.targets import plan
from tests.cuda.device import compiled
from tests.cuda.emulate import chosen, emulated, kernels, likely
from tests.cuda.test_races import same
from tests.cuda.text import ORDERS, Texts
from tests.cuda.text_device import TextDevice
from tests.cuda.threads import Machine, check_launch, contents
from tests.fuzz.differential import argument, graph_of, region

N = symbol("n")


def _running(name: str, dtype: str, backwards: bool = False, rank: int = 2, length: int | None = None) -> Graph:
    """The running fold of each of 3 lines, or of one."""
    b = BlockBuilder()
    n = N if length is None else const(length)
    x = argument(b, "x", dtype, [3, n][2 - rank :])
    kind = {"f32": np.float32, "i32": np.int32}[dtype]
    init = b.one("constant", (), {"value": np.zeros((), kind)})
    ones = (const(1), const(1))[2 - rank :]
    attrs = {
        "window": (const(1), n)[2 - rank :],
        "strides": ones,
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": (const(0), const(0), *((const(0), n - 1) if backwards else (n - 1, const(0))))[4 - 2 * rank :],
    }
    return graph_of(b, b.one("reduce_window", [x, init], attrs, regions=(region(b, name, dtype),)))


def _sorted(direction: str, dim: int = 1, length: int | None = None) -> Graph:
    """Lines of i32, by their last digit only, so that many are equal."""
    b = BlockBuilder()
    n = N if length is None else const(length)
    x = argument(b, "x", "i32", [3, n] if dim else [n, 3])
    inner = b.child()
    one, two = (inner.arg(None, "i32", []) for _ in range(2))
    ten = inner.one("constant", (), {"value": np.array(10, np.int32)})
    digits = [inner.one("remainder", [each, ten]) for each in (one, two)]
    less = inner.one("compare", digits, {"direction": direction, "kind": "SIGNED"})
    return graph_of(b, b.one("sort", [x], {"dim": dim, "stable": True}, regions=(inner.finish([less]),)))


@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_running_sums(dtype: str, backwards: bool, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 16 elements, so that a line of one has none before it, and others have up to 19."""
    monkeypatch.setattr(block_lines, "PART", 16)
    monkeypatch.setattr(block_lines, "CHUNKS", 8)
    graph = _running("add", dtype, backwards, rank)
    parts, totals, last = kernels(plan(graph, target="cuda").steps)
    lines = 3 ** (rank - 1)
    for each, wanted in ((parts, (0, 0, lines, 2 * lines)), (totals, (0, 0, lines, lines))):
        found = [launches(each, likely)[0].blocks.evaluate({"n": n}) for n in (0, 16, 17, 33)]
        assert [bool(blocks) for blocks in found] == [bool(blocks) for blocks in wanted], (each.label, found)
    for n in (0, 1, 5, 40):
        for each in (parts, totals, last):
            same(each, {"n": n}, 16)
    for reverse in (False, True):
        function = emulated(graph, 16, reverse)
        rng = np.random.default_rng(2)
        for n in (0, 1, 7, 16, 17, 64, 300):
            shape = (3, n) if rank == 2 else (n,)
            array = rng.integers(0, 100, shape).astype({"f32": np.float32, "i32": np.int32}[dtype])
            (wanted_array,) = interpret(graph, [array])
            np.testing.assert_array_equal(function(array), wanted_array)


def test_lines_of_one_part_take_one_launch() -> None:
    """A known length needs no more kernels than it has launches."""
    labels = [each.label for each in kernels(plan(_running("add", "f32", length=4096), target="cuda").steps)]
    assert labels == ["scan"]
    labels = [each.label for each in kernels(plan(_running("add", "f32", length=4097), target="cuda").steps)]
    assert labels == ["scan_parts", "scan_totals", "scan"]


def test_what_a_block_shares_lies_in_shared_memory() -> None:
    *_, last = kernels(plan(_running("add", "f32"), target="cuda").steps)
    (found,) = launches(last, likely)
    assert len(found.shared) == 2 and not last.outputs[1:] and found.places()[1] == 2048


def _in_order(every: list[Kernel], sizes: Mapping[str, int], threads: int) -> None:
    """Kernels that work on what those before them leave: no two threads of a launch meet, and all give what the kernels
    do."""
    touched = {buffer for kernel in every for buffer in buffers(kernel.body)}
    wanted = contents(sorted(touched, key=lambda each: each.name), sizes)
    got = {buffer: array.copy() for buffer, array in wanted.items()}
    for kernel in every:
        Machine(wanted).run(kernel.body, sizes)
        for each in launches(kernel, likely, threads):
            check_launch(chosen(each, sizes), got, sizes)
        for buffer in kernel.outputs:
            np.testing.assert_array_equal(got[buffer], wanted[buffer])


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dim", [0, 1])
def test_sorting_keeps_the_order_of_equals(direction: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 8 elements and two merges: lines of up to 8 are one launch, those of more than 32 are merged by a
    block."""
    monkeypatch.setattr(block_sort, "PART", 8)
    monkeypatch.setattr(block_sort, "PASSES", 2)
    graph = _sorted(direction, dim)
    every = list(kernels(plan(graph, target="cuda").steps))
    assert [each.label for each in every] == ["sort_parts", "sort_merge", "sort_merge", "sort_rest", "sort"]
    for n, count in ((0, 0), (1, 1), (8, 1), (9, 3), (16, 3), (17, 4), (32, 4), (33, 5)):
        ran = [launches(each, likely)[0].blocks.evaluate({"n": n}) > 0 for each in every]
        assert ran == [n > 0, n > 8, n > 16, n > 32, n > 8] and sum(ran) == count
    for n in (0, 1, 8, 9, 20, 40):
        _in_order(every, {"n": n}, 16)
    for reverse in (False, True):
        function = emulated(graph, 16, reverse)
        rng = np.random.default_rng(2)
        for n in (0, 1, 7, 8, 9, 16, 17, 32, 33, 64, 300):
            array = rng.integers(0, 100, (3, n) if dim else (n, 3)).astype(np.int32)
            (wanted_array,) = interpret(graph, [array])
            np.testing.assert_array_equal(function(array), wanted_array)


@pytest.mark.parametrize("order", ORDERS)
def test_printed_text(order: str, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of several parts as CUDA text, threads in three orders, shared memory that begins with patterns."""
    for place, name, value in (
        (block_lines, "PART", 16),
        (block_lines, "CHUNKS", 8),
        (block_sort, "PART", 8),
        (block_sort, "PASSES", 2),
    ):
        monkeypatch.setattr(place, name, value)
    for graph in (_running("add", "i32"), _running("maximum", "i32", True), _sorted("LT"), _sorted("GT", 0)):
        device = TextDevice(texts, order)
        function, axis = compiled(graph, device), graph.inputs[0].type.dims.index(N)
        for n in (0, 1, 16, 17, 40):
            array = np.random.default_rng(n).integers(0, 100, (3, n) if axis else (n, 3)).astype(np.int32)
            (wanted,) = interpret(graph, [array])
            np.testing.assert_array_equal(function(array), wanted)
        assert not device.faults, device.faults


def test_a_known_length_is_merged_as_often_as_it_takes() -> None:
    for length, merges in ((2048, -1), (2049, 1), (4096, 1), (4097, 2), (100_000, 6)):
        labels = [each.label for each in kernels(plan(_sorted("LT", 1, length), target="cuda").steps)]
        assert labels == (["sort"] if merges < 0 else ["sort_parts", *["sort_merge"] * merges, "sort"]), length


def test_a_comparator_that_contradicts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that are there, in some order, and none from elsewhere."""
    monkeypatch.setattr(block_sort, "PART", 8)
    monkeypatch.setattr(block_sort, "PASSES", 2)
    function, array = emulated(_sorted("NE", 1), 16), np.random.default_rng(3).integers(0, 100, (3, 100)).astype("i4")
    found = function(array)
    assert all(set(one) <= set(two) for one, two in zip(found.tolist(), array.tolist(), strict=True))


@pytest.mark.parametrize("unique", [False, True])
def test_scatter_goes_apart_where_no_two_updates_meet(unique: bool) -> None:
    b = BlockBuilder()
    x, index = argument(b, "x", "f32", [40, 6]), argument(b, "index", "i32", [N, 1])
    update = argument(b, "update", "f32", [N, 6])
    attrs = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
        "unique": unique,
    }
    graph = graph_of(b, b.one("scatter", [x, index, update], attrs, regions=(region(b, "add", "f32"),)))
    kernel = next(each for each in kernels(plan(graph, target="cuda").steps) if each.label == "scatter")
    (found,) = launches(kernel, likely)
    assert found.blocks.evaluate({"n": 1000}) == (24 if unique else 1) and found.threads == 256
    for reverse in (False, True):
        function = emulated(graph, 16, reverse)
        rng = np.random.default_rng(2)
        for n in (0, 1, 5, 30):
            places = rng.permutation(45)[:n] - 2 if unique else rng.integers(-2, 43, n)  # some lie outside
            arrays = [
                rng.normal(size=(40, 6)).astype("f4"),
                places.astype("i4")[:, None],
                rng.normal(size=(n, 6)).astype("f4"),
            ]
            (wanted,) = interpret(graph, arrays)
            np.testing.assert_array_equal(function(*arrays), wanted)


def _scattered(op: str, dtype: str) -> Graph:
    """Single elements to places that may be the same."""
    b = BlockBuilder()
    x, index = argument(b, "x", dtype, [40]), argument(b, "index", "i32", [N, 1])
    update = argument(b, "update", dtype, [N])
    attrs = {
        "update_window_dims": (),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    return graph_of(b, b.one("scatter", [x, index, update], attrs, regions=(region(b, op, dtype),)))


@pytest.mark.parametrize(("op", "dtype"), [("add", "f32"), ("subtract", "f32"), ("maximum", "i32")])
def test_the_first_update_of_an_element_collects_the_others(op: str, dtype: str) -> None:
    graph = _scattered(op, dtype)
    found = {each.label: launches(each, likely)[0] for each in kernels(plan(graph, target="cuda").steps)}
    assert found["targets"].blocks.evaluate({"n": 1000}) == found["scatter"].blocks.evaluate({"n": 1000}) == 4
    for kernel in kernels(plan(graph, target="cuda").steps):
        if kernel.label == "scatter":
            same(kernel, {"n": 20}, 16)
    for reverse in (False, True):
        function = emulated(graph, 16, reverse)
        rng = np.random.default_rng(2)
        for n in (0, 1, 5, 100):
            arrays = [
                rng.integers(0, 90, 40).astype({"f32": "f4"}.get(dtype, "i4")),
                rng.integers(-2, 43, n).astype("i4")[:, None],  # some lie outside
                rng.normal(0, 9, size=n).astype({"f32": "f4"}.get(dtype, "i4")),
            ]
            (wanted,) = interpret(graph, arrays)
            np.testing.assert_array_equal(function(*arrays), wanted)


def test_windows_that_overlap_choose_at_once_and_elements_collect() -> None:
    b = BlockBuilder()
    x, init = argument(b, "x", "f32", [N, 9]), b.one("constant", (), {"value": np.zeros((), np.float32)})
    source = argument(b, "source", "f32", [symbol("k"), 4])
    inner = b.child()
    one, two = (inner.arg(None, "f32", []) for _ in range(2))
    keep = inner.finish([inner.one("compare", [one, two], {"direction": "GE", "kind": "FLOAT"})])
    attrs = {"window": (3, 3), "strides": (2, 2), "padding": (0, 0, 0, 0)}
    graph = graph_of(b, b.one("select_and_scatter", [x, source, init], attrs, regions=(keep, region(b, "add", "f32"))))
    found = {each.label: launches(each, likely)[0] for each in kernels(plan(graph, target="cuda").steps)}
    assert all(found[label].blocks.evaluate({"n": 1000, "k": 499}) > 1 for label in ("select", "select_and_scatter"))
    for reverse in (False, True):
        function = emulated(graph, 16, reverse)
        rng = np.random.default_rng(2)
        for n in (3, 5, 31):
            arrays = [rng.integers(0, 5, (n, 9)).astype("f4"), rng.normal(size=((n - 1) // 2, 4)).astype("f4")]
            (wanted,) = interpret(graph, arrays)
            np.testing.assert_array_equal(function(*arrays), wanted)
