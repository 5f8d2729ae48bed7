"""Kernels of the ops that fold, move or order elements with loops of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, const, floordiv, product, symbol
from egshape.ir.graph import Op, Value
from egshape.ir.types import numpy_dtype
from egshape.plan.analysis.elements import ZERO, Indices, unsupported
from egshape.plan.form import block_sort, convolution_loops, dots, partition, pooling, scan
from egshape.plan.form import sort as order
from egshape.plan.form.host_calls import host_call
from egshape.plan.form.movement import index_vector
from egshape.plan.form.steps import Steps
from egshape.plan.form.updates import taken_over
from egshape.plan.ir.launch import at_round
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
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


def loops(names: Sequence[tuple[str, Dim]], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements inside of loops, the first one outermost."""
    for name, size in reversed(names):
        body = (Loop(name, size, tuple(body)),)
    return tuple(body)


def results(p: Steps, op: Op) -> tuple[Buffer, ...]:
    """New buffers for the results of an op."""
    return tuple(p.new_buffer(value) for value in op.results)


def finish(p: Steps, op: Op, body: Sequence[Stmt], out: tuple[Buffer, ...]) -> None:
    """Add the kernel and let the results lie in its buffers."""
    p.run(op.name, body, out)
    p.places.update(zip(op.results, out, strict=True))


def _converted(op: Op, dtype: str, expr: Expr) -> Expr:
    return expr if expr.dtype == dtype else Call(dtype, "convert", (expr,), (("dtype", dtype),))


# -- reduce -----------------------------------------------------------------------------------------------------------


def reduce(p: Steps, op: Op) -> None:
    """Rows (the last axis is folded) go through locals, columns through the result's memory."""
    p.start()
    half = len(op.operands) // 2
    shape, folded = op.operands[0].type.dims, op.attrs["dims"]
    kept = [axis for axis in range(len(shape)) if axis not in folded]
    out = results(p, op)
    at = tuple(symbol(p.name("i")) if size.const != 1 else ZERO for size in shape)
    named = {axis: (name_of(at[axis]), shape[axis]) for axis in range(len(shape)) if at[axis] is not ZERO}
    dtypes = [value.type.dtype for value in op.results]
    inits = [_converted(op, dtype, p.read(x, ())) for dtype, x in zip(dtypes, op.operands[half:], strict=True)]
    items = [_converted(op, dtype, p.read(x, at)) for dtype, x in zip(dtypes, op.operands[:half], strict=True)]
    flat = linear(tuple(at[axis] for axis in kept), tuple(shape[axis] for axis in kept))
    outer = [named[axis] for axis in kept if axis in named]
    inner = [named[axis] for axis in sorted(folded) if axis in named]
    across = kept and inner and kept[-1] in named and max(kept) > max(folded) and half == 1
    if across and p.target.in_order:
        body = _columns(p, op, out[0], flat, inits[0], items[0], outer, inner)
    else:
        body = loops(outer, _rows(p, op, out, flat, inits, items, inner))
    finish(p, op, body, out)


def _rows(
    p: Steps,
    op: Op,
    out: Sequence[Buffer],
    flat: Dim,
    inits: Sequence[Expr],
    items: Sequence[Expr],
    inner: Sequence[tuple[str, Dim]],
) -> tuple[Stmt, ...]:
    totals = [Var(init.dtype, p.name("v")) for init in inits]
    new = p.scalars(op, op.regions[0], [*totals, *items], fast=True)
    step: list[Stmt] = assign_all(p, totals, new)
    start = [Local(var.name, init) for var, init in zip(totals, inits, strict=True)]
    end = [Store(buffer, flat, var) for buffer, var in zip(out, totals, strict=True)]
    return *start, *loops(inner, step), *end


def assign_all(p: Steps, targets: Sequence[Var], values: Sequence[Expr]) -> list[Stmt]:
    """Give locals new values that may read the old ones."""
    if len(targets) == 1:
        return [Assign(targets[0].name, values[0])]
    names = [p.name("v") for _ in targets]
    return [
        *(Let(name, value) for name, value in zip(names, values, strict=True)),
        *(Assign(var.name, Var(var.dtype, name)) for var, name in zip(targets, names, strict=True)),
    ]


def _columns(
    p: Steps,
    op: Op,
    out: Buffer,
    flat: Dim,
    init: Expr,
    item: Expr,
    outer: Sequence[tuple[str, Dim]],
    inner: Sequence[tuple[str, Dim]],
) -> tuple[Stmt, ...]:
    (new,) = p.scalars(op, op.regions[0], [Load(out.dtype, out, flat), item], fast=True)
    *rows, last = outer
    first = loops([last], [Store(out, flat, init)])
    return loops(rows, [*first, *loops(inner, loops([last], [Store(out, flat, new)]))])


# -- windows ----------------------------------------------------------------------------------------------------------


def reduce_window(p: Steps, op: Op) -> None:
    """Each window is folded into locals; what lies outside counts as the init value."""
    if scan.cumulative(p, op) or pooling.pooled(p, op):
        return
    p.start()
    a, half = op.attrs, len(op.operands) // 2
    shape = op.operands[0].type.dims
    dtypes = [value.type.dtype for value in op.results]
    inits = [_converted(op, dtype, p.read(x, ())) for dtype, x in zip(dtypes, op.operands[half:], strict=True)]
    out = results(p, op)
    at, wrap = p.nest(op.results[0].type.dims)
    taps = [(p.name("i"), size) for size in a["window"]]
    place, tests = [], []
    for axis, (name, _) in enumerate(taps):
        position = at[axis] * a["strides"][axis] + symbol(name) * a["window_dilation"][axis] - a["padding"][2 * axis]
        index, needed = dots.undilated(position, a["base_dilation"][axis], shape[axis])
        place.append(index)
        tests += needed
    inside = Test(tuple(tests))
    items = [
        Choose(dtype, inside, _converted(op, dtype, p.read(x, tuple(place))), init)
        for dtype, x, init in zip(dtypes, op.operands[:half], inits, strict=True)
    ]
    flat = linear(at, op.results[0].type.dims)
    finish(p, op, wrap(_rows(p, op, out, flat, inits, items, taps)), out)


def select_and_scatter(p: Steps, op: Op) -> None:
    """The chosen element of each window takes its share of the source: one after the other, or on a GPU in two kernels,
    of which the first one finds what each window chooses and the second one lets each element collect its shares."""
    x, source, init = op.operands
    p.buffer(x)
    p.start()
    shape, dtype = x.type.dims, op.result.type.dtype
    (out,) = results(p, op)
    windows, wrap = p.nest(source.type.dims)
    chosen = Var("i64", p.name("v"))
    choice = _choice(p, op, windows, chosen)
    first = _converted(op, dtype, p.read(init, ()))
    if not p.target.in_order:
        numbers = Buffer(f"{out.name}.chosen", "i64", product(source.type.dims), "temp")
        keep = Store(numbers, linear(windows, source.type.dims), chosen)
        p.run("select", wrap([*choice, keep]), (numbers,), once=True)
        _collected(p, op, out, numbers, first)
        return
    at, over = p.nest(shape)
    fill = over([Store(out, linear(at, shape), first)])
    spot = p.name("g")
    (new,) = p.scalars(
        op, op.regions[1], [Load(dtype, out, symbol(spot)), _converted(op, dtype, p.read(source, windows))]
    )
    end = If(_less(chosen, 0), (), (LetIndex(spot, chosen), Store(out, symbol(spot), new)))
    finish(p, op, [*fill, *wrap([*choice, end])], (out,))


def _choice(p: Steps, op: Op, windows: Indices, chosen: Var) -> list[Stmt]:
    """The flat number of the element that a window chooses, or -1, in ``chosen``."""
    x, a = op.operands[0], op.attrs
    shape = x.type.dims
    taps = [(p.name("i"), const(size)) for size in a["window"]]
    place = tuple(windows[k] * a["strides"][k] + symbol(name) - a["padding"][2 * k] for k, (name, _) in enumerate(taps))
    tests = [test for index, size in zip(place, shape, strict=True) for test in (index, size - 1 - index)]
    best, value = Var(x.type.dtype, p.name("v")), p.read(x, place)
    (keep,) = p.scalars(op, op.regions[0], [best, value])
    take = Call("i1", "or", (_less(chosen, 0), Call("i1", "not", (keep,))))
    step = If(
        Test(tuple(tests)),
        (If(take, (Assign(best.name, value), Assign(chosen.name, Index("i64", linear(place, shape))))),),
    )
    return [Local(best.name, zero(x.type.dtype)), Local(chosen.name, Const("i64", -1)), *loops(taps, [step])]


def _collected(p: Steps, op: Op, out: Buffer, numbers: Buffer, first: Expr) -> None:
    """Each element goes over the windows that reach it, in their order, for its shares."""
    source, a, dtype = op.operands[1], op.attrs, op.result.type.dtype
    shape, windows = op.operands[0].type.dims, source.type.dims
    at, wrap = p.nest(shape)
    taps = [(p.name("i"), const(-(-size // step))) for size, step in zip(a["window"], a["strides"], strict=True)]
    place, tests = [], []
    for k, (name, count) in enumerate(taps):
        shifted = at[k] + a["padding"][2 * k]
        index = floordiv(shifted, const(a["strides"][k])) - (count - 1) + symbol(name)
        place.append(index)
        tests += [index, windows[k] - 1 - index, a["window"][k] - 1 - shifted + index * a["strides"][k]]
    total = Var(dtype, p.name("v"))
    (new,) = p.scalars(op, op.regions[1], [total, _converted(op, dtype, p.read(source, tuple(place)))])
    mine = Call(
        "i1",
        "compare",
        (Load("i64", numbers, linear(tuple(place), windows)), Index("i64", linear(at, shape))),
        (("direction", "EQ"), ("kind", "SIGNED")),
    )
    step = If(Test(tuple(tests)), (If(mine, (Assign(total.name, new),)),))
    body = [Local(total.name, first), *loops(taps, [step]), Store(out, linear(at, shape), total)]
    p.run(op.name, wrap(body), (out,), once=True)
    p.places[op.result] = out


def _less(var: Expr, number: int) -> Expr:
    return Call("i1", "compare", (var, Const(var.dtype, number)), (("direction", "LT"), ("kind", "SIGNED")))


def zero(dtype: str) -> Const:
    """Zero of a dtype."""
    return Const(dtype, numpy_dtype(dtype).type(0).item())


# -- scatter ----------------------------------------------------------------------------------------------------------


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
    changes = [_converted(op, buffer.dtype, p.read(x, at)) for buffer, x in zip(out, updates, strict=True)]
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
    changes = [_converted(op, buffer.dtype, p.read(x, place)) for buffer, x in zip(out, updates, strict=True)]
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
    inside = If(_less(key, 0), (), (*begin, search, If(first, apply)))
    return (Free(name_of(me), count, (Let(key.name, Load("i64", numbers, me)), inside)),)


def _whole(op: Op) -> set[int]:
    """The axes of updates whose elements never go to one place: those of windows that always begin at 0."""
    a, rank = op.attrs, op.operands[0].type.rank
    dropped = (*a["inserted_window_dims"], *a["operand_batch"])
    kept = [axis for axis in range(rank) if axis not in dropped]
    return {
        source
        for axis, source in zip(kept, a["update_window_dims"], strict=True)
        if axis not in a["scatter_dims_to_operand_dims"]
    }


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
    a = op.attrs
    kept = [
        each
        for each in range(op.operands[0].type.rank)
        if each not in (*a["inserted_window_dims"], *a["operand_batch"])
    ]
    return op.operands[-1].type.dims[a["update_window_dims"][kept.index(axis)]] if axis in kept else const(1)


def _scatter_place(p: Steps, op: Op, at: Indices, batch: Indices) -> tuple[list[Dim], dict[int, Dim], list[Stmt]]:
    """Where an update goes, where its window begins along the axes that have indices, and what reads these."""
    a, count = op.attrs, len(op.operands) // 2
    rank = op.operands[0].type.rank
    dropped = (*a["inserted_window_dims"], *a["operand_batch"])
    place = [ZERO] * rank
    kept = [axis for axis in range(rank) if axis not in dropped]
    for axis, source in zip(kept, a["update_window_dims"], strict=True):
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


def _sort(p: Steps, op: Op) -> None:
    """Lines one after the other, or each by a block of a GPU."""
    if not p.target.in_order:
        block_sort.sort(p, op)
    elif not partition.partitioned(p, op):
        order.sort(p, op)


EMITTERS: dict[str, Callable[[Steps, Op], None]] = {
    "reduce": reduce,
    "reduce_window": reduce_window,
    "select_and_scatter": select_and_scatter,
    "scatter": scatter,
    "sort": _sort,
    "dot_general": dots.dot,
    "convolution": convolution_loops.direct,
    "host_call": host_call,
    "host_effect": host_call,
}
"""How ops with loops of their own are planned."""
