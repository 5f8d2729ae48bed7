"""Two graphs on the same inputs: bit for bit equal, and rejected together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim
from egshape.errors import DoesNotFit, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype


def is_fit(error: EgshapeError) -> bool:
    """True for the check that integer shape code does not wrap: an optimized graph may keep one more of these."""
    return isinstance(error, DoesNotFit)


OURS = ("invalid-graph", "unbound-symbol", "unknown-op", "loop-limit", "internal")
"""Codes of faults that no program has: an optimized graph never raises them."""


@dataclass(frozen=True)
class Outcome:
    """What a graph did: its results, or the error that it raised."""

    results: tuple[np.ndarray, ...] = ()
    error: EgshapeError | None = None


def run(graph: Graph, arrays: Sequence[np.ndarray], *, fits: bool = True) -> Outcome:
    """Interpret a graph; an EgshapeError is an outcome, any other error is a bug and goes on.

    Without ``fits`` integers of shape code may wrap, as they do in the program itself."""
    try:
        return Outcome(tuple(interpret(graph, arrays, max_while=64, check_requires=fits)))
    except EgshapeError as error:
        return Outcome(error=error)


def wanted(graph: Graph, arrays: Sequence[np.ndarray]) -> Outcome:
    """What the program itself gives. Where shape code wraps that types rely on, that is a rejection."""
    found = run(graph, arrays)
    if found.error is None or not is_fit(found.error):
        return found
    wrapped = run(graph, arrays, fits=False)
    return found if wrapped.error is not None and wrapped.error.code == "inference" else wrapped


def bits(array: np.ndarray) -> bytes:
    """The bits of an array, with one NaN for all NaNs."""
    plain = np.array(array)
    if plain.dtype.kind == "c":
        return bits(plain.real) + bits(plain.imag)
    if plain.dtype.kind == "f" or plain.dtype.name == "bfloat16":
        plain[plain != plain] = np.nan  # noqa: PLR0124 - true for NaN only
    return plain.tobytes()


def difference(before: Outcome, after: Outcome) -> str:
    """Why two outcomes are not the same, "" if they are."""
    if before.error is not None or after.error is not None:
        return _errors(before.error, after.error)
    if len(before.results) != len(after.results):
        return f"{len(before.results)} results before, {len(after.results)} after"
    for number, (one, two) in enumerate(zip(before.results, after.results, strict=True)):
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"out{number} was {one.dtype}{list(one.shape)}, is {two.dtype}{list(two.shape)}"
        if bits(one) != bits(two):
            return f"out{number} was\n{one}\nis\n{two}"
    return ""


def _errors(before: EgshapeError | None, after: EgshapeError | None) -> str:
    if after is None:
        return f"was rejected, runs now: {before}"
    if after.code in OURS:
        return f"the optimized graph is broken ({after.code}): {after}"
    if before is None and not is_fit(after):
        return f"ran, is rejected now: {after}"
    return ""


def compare(before: Graph, after: Graph, arrays: Sequence[np.ndarray]) -> str:
    """Run both on copies of the arrays; "" or what differs."""
    found = difference(wanted(before, [a.copy() for a in arrays]), run(after, [a.copy() for a in arrays]))
    if not found:
        return ""
    shapes = ", ".join(f"{value.name} {list(array.shape)}" for value, array in zip(before.inputs, arrays, strict=True))
    return f"{found}\nwith {shapes or 'no inputs'}\n-- before\n{before}\n-- after\n{after}"


# -- building ------------------------------------------------------------------------------------------------------


def graph_of(b: BlockBuilder, *results: Value) -> Graph:
    """The graph of a finished builder."""
    return Graph("g", b.finish(results), tuple(f"out{number}" for number in range(len(results))))


def argument(b: BlockBuilder, name: str, dtype: str, shape: Sequence[Dim | int]) -> Value:
    """An argument; an axis whose size is a symbol defines it, or shares it with an earlier argument."""
    names = [next(iter(size.symbols())) if isinstance(size, Dim) and size.const is None else None for size in shape]
    sizes = [None if label else size for label, size in zip(names, shape, strict=True)]
    return b.arg(name, dtype, sizes, names)


def region(b: BlockBuilder, name: str, dtype: str) -> Block:
    """A reducer body of one binary op on scalars."""
    inner = b.child()
    x, y = inner.arg(None, dtype, []), inner.arg(None, dtype, [])
    return inner.finish([inner.one(name, (x, y))])


def constant(b: BlockBuilder, value: object, dtype: str) -> Value:
    """A constant of one of our dtypes."""
    return b.one("constant", (), {"value": np.asarray(value).astype(numpy_dtype(dtype))})


SPECIAL = (-0.0, 0.0, 1.0, np.nan, -1.5, np.inf, 2.0, -np.inf, 0.5, -3.0, 7.25, 1e-40, 3e38)


def data(dtype: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Deterministic elements: special floats, integers at the ends of their range, both truth values."""
    rng = np.random.default_rng([seed, len(shape)])
    target = numpy_dtype(dtype)
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype[0] in "iu":
        info = np.iinfo(target)
        ends = np.array([info.min, info.max, 0, 1, 2, 3, 5, 7], dtype=object)
        return np.asarray(rng.choice(ends, tuple(shape)), dtype=object).astype(target)
    with np.errstate(all="ignore"):
        if dtype in ("c64", "c128"):
            return (rng.choice(SPECIAL, shape) + 1j * rng.choice(SPECIAL, shape)).astype(target)
        return np.asarray(rng.choice(SPECIAL, shape)).astype(target)
