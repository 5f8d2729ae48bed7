"""Structural keys: two ops or regions with one key compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.ir.graph import Block, Value


def hashable(value: Any) -> Any:
    """An attribute (or a dict of them) as something that can be hashed; arrays by dtype, shape and bytes."""
    if isinstance(value, dict):
        return tuple(sorted((key, hashable(item)) for key, item in value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(hashable(item) for item in value)
    return value


def region_key(region: Block, captures: Sequence[Value]) -> Any:
    """The key of a region; values it captures count by their place in ``captures``."""
    numbers: dict[Value, int] = {value: -1 - place for place, value in enumerate(captures)}
    return _block_key(region, numbers)


def _block_key(block: Block, numbers: dict[Value, int]) -> Any:
    for value in block.args:
        numbers[value] = len(numbers)
    ops = []
    for op in block.ops:
        operands = tuple(numbers[operand] for operand in op.operands)
        regions = tuple(_block_key(region, dict(numbers)) for region in op.regions)
        ops.append((op.name, operands, hashable(dict(op.attrs)), regions, op.requires))
        for value in op.results:
            numbers[value] = len(numbers)
    args = tuple(value.type for value in block.args)
    symbols = tuple((symbol.name, numbers[symbol.value], symbol.axis, symbol.element) for symbol in block.symbols)
    return args, tuple(ops), tuple(numbers[value] for value in block.results), symbols
