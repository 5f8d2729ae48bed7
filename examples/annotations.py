"""Types that people say, from a check to a choice of implementations.

    python examples/annotations.py

Needs the extras stablehlo and llvm."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import egshape
from egshape.errors import EgshapeError


@egshape.fn("x: f32[n, 4*m]", "w: f32[4*m, k]", returns="f32[n, k]")
def scaled(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A product, and the average of each group of 4 columns taken away first."""
    groups = x.reshape(x.shape[0], -1, 4)
    return (groups - groups.mean(axis=2, keepdims=True)).reshape(x.shape) @ w


@egshape.fn("x: f32[n, n]")
def square(x: np.ndarray) -> np.ndarray:
    """For square matrices."""
    return jnp.trace(x)


@egshape.fn("x: f32[n, m]")
def any_shape(x: np.ndarray) -> np.ndarray:
    """For any other one."""
    return x.sum()


@egshape.fn("x: f32[n, 8]")
def rows(x: np.ndarray) -> np.ndarray:
    """Calls another one that types are said of."""
    return any_shape(x[:, :1]) + x[:, 0]


def refused(*arrays: np.ndarray) -> str:
    """What a call is told."""
    try:
        scaled(*arrays)
    except EgshapeError as error:
        return error.message
    return "nothing"


def main() -> None:
    """Sizes first, then memory, then data; then what is refused, and what is chosen."""
    x, w = np.ones((2, 8), "f4"), np.ones((8, 3), "f4")
    (shape,) = scaled.sizes(x.shape, w.shape)
    out = np.empty(shape, "f4")
    scaled.into([out], x, w)
    print("result:", shape, float(out.sum()))
    print("refused:", refused(np.ones((8, 15), "f4"), w))
    print("refused:", refused(x, np.ones((4, 3), "f4")))
    best = egshape.specialised(square, any_shape)
    print("chosen:", best.chosen(np.ones((3, 3), "f4")).name, best.chosen(x).name)
    print("known before:", best.given("f32[k, k]"), best.given("f32[k, k + 1]"))
    print("inside of another:", rows(x).shape)


if __name__ == "__main__":
    main()
