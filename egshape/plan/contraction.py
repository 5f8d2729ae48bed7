"""dot_general and convolution. Dots whose operands are matrices in memory become Gemm, with loops over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from egshape.dims import Dim, const, product, symbol
from egshape.ir.graph import Op, Value
from egshape.ir.types import numpy_dtype
from egshape.plan.loops import Buffer, Call, Choose, Const, Expr, Gemm, Load, Loop, Matrix, Stmt, Store, Test, linear
from egshape.plan.reader import ZERO, Indices

if TYPE_CHECKING:
    from egshape.plan.planner import Planner

Axes = list[tuple[Dim, Dim]]
"""Index and size of each axis of a group."""
ONE = const(1)


def undilated(position: Dim, dilation: Dim, size: Dim) -> tuple[Dim, list[Dim]]:
    """The element at a position of a dilated axis, and what must be >= 0 for it to exist."""
    if dilation is ONE:
        return position, [position, size - 1 - position]
    index = position // dilation
    return index, [index, size - 1 - index, index * dilation - position]


def _zero(dtype: str) -> Const:
    return Const(dtype, numpy_dtype(dtype).type(0).item())


def _as(dtype: str, expr: Expr) -> Expr:
    return expr if expr.dtype == dtype else Call(dtype, "convert", (expr,), (("dtype", dtype),))


# -- dot --------------------------------------------------------------------------------------------------------------


def dot(p: Planner, op: Op) -> None:
    """Gemm where both sides are matrices in memory, else loops."""
    a, (left, right) = op.attrs, op.operands
    at: dict[tuple[int, int], Dim] = {}
    """Index of an axis of a side; both sides may be one value."""

    def axes(side: int, chosen: Sequence[int], share: Sequence[Dim] | None = None) -> Axes:
        value, out = op.operands[side], []
        for k, axis in enumerate(chosen):
            size = value.type.dims[axis]
            index = share[k] if share else ZERO if size.const == 1 else symbol(p.name("i"))
            at[side, axis] = index
            out.append((index, size))
        return out

    batch = axes(0, a["lhs_batch"])
    axes(1, a["rhs_batch"], [index for index, _ in batch])
    deep = axes(0, a["lhs_contract"])
    axes(1, a["rhs_contract"], [index for index, _ in deep])
    rows = axes(0, [i for i in range(left.type.rank) if i not in (*a["lhs_batch"], *a["lhs_contract"])])
    columns = axes(1, [i for i in range(right.type.rank) if i not in (*a["rhs_batch"], *a["rhs_contract"])])
    sides = [(value, tuple(at[side, axis] for axis in range(value.type.rank)))
             for side, value in enumerate((left, right))]
    dtype = a["dtype"]
    gemm = dtype in ("f32", "f64") and left.type.dtype == right.type.dtype == dtype
    if gemm:
        for value, axes_of_side in zip((left, right), (rows, columns), strict=True):
            _prepare(p, value, sides, batch, axes_of_side, deep)
    p.start()
    out = p.new_buffer(op.result)
    ones, twos = (p.read(value, indices) for value, indices in sides)
    flat = linear(tuple(i for i, _ in (*batch, *rows, *columns)), op.result.type.dims)
    body = _gemm(dtype, ones, twos, out, flat, batch, rows, deep, columns) if gemm else None
    if body is None:
        item = Call(dtype, "multiply", (_as(dtype, ones), _as(dtype, twos)))
        body = _plain(out, flat, [*batch, *rows], deep, columns, item)
    p.run("dot_general", body, (out,))
    p.places[op.result] = out


def _prepare(p: Planner, value: Value, sides: Sequence[tuple[Value, Indices]], batch: Axes, free: Axes,
             deep: Axes) -> None:
    """Give an operand a buffer unless it can be read as a matrix where it lies."""
    p.start()
    for each, indices in sides:
        if each is value and _matrix(p.read(value, indices), batch, free, deep) is None:
            p.buffer(value)


def coefficient(flat: Dim, index: Dim) -> tuple[Dim, Dim] | None:
    """(c, rest) with flat = c * index + rest where neither reads the index; None if there are no such."""
    if index is ZERO:
        return ZERO, flat
    (name,) = index.symbols()
    rest = flat.substitute({name: 0})
    factor = flat.substitute({name: 1}) - rest
    if name in factor.symbols() or rest + factor * index is not flat:
        return None
    return factor, rest


def _stride(flat: Dim, axes: Axes) -> tuple[Dim, Dim] | None:
    """The stride of a group of axes taken as one, and the rest of the index."""
    strides = []
    for index, size in axes:
        if size.const == 1:
            continue
        found = coefficient(flat, index)
        if found is None:
            return None
        factor, flat = found
        strides.append((factor, size))
    if not strides:
        return ONE, flat
    if any(one is not two * size for (one, _), (two, size) in pairwise(strides)):
        return None
    return strides[-1][0], flat


def _matrix(expr: Expr, batch: Axes, free: Axes, deep: Axes) -> Matrix | None:
    """An operand as a matrix (free, deep) with a stride of 1, at an offset that depends on the batch only."""
    if not isinstance(expr, Load):
        return None
    found = _stride(expr.index, free)
    inner = _stride(found[1], deep) if found else None
    if found is None or inner is None:
        return None
    row, column, offset = found[0], inner[0], inner[1]
    if all(size.const == 1 for _, size in free):
        row = ONE if column is not ONE else product(size for _, size in deep)
    elif all(size.const == 1 for _, size in deep):
        column = ONE if row is not ONE else product(size for _, size in free)
    if ZERO in (row, column) or (row is not ONE and column is not ONE):
        return None
    return Matrix(expr.buffer, offset, row, column)


def _gemm(dtype: str, ones: Expr, twos: Expr, out: Buffer, flat: Dim, batch: Axes, rows: Axes, deep: Axes,
          columns: Axes) -> tuple[Stmt, ...] | None:
    left = _matrix(ones, batch, rows, deep)
    right = _matrix(twos, batch, columns, deep)
    if left is None or right is None:
        return None
    m, n, k = (product(size for _, size in axes) for axes in (rows, columns, deep))
    offset = flat
    for index, _ in (*rows, *columns):
        if index is not ZERO:
            offset = offset.substitute({next(iter(index.symbols())): 0})
    target = Matrix(out, offset, n, ONE)
    call = Gemm(dtype, m, n, k, left, Matrix(right.buffer, right.offset, right.column, right.row), target)
    return _loops(batch, [call])


def _loops(axes: Axes, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    for index, size in reversed(axes):
        if index is not ZERO:
            body = (Loop(next(iter(index.symbols())), size, tuple(body)),)
    return tuple(body)


def _plain(out: Buffer, flat: Dim, outer: Axes, deep: Axes, inner: Axes, item: Expr) -> tuple[Stmt, ...]:
    """Sums in the result's memory, the innermost loop along it."""
    total = Call(out.dtype, "add", (Load(out.dtype, out, flat), item), fast=True)
    first = _loops(inner, [Store(out, flat, _zero(out.dtype))])
    return _loops(outer, [*first, *_loops(deep, _loops(inner, [Store(out, flat, total)]))])


# -- convolution ------------------------------------------------------------------------------------------------------


def convolution(p: Planner, op: Op) -> None:
    """Direct: sums in the result's memory, over the taps and then the features, the innermost loop along the
    result's last axis."""
    for value in op.operands[:2]:
        p.buffer(value)
    p.start()
    a, (x, kernel) = op.attrs, op.operands[:2]
    batch, feature, spatial, k_in, k_out, k_spatial, o_batch, o_feature, o_spatial = a["numbers"]
    shape = op.result.type.dims
    groups = a["feature_groups"] * a["batch_groups"]
    each = shape[o_feature] // groups
    group = symbol(p.name("i")) if groups > 1 else ZERO
    names = [ZERO if size.const == 1 else symbol(p.name("i")) for size in shape]
    inner = names[o_feature] if each.const != 1 else ZERO
    at = list(names)
    at[o_feature] = group * each + inner
    channel = ZERO if kernel.type.dims[k_in].const == 1 else symbol(p.name("i"))
    taps: Axes = []
    place, tests, tap = [ZERO] * len(shape), [], [ZERO] * len(shape)
    for d, (axis, k_axis, o_axis) in enumerate(zip(spatial, k_spatial, o_spatial, strict=True)):
        size = kernel.type.dims[k_axis]
        step = ZERO if size.const == 1 else symbol(p.name("i"))
        taps.append((step, size))
        position = at[o_axis] * a["strides"][d] + step * a["rhs_dilation"][d] - a["padding"][2 * d]
        place[axis], needed = undilated(position, const(a["lhs_dilation"][d]), x.type.dims[axis])
        tests += needed if _may_fail(a, d, size) else []
        tap[k_axis] = size - 1 - step if a["reversal"][d] else step
    place[feature] = channel + (group * kernel.type.dims[k_in] if a["feature_groups"] > 1 else ZERO)
    place[batch] = at[o_batch] + (group * shape[o_batch] if a["batch_groups"] > 1 else ZERO)
    tap[k_in], tap[k_out] = channel, at[o_feature]
    out = p.new_buffer(op.result)
    dtype = out.dtype
    flat = linear(tuple(at), shape)
    seen = _as(dtype, p.read(x, tuple(place)))
    if tests:
        # Padding is 0 and not nothing: 0 times an infinite weight counts.
        seen = Choose(dtype, Test(tuple(tests)), seen, _zero(dtype))
    item = Call(dtype, "multiply", (seen, _as(dtype, p.read(kernel, tuple(tap)))))
    axes: Axes = []
    for axis, size in enumerate(shape):
        axes += [(group, const(groups)), (inner, each)] if axis == o_feature else [(names[axis], size)]
    axes = [(index, size) for index, size in axes if index is not ZERO]
    *outer, last = axes or [(ZERO, ONE)]
    store = Store(out, flat, Call(dtype, "add", (Load(dtype, out, flat), item), fast=True))
    sums = _loops([(channel, kernel.type.dims[k_in])], _loops([last], [store]))
    body = _loops(outer, [*_loops([last], [Store(out, flat, _zero(dtype))]), *_loops(taps, sums)])
    p.run("convolution", body, (out,))
    p.places[op.result] = out


def _may_fail(a: object, d: int, size: Dim) -> bool:
    """Whether a tap can lie outside of the input."""
    assert hasattr(a, "__getitem__")
    low, high = a["padding"][2 * d], a["padding"][2 * d + 1]
    return not (low is ZERO and high is ZERO and a["lhs_dilation"][d] == 1)
