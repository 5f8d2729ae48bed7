"""Elementwise ops of two shapes, and products."""

# ruff: noqa: PLW0108  (attributes have other names in numpy)
from __future__ import annotations

from typing import Any

import numpy as np

from egshape.ops.shape_function import Operand
from egshape.shapelib.library import declared


def joined(one: Any, two: Any) -> Any:
    """The size of two axes that broadcast."""
    if one == 1:
        return two
    assert two in (1, one), f"sizes {one} and {two} do not broadcast"
    return one


def broadcast_sizes(one: Any, two: Any) -> list[Any]:
    """The sizes of two shapes that broadcast, aligned at the end."""
    rank = max(len(one), len(two))
    padded = [[1] * (rank - len(each)) + list(each) for each in (one, two)]
    return [joined(a, b) for a, b in zip(*padded, strict=True)]


@declared(np.add, "n, m; n, m", "n, m; m", "n, 1; 1, m", "; n", "n, m; p, 3")
def add(x: Operand, y: Operand) -> Any:
    """x + y, as all that is elementwise with broadcasting."""
    return x.dtype, broadcast_sizes(x.shape, y.shape)


@declared(lambda c, x, y: np.where(c, x, y), "i1: n; n; m, n", "i1: n, 1; m; 1")
def where(c: Operand, x: Operand, y: Operand) -> Any:
    """x where c, else y."""
    return x.dtype, broadcast_sizes(c.shape, broadcast_sizes(x.shape, y.shape))


@declared(np.dot, "n; n", "n; m")
def dot(x: Operand, y: Operand) -> Any:
    """The product of two vectors, which do not broadcast."""
    assert x.dims[0] == y.dims[0], f"vectors of {x.dims[0]} and {y.dims[0]} elements"
    return x.dtype, ()


@declared(
    lambda x, y: x @ y, "n, k; k, m", "n, k; j, m", "n; n, m", "b, n, m; m", "b, n, k; k, 2", "b, 2, k; a, 1, k, 3"
)
def matmul(x: Operand, y: Operand) -> Any:
    """x @ y: the last two axes as matrices, the others broadcast."""
    one = [1, *x.dims] if x.rank == 1 else list(x.dims)
    two = [*y.dims, 1] if y.rank == 1 else list(y.dims)
    assert one[-1] == two[-2], f"inner sizes {one[-1]} and {two[-2]} differ"
    out = broadcast_sizes(one[:-2], two[:-2])
    out += [one[-2]] * (x.rank > 1) + [two[-1]] * (y.rank > 1)
    return x.dtype, out


def _bmm(x: np.ndarray, y: np.ndarray) -> Any:
    if len(x) != len(y):
        raise ValueError
    return x @ y


@declared(_bmm, "b, n, k; b, k, m", "b, 2, k; a, k, 3")
def bmm(x: Operand, y: Operand) -> Any:
    """Products of a batch of matrices, which does not broadcast."""
    (b, n, k), (a, j, m) = x.dims, y.dims
    assert a == b, f"batches of {b} and {a}"
    assert k == j, f"inner sizes {k} and {j} differ"
    return x.dtype, (b, n, m)


@declared(np.dot, "n, k; k, m", "n, k; j, 2")
def mm(x: Operand, y: Operand) -> Any:
    """The product of two matrices."""
    return bmm_of(x, y)


def bmm_of(x: Operand, y: Operand) -> Any:
    """The type of the product of two matrices."""
    (n, k), (j, m) = x.dims, y.dims
    assert k == j, f"inner sizes {k} and {j} differ"
    return x.dtype, (n, m)


@declared(np.dot, "n, k; k", "n, k; j")
def mv(x: Operand, v: Operand) -> Any:
    """A matrix by a vector."""
    assert x.dims[1] == v.dims[0], f"{x.dims[1]} columns, {v.dims[0]} elements"
    return x.dtype, x.dims[:1]


@declared(lambda x, w, b: x @ w.T + np.broadcast_to(b, (w.shape[0],)), "b, n, k; m, k; m", "n, k; m, j; m")
def linear(x: Operand, w: Operand, b: Operand) -> Any:
    """x @ w.T + b."""
    assert x.dims[-1] == w.dims[1], f"{x.dims[-1]} features, the weight takes {w.dims[1]}"
    assert b.dims == (w.dims[0],), f"a bias of {b.dims} for {w.dims[0]} features"
    return x.dtype, (*x.dims[:-1], w.dims[0])


@declared(np.outer, "n; m")
def outer(x: Operand, y: Operand) -> Any:
    """x[i] * y[j]."""
    return x.dtype, (x.dims[0], y.dims[0])


@declared(np.kron, "n, m; p, 3")
def kron(x: Operand, y: Operand) -> Any:
    """The Kronecker product of two matrices."""
    return x.dtype, [a * b for a, b in zip(x.dims, y.dims, strict=True)]


def _einsum(*xs: np.ndarray, equation: str) -> Any:
    return np.einsum(equation, *xs)


@declared(
    _einsum,
    ("n, k; k, m", {"equation": "ij,jk->ik"}),
    ("b, n, k; b, m, k", {"equation": "bhd,bsd->bhs"}),
    ("n, n; n", {"equation": "ii,i->i"}),
    ("n, m", {"equation": "ij->j"}),
)
def einsum(*xs: Operand, equation: str) -> Any:
    """A sum of products, with the axes named by letters."""
    given, _, kept = equation.partition("->")
    sizes: dict[str, Any] = {}
    for letters, x in zip(given.split(","), xs, strict=True):
        for letter, size in zip(letters, x.dims, strict=True):
            sizes[letter] = joined(sizes.get(letter, 1), size)
    return xs[0].dtype, [sizes[letter] for letter in kept]


def _embedding(w: np.ndarray, i: np.ndarray) -> Any:
    return (*i.shape, w.shape[1])


@declared(_embedding, "v, d; i64: b, s")
def embedding(w: Operand, i: Operand) -> Any:
    """Rows of a table."""
    return w.dtype, (*i.dims, w.dims[1])


def _added_to(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Any:
    return np.broadcast_to(x, (y @ z).shape)


@declared(_added_to, "n, m; n, k; k, m", "m; n, k; k, m", "1, m; n, k; k, 3", "n, 1; j, 2; k, 3")
def addmm(x: Operand, y: Operand, z: Operand) -> Any:
    """x + y @ z, where x expands."""
    wanted = bmm_of(y, z)[1]
    given = [1] * (len(wanted) - x.rank) + list(x.dims)
    for one, size in zip(given, wanted, strict=True):
        assert one in (1, size), f"{x} does not expand to the product"
    return y.dtype, wanted


def _crossed(x: np.ndarray, y: np.ndarray) -> Any:
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError
    return np.add(x, y)


@declared(_crossed, "n, 3; n, 3", "n, m; k, 3")
def cross(x: Operand, y: Operand) -> Any:
    """The cross product of rows of 3."""
    assert x.dims[-1] == 3 and y.dims[-1] == 3, f"rows {x} and {y}"
    return add(x, y)


def _squared(x: np.ndarray) -> Any:
    if x.shape[-1] != x.shape[-2]:
        raise ValueError
    return x


@declared(_squared, "b, n, n", "n, m")
def cholesky(x: Operand) -> Any:
    """The triangle whose square a matrix is; the same for inv."""
    assert x.dims[-1] == x.dims[-2], f"a matrix of {x.dims[-2]} by {x.dims[-1]}"
    return x


def _qr(x: np.ndarray) -> Any:
    n, m = x.shape
    return [(n, min(n, m)), (min(n, m), m)]


@declared(_qr, "n, m")
def qr(x: Operand) -> Any:
    """A matrix as orthogonal columns by a triangle."""
    n, m = x.dims
    return [(x.dtype, (n, min(n, m))), (x.dtype, (min(n, m), m))]


@declared(lambda x: [(x.shape[0], min(x.shape)), (min(x.shape),), (min(x.shape), x.shape[1])], "n, m")
def svd(x: Operand) -> Any:
    """The singular values of a matrix, between orthogonal columns and rows."""
    n, m = x.dims
    least = min(n, m)
    return [(x.dtype, (n, least)), (x.dtype, (least,)), (x.dtype, (least, m))]


def _solved(a: np.ndarray, b: np.ndarray) -> Any:
    if a.shape[0] != a.shape[1] or a.shape[0] != b.shape[0]:
        raise ValueError
    return b


@declared(_solved, "n, n; n, k", "n, m; k, 2")
def solve(a: Operand, b: Operand) -> Any:
    """x with a @ x = b."""
    cholesky(a)
    assert a.dims[0] == b.dims[0], f"{a.dims[0]} equations, {b.dims[0]} right sides"
    return b
