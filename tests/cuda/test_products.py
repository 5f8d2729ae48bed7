"""Convolutions and products as tiles by warps, from a graph to results: which way they are read, on what they run, and
that they give what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the emulation runs through LLVM (extra llvm)")

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.types import numpy_dtype
from egshape.plan.targets import plan
from tests.cuda.emulate import emulated, launches
from tests.fuzz.differential import argument, graph_of
from tests.lower.oracle import verdict, widened

Layout = tuple[int, int, tuple[int, int]]
N, H, W = (symbol(name) for name in "nhw")
FIRST, LAST = (0, 1, (2, 3)), (0, 3, (1, 2))
KERNELS = {FIRST: (1, 0, (2, 3)), LAST: (2, 3, (0, 1))}


def _convolution(
    dtype: str, layout: Layout, channels: int, outputs: int, stride: int, taps: int = 3, constant: bool = False
) -> Graph:
    b = BlockBuilder()
    kernel = KERNELS[layout]

    def shaped(place: Layout, one: Dim | int, two: Dim | int, *space: Dim | int) -> list[Dim]:
        found: list[Dim] = [const(0)] * 4
        for axis, size in zip((place[0], place[1], *place[2]), (one, two, *space), strict=True):
            found[axis] = const(size) if isinstance(size, int) else size
        return found

    x = argument(b, "x", dtype, shaped(layout, N, channels, H, W))
    dims = shaped(kernel, channels, outputs, taps, taps)
    values = np.random.default_rng(3).normal(size=[dim.const or 0 for dim in dims]).astype(numpy_dtype(dtype))
    weights = b.one("constant", [], {"value": values}) if constant else argument(b, "k", dtype, dims)
    attrs = {
        "numbers": (*layout, *kernel, *layout),
        "strides": (stride, stride),
        "padding": (taps // 2,) * 4,
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "reversal": (0, 0),
        "feature_groups": 1,
        "batch_groups": 1,
        "dtype": dtype,
    }
    y = b.one("convolution", [x, weights], attrs)
    return graph_of(b, b.one("tanh", [y]))


CASES = {
    "f16 last": (("f16", LAST, 16, 8, 1), "on tensor cores; operands are read by 16 and 16 bytes, 8 results"),
    "bf16 last, stride": (("bf16", LAST, 8, 24, 2), "on tensor cores; operands are read by 16 and 16 bytes, 8 results"),
    "f16 last, odd": (("f16", LAST, 3, 5, 1), "on tensor cores; operands are read by 2 and 2 bytes, 1 results"),
    "f16 first": (("f16", FIRST, 8, 16, 1), "on tensor cores; operands are read by 16 and 16 bytes, 8 results"),
    "f16 first, 1x1": (
        ("f16", FIRST, 16, 16, 1, 1),
        "on tensor cores; operands are read by 16 and 16 bytes, 8 results",
    ),
    "f16 first, constant": (("f16", FIRST, 8, 16, 1, 3, True), "operands are read by 16 and 16 bytes, 8 results"),
    "f16 first, few": (("f16", FIRST, 8, 8, 1), "on tensor cores; operands are read by 16 and 2 bytes, 8 results"),
    "f32 first, stride": (("f32", FIRST, 12, 20, 2), "multiply-adds; operands are read by 16 and 16 bytes, 1 results"),
    "f32 last": (("f32", LAST, 4, 8, 1), "multiply-adds; operands are read by 16 and 16 bytes, 4 results"),
}


def test_a_constant_kernel_is_turned_when_the_graph_is_compiled() -> None:
    given = plan(_convolution("f16", FIRST, 8, 16, 1), target="cuda")
    constant = plan(_convolution("f16", FIRST, 8, 16, 1, constant=True), target="cuda")
    assert (len(given.steps), len(constant.steps)) == (3, 2)
    assert [buffer.size for buffer in constant.constants] == [const(8 * 16 * 9)]


@pytest.mark.long_but("f16 last", "f32 *")
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    given, how = CASES[name]
    graph = _convolution(*given)
    found = list(launches(plan(graph, target="cuda")))[-1]
    assert how in found.why, found.why
    function, wide = emulated(graph, 256), widened(graph)
    rng = np.random.default_rng(2)
    for sizes in ((2, 5, 9), (1, 1, 1), (1, 0, 3), (0, 4, 4), (3, 4, 6), (2, 8, 11)):
        env = dict(zip("nhw", sizes, strict=True))
        arrays = [
            rng.normal(size=[dim.evaluate(env) for dim in value.type.dims]).astype(numpy_dtype(given[0]))
            for value in graph.body.args
        ]
        wrong = verdict(function, graph, wide, arrays, fences=False)
        assert not wrong, f"{name} at {sizes}: {wrong}"
