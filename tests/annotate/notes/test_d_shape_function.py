"""D: the shape function is called alone, sizes in, sizes out; then memory is made; then data comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("llvmlite")

import jax.numpy as jnp

import egshape
from egshape.errors import CheckFailed

Shapes = tuple[tuple[int, ...], ...]

CASES: list[tuple[str, Callable[..., Any], Shapes, Shapes | str]] = [
    ("f32[n, 4*m]", lambda x: x.reshape(-1, 4), ((3, 8),), ((6, 4),)),
    ("f32[n, 4*m]", lambda x: x.reshape(-1, 4), ((3, 7),), "argument x, axis 1: 4*m = 7 has no solution"),
    ("f32[n, m]", lambda x: (x.T, x.sum(axis=0)), ((3, 8),), ((8, 3), (8,))),
    ("f32[n, m]", lambda x: (x.T, x.sum(axis=0)), ((1, 1),), ((1, 1), (1,))),
    ("f32[n, n]", lambda x: x @ x, ((5, 5),), ((5, 5),)),
    ("f32[n, n]", lambda x: x @ x, ((5, 4),),
     "argument x, axis 1: the size is 4, not n, where n is 5 by argument x, axis 0"),
    ("f32[n, m]", lambda x: jnp.concatenate([x, x[:, :1]], axis=1), ((2, 9),), ((2, 10),)),
    ("f32[2*n, ?]", lambda x: jnp.pad(x, ((0, 1), (2, 0))), ((4, 3),), ((5, 5),)),
]  # fmt: skip


@pytest.mark.parametrize(("type", "function", "shapes", "wanted"), CASES)
def test_d(type: str, function: Callable[..., Any], shapes: Shapes, wanted: Shapes | str) -> None:
    said = egshape.fn(type)(function)
    if isinstance(wanted, str):
        with pytest.raises(CheckFailed) as caught:
            said.sizes(*shapes)
        assert caught.value.message == wanted
        return
    assert said.sizes(*shapes) == wanted
    out = [np.full(shape, np.nan, "f4") for shape in said.sizes(*shapes)]
    arrays = [np.random.default_rng(0).random(shape, "f4") for shape in shapes]
    said.into(out, *arrays)
    found = function(*arrays)
    for one, other in zip(out, found if isinstance(found, tuple) else (found,), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
