"""Sizes that only the checks of a block make numbers: the ops over them, as a program would have them that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from egshape.dims import Dim
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import TensorType


def numbered(block: Block, normal: Callable[[Dim], Dim]) -> Iterator[tuple[Op, Op]]:
    """Each op of one result in program order, with the same op where every size that is a number is written as one.
    Nothing where no size of a result became a number.

    What folds constants and shape code looks at sizes as they are written, while the checks are still being found."""
    numbers: dict[Dim, Dim] = {}

    def number(dim: Dim) -> Dim:
        if dim not in numbers:
            form = normal(dim)
            numbers[dim] = dim if form.const is None else form
        return numbers[dim]

    values: dict[Value, Value] = {}
    for value in (*block.args, *(value for op in block.ops for value in op.results)):
        dims = value.type.shape or ()
        sizes = tuple(map(number, dims))
        if sizes != dims:
            values[value] = Value(value.name, TensorType(value.type.dtype, sizes))
    for op in block.ops if values else ():
        if len(op.results) == 1:
            attrs = {name: tuple(map(number, attr)) if _is_sizes(attr) else attr for name, attr in op.attrs.items()}
            operands = tuple(values.get(operand, operand) for operand in op.operands)
            yield op, replace(op, operands=operands, attrs=attrs, results=(values.get(op.result, op.result),))


def _is_sizes(attr: object) -> bool:
    return isinstance(attr, tuple) and bool(attr) and all(isinstance(each, Dim) for each in attr)
