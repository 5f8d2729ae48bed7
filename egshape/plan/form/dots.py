"""dot_general as loops, and what other products share with it."""

from __future__ import annotations

from egshape.dims import Dim
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype
from egshape.ops.contraction import summed_in
from egshape.plan.form.matrices import ONE, axes_of, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import (
    Call,
    Const,
    Expr,
    Load,
    Store,
    linear,
)


def undilated(position: Dim, dilation: Dim, size: Dim) -> tuple[Dim, list[Dim]]:
    """The element at a position of a dilated axis, and what must be >= 0 for it to exist."""
    if dilation is ONE:
        return position, [position, size - 1 - position]
    index = position // dilation
    return index, [index, size - 1 - index, index * dilation - position]


def zero(dtype: str) -> Const:
    """Zero of a dtype."""
    return Const(dtype, numpy_dtype(dtype).type(0).item())


def converted(dtype: str, expr: Expr) -> Expr:
    """An expression in another dtype."""
    return expr if expr.dtype == dtype else Call(dtype, "convert", (expr,), (("dtype", dtype),))


def dot(p: Steps, op: Op) -> None:
    """A dot_general of other dtypes: sums in the result's memory, the innermost loop along it. Where they have another
    dtype they lie in memory of their own, and are converted at the end."""
    p.start()
    d, out = axes_of(p, op), p.new_buffer(op.result)
    flat = linear(d.at(tuple(i for i, _ in d.rows), tuple(i for i, _ in d.columns)), op.result.type.dims)
    kind = summed_in(out.dtype)
    held = out if kind == out.dtype else p.scratch("sums", kind, out.size)
    one, two = (converted(kind, p.read(value, indices)) for value, indices in d.operands)
    item = Call(kind, "multiply", (one, two))
    sums = Call(kind, "add", (Load(kind, held, flat), item), fast=True)
    first = loops(d.columns, [Store(held, flat, zero(kind))])
    last = loops(d.columns, [Store(out, flat, converted(out.dtype, Load(kind, held, flat)))]) if held is not out else ()
    p.run(
        "dot_general",
        loops([*d.batch, *d.rows], [*first, *loops(d.deep, loops(d.columns, [Store(held, flat, sums)])), *last]),
        (*dict.fromkeys((held, out)),),
    )
    p.places[op.result] = out
