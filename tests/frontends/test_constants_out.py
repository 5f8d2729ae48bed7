"""Constants as StableHLO out writes them: each once, to the bit, and only where their text is wanted."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from egshape.frontends.stablehlo import emit, read
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret


def _of(*arrays: np.ndarray) -> Graph:
    builder = BlockBuilder()
    values = [builder.one("constant", (), {"value": array}) for array in arrays]
    return Graph("g", builder.finish(values), tuple(f"out{place}" for place in range(len(values))))


LARGE = np.arange(800, dtype=np.float32).reshape(8, 100)
ALMOST = np.where(np.arange(800) == 799, np.float32(-0.0), np.float32(0.0))
"""Differs from a splat in the sign of its last element."""


def test_equal_ones_are_written_once_and_to_the_bit() -> None:
    arrays = [LARGE, LARGE.copy(), -LARGE, ALMOST, np.zeros(800, np.float32), LARGE.astype(np.int32)]
    text = emit.write(_of(*arrays))
    assert text.count("stablehlo.constant") == 5
    assert "dense<0.000000e+00> : tensor<800xf32>" in text
    for found, array in zip(interpret(read(text, "t.mlir"), []), arrays, strict=True):
        assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


def test_statements_are_counted_without_the_text_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds for weights, and each optimization counts twice."""
    graph = _of(LARGE, LARGE + 1, LARGE.copy())
    monkeypatch.setattr(emit, "dense", lambda array: pytest.fail("a constant was written"))
    assert emit.statements(graph) == 0, "constants are not counted"
