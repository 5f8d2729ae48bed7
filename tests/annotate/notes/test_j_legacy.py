"""J: a shape function that somebody wrote before, in Python, is plugged in as that of an op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from tests.annotate.notes.programs import kept, program


def legacy_windows(n: Any, width: int, step: int) -> Any:
    """How it was written: sizes in, a size out."""
    return (n - width) // step + 1


@pytest.fixture(autouse=True)
def windows() -> Iterator[None]:
    @egshape.custom_op("windows_of", operands=("x",), attrs={"width": "int", "step": "int"})
    class Windows:
        "Row i is x[i*step], ..., x[i*step + width - 1]."

        def shape(x: TensorType, width: int, step: int) -> Any:
            return x.dtype, (legacy_windows(x.dims[0], width, step), width)

        def reference(x: np.ndarray, width: int, step: int) -> np.ndarray:
            return np.lib.stride_tricks.sliding_window_view(x, width)[::step]

    yield
    REGISTRY.drop("windows_of")


CASES: list[tuple[str, tuple[int, int], str, list[str]]] = [
    ("f32[n]", (3, 1), "f32[n - 2, 3]", []),
    ("f32[n + 2]", (3, 1), "f32[n, 3]", []),
    ("f32[4*m + 4]", (4, 4), "f32[m + 1, 4]", []),
    ("f32[4*m + 4]", (4, 2), "f32[2*m + 1, 4]", []),
    ("f32[n]", (1, 1), "f32[n, 1]", []),
    ("f32[n]", (2, 1), "f32[k, 2]", []),
    ("f32[10]", (3, 2), "f32[4, 3]", []),
]


@pytest.mark.parametrize(("type", "how", "result", "left"), CASES)
def test_j(type: str, how: tuple[int, int], result: str, left: list[str]) -> None:
    graph = program("x: f32[?]", lambda b, x: b("windows_of", x, width=how[0], step=how[1]))
    found = kept(egshape.annotate(graph, {"x": type, "out0": result}))
    assert [each for each in found if each.startswith("result")] == left


def test_j_a_shape_function_that_says_something_else_is_caught() -> None:
    graph = program("x: f32[?]", lambda b, x: b("windows_of", x, width=3, step=1))
    with pytest.raises(EgshapeError, match="result out0, axis 0: the size is"):
        egshape.optimize(egshape.annotate(graph, {"x": "f32[n]", "out0": "f32[n - 3, 3]"}))
