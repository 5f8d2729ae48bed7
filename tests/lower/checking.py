"""Compiled graphs against the interpreter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

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


def check_model(function: CompiledFunction, name: str, folder: Path) -> None:
    """Hold a compiled sample model against its expected outputs at all of its sizes."""
    cases = json.loads((folder / "index.json").read_text())[name]["cases"]
    with np.load(folder / f"{name}.npz") as stored:
        for number in range(len(cases)):
            inputs = [stored[f"case{number}_in{k}"] for k in range(len(function.manifest["inputs"]))]
            for k, found in enumerate(call(function, inputs)):
                wanted = stored[f"case{number}_out{k}"]
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                if found.dtype.kind == "f":
                    scale = np.abs(wanted).max(initial=1e-30)
                    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * scale)
                else:
                    np.testing.assert_array_equal(found, wanted)


def check(graph: Graph, *cases: Sequence[np.ndarray], tolerance: float | None = None) -> CompiledFunction:
    """Compile once, run every case, hold it against the interpreter."""
    function = compiled(graph)
    for arrays in cases:
        for found, wanted in zip(call(function, arrays), interpret(graph, arrays), strict=True):
            assert_close(found, wanted, tolerance)
    return function
