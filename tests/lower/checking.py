"""Compiled graphs against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.adapters.native import compile_function
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.runtime import CompiledFunction

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


def compiled(graph: Graph) -> CompiledFunction:
    """The graph as native code."""
    return compile_function(graph)


def call(function: CompiledFunction, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results as a tuple."""
    found = function(*arrays)
    return found if isinstance(found, tuple) else (found,)


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float | None = None) -> None:
    """Same type, shape and, but for rounding, elements."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if found.dtype.name not in TOLERANCE:
        np.testing.assert_array_equal(found, wanted)
        return
    limit = TOLERANCE[found.dtype.name] if tolerance is None else tolerance
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), limit, 1e-36)


def check(graph: Graph, *cases: Sequence[np.ndarray], tolerance: float | None = None) -> CompiledFunction:
    """Compile once, run every case, hold it against the interpreter."""
    function = compiled(graph)
    for arrays in cases:
        for found, wanted in zip(call(function, arrays), interpret(graph, arrays), strict=True):
            assert_close(found, wanted, tolerance)
    return function
