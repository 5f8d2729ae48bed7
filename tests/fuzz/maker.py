"""A maker of random programs: values that it has made, sizes at which the program runs, and pieces to make more of.

Every decision is asked of a chooser, which is a random generator in long runs and hypothesis in tests. The maker knows
one choice of sizes, the witness, at which all that it makes is defined; other sizes may break the program."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol, TypeVar

import numpy as np

from egshape.dims import Dim, const, product, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.types import is_float, is_integer
from tests.fuzz.differential import constant, data, graph_of

SIZES = (0, 1, 2, 3, 5, 7, 16)
SYMBOLS = ("a", "b", "c", "d")
DTYPES = ("f32", "f32", "f32", "f32", "i32", "i32", "i1", "f64", "i8", "ui8", "f16", "i64")
LARGEST = 4096
"""Most elements of one value at the witness."""

_T = TypeVar("_T")


class Chooser(Protocol):
    """Where decisions come from."""

    def randint(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""


class Maker:
    """One program under construction."""

    def __init__(self, chooser: Chooser, *, symbols: Sequence[str] = SYMBOLS) -> None:
        self.chooser = chooser
        self.b = BlockBuilder()
        self.sizes = {name: self.choice(SIZES[1:] if self.chance(4) else SIZES) for name in symbols}
        self.pool: list[Value] = []
        self.data_sizes: dict[str, int] = {}
        """Inputs that the program uses as sizes, and what they are at the witness."""
        self.outer: Maker | None = None
        for name in symbols:
            self.input(self.choice(("f32", "i32", "i1")), (symbol(name),))

    def inside(self) -> Maker:
        """A maker for a region: it sees what is made so far, and what it makes stays inside."""
        child = Maker.__new__(Maker)
        child.chooser, child.b, child.sizes = self.chooser, self.b.child(), self.sizes
        child.pool, child.data_sizes, child.outer = list(self.pool), self.data_sizes, self
        return child

    # -- decisions -------------------------------------------------------------------------------------------------

    def choice(self, items: Sequence[_T]) -> _T:
        """One of the items; the first is the simplest."""
        return items[self.chooser.randint(0, len(items) - 1)]

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.chooser.randint(0, one_in - 1) == one_in - 1

    def permutation(self, count: int) -> tuple[int, ...]:
        """The numbers below count in any order."""
        left, out = list(range(count)), []
        while left:
            out.append(left.pop(self.chooser.randint(0, len(left) - 1)))
        return tuple(out)

    def subset(self, count: int, size: int) -> tuple[int, ...]:
        """So many numbers below count, ascending."""
        return tuple(sorted(self.permutation(count)[:size]))

    # -- sizes -----------------------------------------------------------------------------------------------------

    def at(self, dim: Dim) -> int:
        """A size at the witness."""
        return dim.evaluate(self.sizes)

    def shape_at(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        """A shape at the witness."""
        return tuple(map(self.at, dims))

    def dim(self) -> Dim:
        """Any size: a symbol most of the time, else a constant or an expression."""
        kind = self.chooser.randint(0, 9)
        if kind < 6:
            return symbol(self.choice(tuple(self.sizes)))
        if kind < 8:
            return const(self.choice(SIZES))
        one, two = (symbol(self.choice(tuple(self.sizes))) for _ in range(2))
        return one + two if kind == 8 else one * 2

    def equal(self, dim: Dim) -> Dim:
        """A size that is equal at the witness, now and then of another form."""
        if not self.chance(4):
            return dim
        found = [each for each in map(symbol, self.sizes) if self.at(each) == self.at(dim)]
        return self.choice([dim, *found, const(self.at(dim))])

    def similar(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """A shape that is equal at the witness."""
        return tuple(map(self.equal, dims))

    def fits(self, dims: Sequence[Dim]) -> bool:
        """True for shapes of a bearable number of elements."""
        return len(dims) <= 5 and all(size >= 0 for size in self.shape_at(dims)) and self.count(dims) <= LARGEST

    def count(self, dims: Sequence[Dim]) -> int:
        """Elements at the witness."""
        return prod(self.shape_at(dims))

    def dims(self, rank: int) -> tuple[Dim, ...]:
        """A shape of bearable size."""
        for _ in range(8):
            out = tuple(self.dim() for _ in range(rank))
            if self.fits(out):
                return out
        return (const(1),) * rank

    # -- values ----------------------------------------------------------------------------------------------------

    def input(self, dtype: str, dims: Sequence[Dim]) -> Value:
        """A new input of the graph; a size that is no symbol becomes one of its own, checked against it."""
        top = self
        while top.outer is not None:
            top = top.outer
        names: list[str | None] = []
        sizes: list[Dim | None] = []
        for dim in dims:
            plain = dim.const is None and dim is symbol(next(iter(dim.symbols())))
            names.append(next(iter(dim.symbols())) if plain else None)
            sizes.append(None if dim.const is None else dim)
        value = top.b.arg(f"x{len(top.b.args)}", dtype, sizes, names)
        for size, dim in zip(value.type.dims, dims, strict=True):
            for name in size.symbols() - self.sizes.keys():
                self.sizes[name] = self.at(dim)
        self.keep(value)
        if self.outer is not None:
            top.keep(value)
        return value

    def size_input(self, count: int | None, numbers: Sequence[int]) -> Value:
        """An i32 input whose elements are used as sizes: a scalar for count None."""
        top = self
        while top.outer is not None:
            top = top.outer
        name = f"k{len(top.b.args)}"
        value = top.b.arg(name, "i32", [] if count is None else [count])
        for position, number in enumerate(numbers):
            self.data_sizes[f"{name}.{position}"] = number
        return value

    def keep(self, value: Value) -> Value:
        """Add to the values that others may read."""
        if value.type.shape is not None and value.type.rank <= 5:
            self.pool.append(value)
        return value

    def known(self, value: Value) -> bool:
        """True if the witness gives all sizes of a value."""
        names = {name for dim in value.type.dims for name in dim.symbols()}
        return names <= self.sizes.keys()

    def value(self, rank: int | None = None, dtype: str | None = None, low: int = 0) -> Value:
        """A value of a rank and dtype: an earlier one, often, else a new input. low: the least rank."""
        wanted = [
            each
            for each in self.pool
            if (rank is None or each.type.rank == rank)
            and each.type.rank >= low
            and (dtype is None or each.type.dtype == dtype)
            and self.known(each)
            and self.fits(each.type.dims)
        ]
        if wanted and not self.chance(3):
            return wanted[-1 - self.chooser.randint(0, min(len(wanted), 6) - 1)]
        dtype = dtype or self.choice(DTYPES)
        return self.input(dtype, self.dims(self.chooser.randint(low, 3) if rank is None else rank))

    def numeric(self, rank: int | None = None, low: int = 0) -> Value:
        """A value that has arithmetic."""
        found = self.value(rank, low=low)
        return found if found.type.dtype != "i1" else self.convert(found, "f32")

    def like(self, x: Value) -> Value:
        """Another value of the same dtype and, at the witness, the same shape."""
        wanted = [
            each
            for each in self.pool
            if each.type.dtype == x.type.dtype
            and self.known(each)
            and self.shape_at(each.type.dims) == self.shape_at(x.type.dims)
        ]
        return self.choice(wanted) if wanted and not self.chance(3) else self.input(x.type.dtype, x.type.dims)

    def one(self, name: str, operands: Sequence[Value] = (), **attrs: object) -> Value:
        """An op with one result."""
        return self.keep(self.b.one(name, operands, attrs))

    # -- often needed ----------------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: str) -> Value:
        return self.one("convert", (x,), dtype=dtype)

    def scalar(self, number: object, dtype: str) -> Value:
        return self.keep(constant(self.b, number, dtype))

    def any_scalar(self, dtype: str) -> Value:
        """A scalar: an input, or a constant that is likely to be neutral for something."""
        if self.chance(3):
            return self.value(0, dtype)
        if dtype == "i1":
            return self.scalar(self.chance(2), dtype)
        floats = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5)
        return self.scalar(self.choice(floats) if is_float(dtype) else self.choice((0, 1, 2, 7)), dtype)

    def splat(self, scalar: Value, dims: Sequence[Dim]) -> Value:
        return self.one("broadcast_in_dim", (scalar,), dims=(), shape=tuple(dims))

    def transposed(self, x: Value, permutation: Sequence[int] | None = None) -> Value:
        order = self.permutation(x.type.rank) if permutation is None else tuple(permutation)
        return self.one("transpose", (x,), permutation=order)

    def reshaped(self, x: Value) -> Value:
        """Merged, split by ones, with its axes in another order, or the same."""
        dims = list(x.type.dims)
        kind = self.chooser.randint(0, 4)
        if kind == 0:
            dims = [product(dims)]
        elif kind == 1:
            dims.insert(self.chooser.randint(0, len(dims)), const(1))
        elif kind == 2:
            dims = [dims[axis] for axis in self.permutation(len(dims))]
        elif kind == 3 and len(dims) > 1:
            axis = self.chooser.randint(0, len(dims) - 2)
            dims[axis : axis + 2] = [dims[axis] * dims[axis + 1]]
        shape = self.similar(dims[:5]) if self.count(dims[:5]) == self.count(x.type.dims) else x.type.dims
        return self.one("reshape", (x,), shape=shape)

    def spread(self, x: Value, *, increasing: bool = True, same: bool = False) -> tuple[Value, tuple[int, ...]]:
        """A broadcast, and its axes. same: no axis is added."""
        extra = 0 if same else self.chooser.randint(0, 2)
        rank = x.type.rank + extra
        axes = self.subset(rank, x.type.rank) if increasing else self.permutation(rank)[: x.type.rank]
        for _ in range(8):
            shape = [self.dim() for _ in range(rank)]
            for axis, target in enumerate(axes):
                size = x.type.dims[axis]
                if self.at(size) != 1 or not self.chance(2):
                    shape[target] = self.equal(size)
            if self.fits(shape):
                break
        else:
            shape = [const(1)] * rank
            for axis, target in enumerate(axes):
                shape[target] = x.type.dims[axis]
        return self.one("broadcast_in_dim", (x,), dims=axes, shape=tuple(shape)), axes

    def window(
        self, x: Value, starts: Sequence[Dim], limits: Sequence[Dim], strides: Sequence[int] | None = None
    ) -> Value:
        steps = tuple(map(const, strides or (1,) * x.type.rank))
        return self.one("slice", (x,), starts=tuple(starts), limits=tuple(limits), strides=steps)

    def cut(self, x: Value, axis: int) -> Dim:
        """A place on an axis, at the witness between 0 and its size."""
        size = x.type.dims[axis]
        below = [each for each in map(symbol, self.sizes) if self.at(each) <= self.at(size)]
        options: list[Dim] = [const(0), size, *below]
        if self.at(size) >= 1:
            options += [const(1), size - 1]
        return self.choice(options)

    # -- the graph and its inputs ----------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph of what was made; its results are a few of the values, some values nobody reads."""
        made = [value for op in self.b.ops for value in op.results] or self.pool
        results = [made[-1]] if made else []
        for _ in range(self.chooser.randint(0, 3) if made else 0):
            results.append(self.choice(made if not self.chance(5) else self.pool or made))
        return graph_of(self.b, *results)


def arrays_at(graph: Graph, sizes: Mapping[str, int], data_sizes: Mapping[str, int], seed: int) -> list[np.ndarray]:
    """Inputs of the given sizes. Raises KeyError for a symbol without a size."""
    out = []
    for number, value in enumerate(graph.inputs):
        shape = tuple(dim.evaluate(sizes) for dim in value.type.dims)
        if any(key.startswith(f"{value.name}.") for key in data_sizes) and is_integer(value.type.dtype):
            numbers = [data_sizes[f"{value.name}.{position}"] for position in range(prod(shape))]
            out.append(np.array(numbers, np.int32).reshape(shape))
        else:
            out.append(data(value.type.dtype, shape, seed + number))
    return out


def variations(maker: Maker, seed: int, count: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    """The witness, then other sizes: one symbol changed, or all of them, or one of the sizes that are data."""
    rng = random.Random(seed)
    out = [(dict(maker.sizes), dict(maker.data_sizes))]
    for number in range(count):
        sizes, numbers = dict(maker.sizes), dict(maker.data_sizes)
        if numbers and number % 3 == 2:
            key = rng.choice(sorted(numbers))
            numbers[key] += rng.choice((-1, 1, 2, -8))
        elif number % 2:
            sizes = {name: rng.choice(SIZES) for name in sizes}
        elif sizes:
            sizes[rng.choice(sorted(sizes))] = rng.choice(SIZES)
        out.append((sizes, numbers))
    return out


def bearable(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """False if some value would have a great many elements at these sizes."""
    for op in graph.body.walk():
        for value in op.results:
            known = [dim for dim in value.type.shape or () if dim.symbols() <= sizes.keys()]
            if prod(max(dim.evaluate(sizes), 0) for dim in known) > 16 * LARGEST:
                return False
    return True
