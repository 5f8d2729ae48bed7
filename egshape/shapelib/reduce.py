"""Ops that fold axes, and those that need whole axes but keep them."""

# ruff: noqa: PLW0108  (attributes have other names in numpy)
from __future__ import annotations

from typing import Any

import numpy as np

from egshape.ops.shape_function import Operand
from egshape.shapelib.library import declared


def folded(x: Operand, dims: tuple[int, ...], keepdim: bool) -> list[Any]:
    """The sizes that are left."""
    gone = {dim % x.rank for dim in dims}
    if keepdim:
        return [1 if axis in gone else size for axis, size in enumerate(x.dims)]
    return [size for axis, size in enumerate(x.dims) if axis not in gone]


def _sum(x: np.ndarray, dims: tuple[int, ...], keepdim: bool) -> Any:
    return np.sum(x, axis=dims, keepdims=keepdim)


@declared(_sum, ("n, m, k", {"dims": (0, -1), "keepdim": False}), ("n, m", {"dims": (1,), "keepdim": True}))
def sum(x: Operand, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The sums along axes."""
    return x.dtype, folded(x, dims, keepdim)


@declared(_sum, ("n, m", {"dims": (0,), "keepdim": False}))
def mean(x: Operand, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The means along axes."""
    return x.dtype, folded(x, dims, keepdim)


def _largest(x: np.ndarray, dim: int) -> Any:
    return np.max(x, axis=dim)


@declared(_largest, ("n, m", {"dim": 1}))
def amax(x: Operand, dim: int) -> Any:
    """The largest along an axis; of none of many there is no largest one."""
    rest = folded(x, (dim,), False)
    assert x.dims[dim] >= 1, "the axis is empty"
    return x.dtype, rest


@declared(lambda x, dim: np.argmax(x, axis=dim), ("n, m", {"dim": 0}))
def argmax(x: Operand, dim: int) -> Any:
    """Where the largest is."""
    return "i64", amax(x, dim)[1]


@declared(lambda x, dim: np.cumsum(x, dim), ("n, m", {"dim": 1}))
def cumsum(x: Operand, dim: int) -> Any:
    """Sums of what came before."""
    return x


@declared(lambda x, dim: x, ("n, m", {"dim": -1}))
def softmax(x: Operand, dim: int) -> Any:
    """Shares of the exponentials along an axis."""
    return x


def _normed(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    if w.shape != b.shape or x.shape[x.ndim - w.ndim :] != w.shape:
        raise ValueError
    return x


@declared(_normed, "b, n, d; d; d", "b, n, d; k; d", "b, n, d; n, d; n, d")
def layer_norm(x: Operand, w: Operand, b: Operand) -> Any:
    """The last axes with mean 0 and deviation 1, scaled and moved."""
    assert w.dims == b.dims, f"a weight {w} and a bias {b}"
    assert x.dims[x.rank - w.rank :] == w.dims, f"a weight {w} for {x}"
    return x


def _batch_normed(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Any:
    if w.shape != x.shape[1:2] or b.shape != w.shape:
        raise ValueError
    return x


@declared(_batch_normed, "b, c, h, w; c; c", "b, c, h; d; c")
def batch_norm(x: Operand, w: Operand, b: Operand) -> Any:
    """Each channel scaled and moved."""
    assert w.dims == x.dims[1:2], f"a weight {w} for {x.dims[1]} channels"
    assert b.dims == w.dims, f"a bias {b} for {x.dims[1]} channels"
    return x


def _grouped(x: np.ndarray, groups: int) -> Any:
    if x.shape[1] % groups:
        raise ValueError
    return x


@declared(_grouped, ("b, c, h", {"groups": 2}))
def group_norm(x: Operand, groups: int) -> Any:
    """Groups of channels with mean 0 and deviation 1."""
    assert x.dims[1] % groups == 0, f"{x.dims[1]} channels in {groups} groups"
    return x


def _attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError
    return (q @ np.swapaxes(k, -1, -2)) @ v


@declared(_attended, "2, n, d; 2, m, d; 2, m, e", "b, 1, d; b, m, d; b, p, 2")
def attention(q: Operand, k: Operand, v: Operand) -> Any:
    """softmax(q @ k.T) @ v."""
    assert k.dims[:-1] == v.dims[:-1], f"keys {k} and values {v}"
    assert q.dims[:-2] == k.dims[:-2] and q.dims[-1] == k.dims[-1], f"queries {q} and keys {k}"
    return q.dtype, (*q.dims[:-1], v.dims[-1])


def _distances(x: np.ndarray, y: np.ndarray) -> Any:
    if x.shape[1] != y.shape[1]:
        raise ValueError
    return np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))


@declared(_distances, "n, d; m, d", "n, d; m, e")
def cdist(x: Operand, y: Operand) -> Any:
    """The distance of each row of x from each of y."""
    assert x.dims[1] == y.dims[1], f"points of {x.dims[1]} and {y.dims[1]} coordinates"
    return x.dtype, (x.dims[0], y.dims[0])


def _scanned(x: np.ndarray, dim: int) -> Any:
    return np.maximum.accumulate(x, dim) if x.size else x


@declared(lambda x, dim: np.cumprod(x, dim), ("n, m", {"dim": 0}))
def cumprod(x: Operand, dim: int) -> Any:
    """Products of what came before."""
    return x


@declared(lambda x, dim: [_scanned(x, dim), x], ("n, m", {"dim": 1}))
def cummax(x: Operand, dim: int) -> Any:
    """The largest so far, and where it was."""
    return [x, ("i64", x.dims)]


@declared(
    lambda x, dims, keepdim: np.any(x, axis=dims, keepdims=keepdim), ("i1: n, m", {"dims": (1,), "keepdim": True})
)
def any(x: Operand, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Whether one is true, along axes."""
    return "i1", folded(x, dims, keepdim)


@declared(_sum, ("n, m, k", {"dims": (1, 2), "keepdim": True}), ("n", {"dims": (0,), "keepdim": False}))
def logsumexp(x: Operand, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The logarithm of the sum of exponentials, along axes."""
    return x.dtype, folded(x, dims, keepdim)


def _spread(x: np.ndarray, dims: tuple[int, ...], correction: int, keepdim: bool) -> Any:
    return _sum(x, dims, keepdim)


@declared(_spread, ("n, m", {"dims": (0,), "correction": 1, "keepdim": False}))
def var(x: Operand, dims: tuple[int, ...], correction: int, keepdim: bool) -> Any:
    """The variance along axes; of too few elements it is no number, and no error."""
    return x.dtype, folded(x, dims, keepdim)


def _kth(x: np.ndarray, k: int, dim: int) -> Any:
    if not 1 <= k <= x.shape[dim]:
        raise ValueError
    found = np.take(x, 0, dim)
    return [found, found]


@declared(_kth, ("n, m", {"k": 2, "dim": 1}))
def kthvalue(x: Operand, k: int, dim: int) -> Any:
    """The k-th smallest along an axis, and where it was."""
    assert 1 <= k <= x.dims[dim], f"the {k}th of {x.dims[dim]}"
    rest = folded(x, (dim,), False)
    return [(x.dtype, rest), ("i64", rest)]


@declared(lambda x, ord: np.zeros(x.shape[:-2]), ("b, n, m", {"ord": 2}))
def matrix_norm(x: Operand, ord: int) -> Any:
    """A norm of each matrix."""
    return x.dtype, x.dims[:-2]
