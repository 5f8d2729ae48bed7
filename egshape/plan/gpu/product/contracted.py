"""The kernel of a product over rows, columns and depth, with what follows it, before it is mapped to tiles."""

from __future__ import annotations

from egshape.dims import Dim, symbol
from egshape.dims import product as total
from egshape.ir.graph import Value
from egshape.plan.analysis.elements import Indices
from egshape.plan.form import epilogue
from egshape.plan.form.dots import converted
from egshape.plan.form.matrices import Axes, Dot, loops, parts
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Contract, Expr, Store, Var
from egshape.plan.ir.visit import Moved

HALF = ("f16", "bf16")


def settled(p: Steps, value: Value) -> None:
    """Compute an operand now if reading its elements again and again costs more than a load."""
    if p.cost(value)[0] > 0:
        p.places.setdefault(p.resolved(value), p.buffer(value))


def tiled(p: Steps, cluster: epilogue.Cluster, d: Dot, left: Expr, right: Expr) -> Buffer:
    """The kernel of a product of two operands, whose indices are those of ``d``."""
    i, j, deep = (symbol(p.name("i")) for _ in range(3))
    env = {}
    for whole, axes in ((i, d.rows), (j, d.columns), (deep, d.deep)):
        for (index, _), part in zip(axes, parts(whole, axes), strict=True):
            env.update(dict.fromkeys(index.symbols(), part))
    at = d.at(*(tuple(index.substitute(env) for index, _ in axes) for axes in (d.rows, d.columns)))
    m, n, k = (total(size for _, size in axes) for axes in (d.rows, d.columns, d.deep))
    return contracted(p, cluster, d.batch, (m, n, k), (i, j, deep), (left, right), env, at)


def contracted(
    p: Steps,
    cluster: epilogue.Cluster,
    batch: Axes,
    sizes: tuple[Dim, Dim, Dim],
    indices: tuple[Dim, Dim, Dim],
    operands: tuple[Expr, Expr],
    env: dict[str, Dim],
    at: Indices,
) -> Buffer:
    """The kernel of a product over rows, columns and depth. ``env``: what the indices in the operands stand for;
    ``at``: the place of an element of the product."""
    op = cluster.ops[0]
    dtype = op.attrs["dtype"]
    inner = "f32" if dtype in HALF else dtype
    out = p.new_buffer(cluster.result)
    value = Var(inner, p.name("v"))
    p.locals[op.result, at] = converted(dtype, value)
    store = Store(out, cluster.place(at), p.read(cluster.value, at))
    moved = Moved(env)
    left, right = (converted(inner, moved.expr(operand)) for operand in operands)
    (row,), (column,), (deep,) = (index.symbols() for index in indices)
    whole = Contract(inner, *sizes, row, column, deep, left, right, value.name, (store,))
    p.run(cluster.label, loops(batch, [whole]), (out,), once=True)
    p.places[cluster.result] = out
    return out
