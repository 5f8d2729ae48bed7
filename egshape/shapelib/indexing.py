"""Ops that pick elements, and ops that make tensors."""

# ruff: noqa: PLW0108  (attributes have other names in numpy)
from __future__ import annotations

from typing import Any

import numpy as np

from egshape.ops.shape_function import Operand
from egshape.shapelib.library import declared


@declared(lambda x, i, dim: (*x.shape[:dim], len(i), *x.shape[dim + 1 :]), ("n, m; i64: k", {"dim": 1}))
def index_select(x: Operand, i: Operand, dim: int) -> Any:
    """Slices of an axis by number."""
    return x.dtype, (*x.dims[:dim], i.dims[0], *x.dims[dim + 1 :])


@declared(lambda x, i, axis: (*x.shape[:axis], *i.shape, *x.shape[axis + 1 :]), ("n, m; i64: j, k", {"axis": 0}))
def gather(x: Operand, i: Operand, axis: int) -> Any:
    """Slices of an axis by numbers of any shape (ONNX Gather)."""
    return x.dtype, (*x.dims[:axis], *i.dims, *x.dims[axis + 1 :])


def _taken(x: np.ndarray, i: np.ndarray, dim: int) -> Any:
    if any(j > n for axis, (j, n) in enumerate(zip(i.shape, x.shape, strict=True)) if axis != dim):
        raise ValueError
    return i.shape


@declared(_taken, ("n, m; i64: k, m", {"dim": 0}), ("n, m; i64: k, j", {"dim": 1}))
def gather_elements(x: Operand, i: Operand, dim: int) -> Any:
    """One element for each index (torch.gather)."""
    for axis, (one, two) in enumerate(zip(i.dims, x.dims, strict=True)):
        assert axis == dim or one <= two, f"axis {axis} has {one} indices for {two} slices"
    return x.dtype, i.dims


def _top(x: np.ndarray, k: int) -> Any:
    if k > x.shape[-1]:
        raise ValueError
    return [x[..., :k], x[..., :k]]


@declared(_top, ("b, n", {"k": 3}))
def topk(x: Operand, k: int) -> Any:
    """The k largest of the last axis, and where they were."""
    assert k <= x.dims[-1], f"the {k} largest of {x.dims[-1]}"
    sizes = (*x.dims[:-1], k)
    return [(x.dtype, sizes), ("i64", sizes)]


@declared(lambda x: [np.sort(x), np.argsort(x)], "n, m")
def sort(x: Operand) -> Any:
    """The elements of the last axis in order, and where they were."""
    return [x, ("i64", x.dims)]


@declared(lambda x: (len(x.shape), 0), "n, m")
def nonzero(x: Operand) -> Any:
    """Where elements are not 0 (ONNX NonZero): how many is not known before."""
    return "i64", (x.rank, None)


@declared(lambda x, m: (0,), "n; i1: n")
def masked_select(x: Operand, m: Operand) -> Any:
    """The elements where a mask holds: how many is not known before."""
    return x.dtype, (None,)


@declared(lambda x: (len(np.unique(x)),), "n")
def unique(x: Operand) -> Any:
    """Each element once: how many is not known before."""
    return x.dtype, (None,)


@declared(lambda i, depth: (*i.shape, depth), ("i64: n, m", {"depth": 4}))
def one_hot(i: Operand, depth: int) -> Any:
    """A row with a 1 for each number."""
    return "i64", (*i.dims, depth)


@declared(
    lambda start, end, step: np.arange(start, end, step),
    (None, {"start": 2, "end": 9, "step": 3}),
    (None, {"start": 9, "end": 2, "step": -2}),
    (None, {"start": 3, "end": 3, "step": 1}),
)
def arange(start: int, end: int, step: int) -> Any:
    """start, start + step, ..."""
    return "i64", (max(-((start - end) // step), 0),)


@declared(lambda x: np.zeros_like(x), "n, m")
def zeros_like(x: Operand) -> Any:
    """As many zeros."""
    return x


@declared(lambda x: np.eye(x.shape[0], x.shape[1]), "n, m")
def eye_like(x: Operand) -> Any:
    """Ones on the diagonal of a matrix of this shape."""
    return x


@declared(lambda x: (len(x.shape),), "n, m", "n")
def shape(x: Operand) -> Any:
    """The sizes, as data."""
    return "i64", (x.rank,)


@declared(lambda x: (), "n, m")
def numel(x: Operand) -> Any:
    """How many elements, as data."""
    return "i64", ()


@declared(lambda *xs: [*np.meshgrid(*xs, indexing="ij")], "n; m")
def meshgrid(*xs: Operand) -> Any:
    """The coordinates of a grid."""
    sizes = [x.dims[0] for x in xs]
    return [(x.dtype, sizes) for x in xs]


def _scattered(x: np.ndarray, i: np.ndarray, s: np.ndarray) -> Any:
    if s.shape != (len(i), *x.shape[1:]):
        raise ValueError
    return x


@declared(_scattered, "n, m; i64: k; k, m", "n, m; i64: k; j, p")
def index_put(x: Operand, i: Operand, s: Operand) -> Any:
    """x with rows put at places."""
    assert s.dims == (i.dims[0], *x.dims[1:]), f"rows {s} for {i}"
    return x
