"""What ops are to a plan: which work on elements, what reshapes keep, and how an op is named where it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.ir.graph import Op, Value
from egshape.ir.types import dtype_name, is_complex
from egshape.ops import REGISTRY
from egshape.plan.ir.loops import Call, Const, Expr

Indices = tuple[Dim, ...]
ZERO = const(0)
ONE = const(1)
ELEMENTWISE = frozenset(("unary", "binary", "ternary"))
REFUSED = frozenset(("digamma", "complex", "real", "imag", "conj"))


def place(op: Op) -> str:
    """An op's name and location for an error."""
    name = f"{op.name} %{op.results[0].name}" if op.results else op.name
    return f"{name} at {op.location}" if str(op.location) else name


def unsupported(op: Op, message: str) -> Unsupported:
    """The refusal of an op by this back end."""
    return Unsupported(message, where=place(op), hint="the target 'interpret' runs every op")


def shape_of(value: Value, op: Op) -> tuple[Dim, ...]:
    """The sizes of a value that the op reads or gives. Raises Unsupported for an unranked one."""
    if value.type.shape is None:
        raise unsupported(op, f"%{value.name} has no rank, native code needs one")
    if is_complex(value.type.dtype):
        raise unsupported(op, f"complex numbers ({value.type}) are not compiled")
    return value.type.shape


def is_elementwise(op: Op) -> bool:
    """Whether an op works on the elements at one index, and is compiled so."""
    if op.name == "bitcast_convert":  # to elements of one width; the sizes may be equal and not of one form
        return op.operands[0].type.rank == op.result.type.rank
    return op.name in REGISTRY and REGISTRY[op.name].family in ELEMENTWISE


def scalar_call(op: Op, args: tuple[Expr, ...]) -> Expr:
    """The expression of an elementwise op."""
    if op.name in REFUSED or is_complex(op.result.type.dtype) or any(is_complex(a.dtype) for a in args):
        raise unsupported(op, "is not compiled")
    attrs = tuple((key, value) for key, value in sorted(op.attrs.items()) if isinstance(value, str))
    return Call(op.result.type.dtype, op.name, args, attrs)


def reshape_groups(source: Sequence[Dim], target: Sequence[Dim]) -> list[tuple[list[int], list[int]]] | None:
    """Axes of both shapes in groups of equal element count, from the left; None if the counts are not shown equal.

    Sizes of 1 stand in no group."""
    one = [axis for axis, size in enumerate(source) if size.const != 1]
    two = [axis for axis, size in enumerate(target) if size.const != 1]
    left = list(accumulate((source[axis] for axis in one), mul))
    right = list(accumulate((target[axis] for axis in two), mul))
    if (left[-1] if left else ONE) is not (right[-1] if right else ONE):
        return None
    groups: list[tuple[list[int], list[int]]] = []
    begin_left = begin_right = 0
    for count, product in enumerate(left):
        found = next((k for k in range(begin_right, len(right)) if right[k] is product), None)
        if found is not None:
            groups.append((one[begin_left : count + 1], two[begin_right : found + 1]))
            begin_left, begin_right = count + 1, found + 1
    return groups


def reshape_is_affine(source: Sequence[Dim], target: Sequence[Dim]) -> bool:
    """Whether an index of the source is an affine function of one of the target."""
    groups = reshape_groups(source, target)
    return groups is not None and all(len(left) <= 1 for left, _ in groups)


def scalar_constant(array: np.ndarray) -> Const:
    """The first element of an array as an expression."""
    return Const(dtype_name(array.dtype), array.reshape(-1)[0].item())
