"""Kernels of the ops that fold, move or order elements with loops of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egshape.dims import Dim, const, floordiv, product, symbol
from egshape.ir.graph import Op
from egshape.ops.kinds import region_kind
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form import block_sort, convolution_loops, dots, partition, pooling, scan
from egshape.plan.form import sort as order
from egshape.plan.form.host_calls import host_call
from egshape.plan.form.kernels import assign_all, finish, loops, results, zero
from egshape.plan.form.scatter import scatter
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    LetIndex,
    Load,
    Local,
    Stmt,
    Store,
    Test,
    Var,
    linear,
    name_of,
)

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
    inits = [dots.converted(dtype, p.read(x, ())) for dtype, x in zip(dtypes, op.operands[half:], strict=True)]
    items = [dots.converted(dtype, p.read(x, at)) for dtype, x in zip(dtypes, op.operands[:half], strict=True)]
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
    inside: Test | None = None,
) -> tuple[Stmt, ...]:
    """A fold into locals, of items for which ``inside`` holds."""
    totals = [Var(init.dtype, p.name("v")) for init in inits]
    new = p.scalars(op, op.regions[0], [*totals, *items], fast=True)
    step: list[Stmt] = assign_all(p, totals, new)
    if inside is not None:
        step = [If(inside, tuple(step))]
    start = [Local(var.name, init) for var, init in zip(totals, inits, strict=True)]
    end = [Store(buffer, flat, var) for buffer, var in zip(out, totals, strict=True)]
    return *start, *loops(inner, step), *end


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
    """Each window is folded into locals; what lies outside is left out, or counts as an init value that is neutral."""
    if scan.cumulative(p, op) or pooling.pooled(p, op):
        return
    p.start()
    a, half = op.attrs, len(op.operands) // 2
    shape = op.operands[0].type.dims
    dtypes = [value.type.dtype for value in op.results]
    inits = [dots.converted(dtype, p.read(x, ())) for dtype, x in zip(dtypes, op.operands[half:], strict=True)]
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
    items: list[Expr] = [
        dots.converted(dtype, p.read(x, tuple(place))) for dtype, x in zip(dtypes, op.operands[:half], strict=True)
    ]
    flat, kind = linear(at, op.results[0].type.dims), region_kind(op.regions[0])
    if half == 1 and kind is not None and scan.is_neutral(p, kind, dtypes[0], op.operands[1]):
        items = [Choose(dtypes[0], inside, items[0], inits[0])]
        body = _rows(p, op, out, flat, inits, items, taps)
    else:
        body = _rows(p, op, out, flat, inits, items, taps, inside)
    finish(p, op, wrap(body), out)


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
    first = dots.converted(dtype, p.read(init, ()))
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
        op, op.regions[1], [Load(dtype, out, symbol(spot)), dots.converted(dtype, p.read(source, windows))]
    )
    end = If(
        order.compare(chosen, "LT", Const(chosen.dtype, 0)), (), (LetIndex(spot, chosen), Store(out, symbol(spot), new))
    )
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
    take = Call("i1", "or", (order.compare(chosen, "LT", Const(chosen.dtype, 0)), Call("i1", "not", (keep,))))
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
    (new,) = p.scalars(op, op.regions[1], [total, dots.converted(dtype, p.read(source, tuple(place)))])
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
