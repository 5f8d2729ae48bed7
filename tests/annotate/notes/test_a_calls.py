"""A: shapes, of numbers and of polynomials of names, go through calls of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import egshape
from egshape.api import shapes_table


@jax.jit
def flat(x: Any) -> Any:
    return x.reshape(-1)


@jax.jit
def product(x: Any, y: Any) -> Any:
    return x @ y


@jax.jit
def padded(x: Any) -> Any:
    return jnp.pad(x, ((1, 2), (0, 0)))


@jax.jit
def doubled(x: Any) -> Any:
    return jnp.concatenate([x, x], axis=1)


CASES: list[tuple[tuple[str, ...], Callable[..., Any], str]] = [
    (("f32[2, 3]",), flat, "f32[6]"),
    (("f32[n, 4*m]",), flat, "f32[4*m*n]"),
    (("f32[n, m]",), lambda x: flat(flat(x)), "f32[m*n]"),
    (("f32[n, m]", "f32[m, k]"), product, "f32[n, k]"),
    (("f32[n, m]", "f32[m, k]"), lambda x, y: flat(product(x, y)), "f32[k*n]"),
    (("f32[n, n]",), lambda x: product(product(x, x), x), "f32[n, n]"),
    (("f32[n, 2*m]",), padded, "f32[n + 3, 2*m]"),
    (("f32[n, 2*m]",), lambda x: flat(doubled(padded(x))), "f32[4*m*n + 12*m]"),
    (("f32[n, m]", "f32[m, n]"), lambda x, y: padded(product(x, y)) + 1, "f32[n + 3, n]"),
    (("f32[n, 3*n]",), lambda x: doubled(x).reshape(-1, 6), "f32[n*n, 6]"),
]


@pytest.mark.parametrize(("types", "function", "result"), CASES)
def test_a(types: tuple[str, ...], function: Callable[..., Any], result: str) -> None:
    """The last value of the program has the type, in the names that were said, and it holds without a check."""
    said = egshape.fn(*types, returns=[result])(function)
    kept = [each for each in egshape.optimize(said.graph).report.checks if each.status == "kept"]
    assert not [each.message for each in kept if each.message.startswith("result")]
    row = shapes_table(said.graph).values[-1]
    assert f"{row.dtype}[{', '.join(row.shape or ())}]" == result
