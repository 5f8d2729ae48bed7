"""Sizes that only data tells, as JAX exports them: upper bounds, and how much of them is there. Each program is
compiled once and gives what JAX gives, at sizes that nobody compiled for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import egshape

F = np.float32
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Row:
    """A function of ``jnp`` and arguments; these by shape, whose names are sizes, and dtype; ``feeds`` of a size."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[tuple[str, Any]]
    feeds: Callable[[int], Sequence[Array]]
    sizes: Sequence[int] = (1, 2, 7, 40)


def numbers(*shape: int) -> Array:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)
    return np.where(np.abs(drawn) < 0.4, F(0), drawn)


def few(n: int) -> Array:
    return np.random.default_rng(n).integers(0, 4, n).astype(np.int32)


def places(np_: Any, x: Any) -> Any:
    (at,) = np_.nonzero(x > 0, size=x.shape[0], fill_value=x.shape[0])
    return at, (x > 0).sum()


def filtered(np_: Any, x: Any) -> Any:
    (at,) = np_.nonzero(x[:, 0] > 0, size=x.shape[0], fill_value=0)
    there = np_.arange(x.shape[0]) < (x[:, 0] > 0).sum()
    return np_.where(there[:, None], x[at] * 2, 0).sum(0)


def both(np_: Any, x: Any, y: Any) -> Any:
    (one,) = np_.nonzero(x > 0, size=x.shape[0], fill_value=0)
    (two,) = np_.nonzero(x > 0, size=x.shape[0], fill_value=0)
    return x[one] + y[two]


def different(np_: Any, x: Any) -> Any:
    """The different elements, how often each is there, and which of them each element is."""
    n, order = x.shape[0], np_.argsort(x, stable=True)
    row = x[order]
    fresh = np_.concatenate([np_.ones((1,), bool), row[1:] != row[:-1]])
    (at,) = np_.nonzero(fresh, size=n, fill_value=0)
    number = np_.cumsum(fresh) - 1
    there = np_.arange(n) < fresh.sum()
    back = np_.zeros((n,), np_.int32).at[order].set(number.astype(np_.int32))
    return np_.where(there, row[at], -1), np_.zeros((n,), np_.int32).at[number].add(1), back


def repeated(np_: Any, x: Any, times: Any) -> Any:
    return np_.repeat(x, times, axis=0, total_repeat_length=3 * x.shape[0])


def ragged_sums(np_: Any, x: Any, lengths: Any) -> Any:
    ends = np_.cumsum(lengths)
    row = np_.sum(np_.arange(x.shape[0])[:, None] >= ends[None, :], axis=1)
    return np_.zeros((lengths.shape[0],), x.dtype).at[row].add(x, mode="drop")


def padded_rows(np_: Any, x: Any, lengths: Any) -> Any:
    starts = np_.cumsum(lengths) - lengths
    at = starts[:, None] + np_.arange(x.shape[0])[None, :]
    there = np_.arange(x.shape[0])[None, :] < lengths[:, None]
    return np_.where(there, x[np_.clip(at, 0, x.shape[0] - 1)], 0)


def best_of(np_: Any, x: Any, k: Any) -> Any:
    order = np_.argsort(-x)
    return np_.where(np_.arange(x.shape[0]) < k, x[order], 0)


def compacted(np_: Any, x: Any, mask: Any) -> Any:
    return x[np_.argsort(~mask, stable=True)], mask.sum()


N = ("n", F)
ROWS = [
    Row("nonzero", places, [N], lambda n: [numbers(n)]),
    Row("a filter, worked on and summed", filtered, [("n, 3", F)], lambda n: [numbers(n, 3)]),
    Row("one mask of two arrays", both, [N, N], lambda n: [numbers(n), numbers(n) * 2]),
    Row("unique with counts", different, [("n", np.int32)], lambda n: [few(n)]),
    Row("repeat", repeated, [("n, 2", F), ("n", np.int32)], lambda n: [numbers(n, 2), few(n)]),
    Row(
        "sums of ragged rows",
        ragged_sums,
        [N, ("r", np.int32)],
        lambda n: [numbers(n), np.array([n // 2, 0, n // 3], np.int32)],
    ),
    Row(
        "ragged rows, padded",
        padded_rows,
        [N, ("r", np.int32)],
        lambda n: [numbers(n), np.array([n // 2, n // 3], np.int32)],
    ),
    Row("the best k of a run-time k", best_of, [N, ("", np.int32)], lambda n: [numbers(n), np.array(n // 2, np.int32)]),
    Row("compacted by a mask", compacted, [("n, 2", F), ("n", np.bool_)], lambda n: [numbers(n, 2), few(n) > 1]),
]


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_in_jax(row: Row) -> None:
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    scope = jax.export.SymbolicScope()
    types = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope), dtype) for shape, dtype in row.arguments
    ]

    def function(*arrays: Any) -> Any:
        return row.function(jnp, *arrays)

    reference = jax.jit(function)
    run = egshape.compile(jax.export.export(reference)(*types))
    for n in row.sizes:
        arrays = row.feeds(n)
        found, wanted = run(*arrays), jax.tree.leaves(reference(*arrays))
        for one, two in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert one.shape == two.shape
            np.testing.assert_allclose(one, np.asarray(two), rtol=1e-5, atol=1e-5, err_msg=f"at {n}")
