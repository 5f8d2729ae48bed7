"""Whether control flow that nobody reads may be dropped: not if something inside could reject a run.

What an op of the block itself implies becomes a check of its own; what ops of an arm or a loop imply holds only where
the arm runs, so the arm has to stay with its checks."""

from __future__ import annotations

from egshape.dims import const, is_nonnegative, product
from egshape.ir.graph import Block, Op
from egshape.ops.base import Registry

_MOVING = frozenset(("transpose", "reverse", "get_dimension_size", "constant", "dims", "iota", "optimization_barrier"))
"""Ops that fail at no sizes that their result types have."""

_CONTROL = frozenset(("if", "case", "composite"))


def may_fail(op: Op, registry: Registry) -> bool:
    """True unless the form alone shows that the op gives a result, and in finite time, whenever its operands exist."""
    if op.requires or registry[op.name].effect or op.name == "while":
        return True
    if any(value.type.shape is None or not all(map(is_nonnegative, value.type.dims)) for value in op.results):
        return True
    if op.name in _CONTROL:
        return any(_block_may_fail(region, registry) for region in op.regions)
    return not _total(op, registry)


def _block_may_fail(block: Block, registry: Registry) -> bool:
    if any(symbol.element is not None for symbol in block.symbols):
        return True
    return any(may_fail(op, registry) for op in block.ops)


def _total(op: Op, registry: Registry) -> bool:
    if op.name in _MOVING or registry[op.name].family == "unary":
        return op.name != "bitcast_convert"
    shapes = [operand.type.shape for operand in op.operands]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return False
    if registry[op.name].family in ("binary", "ternary"):
        return all(shape in ((), op.result.type.dims) for shape in known)
    if op.name == "broadcast_in_dim" and len(known) == 1:
        target = op.result.type.dims
        return all(size in (const(1), target[axis]) for size, axis in zip(known[0], op.attrs["dims"], strict=True))
    if op.name == "reshape" and len(known) == 1:
        return product(known[0]) is product(op.result.type.dims)
    return False
