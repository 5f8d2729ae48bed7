"""What `egshape.fn` made, called where JAX traces another function; names of its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra stablehlo")
pytest.importorskip("llvmlite", reason="needs the extra llvm")

import jax
import jax.numpy as jnp

import egshape
from egshape.errors import CheckFailed, InvalidInput, TypeMismatch


@egshape.fn("a: f32[n, 2*k]", returns="f32[n]")
def inner(a: Any) -> Any:
    return a.sum(axis=1)


ONES = np.ones((3, 4), np.float32)


def test_inputs_are_called_as_the_arguments() -> None:
    @egshape.fn("x: f32[n, 4*m]", assume=["x.0 >= 2", "y.0 == x.1"])
    def scaled(x: Any, y: Any) -> Any:
        return x * y.max()

    assert [value.name for value in scaled.graph_of(ONES, ONES[0]).inputs] == ["x", "y"]
    np.testing.assert_array_equal(scaled(ONES, ONES[0]), ONES)
    with pytest.raises(egshape.EgshapeError, match="2 <= n"):
        scaled(ONES[:1], ONES[0])


def test_inside_of_another() -> None:
    @egshape.fn("x: f32[p, 4]", returns="f32[p]")
    def outer(x: Any) -> Any:
        return inner(x * 2) + inner(a=x)

    for rows in (1, 3, 7):
        np.testing.assert_array_equal(outer(np.ones((rows, 4), np.float32)), np.full(rows, 12, np.float32))


@pytest.mark.parametrize(
    ("within", "wanted"),
    [
        (jax.jit(lambda z: inner(z) + 1), np.full(3, 5)),
        (jax.grad(lambda z: inner(z).sum()), np.ones((3, 4))),
        (lambda x: jax.vmap(inner)(jnp.stack([x, x])), np.full((2, 3), 4)),
    ],
)
def test_inside_of_what_jax_traces(within: Any, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(within(ONES), wanted)


def test_what_is_said_is_tested_there() -> None:
    with pytest.raises(CheckFailed, match=r"argument a, axis 1: 2\*k = 3 has no solution"):
        jax.jit(inner)(ONES[:, :3])
    with pytest.raises(TypeMismatch, match="argument a"):
        jax.jit(inner)(ONES[0])


def test_a_graph_is_not_traced() -> None:
    loaded = egshape.fn("a: f32[n, 4]")(inner.graph_of(ONES))
    with pytest.raises(InvalidInput, match="is no function of JAX"):
        jax.jit(loaded)(ONES)


def test_sizes_takes_shapes() -> None:
    assert inner.sizes((2, 4)) == ((2,),)
    with pytest.raises(InvalidInput, match="takes a shape for each argument"):
        inner.sizes(2, 4)
