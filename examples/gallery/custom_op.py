"""An op of your own, as text: its contract says what it requires and gives, its body what it computes.

Prints:
    ['table_sum']
    [[10.0, 20.0], [11.0, 21.0], [12.0, 22.0]]
"""

from pathlib import Path

import numpy as np

import egshape

egshape.custom_ops(Path(__file__).with_name("table_sum.egg"))
graph = egshape.load(
    b"""graph table(%x: f32[n], %y: f32[m]) {
      symbols n = size(%x, 0), m = size(%y, 0)
      %0: f32[n, m] = table_sum(%x, %y)
      %1: f32[m, n] = transpose(%0) {permutation=[1, 0]}
      %2: f32[n, m] = transpose(%1) {permutation=[1, 0]}
      return %2 as table
    }""",
    "egs",
)
result = egshape.optimize(graph)
print([op.name for op in result.graph.ops])
fn = egshape.compile(result)
print(fn(np.arange(3, dtype="f4"), np.array([10, 20], "f4")).tolist())
