"""Whether an op that nobody reads may be dropped: not if it, or something inside it, could reject a run.

What an op of the block itself implies becomes a check of its own; what ops of an arm or a loop imply holds only where
the arm runs, so the arm has to stay with its checks."""

from __future__ import annotations

from collections.abc import Iterable

from egshape.dims import is_nonnegative
from egshape.ir.graph import Block, Op, Value, dims_of
from egshape.ops.base import Registry


def must_stay(op: Op, registry: Registry, ends: bool = False) -> bool:
    """True for effects, and for ops that could reject a run in a way that no check of the block says. ``ends``: it is
    known to take finite time."""
    if registry[op.name].effect:
        return True
    return registry[op.name].nested and may_fail(op, registry, ends)


def is_opaque_effect(op: Op, registry: Registry) -> bool:
    """True for an effect that the e-graph does not see; control flow that must stay is a term like any other."""
    return registry[op.name].effect or not op.results


def without_unread(block: Block, registry: Registry, wanted: Iterable[Value] = ()) -> Block:
    """The block without ops that may be dropped and that nothing reads any more: a region that was optimized after the
    values around it had been chosen may have lost its reasons to capture one. ``wanted``: values that stay."""
    read: set[Value] = {*block.results, *wanted}
    names = {name for value in block.results for dim in value.type.shape or () for name in dim.symbols()}
    defines: dict[Value, set[str]] = {}
    for symbol in block.symbols:
        defines.setdefault(symbol.value, set()).add(symbol.name)
    kept: list[Op] = []
    for op in reversed(block.ops):
        own = {name for value in op.results for name in defines.get(value, ())}
        if not read.isdisjoint(op.results) or own & names or must_stay(op, registry):
            kept.append(op)
            read.update(op.operands)
            for region in op.regions:
                read.update(region.captures())
            for each in (op, *(inner for region in op.regions for inner in region.walk())):
                dims = [dim for attr in each.attrs.values() for dim in dims_of(attr)]
                dims += [dim for value in each.results for dim in value.type.shape or ()]
                names |= {name for dim in dims for name in dim.symbols()}
    known = {*block.args, *(value for op in kept for value in op.results)}
    dropped = {value for op in block.ops for value in op.results} - known
    symbols = tuple(symbol for symbol in block.symbols if symbol.value not in dropped)
    return Block(block.args, tuple(reversed(kept)), block.results, symbols)


def may_fail(op: Op, registry: Registry, ends: bool = False) -> bool:
    """True unless the form alone shows that the op gives a result, and in finite time, whenever its operands exist.
    ``ends``: it is known to take finite time."""
    decl = registry[op.name]
    endless = decl.traits.regions == "loop" and not ends
    if op.requires or decl.effect or decl.traits.foreign or endless or decl.contract is None:
        return True
    if any(value.type.shape is None or not all(map(is_nonnegative, value.type.dims)) for value in op.results):
        return True
    if any(operand.type.shape is None for operand in op.operands) or decl.requires(op):
        return True
    return decl.nested and any(_block_may_fail(region, registry) for region in op.regions)


def _block_may_fail(block: Block, registry: Registry) -> bool:
    if any(symbol.element is not None for symbol in block.symbols):
        return True
    found: bool = block.keep(("may fail", registry.version), lambda: any(may_fail(op, registry) for op in block.ops))
    return found
