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
    if i.size and any(j > n for axis, (j, n) in enumerate(zip(i.shape, x.shape, strict=True)) if axis != dim):
        raise ValueError
    return i.shape


@declared(_taken, ("n, m; i64: k, m", {"dim": 0}), ("n, m; i64: k, j", {"dim": 1}))
def gather_elements(x: Operand, i: Operand, dim: int) -> Any:
    """One element for each index (torch.gather); of no index nothing is asked."""
    for axis, (one, two) in enumerate(zip(i.dims, x.dims, strict=True)):
        assert axis == dim or one <= two or 0 in i.dims, f"axis {axis} has {one} indices for {two} slices"
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


def _summed_into(x: np.ndarray, i: np.ndarray, s: np.ndarray, dim: int) -> Any:
    if i.size and any(j > k for j, k in zip(i.shape, s.shape, strict=True)):
        raise ValueError
    _taken(x, i, dim)
    return x


@declared(_summed_into, ("n, m; i64: k, m; k, m", {"dim": 0}), ("n, 3; i64: n, j; n, p", {"dim": 1}))
def scatter_add(x: Operand, i: Operand, s: Operand, dim: int) -> Any:
    """x with elements added at places; the same for scatter and scatter_reduce."""
    for axis, (one, two) in enumerate(zip(i.dims, s.dims, strict=True)):
        assert one <= two or 0 in i.dims, f"axis {axis} has {one} indices for {two} elements"
    gather_elements(x, i, dim)
    return x


def _added_slices(x: np.ndarray, i: np.ndarray, s: np.ndarray, dim: int) -> Any:
    if s.shape != (*x.shape[:dim], len(i), *x.shape[dim + 1 :]):
        raise ValueError
    return x


@declared(_added_slices, ("n, m; i64: k; n, k", {"dim": 1}), ("n, m; i64: k; j, m", {"dim": 0}))
def index_add(x: Operand, i: Operand, s: Operand, dim: int) -> Any:
    """x with slices added at places."""
    assert s.dims == index_select(x, i, dim)[1], f"slices {s} for {i}"
    return x


@declared(lambda x, i: x[tuple(np.zeros(i.shape[-1:] + i.shape[:-1], int))], "n, m, p; i64: k, 2", "n, m; i64: j, k, 2")
def gather_nd(x: Operand, i: Operand) -> Any:
    """Slices by rows of numbers (ONNX GatherND): how many numbers a row has must be known."""
    count = int(i.dims[-1])
    assert all(size >= 1 for size in x.dims[:count]) or any(size == 0 for size in i.dims[:-1]), f"none of {x} to take"
    return x.dtype, (*i.dims[:-1], *x.dims[count:])


def _bags(w: np.ndarray, i: np.ndarray, offsets: np.ndarray) -> Any:
    return (len(offsets), w.shape[1])


@declared(_bags, "v, d; i64: n; i64: b")
def embedding_bag(w: Operand, i: Operand, offsets: Operand) -> Any:
    """The sum of the rows of each bag; a bag begins at each offset."""
    return w.dtype, (offsets.dims[0], w.dims[1])


def _places(s: np.ndarray, x: np.ndarray) -> Any:
    if s.ndim > 1 and s.shape[:-1] != x.shape[:-1]:
        raise ValueError
    return x.shape


@declared(_places, "n; j, k", "b, n; b, k", "b, n; c, k")
def searchsorted(s: Operand, x: Operand) -> Any:
    """Where elements belong in sorted rows: one row for all, or one for each."""
    assert s.rank == 1 or s.dims[:-1] == x.dims[:-1], f"rows {s} for {x}"
    return "i64", x.dims


@declared(lambda x, low, high, bins: np.histogram(x, bins, (low, high))[0], ("n", {"low": 0, "high": 2, "bins": 4}))
def histc(x: Operand, low: int, high: int, bins: int) -> Any:
    """How many elements lie in each of so many intervals."""
    return x.dtype, (bins,)


@declared(lambda x: (0,), "i64: n")
def bincount(x: Operand) -> Any:
    """How often each number occurs: how many there are is not known before."""
    return "i64", (None,)


@declared(lambda x, times: (0, *x.shape[1:]) if len(times) == len(x) else _refused(), "n, m; i64: n", "n; i64: k")
def repeat_interleave_by(x: Operand, times: Operand) -> Any:
    """Each row as often as data says."""
    assert times.dims[0] == x.dims[0], f"{times.dims[0]} counts for {x.dims[0]} rows"
    return x.dtype, (None, *x.dims[1:])


def _refused() -> Any:
    raise ValueError


@declared(lambda b, s: (0, 3) if len(b) == len(s) else _refused(), "n, 4; n", "n, 4; k")
def nms(b: Operand, s: Operand) -> Any:
    """The boxes that are kept (ONNX NonMaxSuppression): how many is not known before."""
    assert b.dims[0] == s.dims[0], f"{s.dims[0]} scores for {b.dims[0]} boxes"
    return "i64", (None, 3)


@declared(lambda x, num_samples: (*x.shape[:-1], num_samples), ("b, n", {"num_samples": 3}))
def multinomial(x: Operand, num_samples: int) -> Any:
    """Numbers drawn by weights."""
    return "i64", (*x.dims[:-1], num_samples)


@declared(lambda start, end, steps: np.linspace(start, end, steps), (None, {"start": 0, "end": 1, "steps": 5}))
def linspace(start: int, end: int, steps: int) -> Any:
    """So many numbers from start to end."""
    return "f32", (steps,)
