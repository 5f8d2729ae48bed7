"""Elementwise functions by name (``add``, ``compare.LT.FLOAT``), and regions that apply one."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Block, Value
from egshape.ops.base import OpDecl, Registry


def function_parts(function: str, registry: Registry) -> tuple[str, dict[str, str]]:
    """Op name and attributes from an elementwise function's name."""
    name, *values = function.split(".")
    attrs = [attr.name for attr in registry[name].attrs]
    return name, dict(zip(attrs, values, strict=True))


def function_region(builder: BlockBuilder, decl: OpDecl, operands: Sequence[Value], function: str) -> Block:
    """A region for an op on these operands that applies one function: of scalars, to pairs of its arguments; of the
    operands, to all of them."""
    child = builder.child()
    op, attrs = function_parts(function, child.registry)
    if decl.nested:
        carried = [child.arg(None, operand.type.dtype, operand.type.shape) for operand in operands]
        return child.finish([child.one(op, carried, attrs)])
    compares = "comparator" in decl.regions
    if compares:
        types = [operand.type for operand in operands for _ in range(2)]
    else:
        types = [operand.type for operand in operands[: len(operands) // 2]] * 2
    args = [child.arg(None, type.dtype, ()) for type in types]
    if compares:
        return child.finish([child.one(op, args[:2], attrs)])
    half = len(args) // 2
    return child.finish([child.one(op, pair, attrs) for pair in zip(args[:half], args[half:], strict=True)])
