"""Structural keys: two ops or regions with one key compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, symbol
from egshape.ir.graph import Block, Value
from egshape.ir.types import TensorType


def hashable(value: Any) -> Any:
    """An attribute (or a dict of them) as something that can be hashed; arrays by dtype, shape and bytes."""
    if isinstance(value, dict):
        return tuple(sorted((key, hashable(item)) for key, item in value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return value if _is_hashable(value) else tuple(hashable(item) for item in value)
    return value


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def region_key(region: Block, captures: Sequence[Value], sizes: Mapping[str, Dim] | None = None) -> Any:
    """The key of a region; values it captures count by their place in ``captures``, sizes that it defines itself by
    theirs. ``sizes``: what other symbols are called."""
    numbers: dict[Value, int] = {value: -1 - place for place, value in enumerate(captures)}
    return _Keys(sizes or {}).block(region, numbers)


class _Keys:
    """Makes keys in which sizes stand in the place of symbols."""

    def __init__(self, sizes: Mapping[str, Dim], inner: int = 0) -> None:
        self._sizes, self._inner = sizes, inner
        self._known: dict[Any, Any] = {}

    def block(self, block: Block, numbers: dict[Value, int]) -> Any:
        own = {each.name: symbol(f"\0{self._inner + place}") for place, each in enumerate(block.symbols)}
        if own.keys() - self._sizes.keys():
            self._inner += len(own)
            return _Keys({**own, **self._sizes}, self._inner).block(block, numbers)
        for value in block.args:
            numbers[value] = len(numbers)
        ops = []
        for op in block.ops:
            operands = tuple(numbers[operand] for operand in op.operands)
            regions = tuple(self.block(region, dict(numbers)) for region in op.regions)
            attrs = tuple(sorted((key, self._attr(item)) for key, item in op.attrs.items()))
            ops.append((op.name, operands, attrs, regions, tuple(map(self._sized, op.requires))))
            for value in op.results:
                numbers[value] = len(numbers)
        args = tuple(map(self._sized_type, (value.type for value in block.args)))
        symbols = tuple(
            (self._symbol(each.name), numbers[each.value], each.axis, each.element) for each in block.symbols
        )
        return args, tuple(ops), tuple(numbers[value] for value in block.results), symbols

    def _attr(self, item: Any) -> Any:
        if isinstance(item, Dim):
            return self._sized(item)
        return tuple(map(self._attr, item)) if isinstance(item, list | tuple) else hashable(item)

    def _sized(self, item: Any) -> Any:
        """A Dim, or a relation of some, in which sizes stand."""
        if not self._sizes:
            return item
        if item not in self._known:
            self._known[item] = item.substitute(self._sizes)
        return self._known[item]

    def _sized_type(self, type: TensorType) -> Any:
        return type.dtype, None if type.shape is None else tuple(map(self._sized, type.shape))

    def _symbol(self, name: str) -> str:
        return min(self._sizes[name].symbols()) if name in self._sizes else name
