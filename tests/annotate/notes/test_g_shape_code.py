"""G: shapes that a program computes itself are seen to be those that are said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")

import jax.numpy as jnp

import egshape

CASES: list[tuple[str, str, Callable[..., Any]]] = [
    ("f32[n, 2*m]", "f32[m*n, 2]", lambda x: x.reshape(x.shape[0] * x.shape[1] // 2, 2)),
    ("f32[n, 2*m]", "f32[n, m]", lambda x: x[:, : x.shape[1] // 2]),
    ("f32[n, 6*m]", "f32[n, 3*m, 2]", lambda x: x.reshape(x.shape[0], -1, 2)),
    ("f32[n, m]", "f32[2*n, m]", lambda x: jnp.concatenate([x, x])),
    ("f32[n, m]", "f32[n + m]", lambda x: jnp.concatenate([x[:, 0], x[0]])),
    ("f32[n, m]", "f32[n, m, n]", lambda x: jnp.broadcast_to(x[:, :, None], (*x.shape, x.shape[0]))),
    ("f32[n, 4*m]", "f32[4, n, m]", lambda x: jnp.stack(jnp.split(x, 4, axis=1))),
    ("f32[n, m]", "f32[(n + 1)//2, m]", lambda x: x[::2]),
    ("f32[n, m]", "f32[m]", lambda x: x.max(axis=0)),
]


@pytest.mark.parametrize(("type", "result", "function"), CASES)
def test_g(type: str, result: str, function: Callable[..., Any]) -> None:
    graph = egshape.fn(type, returns=result)(function).graph
    checks = [each for each in egshape.optimize(graph).report.checks if each.message.startswith("result")]
    assert not [each.message for each in checks if each.status != "proved"]
