"""dynamic_update_slice without rewriting the whole: in place where nothing reads the old value any more, else a copy
of it and a loop over the update."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import product, symbol
from egshape.ir.graph import Block, Op, Value
from egshape.plan.analysis.elements import ZERO
from egshape.plan.form import epilogue
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Bind, Buffer, Expr, Index, LetIndex, Stmt, Store, linear
from egshape.plan.ir.program import DefineSize, Extend


def in_place(p: Steps, op: Op) -> bool:
    """Plan an update in the memory of its operand, if that is free."""
    buffer = taken_over(p, op, op.operands[0], op.operands[1:])
    if buffer is None:
        return False
    write(p, op, buffer)
    p.places[op.result] = buffer
    return True


def taken_over(p: Steps, op: Op, x: Value, others: Sequence[Value]) -> Buffer | None:
    """The buffer of the operand ``x`` of the op that is planned now, free to be overwritten with its result; what else
    the op reads does not lie there."""
    buffer = spare(p, x, *p.position)
    if buffer is None or any(value in p.outputs for value in op.results):
        return None
    if any(p.places.get(p.resolved(other)) is buffer for other in others):
        return None
    for other in others:
        if _depends(p, other, buffer):
            p.buffer(other)
    return buffer


def spare(p: Steps, value: Value, block: Block, number: int) -> Buffer | None:
    """The buffer of an operand of op ``number`` of a block that nothing reads afterwards, and that the block owns."""
    buffer = p.places.get(p.resolved(value))
    if buffer is None or buffer.kind not in ("temp", "output"):
        return None
    if block not in p.readers:
        p.readers[block] = epilogue.readers(block)
    uses = p.readers[block]
    own = {*block.args, *(result for each in block.ops for result in each.results)}
    names = {*own, *p.places, *p.same}
    for name in names:
        if p.places.get(p.resolved(name)) is buffer:
            if p.resolved(name) not in own or (name not in p.donated and max(uses.get(name, (0,))) > number):
                return None
        elif p.resolved(name) not in p.places and name in p.producers and (name in p.waiting or name in uses):
            later = name in p.waiting or max(uses.get(name, (0,))) > number
            if later and name not in block.ops[number].results and _depends(p, name, buffer):
                return None
    return buffer


def append(p: Steps, op: Op, target: Buffer) -> None:
    """Write what a concatenation adds to its first operand, which lies in ``target``, behind that."""
    first, *others = op.operands
    (name,) = target.size.symbols()
    whole, offset = product(op.result.type.dims), product(first.type.dims)
    p.steps += [Extend(target, whole), DefineSize(name, whole)]
    for other in others:
        p.start()
        at, wrap = p.nest(other.type.dims)
        store = Store(target, offset + linear(at, other.type.dims), p.read(other, at))
        p.run(op.name, wrap([store]), (target,), once=True)
        offset = offset + product(other.type.dims)
    p.places[op.result] = target


def _depends(p: Steps, value: Value, buffer: Buffer) -> bool:
    """Whether reading a value reads a buffer."""
    value = p.resolved(value)
    if value in p.places:
        return p.places[value] is buffer
    op = p.producers.get(value)
    return op is not None and any(_depends(p, x, buffer) for x in op.operands)


def copied(p: Steps, op: Op, target: Buffer) -> None:
    """Write the result of an update to a new place."""
    for operand in op.operands[1:]:
        if p.resolved(operand).type.rank == 0:
            p.buffer(operand)
    p.store(op.operands[0], target)
    write(p, op, target)


def write(p: Steps, op: Op, target: Buffer) -> None:
    """Add the kernel that writes the update into ``target``."""
    x, update, *starts = op.operands
    p.start()
    at, wrap = p.nest(update.type.dims)
    body: list[Stmt] = []
    place = []
    for start, index, size, taken in zip(starts, at, x.type.dims, update.type.dims, strict=True):
        room = size - taken
        if room is ZERO:
            place.append(index)
            continue
        name, inner = p.name("g"), p.name("g")
        clamped: Expr = Bind("i64", inner, p.read(start, ()), room, Index("i64", symbol(inner)))
        body.append(LetIndex(name, clamped))
        place.append(symbol(name) + index)
    body.append(Store(target, linear(tuple(place), x.type.dims), p.read(update, at)))
    p.run(op.name, wrap(body), (target,), once=True)
