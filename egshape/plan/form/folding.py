"""Arrays that ops compute from constants alone, where a kernel needs them in memory: they are computed once, when the
graph is planned, and lie among the constants."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from egshape.errors import EgshapeError
from egshape.ir.graph import Op, Value
from egshape.ir.interpret import evaluate_op

LARGEST = 1 << 20
"""Elements of a result up to which it may be larger than what it is made of."""
_OPAQUE = frozenset(("optimization_barrier", "get_dimension_size", "dynamic_update_slice"))


class Arrays:
    """The arrays of constant values. ``producers``: the op that gives a value, ``same``: other names of values."""

    def __init__(self, producers: Mapping[Value, Op], same: Mapping[Value, Value]) -> None:
        self._producers, self._same = producers, same
        self._known: dict[Value, np.ndarray | None] = {}

    def of(self, value: Value) -> np.ndarray | None:
        """The array of a value that hangs on constants only; None for others, and for one too large to be kept."""
        while value in self._same:
            value = self._same[value]
        op = self._producers.get(value)
        if op is None:
            return None
        if value not in self._known:
            self._known[value] = self._computed(op)
        return self._known[value]

    def _computed(self, op: Op) -> np.ndarray | None:
        if op.name == "constant":
            return np.asarray(op.attrs["value"])
        if op.regions or op.name in _OPAQUE or len(op.results) != 1:
            return None
        shape = op.result.type.shape
        if shape is None:
            return None
        sizes = [size.const for size in shape]
        if None in sizes:
            return None
        operands = []
        for operand in op.operands:
            found = self.of(operand)
            if found is None:
                return None
            operands.append(found)
        elements = prod(size for size in sizes if size is not None)
        if elements > max(LARGEST, sum(each.size for each in operands)):
            return None
        try:
            (result,) = evaluate_op(op, operands)
        except EgshapeError:
            return None
        return result
