"""Products and convolutions for a GPU: steps that a library runs, and kernels over tiles with any epilogue.

A product of floats is a ``Gemm``: matrices where they lie if a library can read them so, else copies, and a bias behind
it; what else follows is a kernel of its own. Other products, and convolutions, are tiles of our own, which read their
sides as expressions (a patch of the input, padded) and compute what follows before they store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.dims import product as total
from egshape.dims.core import is_nonnegative
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form import epilogue
from egshape.plan.form.dots import converted, undilated, zero
from egshape.plan.form.matrices import ONE, Axes, Dot, axes_of, coefficient, copied, loops, operand, parts, stride
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.product.gelu import tanh_gelu
from egshape.plan.gpu.switches import wished
from egshape.plan.ir.launch import BYTES
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Contract,
    Expr,
    Load,
    Local,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    linear,
)
from egshape.plan.ir.program import Gemm, Run, Side
from egshape.plan.ir.visit import Moved

LIBRARY = frozenset((("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32")))
"""Dtypes of sides and result that the library multiplies."""
SWITCH = "EGSHAPE_CUDA_PRODUCTS"
"""Environment: ``library`` or ``own`` instead of what ``by_library`` says, so that a benchmark can run both."""
GELU_SWITCH = "EGSHAPE_CUDA_GELU"
"""Environment: ``library`` or ``kernel`` instead of what ``by_library_gelu`` says."""
FEW_FEATURES = 4
"""Input times output features of a group up to which a thread sums an element of a convolution by itself."""
MANY_FEATURES = 16
"""Output features of a group from which a convolution with channels that are not last has its sides copied so."""
_HALF = ("f16", "bf16")


def is_product(op: Op) -> bool:
    """Whether an op is a product, or computed as one."""
    return op.name in ("dot_general", "convolution")


def by_library(op: Op) -> bool:
    """Whether a library runs a product, where one is installed. The place of that choice: all that it multiplies."""
    one, two = (value.type.dtype for value in op.operands[:2])
    able = op.name == "dot_general" and one == two and (one, op.attrs["dtype"]) in LIBRARY
    return able and (wished(SWITCH, ("library", "own")) or "library") == "library"


def by_library_gelu() -> bool:
    """Whether a library computes GELU behind its product. The place of that choice: only if asked for, as its
    documentation says neither which form it computes (others say: by tanh) nor what becomes of infinities."""
    return wished(GELU_SWITCH, ("library", "kernel")) == "library"


@dataclass(frozen=True, eq=False)
class Cluster(epilogue.Cluster):
    """A product on a GPU; ``bias``: the vector along the columns that the library adds; ``residual``: what else it
    adds, of the result's shape; ``gelu``: whether it computes the tanh form of GELU of that."""

    bias: Value | None = None
    residual: Value | None = None
    gelu: bool = False

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        op = self.ops[0]
        if op.name == "convolution":
            _convolution(p, self)
        elif by_library(op):
            _library(p, self)
        else:
            d = axes_of(p, op)
            for value in op.operands:
                _settled(p, value)
            p.start()
            (one, left), (two, right) = d.operands
            _tiles(p, self, d, p.read(one, left), p.read(two, right))


def find(
    p: Steps, block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster:
    """The cluster of a product."""
    first = block.ops[number]
    if not by_library(first):
        found = epilogue.find(block, number, uses, taken, waiting)
        return Cluster(found.ops, found.elementwise)
    ops, bias, residual = [first], None, None
    while (then := _following(block, ops[-1], uses, taken)) is not None and then.name == "add":
        others = [x for x in then.operands if x is not ops[-1].result]
        if len(others) != 1 or others[0] in waiting or then.result.type != first.result.type:
            break
        vector = _along_columns(p, block, first, others[0]) if bias is None else None
        if vector is not None:
            bias = vector
        elif residual is None and p.resolved(others[0]) in p.places and others[0].type == first.result.type:
            residual = others[0]
        else:
            break
        ops.append(then)
    more = tanh_gelu(block, ops[-1].result, uses, taken) if by_library_gelu() else ()
    return Cluster((*ops, *more), len(ops) + len(more), bias, residual, bool(more))


def _following(block: Block, op: Op, uses: epilogue.Readers, taken: Collection[Op]) -> Op | None:
    """The one op that reads a result; None if there are more, or it is in another cluster."""
    numbers = uses.get(op.result, ())
    if len(numbers) != 1 or numbers[0] == epilogue.ENDLESS or block.ops[numbers[0]] in taken:
        return None
    return block.ops[numbers[0]]


def _along_columns(p: Steps, block: Block, first: Op, value: Value) -> Value | None:
    """What a value repeats along everything but the axes of columns, of which it has an element each; None if it does
    not."""
    value = p.resolved(value)
    op = p.producers.get(value) or next((op for op in block.ops if value in op.results), None)
    rank, a = first.result.type.rank, first.attrs
    columns = first.operands[1].type.rank - len(a["rhs_batch"]) - len(a["rhs_contract"])
    if not columns or op is None or op.name != "broadcast_in_dim" or value.type.shape != first.result.type.shape:
        return None
    vector, dims = op.operands[0], tuple(op.attrs["dims"])
    alone = [axis for axis, size in zip(dims, vector.type.dims, strict=True) if size.const != 1]
    own = [size for size in vector.type.dims if size.const != 1]
    wanted = [(axis, value.type.dims[axis]) for axis in range(rank - columns, rank) if value.type.dims[axis].const != 1]
    same = len(wanted) == len(own) and all(
        axis == other and size is whole for axis, size, (other, whole) in zip(alone, own, wanted, strict=True)
    )
    return vector if same else None


def _settled(p: Steps, value: Value) -> None:
    """Compute an operand now if reading its elements again and again costs more than a load."""
    if p.cost(value)[0] > 0:
        p.places.setdefault(p.resolved(value), p.buffer(value))


# -- dot_general ------------------------------------------------------------------------------------------------------


def _library(p: Steps, cluster: Cluster) -> None:
    op = cluster.ops[0]
    d = axes_of(p, op)
    m, n, k = (total(size for _, size in axes) for axes in (d.rows, d.columns, d.deep))
    count = total(size for _, size in d.batch)
    found = [_laid(p, op, d, number, free, k) for number, free in ((0, m), (1, n))]
    bias, residual = (p.buffer(each) if each is not None else None for each in (cluster.bias, cluster.residual))
    p.start()
    sides = []
    for (place, _), (value, indices) in zip(found, d.operands, strict=True):
        free = d.rows if value is d.operands[0][0] and indices == d.operands[0][1] else d.columns
        index, deep = _flat(free), _flat(d.deep)
        sides.append(Load(place.buffer.dtype, place.buffer, place.offset + index * place.row + deep * place.column))
    out = _tiles(p, cluster, d, sides[0], sides[1])
    step = p.steps.pop()
    assert isinstance(step, Run)
    p.steps.append(
        Gemm(
            step.kernel,
            count=count,
            m=m,
            n=n,
            k=k,
            left=found[0][1],
            right=found[1][1],
            out=out,
            bias=bias,
            residual=residual,
            gelu=cluster.gelu,
        )
    )


def _flat(axes: Axes) -> Dim:
    """The flat index of a group of axes."""
    flat = ZERO
    for index, size in axes:
        flat = flat * size + index
    return flat


def _laid(p: Steps, op: Op, d: Dot, number: int, free: Dim, deep: Dim) -> tuple[Matrix, Side]:
    """An operand where a library can read it: where it lies, else copied."""
    place = operand(p, op, d, number)
    side = _side(place, d.batch, free, deep)
    if side is None:
        place = _copied(p, d, number)
        side = _side(place, d.batch, free, deep)
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


def _side(place: Matrix, batch: Axes, free: Dim, deep: Dim) -> Side | None:
    """A matrix as a library wants it: one axis along memory, the lines of the other at least as far apart as they are
    long, one stride for all batches."""
    found = stride(place.offset, batch)
    if found is None or found[1].symbols() & {name for index, _ in batch for name in index.symbols()}:
        return None
    step = ZERO if all(size.const == 1 for _, size in batch) else found[0]
    if place.column is ONE:
        pitch = deep if free.const == 1 else place.row
        return Side(place.buffer, found[1], pitch, step, False) if is_nonnegative(pitch - deep) else None
    pitch = free if deep.const == 1 else place.column
    if place.row is not ONE or not is_nonnegative(pitch - free):
        return None
    return Side(place.buffer, found[1], pitch, step, True)


def _tiles(p: Steps, cluster: Cluster, d: Dot, left: Expr, right: Expr) -> Buffer:
    """The kernel of a product of two sides, whose indices are those of ``d``."""
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
    sides: tuple[Expr, Expr],
    env: dict[str, Dim],
    at: Indices,
) -> Buffer:
    """The kernel of a product over rows, columns and depth. ``env``: what the indices in the sides stand for; ``at``:
    the place of an element of the product."""
    op = cluster.ops[0]
    dtype = op.attrs["dtype"]
    inner = "f32" if dtype in _HALF else dtype
    out = p.new_buffer(cluster.result)
    value = Var(inner, p.name("v"))
    p.locals[op.result, at] = converted(dtype, value)
    store = Store(out, cluster.place(at), p.read(cluster.value, at))
    moved = Moved(env)
    left, right = (converted(inner, moved.expr(side)) for side in sides)
    (row,), (column,), (deep,) = (index.symbols() for index in indices)
    whole = Contract(inner, *sizes, row, column, deep, left, right, value.name, (store,))
    p.run(cluster.label, loops(batch, [whole]), (out,), once=True)
    p.places[cluster.result] = out
    return out


# -- convolution ------------------------------------------------------------------------------------------------------


class _Taps:
    """A convolution as sums: the indices of a place of the result, of a feature of a group, of a tap and channel."""

    def __init__(self, p: Steps, op: Op) -> None:
        self.p, self.op, self.a = p, op, op.attrs
        batch, feature, space, k_in, k_out, k_space, o_batch, o_feature, o_space = op.attrs["numbers"]
        x, kernel = op.operands[:2]
        shape = op.result.type.dims
        self.groups: int = op.attrs["feature_groups"] * op.attrs["batch_groups"]
        self.group = _index(p, const(self.groups))
        self.outputs = shape[o_feature] // self.groups
        self.inputs = kernel.type.dims[k_in]
        image = (_index(p, shape[o_batch]), shape[o_batch])
        self.spots: Axes = [image, *((_index(p, shape[axis]), shape[axis]) for axis in o_space)]
        self.feature = _index(p, self.outputs)
        channel = _index(p, self.inputs)
        self.taps: Axes = [(_index(p, kernel.type.dims[axis]), kernel.type.dims[axis]) for axis in k_space]
        self.last = self._last()
        # The depth in the order in which the kernel lies, so that it follows memory.
        by_axis = dict(zip((*k_space, k_in), (*self.taps, (channel, self.inputs)), strict=True))
        self.deep: Axes = list(by_axis.values()) if self.last else [by_axis[axis] for axis in sorted(by_axis)]
        self.at = [ZERO] * len(shape)
        self.at[o_batch], self.at[o_feature] = image[0], self.group * self.outputs + self.feature
        place, tap, tests = [ZERO] * len(shape), [ZERO] * len(shape), []
        for number, axis in enumerate(space):
            spot, (step, size) = self.spots[number + 1][0], self.taps[number]
            self.at[o_space[number]] = spot
            a = op.attrs
            where = spot * a["strides"][number] + step * a["rhs_dilation"][number] - a["padding"][2 * number]
            place[axis], needed = undilated(where, const(a["lhs_dilation"][number]), x.type.dims[axis])
            # One tap without padding meets the input at every place of the result.
            whole = size.const == 1 and all(ZERO + pad is ZERO for pad in a["padding"][2 * number : 2 * number + 2])
            if not whole or a["lhs_dilation"][number] != 1:
                tests += [test for test in needed if test.const is None or test.const < 0]
            tap[k_space[number]] = size - 1 - step if a["reversal"][number] else step
        place[feature] = channel + (self.group * self.inputs if op.attrs["feature_groups"] > 1 else ZERO)
        place[batch] = image[0] + (self.group * shape[o_batch] if op.attrs["batch_groups"] > 1 else ZERO)
        tap[k_in], tap[k_out] = channel, self.at[o_feature]
        seen = _element(p, x, tuple(place), (batch, *space, feature) if self.last else None)
        # Padding is 0 and not nothing: 0 times an infinite weight counts.
        self.patch = Choose(seen.dtype, Test(tuple(tests)), seen, zero(seen.dtype)) if tests else seen
        self.weight = _element(p, kernel, tuple(tap), (k_out, *k_space, k_in) if self.last else None)

    def _last(self) -> bool:
        """Whether copies with the channels last are worth their cost: the patches of a place are read tap by tap for
        every tile of features, then by 16 bytes."""
        x, kernel = self.op.operands[:2]
        lanes = BYTES // itemsize(x.type.dtype)
        by_warps = self.a["dtype"] in (*_HALF, "f32") and x.type.dtype == kernel.type.dtype == self.a["dtype"]
        far = self.a["numbers"][1] != x.type.rank - 1 and (self.inputs.const or 1) % lanes == 0
        return (
            by_warps
            and far
            and total(size for _, size in self.taps).const != 1
            and (self.outputs.const or MANY_FEATURES) >= MANY_FEATURES
        )


def _element(p: Steps, value: Value, at: Indices, order: tuple[int, ...] | None) -> Expr:
    """An element of a value; ``order``: of a copy whose axes lie so."""
    if order is None:
        p.start()
        return p.read(value, at)
    dims = value.type.dims
    sizes, array = tuple(dims[axis] for axis in order), p.arrays.of(p.resolved(value))
    if array is not None:
        data = np.ascontiguousarray(np.transpose(array, order))
        target = Buffer(f"{value.name}.turned", value.type.dtype, const(data.size), "const", data)
    else:
        indices = tuple(_index(p, size) for size in dims)
        p.start()
        found = p.read(value, indices)
        moved = tuple(indices[axis] for axis in order)
        target = p.scratch(value.name, value.type.dtype, total(dims))
        p.run("turn", loops(zip(moved, sizes, strict=True), [Store(target, linear(moved, sizes), found)]), (target,))
    p.start()
    return Load(value.type.dtype, target, linear(tuple(at[axis] for axis in order), sizes))


def _index(p: Steps, size: Dim) -> Dim:
    return ZERO if size.const == 1 else symbol(p.name("i"))


def _convolution(p: Steps, cluster: Cluster) -> None:
    op = cluster.ops[0]
    for value in op.operands[:2]:
        _settled(p, value)
    c = _Taps(p, op)
    most = (c.inputs * c.outputs).const
    if c.groups > 1 and most is not None and most <= FEW_FEATURES:
        _sums(p, cluster, c)
        return
    i, j, deep = (symbol(p.name("i")) for _ in range(3))
    env = {}
    columns: Axes = [(c.feature, c.outputs)]
    for whole, axes in ((i, c.spots), (j, columns), (deep, c.deep)):
        for (index, _), part in zip(axes, parts(whole, axes), strict=True):
            env.update(dict.fromkeys(index.symbols(), part))
    sizes = total(size for _, size in c.spots), c.outputs, total(size for _, size in c.deep)
    at = tuple(index.substitute(env) for index in c.at)
    contracted(p, cluster, [(c.group, const(c.groups))], sizes, (i, j, deep), (c.patch, c.weight), env, at)


def _sums(p: Steps, cluster: Cluster, c: _Taps) -> None:
    """A thread an element: few features of a group."""
    op = cluster.ops[0]
    dtype = op.attrs["dtype"]
    inner = "f32" if dtype in _HALF else dtype
    out = p.new_buffer(cluster.result)
    value = Var(inner, p.name("v"))
    at = tuple(c.at)
    p.locals[op.result, at] = converted(dtype, value)
    store = Store(out, cluster.place(at), p.read(cluster.value, at))
    item = Call(inner, "multiply", (converted(inner, c.patch), converted(inner, c.weight)))
    more = Assign(value.name, Call(inner, "add", (value, item), fast=True))
    body: tuple[Stmt, ...] = (Local(value.name, zero(inner)), *loops(c.deep, [more]), store)
    o_batch, o_feature, o_space = op.attrs["numbers"][6:]
    by_axis: dict[int, Axes] = {o_batch: [c.spots[0]], o_feature: [(c.group, const(c.groups)), (c.feature, c.outputs)]}
    by_axis |= {axis: [spot] for axis, spot in zip(o_space, c.spots[1:], strict=True)}
    nest: Axes = [each for axis in range(len(c.at)) for each in by_axis[axis]]
    p.run(cluster.label, loops(nest, body), (out,), once=True)
    p.places[cluster.result] = out
