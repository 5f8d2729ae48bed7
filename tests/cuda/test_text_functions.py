"""Functions that f32 has of its own, as printed text: how far results are from exact ones, on a device that is as
inexact as PTX allows (text_language.h)."""

from __future__ import annotations

from collections.abc import Callable
from math import erfc

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="planning needs the extra llvm")

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from tests.cuda.test_text_scalar import WIDTH, printed
from tests.cuda.text import Texts
from tests.fuzz.differential import argument, graph_of

EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "logistic": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
ULP = {"tanh": 3.7, "logistic": 3.7, "rsqrt": 3.7}
"""What docs/gpu-kernels.md promises."""
_SPECIAL = [np.nan, *(sign * each for each in (0.0, 1e-45, 1e-40, 1.17549435e-38, 3.4e38, np.inf) for sign in (1, -1))]


def _points() -> np.ndarray:
    """Every 20011th number, and more where functions bend."""
    every = np.arange(0, 1 << 32, 20011, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [np.linspace(-12, 12, 60001), np.linspace(-110, 95, 20001), _SPECIAL]
    return np.concatenate([every, *(np.asarray(each, np.float32) for each in near)])


def _rows(x: np.ndarray) -> np.ndarray:
    return np.resize(x, (-(-len(x) // WIDTH), WIDTH))


@pytest.mark.parametrize("op", list(EXACT))
def test_functions_are_near_to_exact_ones(op: str, texts: Texts) -> None:
    b = BlockBuilder()
    x = _rows(_points())
    graph = graph_of(b, b.one(op, [argument(b, "x", "f32", [symbol("n"), WIDTH])]))
    (found,) = printed(graph).run(texts, [x], "forward")
    with np.errstate(all="ignore"):
        exact = EXACT[op](x.astype(np.float64))
        wanted = exact.astype(np.float32)
        ulp = np.spacing(np.abs(wanted)).astype(np.float64)
        error = np.abs(found.astype(np.float64) - exact) / ulp
    special = ~np.isfinite(wanted) | (exact == 0)
    np.testing.assert_array_equal(found[special], wanted[special])
    np.testing.assert_array_equal(np.signbit(found[exact == 0]), np.signbit(exact[exact == 0]))
    assert np.max(error[~special]) <= ULP[op], np.max(error[~special])
    if op != "rsqrt":
        assert np.nanmax(np.abs(found)) == 1


@pytest.mark.parametrize("op", ["add", "subtract"])
def test_a_sum_of_1_and_erf_is_as_exact_as_1_is(op: str, texts: Texts) -> None:
    b = BlockBuilder()
    x = _rows(_points())
    erf, one = b.one("erf", [argument(b, "x", "f32", [symbol("n"), WIDTH])]), np.ones((), np.float32)
    shape = (symbol("n"), const(WIDTH))
    ones = b.one("broadcast_in_dim", [b.one("constant", [], {"value": one})], {"dims": (), "shape": shape})
    case = printed(graph_of(b, b.one(op, [ones, erf])))
    assert any("eg_erfc" in step[1].source for step in case.steps if isinstance(step, tuple))
    (found,) = case.run(texts, [x], "forward")
    with np.errstate(invalid="ignore"):
        exact = np.vectorize(erfc, otypes=[np.float64])(x.astype(np.float64) * (-1 if op == "add" else 1))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    assert np.nanmax(np.abs(found - exact)) <= 4e-7
    assert np.nanmax(np.abs(found - exact)[exact < 0.01]) <= 3e-8
    assert set(found[np.isinf(x)]) == {0.0, 2.0}
