"""Convolutions for a GPU: products whose left operand is a patch of the input, padded; or, of few features, sums by a
thread each."""

from __future__ import annotations

import numpy as np

from egshape.dims import Dim, const, symbol
from egshape.dims import product as total
from egshape.ir.graph import Op, Value
from egshape.ir.types import itemsize
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form import epilogue
from egshape.plan.form.dots import converted, undilated, zero
from egshape.plan.form.matrices import Axes, loops, parts
from egshape.plan.form.steps import Steps
from egshape.plan.gpu.product.contracted import HALF, contracted, settled
from egshape.plan.ir.launch import BYTES
from egshape.plan.ir.loops import (
    Assign,
    Buffer,
    Call,
    Choose,
    Expr,
    Load,
    Local,
    Stmt,
    Store,
    Test,
    Var,
    linear,
)

FEW_FEATURES = 4
"""Input times output features of a group up to which a thread sums an element of a convolution by itself."""
MANY_FEATURES = 16
"""Output features of a group from which a convolution with channels that are not last has its operands copied so."""


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
        by_warps = self.a["dtype"] in (*HALF, "f32") and x.type.dtype == kernel.type.dtype == self.a["dtype"]
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


def convolution(p: Steps, cluster: epilogue.Cluster) -> None:
    """Add the kernels of a convolution and of what follows it."""
    op = cluster.ops[0]
    for value in op.operands[:2]:
        settled(p, value)
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


def _sums(p: Steps, cluster: epilogue.Cluster, c: _Taps) -> None:
    """A thread an element: few features of a group."""
    op = cluster.ops[0]
    dtype = op.attrs["dtype"]
    inner = "f32" if dtype in HALF else dtype
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
