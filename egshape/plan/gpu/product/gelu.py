"""GELU in its tanh form, found by what a few ops compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import pi, sqrt

import numpy as np

from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import is_float
from egshape.plan.form.epilogue import ENDLESS, Readers

MOST = 16
"""Ops of it."""
_OPS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "square": np.square,
    "tanh": np.tanh,
}
"""With one tanh among them these make rational functions of x and tanh of another: two of them that agree at so many
points, of so few ops, are one function."""
_AT = np.linspace(-6, 6, 193)
_TOLERANCE = {"f32": 1e-6, "f64": 1e-7, "f16": 2e-3, "bf16": 1.6e-2}
"""By which constants, that are rounded to the dtype, change a result."""


def tanh_gelu(block: Block, value: Value, uses: Readers, taken: Collection[Op]) -> tuple[Op, ...]:
    """The ops behind a value that compute x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) of it (Hendrycks
    and Gimpel, 2016), in their order, if nothing else reads what lies between; none if there are no such."""
    found: dict[Value, np.ndarray] = {value: _AT}
    members: dict[int, Op] = {}
    producers = {op.result: op for op in block.ops if len(op.results) == 1}
    constants = {each: number for each, op in producers.items() if (number := _number(op, producers)) is not None}
    while len(members) < MOST:
        open_ones = {k for each in found for k in uses.get(each, ())} - members.keys()
        at = min(open_ones, default=ENDLESS)
        if at == ENDLESS or block.ops[at] in taken:
            return ()
        op = block.ops[at]
        inputs = [found.get(x, constants.get(x)) for x in op.operands]
        if op.name not in _OPS or op.result.type != value.type or any(each is None for each in inputs):
            return ()
        members[at] = op
        with np.errstate(all="ignore"):
            found[op.result] = _OPS[op.name](*inputs)
        inner = [each for each in found if each is not op.result]
        closed = all(set(uses.get(each, ())) <= members.keys() for each in inner)
        if closed and [each.name for each in members.values()].count("tanh") == 1:
            return tuple(members[k] for k in sorted(members)) if _is_gelu(found[op.result], value.type.dtype) else ()
    return ()


def _is_gelu(found: np.ndarray, dtype: str) -> bool:
    wanted = _AT / 2 * (1 + np.tanh(sqrt(2 / pi) * (_AT + 0.044715 * _AT**3)))
    tolerance = _TOLERANCE.get(dtype, 0.0)
    return bool(np.all(np.abs(found - wanted) <= tolerance * (np.abs(wanted) + np.abs(_AT) / 8)))


def _number(op: Op, producers: Mapping[Value, Op]) -> float | None:
    """The number that all elements of an op's result are; None if there is none."""
    while op.name in ("broadcast_in_dim", "reshape") and op.operands[0] in producers:
        op = producers[op.operands[0]]
    if op.name != "constant":
        return None
    values = np.asarray(op.attrs["value"]).reshape(-1)
    return float(values[0]) if values.size == 1 and is_float(op.result.type.dtype) else None
