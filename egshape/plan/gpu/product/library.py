"""Products that a library runs: steps on matrices where they lie if it can read them so, else on copies."""

from __future__ import annotations

from egshape.dims import Dim
from egshape.dims import product as total
from egshape.dims.core import is_nonnegative
from egshape.ir.graph import Op, Value
from egshape.plan.analysis.elements import ZERO
from egshape.plan.form import epilogue
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, coefficient, copied, loops, operand, stride
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.product.contracted import tiled
from egshape.plan.ir.loops import Load, Matrix, Store, linear
from egshape.plan.ir.program import Gemm, GemmOperand, Run


def step(p: Steps, cluster: epilogue.Cluster, bias: Value | None, residual: Value | None, gelu: bool) -> None:
    """Add the step, with a kernel for where the library does not run."""
    op = cluster.ops[0]
    d = axes_of(p, op)
    m, n, k = (total(size for _, size in axes) for axes in (d.rows, d.columns, d.deep))
    count = total(size for _, size in d.batch)
    found = [_laid(p, op, d, number, free, k) for number, free in ((0, m), (1, n))]
    vector, other = (p.buffer(each) if each is not None else None for each in (bias, residual))
    p.start()
    operands = []
    for (place, _), (value, indices) in zip(found, d.operands, strict=True):
        free = d.rows if value is d.operands[0][0] and indices == d.operands[0][1] else d.columns
        index, deep = _flat(free), _flat(d.deep)
        operands.append(Load(place.buffer.dtype, place.buffer, place.offset + index * place.row + deep * place.column))
    out = tiled(p, cluster, d, operands[0], operands[1])
    run = p.steps.pop()
    assert isinstance(run, Run)
    p.steps.append(
        Gemm(
            run.kernel,
            count=count,
            m=m,
            n=n,
            k=k,
            left=found[0][1],
            right=found[1][1],
            out=out,
            bias=vector,
            residual=other,
            gelu=gelu,
        )
    )


def _flat(axes: Axes) -> Dim:
    """The flat index of a group of axes."""
    flat = ZERO
    for index, size in axes:
        flat = flat * size + index
    return flat


def _laid(p: Steps, op: Op, d: Dot, number: int, free: Dim, deep: Dim) -> tuple[Matrix, GemmOperand]:
    """An operand where a library can read it: where it lies, else copied."""
    place = operand(p, op, d, number)
    side = _operand_of(place, d.batch, free, deep)
    if side is None:
        place = _copied(p, d, number)
        side = _operand_of(place, d.batch, free, deep)
    assert side is not None, place
    return place, side


def _copied(p: Steps, d: Dot, number: int) -> Matrix:
    """A copy of an operand, along memory what lies along memory."""
    value, indices = d.operands[number]
    free = (d.rows, d.columns)[number]
    p.start()
    found = p.read(value, indices)
    moving = [index for index, _ in free if index is not ZERO]
    if (
        not isinstance(found, Load)
        or not moving
        or coefficient(found.index, moving[-1]) != (ONE, found.index - moving[-1])
    ):
        return copied(p, d, number)
    axes = [*d.batch, *d.deep, *free]
    at, sizes = tuple(index for index, _ in axes), tuple(size for _, size in axes)
    target = p.scratch(value.name, value.type.dtype, total(sizes))
    p.run("copy", loops(axes, [Store(target, linear(at, sizes), found)]), (target,))
    width = total(size for _, size in free)
    batch = linear(at[: len(d.batch)], sizes[: len(d.batch)]) * width * total(size for _, size in d.deep)
    return Matrix(target, batch, ONE, width)


def _operand_of(place: Matrix, batch: Axes, free: Dim, deep: Dim) -> GemmOperand | None:
    """A matrix as a library wants it: one axis along memory, the lines of the other at least as far apart as they are
    long, one stride for all batches."""
    found = stride(place.offset, batch)
    if found is None or found[1].symbols() & {name for index, _ in batch for name in index.symbols()}:
        return None
    step = ZERO if all(size.const == 1 for _, size in batch) else found[0]
    if place.column is ONE:
        pitch = deep if free.const == 1 else place.row
        return GemmOperand(place.buffer, found[1], pitch, step, False) if is_nonnegative(pitch - deep) else None
    pitch = free if deep.const == 1 else place.column
    if place.row is not ONE or not is_nonnegative(pitch - free):
        return None
    return GemmOperand(place.buffer, found[1], pitch, step, True)
