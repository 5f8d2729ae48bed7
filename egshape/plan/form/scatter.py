"""Kernels of scatter: updates one after the other, or on a device so that no two threads meet."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim, const, product, symbol
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.elements import ZERO, Indices, unsupported
from egshape.plan.form import sort as order
from egshape.plan.form.dots import converted
from egshape.plan.form.kernels import assign_all, finish, results
from egshape.plan.form.movement import index_vector
from egshape.plan.form.steps import Steps
from egshape.plan.form.updates import taken_over
from egshape.plan.ir.launch import at_round
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Const,
    Free,
    If,
    Index,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Stmt,
    Store,
    Test,
    Var,
    While,
    linear,
    name_of,
)


def scatter(p: Steps, op: Op) -> None:
    """The updates go in one after the other, in place where the inputs are read no more, else into copies of them."""
    count = len(op.operands) // 2
    inputs, updates = op.operands[:count], op.operands[count + 1 :]
    for value, result in zip(inputs, op.results, strict=True):
        if value.type.dtype != result.type.dtype:
            raise unsupported(op, "changes the dtype of its input")
    free = taken_over(p, op, inputs[0], op.operands[1:]) if count == 1 else None
    if free is not None:
        out: tuple[Buffer, ...] = (free,)
    else:
        out = results(p, op)
        for value, target in zip(inputs, out, strict=True):
            p.store(value, target)
    p.start()
    a, shape = op.attrs, inputs[0].type.dims
    at, wrap = p.nest(updates[0].type.dims)
    batch = tuple(index for axis, index in enumerate(at) if axis not in a["update_window_dims"])
    place, starts, binds = _scatter_place(p, op, at, batch)
    tests = Test(tuple(test for axis, at_ in starts.items() for test in (at_, shape[axis] - _window(op, axis) - at_)))
    flat = linear(tuple(place), shape)
    if not p.target.in_order and not a["unique"] and all(updates[0].type.dims[k].const == 1 for k in _whole(op)):
        numbers = Buffer(f"{out[0].name}.targets", "i64", product(updates[0].type.dims), "temp")
        mine = linear(at, updates[0].type.dims)
        keep = If(tests, (Store(numbers, mine, Index("i64", flat)),), (Store(numbers, mine, Const("i64", -1)),))
        p.run("targets", wrap([*binds, keep]), (numbers,), once=True)
        finish(p, op, _gathered(p, op, out, updates, numbers), out)
        return
    old = [Load(buffer.dtype, buffer, flat) for buffer in out]
    changes = [converted(buffer.dtype, p.read(x, at)) for buffer, x in zip(out, updates, strict=True)]
    new = p.scalars(op, op.regions[0], [*old, *changes])
    names = [p.name("v") for _ in out]
    inner = If(
        tests,
        (
            *(Let(name, value) for name, value in zip(names, new, strict=True)),
            *(Store(buffer, flat, Var(buffer.dtype, name)) for buffer, name in zip(out, names, strict=True)),
        ),
    )
    if p.target.in_order:
        finish(p, op, wrap([*binds, inner]), out)
    else:
        finish(p, op, _apart(op, at, updates[0].type.dims, [*binds, inner]), out)


def _gathered(p: Steps, op: Op, out: Sequence[Buffer], updates: Sequence[Value], numbers: Buffer) -> tuple[Stmt, ...]:
    """The updates of elements that may meet: the first one of each target, which no earlier one has, collects all of
    its updates in their order, so that no two threads meet and the result is the same as one after the other."""
    me, later = (symbol(p.name("i")) for _ in range(2))
    sizes, count = updates[0].type.dims, product(updates[0].type.dims)
    key, at, first = Var("i64", p.name("v")), Var("i64", p.name("v")), Var("i1", p.name("v"))
    spot, seen = symbol(p.name("g")), symbol(p.name("g"))
    search = While(
        Call("i1", "and", (first, order.compare(at, "LT", Index("i64", me)))),
        (
            LetIndex(name_of(seen), at),
            Assign(first.name, order.compare(Load("i64", numbers, seen), "NE", key)),
            Assign(at.name, order.add(at, 1)),
        ),
    )
    totals = [Var(buffer.dtype, p.name("v")) for buffer in out]
    axes = [Loop(f"$axis{k}", size, ()) for k, size in enumerate(sizes) if size.const != 1]
    found = at_round(axes, me + later)
    place = tuple(found.get(f"$axis{k}", ZERO) for k in range(len(sizes)))
    changes = [converted(buffer.dtype, p.read(x, place)) for buffer, x in zip(out, updates, strict=True)]
    new = p.scalars(op, op.regions[0], [*totals, *changes])
    mine = order.compare(Load("i64", numbers, me + later), "EQ", key)
    collect = Loop(name_of(later), count - me, (If(mine, tuple(assign_all(p, totals, new))),))
    apply: tuple[Stmt, ...] = (
        LetIndex(name_of(spot), key),
        *(Local(var.name, Load(buffer.dtype, buffer, spot)) for var, buffer in zip(totals, out, strict=True)),
        collect,
        *(Store(buffer, spot, var) for var, buffer in zip(totals, out, strict=True)),
    )
    begin = (Local(first.name, Const("i1", True)), Local(at.name, Const("i64", 0)))
    inside = If(order.compare(key, "LT", Const(key.dtype, 0)), (), (*begin, search, If(first, apply)))
    return (Free(name_of(me), count, (Let(key.name, Load("i64", numbers, me)), inside)),)


def _windows(op: Op) -> dict[int, int]:
    """The axes of the operand along which windows have elements, and theirs of the updates."""
    a = op.attrs
    dropped = (*a["inserted_window_dims"], *a["operand_batch"])
    kept = [axis for axis in range(op.operands[0].type.rank) if axis not in dropped]
    return dict(zip(kept, a["update_window_dims"], strict=True))


def _whole(op: Op) -> set[int]:
    """The axes of updates whose elements never go to one place: those of windows that always begin at 0."""
    return {source for axis, source in _windows(op).items() if axis not in op.attrs["scatter_dims_to_operand_dims"]}


def _apart(op: Op, at: Indices, sizes: Sequence[Dim], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The nest of a scatter, outermost the axes whose elements never go to one place: those of windows that always
    begin at 0, and all of them where the op says that no two updates meet."""
    a, whole = op.attrs, _whole(op)
    moving = [axis for axis, index in enumerate(at) if index is not ZERO]
    for axis in (
        *(k for k in reversed(moving) if not (a["unique"] or k in whole)),
        *(k for k in reversed(moving) if a["unique"] or k in whole),
    ):
        kind = Free if a["unique"] or axis in whole else Loop
        body = (kind(name_of(at[axis]), sizes[axis], tuple(body)),)
    return tuple(body)


def _window(op: Op, axis: int) -> Dim:
    """How many elements of an axis of the operand a window has."""
    source = _windows(op).get(axis)
    return const(1) if source is None else op.operands[-1].type.dims[source]


def _scatter_place(p: Steps, op: Op, at: Indices, batch: Indices) -> tuple[list[Dim], dict[int, Dim], list[Stmt]]:
    """Where an update goes, where its window begins along the axes that have indices, and what reads these."""
    a, count = op.attrs, len(op.operands) // 2
    place = [ZERO] * op.operands[0].type.rank
    for axis, source in _windows(op).items():
        place[axis] = at[source]
    for left, right in zip(a["operand_batch"], a["indices_batch"], strict=True):
        place[left] = batch[right - (right > a["index_vector_dim"])]
    binds: list[Stmt] = []
    starts: dict[int, Dim] = {}
    for k, axis in enumerate(a["scatter_dims_to_operand_dims"]):
        starts[axis] = symbol(p.name("g"))
        binds.append(LetIndex(name_of(starts[axis]), index_vector(p, op, op.operands[count], batch, k)))
        place[axis] = place[axis] + starts[axis]
    return place, starts, binds
