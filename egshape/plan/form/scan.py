"""Cumulative windows: a window as long as its axis that ends (or begins) at each element is a running fold, O(n)."""

from __future__ import annotations

import numpy as np

from egshape.dims import Dim, minimum, relu, symbol
from egshape.ir.graph import Op, Value
from egshape.ir.types import numpy_dtype
from egshape.ops import regions
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form import block_lines
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Const, Expr, Load, Local, Loop, Stmt, Store, Var, linear, name_of


def cumulative(p: Steps, op: Op) -> bool:
    """Plan a reduce_window that is a running fold of one operand along one axis; False if it is none."""
    found = _axis(p, op)
    if found is None or len(op.operands) != 2 or len(op.regions[0].ops) != 1:
        return False
    x, init = op.operands
    if op.result.type.dtype != x.type.dtype or not is_neutral(p, op.regions[0].ops[0].name, x.type.dtype, init):
        return False
    axis, backwards = found
    p.start()
    shape = x.type.dims
    out = p.new_buffer(op.result)
    kept = [size for k, size in enumerate(shape) if k != axis]
    at, _ = p.nest(kept)
    before, behind = at[:axis], at[axis:]
    n = shape[axis]

    def place(index: Dim) -> Indices:
        return (*before, n - 1 - index if backwards else index, *behind)

    def folded(old: Expr, index: Dim) -> Expr:
        (new,) = p.scalars(op, op.regions[0], [old, p.read(x, place(index))])
        return new

    if not p.target.in_order and all(size.const == 1 for size in shape[axis + 1 :]):
        block_lines.scan(
            p,
            op,
            list(zip(before, shape[:axis], strict=True)),
            n,
            lambda index: p.read(x, place(index)),
            lambda index: linear(place(index), shape),
            p.read(init, ()),
            out,
        )
        p.places[op.result] = out
        return True
    step = symbol(p.name("i"))
    alone = not p.target.in_order  # a thread runs along the axis, its neighbours beside it
    if alone or all(size.const == 1 for size in shape[axis + 1 :]):
        total = Var(x.type.dtype, p.name("v"))
        round_: list[Stmt] = [Assign(total.name, folded(total, step)), Store(out, linear(place(step), shape), total)]
        body: tuple[Stmt, ...] = (Local(total.name, p.read(init, ())), Loop(name_of(step), n, tuple(round_)))
    else:
        first = symbol(p.name("i"))
        old = Load(out.dtype, out, linear(place(step), shape))
        begin = Store(out, linear(place(first), shape), folded(p.read(init, ()), first))
        then = Store(out, linear(place(step + 1), shape), folded(old, step + 1))
        rows = list(zip(behind, shape[axis + 1 :], strict=True))
        body = (
            Loop(name_of(first), minimum(n, 1), _loops(rows, (begin,))),
            Loop(name_of(step), relu(n - 1), _loops(rows, (then,))),
        )
    nest = list(zip(before, shape[:axis], strict=True)) + (
        list(zip(behind, shape[axis + 1 :], strict=True)) if alone else []
    )
    p.run("scan", _loops(nest, body), (out,))
    p.places[op.result] = out
    return True


def _axis(p: Steps, op: Op) -> tuple[int, bool] | None:
    """The axis that a window covers up to each element, and whether from the end."""
    a, shape = op.attrs, op.operands[0].type.dims
    found = None
    for axis, (size, window) in enumerate(zip(shape, a["window"], strict=True)):
        low, high = a["padding"][2 * axis : 2 * axis + 2]
        if any(a[key][axis].const != 1 for key in ("strides", "base_dilation", "window_dilation")):
            return None
        if window.const == 1 and low is ZERO and high is ZERO:
            continue
        sides = (low - (window - 1), high), (low, high - (window - 1))
        sided = [k for k, (one, two) in enumerate(sides) if one is ZERO and two is ZERO]
        if found is not None or not sided or not p.known.equal(size, window):
            return None
        found = axis, sided[0] == 1
    return found


def is_neutral(p: Steps, name: str, dtype: str, init: Value) -> bool:
    """Whether folding the init value, so that it may stand for what lies outside, changes nothing."""
    expr = p.read(init, ())
    if not isinstance(expr, Const):
        return False
    return regions.is_neutral(name, np.asarray(expr.value).astype(numpy_dtype(dtype)))


def _loops(indices: list[tuple[Dim, Dim]], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements inside of loops over the indices that are not fixed."""
    for index, size in reversed(indices):
        if index is not ZERO:
            body = (Loop(name_of(index), size, body),)
    return body
