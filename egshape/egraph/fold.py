"""Constant folding in program order: what ops compute from constants alone, before any rule runs.

Constants that rules bring together later are folded by ``egshape.egraph.describe``."""

from __future__ import annotations

from math import prod

import numpy as np

from egshape.errors import EgshapeError
from egshape.ir.graph import Op, Value
from egshape.ir.interpret import evaluate_op
from egshape.ops.base import OpDecl, Registry

SMALL = 64
"""Results of up to so many elements are folded always: a constant of this size costs less than an op."""

LARGE = 1 << 16
"""Results of up to so many elements are folded where they are no larger than what they are made of."""


def _opaque(decl: OpDecl) -> bool:
    """Effects, calls (which may draw numbers), barriers, and ops whose values are sizes (those are folded as sizes)."""
    return decl.effect or decl.traits.foreign or decl.traits.barrier or decl.traits.sized


class Folder:
    """The arrays of the values of a block that are constant."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[Value, np.ndarray] = {}

    def value(self, op: Op) -> np.ndarray | None:
        """The array that ``op`` gives at every run; None if it hangs on an input, is large, or would be rejected, or if
        it was given before."""
        if op.name == "constant":
            self._known[op.result] = op.attrs["value"]
            return None  # is one already
        if op.regions or len(op.results) != 1 or _opaque(self._registry[op.name]) or op.result in self._known:
            return None
        if not self._worthwhile(op):
            return None
        try:
            (found,) = evaluate_op(op, [self._known[operand] for operand in op.operands], self._registry)
        except EgshapeError:
            return None
        self._known[op.result] = found
        return found

    def _worthwhile(self, op: Op) -> bool:
        if not all(operand in self._known for operand in op.operands) or op.result.type.shape is None:
            return False
        sizes = [size.const for size in op.result.type.shape]
        elements = prod(size for size in sizes if size is not None)
        if None in sizes or elements > LARGE:
            return False
        source = max((self._known[operand].size for operand in op.operands), default=0)
        return elements <= max(SMALL, source)
