"""Functions that f16 and bf16 have of their own, as printed text: how far results are from exact ones, on a device that
is as inexact as PTX allows (text_language.h)."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import erf

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="planning needs the extra llvm")

from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from tests.cuda.test_text_scalar import WIDTH, printed
from tests.cuda.text import Texts
from tests.fuzz.differential import argument, graph_of

DIGITS = {"f16": (11, -14), "bf16": (8, -126)}
"""Binary digits, and the exponent of the least normal number."""
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "exponential": np.exp,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(erf, otypes=[np.float64]),
}
ULP = {
    ("tanh", "f16"): 1.51,
    ("tanh", "bf16"): 0.63,
    ("exponential", "f16"): 0.52,
    ("exponential", "bf16"): 0.51,
    ("logistic", "f16"): 0.52,
    ("logistic", "bf16"): 0.51,
    ("rsqrt", "f16"): 0.51,
    ("rsqrt", "bf16"): 0.51,
    ("erf", "f16"): 1.63,
    ("erf", "bf16"): 0.72,
}
"""What docs/gpu-kernels.md promises."""


def _op(op: str, dtype: str, operands: int, texts: Texts, *arrays: np.ndarray) -> np.ndarray:
    b = BlockBuilder()
    values = [argument(b, f"x{k}", dtype, [symbol("n"), WIDTH]) for k in range(operands)]
    (found,) = printed(graph_of(b, b.one(op, values))).run(texts, arrays, "forward")
    return found


def _every(dtype: str) -> np.ndarray:
    return np.resize(np.arange(1 << 16, dtype=np.uint16), (21846, WIDTH)).view(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("op", list(EXACT))
def test_functions_of_every_number(op: str, dtype: str, texts: Texts) -> None:
    x = _every(dtype)
    found = _op(op, dtype, 1, texts, x).astype(np.float64)
    digits, least = DIGITS[dtype]
    with np.errstate(all="ignore"):
        exact = EXACT[op](x.astype(np.float64))
        wanted = exact.astype(numpy_dtype(dtype)).astype(np.float64)
        ulp = 2.0 ** (np.maximum(np.floor(np.log2(np.abs(exact))), least) - digits + 1)
        error = np.abs(found - exact) / ulp
    if op == "logistic":  # whose exponential overflows where the result is less than the least normal f32: 0
        error[(x < -87.3) & (found == 0)] = 0
    special = ~np.isfinite(wanted) | (exact == 0)
    np.testing.assert_array_equal(found[special], wanted[special])
    assert np.nanmax(error[~special]) <= ULP[op, dtype], np.nanmax(error[~special])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_quotients_are_those_of_ieee(dtype: str, texts: Texts) -> None:
    """Pairs of all significands of bf16, and of many of f16, with random exponents; of f16 also where results are
    denormal, so that ties are among them."""
    rng = np.random.default_rng(6)
    count, half = 300_000, numpy_dtype(dtype)
    if dtype == "bf16":
        one, two = (each.ravel() for each in np.meshgrid(np.arange(128, 256), np.arange(128, 256)))
        one, two = (np.resize(each, count).astype(np.float64) for each in (one, two))
        exponents = rng.integers(-40, 40, (2, count))
    else:
        one, two = rng.integers(1024, 2048, (2, count)).astype(np.float64)
        exponents = rng.integers(-24, 5, (2, count))
        two[: count // 4] = 1024
    x, y = (
        (each * 2.0**power).reshape(-1, WIDTH).astype(half) for each, power in zip((one, two), exponents, strict=True)
    )
    x.flat[:9] = np.array([0, 0, 1, -1, np.inf, np.inf, 1, -np.inf, np.nan], half)
    y.flat[:9] = np.array([0, 3, 0, 0, 2, np.inf, np.inf, -0.0, 1], half)
    found = _op("divide", dtype, 2, texts, x, y)
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float64) / y.astype(np.float64)).astype(np.float32).astype(half)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), (x[~same][:3], y[~same][:3], found[~same][:3], wanted[~same][:3])
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_other_floats_have_the_functions_that_they_had(dtype: str) -> None:
    b = BlockBuilder()
    x = argument(b, "x", dtype, [symbol("n"), WIDTH])
    y = b.one("divide", [b.one("tanh", [x]), b.one("exponential", [x])])
    steps = printed(graph_of(b, b.one("logistic", [b.one("rsqrt", [y])]))).steps
    text = "".join(step[1].source for step in steps if isinstance(step, tuple))
    assert bool(re.search("_approx|eg_(divide|exp|logistic)_f16", text)) == (dtype == "f16")
