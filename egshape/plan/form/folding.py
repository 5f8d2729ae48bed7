"""Arrays that ops compute from constants alone, where a kernel needs them in memory: they are computed once, when the
graph is planned, and lie among the constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        asked = self._resolved(value)
        waiting = [asked]
        while waiting:  # no recursion: a chain of ops may be as long as a graph
            each = waiting[-1]
            op = self._producers.get(each)
            if op is None or each in self._known:
                waiting.pop()
                continue
            operands = [self._resolved(x) for x in op.operands]
            if not _may_fold(op) or any(self._is_none(x) for x in operands):
                self._known[each] = None
                continue
            later = [x for x in operands if x not in self._known]
            if later:
                waiting.append(later[0])
            else:
                self._known[each] = _computed(op, [array for x in operands if (array := self._known[x]) is not None])
        return self._known.get(asked)

    def _is_none(self, value: Value) -> bool:
        """Whether a value is known to be none of these."""
        return value not in self._producers or (value in self._known and self._known[value] is None)

    def _resolved(self, value: Value) -> Value:
        while value in self._same:
            value = self._same[value]
        return value


def _may_fold(op: Op) -> bool:
    """Whether an op gives one array of a known size that hangs on its operands only."""
    if op.regions or op.name in _OPAQUE or len(op.results) != 1:
        return False
    shape = op.result.type.shape
    return shape is not None and all(size.const is not None for size in shape)


def _computed(op: Op, operands: Sequence[np.ndarray]) -> np.ndarray | None:
    if op.name == "constant":
        return np.asarray(op.attrs["value"])
    elements = prod(size.const or 0 for size in op.result.type.dims)
    if elements > max(LARGEST, sum(each.size for each in operands)):
        return None
    try:
        (result,) = evaluate_op(op, operands)
    except EgshapeError:
        return None
    return result
