"""What kernels of ops with loops of their own share: loops, results, locals, numbers."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.dims import Dim
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Assign, Buffer, Const, Expr, Let, Loop, Stmt, Var


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


def assign_all(p: Steps, targets: Sequence[Var], values: Sequence[Expr]) -> list[Stmt]:
    """Give locals new values that may read the old ones."""
    if len(targets) == 1:
        return [Assign(targets[0].name, values[0])]
    names = [p.name("v") for _ in targets]
    return [
        *(Let(name, value) for name, value in zip(names, values, strict=True)),
        *(Assign(var.name, Var(var.dtype, name)) for var, name in zip(targets, names, strict=True)),
    ]


def zero(dtype: str) -> Const:
    """Zero of a dtype."""
    return Const(dtype, numpy_dtype(dtype).type(0).item())
