"""Products and convolutions of 16-bit floats: their sums are f32, and rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.ir.text import parse_graph
from egshape.ir.types import numpy_dtype

TEXT = """graph f(%x: DTYPE[b, n, k], %y: DTYPE[b, k, m]) {
  symbols b = size(%x, 0), n = size(%x, 1), k = size(%x, 2), m = size(%y, 2)
  %0: DTYPE[b, n, m] = dot_general(%x, %y) {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1], \
precision=[], dtype=DTYPE}
  return %0 as z
}"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_a_product(dtype: str, threads: int) -> None:
    graph = parse_graph(TEXT.replace("DTYPE", dtype))
    compiled = egshape.compile(graph, target="llvm", threads=threads, optimize=False)
    kind, rng = numpy_dtype(dtype), np.random.default_rng(0)
    for b, n, k, m in ((1, 1, 4096, 1), (2, 3, 300, 5), (0, 2, 2, 2), (2, 3, 0, 4), (1, 64, 40, 33), (2, 1, 9, 0)):
        x, y = (rng.integers(0, 3, shape).astype(kind) for shape in ((b, n, k), (b, k, m)))
        wanted = (x.astype(np.float32) @ y.astype(np.float32)).astype(kind)  # small integers: f32 holds the sums
        for found in (compiled(x, y), egshape.compile(graph, "interpret", optimize=False)(x, y)):
            np.testing.assert_array_equal(found, wanted, err_msg=f"b, n, k, m = {b, n, k, m}")


CONVOLUTION = """graph f(%x: DTYPE[b, c, h], %k: DTYPE[d, c, 3]) {
  symbols b = size(%x, 0), c = size(%x, 1), h = size(%x, 2), d = size(%k, 0)
  %0: DTYPE[b, d, h] = convolution(%x, %k) {numbers=(0, 1, [2], 1, 0, [2], 0, 1, [2]), strides=[1], padding=<1, 1>, \
lhs_dilation=[1], rhs_dilation=[1], reversal=[0], feature_groups=1, batch_groups=1, precision=[], dtype=DTYPE}
  return %0 as z
}"""


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_a_convolution(dtype: str) -> None:
    graph = parse_graph(CONVOLUTION.replace("DTYPE", dtype))
    compiled, kind = egshape.compile(graph, target="llvm", threads=2, optimize=False), numpy_dtype(dtype)
    for b, c, h, d in ((1, 1024, 1, 1), (2, 500, 5, 3), (0, 3, 4, 2), (1, 0, 4, 2)):
        x, k = np.ones((b, c, h), kind), np.ones((d, c, 3), kind)
        row = np.convolve(np.full(h, c, np.float32), np.ones(3, np.float32), "same") if h > 2 else np.full(h, c)
        wanted = np.broadcast_to(row.astype(np.float32), (b, d, h)).astype(kind)
        for found in (compiled(x, k), egshape.compile(graph, "interpret", optimize=False)(x, k)):
            np.testing.assert_array_equal(found, wanted, err_msg=f"b, c, h, d = {b, c, h, d}")
