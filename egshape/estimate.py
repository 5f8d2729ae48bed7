"""What a run of a graph takes at given sizes, estimated from the shapes of all its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from egshape.dims import Dim
from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph, Value
from egshape.ir.types import TEXT, numpy_dtype
from egshape.ops import REGISTRY

_UNKNOWN_SIZE = 8
"""What a size that depends on data is taken for."""

_TEXT_BYTES = 64
"""What an element of text takes, about."""


class Estimate:
    """The elements that a run computes, and the bytes of its largest value."""

    def __init__(self, graph: Graph) -> None:
        self.fixed = 0
        self.weights = 0
        """Bytes of constants."""
        self._fixed_bytes = 0
        self._products: dict[tuple[tuple[Dim, ...], tuple[Dim, ...]], int] = {}
        """How often an op takes the steps of inner sizes for each element of a shape."""
        self._bytes: dict[tuple[Dim, ...], int] = {}
        for value in graph.inputs:
            self._add((), value)
        for op in graph.body.walk():
            inner = REGISTRY[op.name].traits.cost.inner(op)
            for number, value in enumerate(op.results):
                self._add(() if number else inner, value)
            if not op.results:
                self._count(inner, ())
            if op.name == "constant":
                self.weights += int(op.attrs["value"].nbytes)

    def _add(self, inner: Sequence[Dim], value: Value) -> None:
        shape, itemsize = tuple(value.type.shape or ()), element_bytes(value.type.dtype)
        self._count(tuple(inner), shape)
        if all(dim.const is not None for dim in shape):
            self._fixed_bytes = max(self._fixed_bytes, itemsize * prod(dim.const or 0 for dim in shape))
        else:
            self._bytes[shape] = max(self._bytes.get(shape, 0), itemsize)

    def _count(self, inner: tuple[Dim, ...], shape: tuple[Dim, ...]) -> None:
        if all(dim.const is not None for dim in (*inner, *shape)):
            self.fixed += _steps(inner, shape, {}, {})
        else:
            self._products[inner, shape] = self._products.get((inner, shape), 0) + 1

    def work(self, sizes: Mapping[str, int]) -> int:
        """Elements computed, those of sums counted, at sizes of the input symbols."""
        known: dict[Dim, int] = {}
        return self.fixed + sum(times * _steps(*dims, sizes, known) for dims, times in self._products.items())

    def largest(self, sizes: Mapping[str, int]) -> int:
        """Bytes of the largest value."""
        known: dict[Dim, int] = {}
        found = (size * _product(dims, sizes, known) for dims, size in self._bytes.items())
        return max(self._fixed_bytes, *found, 0)


def element_bytes(dtype: str) -> int:
    """Bytes that an element of a dtype takes."""
    return _TEXT_BYTES if dtype == TEXT else numpy_dtype(dtype).itemsize


def _steps(inner: Sequence[Dim], shape: Sequence[Dim], sizes: Mapping[str, int], known: dict[Dim, int]) -> int:
    """A long sum for each element of nothing takes its time too."""
    elements = _product(shape, sizes, known)
    return max(elements, 1) * _product(inner, sizes, known) if inner else elements


def _product(dims: Sequence[Dim], sizes: Mapping[str, int], known: dict[Dim, int]) -> int:
    for dim in dims:
        if dim not in known:
            known[dim] = _size(dim, sizes)
    return prod(known[dim] for dim in dims)


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    if not dim.symbols() <= sizes.keys():
        return _UNKNOWN_SIZE
    try:
        return max(dim.evaluate(sizes), 0)
    except UndefinedSize:
        return 0
