"""``reduce_precision`` that takes nothing away is its operand; any other is carried through."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.adapters.xla import run_stablehlo
from egshape.frontends.stablehlo import read
from egshape.frontends.stablehlo.emit import write
from egshape.ir.interpret import interpret


@pytest.mark.parametrize(
    ("dtype", "format", "kept"),
    [
        ("f32", "e8m23", True),
        ("f32", "e11m52", True),
        ("bf16", "e8m7", True),
        ("f16", "e5m10", True),
        ("f32", "e8m22", False),
        ("f32", "e7m23", False),
        ("f16", "e8m7", False),
        ("bf16", "e5m10", False),
    ],
)
def test_reduce_precision(dtype: str, format: str, kept: bool) -> None:
    import ml_dtypes

    text = f"""func.func @main(%x: tensor<?x{dtype}>) -> tensor<?x{dtype}> {{
      %0 = stablehlo.reduce_precision %x, format = {format} : tensor<?x{dtype}>
      return %0 : tensor<?x{dtype}> }}"""
    numpy_name = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    x = np.array([-0.0, 1 / 3, -6e4, 6e-8, np.inf, -np.inf], np.float32).astype(numpy_name)
    graph = read(text, "t.mlir")
    assert (not graph.body.ops) is kept
    wanted = run_stablehlo(text, [x])[0]
    for found in (interpret(graph, [x])[0], run_stablehlo(write(graph), [x])[0]):
        assert found.tobytes() == wanted.tobytes()
