"""Ops that move elements: their sizes are the operand's, put together anew."""

# ruff: noqa: PLW0108  (attributes have other names in numpy)
from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from egshape.ops.shape_function import Operand
from egshape.shapelib.library import declared


def _with(x: Operand, dim: int, size: Any) -> Any:
    """The type of x with another size of one axis."""
    out: list[Any] = list(x.dims)
    out[dim] = size
    return x.dtype, out


@declared(
    lambda *xs, dim: np.concatenate(xs, dim),
    ("n, m; p, m", {"dim": 0}),
    ("n, m; n, q; n, 2", {"dim": -1}),
    contract=lambda dim: ("concatenate", {"dim": dim % 2}),
)
def cat(*xs: Operand, dim: int) -> Any:
    """Tensors after each other along an axis."""
    axis = dim % xs[0].rank
    for x in xs[1:]:
        for other, (one, two) in enumerate(zip(xs[0].dims, x.dims, strict=True)):
            assert other == axis or one == two, f"axis {other} is {one} and {two}"
    return _with(xs[0], axis, sum(x.dims[axis] for x in xs))


@declared(lambda *xs, dim: np.stack(xs, dim), ("n, m; n, p", {"dim": 1}), ("n; n; n", {"dim": 0}))
def stack(*xs: Operand, dim: int) -> Any:
    """Tensors of one shape along a new axis."""
    for x in xs[1:]:
        assert x.dims == xs[0].dims, f"shapes {x} and {xs[0]} differ"
    out: list[Any] = list(xs[0].dims)
    out.insert(dim, len(xs))
    return xs[0].dtype, out


def _split(x: np.ndarray, sizes: tuple[int, ...], dim: int) -> Any:
    if sum(sizes) != x.shape[dim]:
        raise ValueError
    return np.split(x, np.cumsum(sizes)[:-1], dim)


@declared(_split, ("n, 5", {"sizes": (2, 3), "dim": 1}), ("n, m", {"sizes": (1, 0, 2), "dim": 0}))
def split(x: Operand, sizes: tuple[int, ...], dim: int) -> Any:
    """Pieces of given sizes."""
    assert x.dims[dim] == sum(sizes), f"pieces of {sum(sizes)} in all, the axis has {x.dims[dim]}"
    return [_with(x, dim, size) for size in sizes]


def _halves(x: np.ndarray, dim: int) -> Any:
    return np.array_split(x, 2, dim)


@declared(_halves, ("n, m", {"dim": 0}))
def halves(x: Operand, dim: int) -> Any:
    """Two pieces, the first one not smaller (torch.tensor_split)."""
    size = x.dims[dim]
    return [_with(x, dim, (size + 1) // 2), _with(x, dim, size // 2)]


@declared(lambda x, dim: [*np.moveaxis(x, dim, 0)], ("3, n", {"dim": 0}), ("n, 2, m", {"dim": 1}))
def unbind(x: Operand, dim: int) -> Any:
    """The slices of an axis of fixed size."""
    rest = [size for axis, size in enumerate(x.dims) if axis != dim % x.rank]
    return [(x.dtype, rest) for _ in range(x.dims[dim])]


@declared(lambda x, dim: np.squeeze(x, dim), ("n, 1, m", {"dim": 1}), ("n, m", {"dim": 0}))
def squeeze(x: Operand, dim: int) -> Any:
    """Without an axis, which must have the size 1."""
    assert x.dims[dim] == 1, f"axis {dim} is {x.dims[dim]}, not 1"
    return x.dtype, [size for axis, size in enumerate(x.dims) if axis != dim % x.rank]


@declared(lambda x, dim: np.expand_dims(x, dim), ("n, m", {"dim": 1}), ("n", {"dim": 0}))
def unsqueeze(x: Operand, dim: int) -> Any:
    """With a new axis of 1."""
    out: list[Any] = list(x.dims)
    out.insert(dim, 1)
    return x.dtype, out


def _viewed(x: np.ndarray, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


@declared(
    _viewed,
    ("n, 4", {"shape": (-1, 2)}),
    ("n, m", {"shape": (2, -1, 3)}),
    ("n, m", {"shape": (4, 2)}),
    ("n, m", {"shape": (-1,)}),
)
def view(x: Operand, shape: tuple[int, ...]) -> Any:
    """The elements in another shape; -1 is what is left."""
    count, known = prod(x.dims), prod(size for size in shape if size != -1)
    if -1 not in shape:
        assert count == known, f"{count} elements in the shape {shape}"
        return x.dtype, shape
    assert count % known == 0, f"{count} elements in the shape {shape}"
    return x.dtype, [count // known if size == -1 else size for size in shape]


def _flattened(x: np.ndarray, start: int, end: int) -> Any:
    return (*x.shape[:start], int(np.prod(x.shape[start : end + 1])), *x.shape[end + 1 :])


@declared(_flattened, ("b, c, h, w", {"start": 1, "end": 3}), ("n, m, k", {"start": 0, "end": 1}))
def flatten(x: Operand, start: int, end: int) -> Any:
    """Neighbouring axes as one."""
    return x.dtype, (*x.dims[:start], prod(x.dims[start : end + 1]), *x.dims[end + 1 :])


def _expanded(x: np.ndarray, sizes: tuple[int, ...]) -> Any:
    given = (1,) * (len(sizes) - x.ndim) + x.shape
    return np.broadcast_to(x, [one if size == -1 else size for one, size in zip(given, sizes, strict=True)])


@declared(_expanded, ("n, 1", {"sizes": (-1, 4)}), ("n, m", {"sizes": (2, -1, 3)}), ("n", {"sizes": (0,)}))
def expand(x: Operand, sizes: tuple[int, ...]) -> Any:
    """Axes of 1 repeated; -1 keeps a size."""
    given = [1] * (len(sizes) - x.rank) + list(x.dims)
    out = []
    for one, size in zip(given, sizes, strict=True):
        assert size == -1 or one in (1, size), f"an axis of {one} does not expand to {size}"
        out.append(one if size == -1 else size)
    return x.dtype, out


@declared(lambda x, times: np.tile(x, times), ("n, m", {"times": (2, 3)}), ("n", {"times": (2, 2)}))
def repeat(x: Operand, times: tuple[int, ...]) -> Any:
    """Copies beside each other."""
    given = [1] * (len(times) - x.rank) + list(x.dims)
    return x.dtype, [size * count for size, count in zip(given, times, strict=True)]


@declared(lambda x, times, dim: np.repeat(x, times, dim), ("n, m", {"times": 3, "dim": 1}))
def repeat_interleave(x: Operand, times: int, dim: int) -> Any:
    """Each slice several times."""
    return _with(x, dim, x.dims[dim] * times)


@declared(
    lambda x, dims: np.transpose(x, dims),
    ("n, m, k", {"dims": (2, 0, 1)}),
    ("n, m", {"dims": (1, 0)}),
    contract=lambda dims: ("transpose", {"permutation": dims}),
)
def permute(x: Operand, dims: tuple[int, ...]) -> Any:
    """The axes in another order."""
    return x.dtype, [x.dims[axis] for axis in dims]


@declared(np.transpose, "n, m")
def t(x: Operand) -> Any:
    """A matrix transposed."""
    return x.dtype, x.dims[::-1]


@declared(lambda x, one, two: np.swapaxes(x, one, two), ("n, m, k", {"one": 0, "two": -1}))
def transpose(x: Operand, one: int, two: int) -> Any:
    """Two axes exchanged."""
    out: list[Any] = list(x.dims)
    out[one], out[two] = out[two], out[one]
    return x.dtype, out


@declared(lambda x, dims: np.flip(x, dims), ("n, m", {"dims": (0,)}), contract=lambda dims: ("reverse", {"dims": dims}))
def flip(x: Operand, dims: tuple[int, ...]) -> Any:
    """In the other direction."""
    return x


@declared(lambda x, shift: np.roll(x, shift), ("n, m", {"shift": 2}))
def roll(x: Operand, shift: int) -> Any:
    """Moved around."""
    return x


def _sliced(x: np.ndarray, start: int, end: int, step: int) -> Any:
    return x[start:end:step]


@declared(
    _sliced,
    ("n, m", {"start": 1, "end": 4, "step": 1}),
    ("n, m", {"start": -3, "end": -1, "step": 1}),
    ("n", {"start": 0, "end": 1000, "step": 2}),
)
def slice(x: Operand, start: int, end: int, step: int) -> Any:
    """x[start:end:step], as Python has it."""
    size = x.dims[0]

    def inside(place: int) -> Any:
        return max(place + size, 0) if place < 0 else min(place, size)

    length = max(inside(end) - inside(start), 0)
    return _with(x, 0, (length + step - 1) // step)


@declared(
    lambda x, low, high: np.pad(x, list(zip(low, high, strict=True))),
    ("n, m", {"low": (1, 0), "high": (2, 3)}),
)
def pad(x: Operand, low: tuple[int, ...], high: tuple[int, ...]) -> Any:
    """With more at the ends of the axes."""
    return x.dtype, [size + a + b for size, a, b in zip(x.dims, low, high, strict=True)]


def _reflected(x: np.ndarray, width: int) -> Any:
    if width >= x.shape[0]:
        raise ValueError
    return np.pad(x, width, "reflect")


@declared(_reflected, ("n", {"width": 2}))
def reflection_pad1d(x: Operand, width: int) -> Any:
    """With its own elements, mirrored, at both ends."""
    assert width < x.dims[0], f"mirrors {width} of {x.dims[0]} elements"
    return x.dtype, (x.dims[0] + 2 * width,)


@declared(np.tril, "n, m")
def tril(x: Operand) -> Any:
    """What is on and below the diagonal."""
    return x


@declared(np.triu, "n, m")
def triu(x: Operand) -> Any:
    """What is on and above the diagonal."""
    return x


@declared(np.diag, "n, m", "n")
def diag(x: Operand) -> Any:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    return x.dtype, (min(x.dims),) if x.rank == 2 else (x.dims[0], x.dims[0])


@declared(lambda x, k: np.diagonal(x, k), ("n, m", {"k": 1}), ("n, m", {"k": -2}))
def diagonal(x: Operand, k: int) -> Any:
    """A diagonal beside the middle one."""
    n, m = x.dims
    return x.dtype, (max(min(n, m - k) if k >= 0 else min(n + k, m), 0),)


def _folded_back(x: np.ndarray, dim: int, parts: int) -> Any:
    if x.shape[dim] % parts:
        raise ValueError
    return x.reshape(*x.shape[:dim], parts, x.shape[dim] // parts, *x.shape[dim + 1 :])


@declared(_folded_back, ("n, m", {"dim": 0, "parts": 2}), ("b, 3*h, k", {"dim": 1, "parts": 3}))
def unflatten(x: Operand, dim: int, parts: int) -> Any:
    """An axis as two, the first of so many parts."""
    assert x.dims[dim] % parts == 0, f"axis {dim} of {x.dims[dim]} in {parts} parts"
    return x.dtype, (*x.dims[:dim], parts, x.dims[dim] // parts, *x.dims[dim + 1 :])


def _chunked(x: np.ndarray, chunks: int, dim: int) -> Any:
    if not x.shape[dim]:
        return [x] * chunks
    step = -(-x.shape[dim] // chunks)
    return [np.take(x, range(at, min(at + step, x.shape[dim])), dim) for at in range(0, x.shape[dim], step)]


@declared(_chunked, ("12, m", {"chunks": 5, "dim": 0}), ("n, 0", {"chunks": 3, "dim": 1}))
def chunk(x: Operand, chunks: int, dim: int) -> Any:
    """Cut into at most so many pieces, all but the last one of one size; nothing is cut into that many.

    How many there are hangs on the size of the axis, which must be known."""
    size = int(x.dims[dim])
    if size == 0:
        return [x] * chunks
    step = -(-size // chunks)
    return [_with(x, dim, min(step, size - at)) for at in range(0, size, step)]


@declared(lambda x, one, two: np.swapaxes(x, one, two), ("a, b, c", {"one": 0, "two": -1}))
def swapaxes(x: Operand, one: int, two: int) -> Any:
    """Two axes for one another."""
    return transpose(x, one, two)


def _moved(x: np.ndarray, source: tuple[int, ...], destination: tuple[int, ...]) -> Any:
    return np.moveaxis(x, source, destination)


@declared(
    _moved, ("a, b, c", {"source": (0,), "destination": (2,)}), ("a, b, c", {"source": (2, 0), "destination": (0, 1)})
)
def movedim(x: Operand, source: tuple[int, ...], destination: tuple[int, ...]) -> Any:
    """Axes to other places; the others keep their order."""
    rest = [axis for axis in range(x.rank) if axis not in source]
    order = dict(zip(destination, source, strict=True))
    return x.dtype, [x.dims[order[at] if at in order else rest.pop(0)] for at in range(x.rank)]


def _strided(x: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Any:
    if 0 not in size and offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) >= x.size:
        raise ValueError
    return size


@declared(
    _strided,
    ("n, m", {"size": (2, 3), "stride": (3, 1), "offset": 1}),
    ("n", {"size": (0, 4), "stride": (1, 1), "offset": 9}),
)
def as_strided(x: Operand, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Any:
    """Elements by their places in memory, of a tensor without gaps."""
    if 0 not in size:
        last = offset + sum(one * (n - 1) for n, one in zip(size, stride, strict=True))
        assert last < prod(x.dims), f"element {last} of {x}"
    return x.dtype, size


@declared(lambda x: (*x.shape, x.shape[-1]), "b, n")
def diag_embed(x: Operand) -> Any:
    """The last axis as the diagonal of a matrix."""
    return x.dtype, (*x.dims, x.dims[-1])


def _triangle(row: int, col: int, offset: int) -> Any:
    return [*np.tril_indices(row, offset, col)]


@declared(
    lambda row, col, offset: np.stack(_triangle(row, col, offset)),
    (None, {"row": 3, "col": 4, "offset": 0}),
    (None, {"row": 4, "col": 2, "offset": -1}),
    (None, {"row": 2, "col": 5, "offset": 1}),
)
def tril_indices(row: int, col: int, offset: int) -> Any:
    """Where a lower triangle is."""
    return "i64", (2, sum(min(max(at + 1 + offset, 0), col) for at in range(row)))
