"""Axes that checks say to be 1: what holds a row's element and what reads it call it by the same index."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.ir.interpret import interpret

pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

SOFTMAX = """graph g(%x: f32[n, m, m]) {{
  symbols n = size(%x, 0), m = size(%x, 1)
  check() {{relation="==", sides=<m, {size}>, message="m is {size}", args=[], fact=""}}
  %least: f32[] = constant() {{value=f32[]{{-inf}}}}
  %zero: f32[] = constant() {{value=f32[]{{0.0}}}}
  %most: f32[n, m] = reduce(%x, %least) {{dims=[2]}} (%a: f32[], %b: f32[]) {{
    %c: f32[] = maximum(%a, %b)
    return %c
  }}
  %wide: f32[n, m, m] = broadcast_in_dim(%most) {{dims=[0, 1], shape=<n, m, m>}}
  %below: f32[n, m, m] = subtract(%x, %wide)
  %power: f32[n, m, m] = exponential(%below)
  %sum: f32[n, m] = reduce(%power, %zero) {{dims=[2]}} (%a: f32[], %b: f32[]) {{
    %c: f32[] = add(%a, %b)
    return %c
  }}
  %sums: f32[n, m, m] = broadcast_in_dim(%sum) {{dims=[0, 1], shape=<n, m, m>}}
  %part: f32[n, m, m] = divide(%power, %sums)
  %out: f32[n, m, {size}] = broadcast_in_dim(%part) {{dims=[0, 1, 2], shape=<n, m, {size}>}}
  return %out as out
}}
"""


@pytest.mark.parametrize("size", [1, 3])
def test_rows_of_a_checked_size(size: int) -> None:
    graph = egshape.load(SOFTMAX.format(size=size).encode(), "egs")
    run = egshape.compile(graph, target="llvm", optimize=False)
    for n in (0, 1, 4):
        array = np.linspace(-1, 1, n * size * size, dtype=np.float32).reshape(n, size, size)
        np.testing.assert_allclose(run(array), interpret(graph, [array])[0], rtol=1e-6)
    with pytest.raises(CheckFailed):
        run(np.zeros((2, 2, 2), np.float32))
