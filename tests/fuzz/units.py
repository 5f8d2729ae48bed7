"""Random programs about one element: unit axes, constants that fold, splats, and tensors that are moves of themselves.

Their classes hold broadcasts, reshapes and transposes of themselves, so that a rule which looks through a move finds
many: what bounds the growth of rules is tried here. Sizes of symbols are always a and b; every program is defined."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.ir.types import numpy_dtype
from egshape.ir.verify import verify
from tests.fuzz.differential import graph_of

ONE = const(1)
DTYPES = ("f32", "i32")
UNARY = ("negate", "abs", "sign", "floor", "exponential", "tanh")
INTEGER_UNARY = ("negate", "abs", "sign", "not")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum")
NUMBERS = (0, 1, 2, -1)
MOST_RANK = 4


class Units:
    """One program under construction."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.b = BlockBuilder()
        self.pool: list[Value] = []
        for name in ("a", "b"):
            self.keep(self.b.arg(f"x{name}", rng.choice(DTYPES), [None], [name]))
        self.keep(self.b.arg("one", "f32", [1]))
        self.keep(self.b.arg("ones", "i32", [1, 1]))
        for _ in range(3):
            self.constant()

    def keep(self, value: Value) -> Value:
        """Add to the values that others may read."""
        self.pool.append(value)
        return value

    def one(self, name: str, *operands: Value, **attrs: object) -> Value:
        """An op with one result."""
        return self.keep(self.b.one(name, operands, attrs))

    def value(self, *dtypes: str) -> Value:
        """An earlier value, a late one most of the time."""
        found = [each for each in self.pool if each.type.dtype in (dtypes or DTYPES)]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.7 else found)

    def like(self, x: Value) -> Value:
        """A value of the type of another one: one that is there, or a broadcast or reshape that makes it so."""
        found = [each for each in self.pool if each.type == x.type]
        small = [each for each in self.pool if each.type.dtype == x.type.dtype and _is_one(each)]
        if small and self.rng.random() < 0.5:
            y = self.rng.choice(small)
            if _is_one(x) and self.rng.random() < 0.5:
                return self.one("reshape", y, shape=x.type.dims)
            if y.type.rank <= x.type.rank:
                axes = sorted(self.rng.sample(range(x.type.rank), y.type.rank))
                return self.one("broadcast_in_dim", y, dims=tuple(axes), shape=x.type.dims)
        return self.rng.choice(found)

    def constant(self) -> Value:
        """A constant of one element, or a splat of a few."""
        dtype = self.rng.choice(DTYPES)
        shape = self.rng.choice(((), (1,), (1, 1), (1, 1, 1), (3,), (1, 3)))
        return self.one("constant", value=np.full(shape, self.rng.choice(NUMBERS), numpy_dtype(dtype)))

    def unary(self) -> Value:
        x = self.value()
        return self.one(self.rng.choice(UNARY if x.type.dtype == "f32" else INTEGER_UNARY), x)

    def convert(self) -> Value:
        return self.one("convert", self.value(), dtype=self.rng.choice(DTYPES))

    def binary(self) -> Value:
        x = self.value()
        pair = (x, self.like(x)) if self.rng.random() < 0.5 else (self.like(x), x)
        return self.one(self.rng.choice(BINARY), *pair)

    def select(self) -> Value:
        x = self.value()
        y = self.like(x)
        kind = "FLOAT" if x.type.dtype == "f32" else "SIGNED"
        test = self.one("compare", x, self.like(x), direction=self.rng.choice(("LT", "EQ", "NE")), kind=kind)
        return self.one("select", test, *self.rng.sample((x, y), 2))

    def broadcast(self) -> Value:
        x = self.value()
        rank = self.rng.randint(x.type.rank, min(x.type.rank + 1, MOST_RANK)) if x.type.rank < MOST_RANK else MOST_RANK
        axes = tuple(sorted(self.rng.sample(range(rank), x.type.rank)))
        sizes = [self.size() for _ in range(rank)]
        for axis, dim in zip(axes, x.type.dims, strict=True):
            sizes[axis] = dim if dim is not ONE or self.rng.random() < 0.7 else self.size()
        return self.one("broadcast_in_dim", x, dims=axes, shape=tuple(sizes))

    def size(self) -> Dim:
        return self.rng.choice((ONE, ONE, ONE, const(3), symbol("a"), symbol("b")))

    def reshape(self) -> Value:
        """Unit axes put in and taken out; now and then two axes become one."""
        x = self.value()
        dims = [dim for dim in x.type.dims if dim is not ONE or self.rng.random() < 0.4]
        if len(dims) >= 2 and self.rng.random() < 0.2:
            dims[:2] = [dims[0] * dims[1]]
        while len(dims) < MOST_RANK and self.rng.random() < 0.5:
            dims.insert(self.rng.randint(0, len(dims)), ONE)
        return self.one("reshape", x, shape=tuple(dims))

    def transpose(self) -> Value:
        x = self.value()
        return self.one("transpose", x, permutation=tuple(self.rng.sample(range(x.type.rank), x.type.rank)))

    def slice(self) -> Value:
        """The first element of each axis of numbers, all of the others."""
        x = self.value()
        limits = tuple(ONE if dim.const and self.rng.random() < 0.5 else dim for dim in x.type.dims)
        zeros = (const(0),) * x.type.rank
        return self.one("slice", x, starts=zeros, limits=limits, strides=(ONE,) * x.type.rank)

    def concatenate(self) -> Value:
        x = self.value()
        if not x.type.rank:
            return self.reshape()
        return self.one("concatenate", x, self.like(x), dim=self.rng.randrange(x.type.rank))

    def iota(self) -> Value:
        shape = tuple(self.size() for _ in range(self.rng.randint(1, 3)))
        return self.one("iota", dtype=self.rng.choice(DTYPES), dim=self.rng.randrange(len(shape)), shape=shape)

    def pieces(self) -> tuple[Callable[[], Value], ...]:
        """What a program is made of, often used ones twice."""
        return (
            self.unary,
            self.convert,
            self.binary,
            self.binary,
            self.select,
            self.broadcast,
            self.broadcast,
            self.reshape,
            self.reshape,
            self.transpose,
            self.slice,
            self.concatenate,
            self.constant,
            self.iota,
        )


def _is_one(value: Value) -> bool:
    return all(dim is ONE for dim in value.type.dims)


def unit_program(seed: int, most: int = 40) -> Graph:
    """The program of a seed."""
    rng = random.Random(seed)
    made = Units(rng)
    for _ in range(rng.randint(3, most)):
        rng.choice(made.pieces())()
    graph = graph_of(made.b, *made.pool[-4:])
    verify(graph)
    return graph
