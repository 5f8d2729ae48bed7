"""Windows of few places folded without a test inside: the input is copied once, padded by the neutral element, and
wide windows are folded along one axis after the other."""

from __future__ import annotations

import numpy as np

from egshape.dims import Dim, const, maximum
from egshape.dims import product as total
from egshape.ir.graph import Op
from egshape.plan.analysis.elements import ZERO, Indices
from egshape.plan.form.matrices import loops
from egshape.plan.form.predicate_split import split_predicates
from egshape.plan.form.scan import is_neutral
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Buffer, Choose, Expr, Load, Store, Test, linear

FEW = 9
"""Places of a window up to which all are folded in one pass; more of them axis by axis."""
LONGEST = 32
"""Places along an axis up to which they are written out."""


def pooled(p: Steps, op: Op) -> bool:
    """Plan a reduce_window that folds one operand over small windows of known size; False if it is none."""
    a = op.attrs
    windows = [size.const for size in a["window"]]
    if len(op.operands) != 2 or len(op.regions[0].ops) != 1 or any(size is None or size > LONGEST for size in windows):
        return False
    if any(size.const is None for key in ("strides", "window_dilation") for size in a[key]):
        return False
    x, init = op.operands
    if (
        op.result.type.dtype != x.type.dtype
        or any(each.const != 1 for each in a["base_dilation"])
        or not is_neutral(p, op.regions[0].ops[0].name, x.type.dtype, init)
    ):
        return False
    _Pooling(p, op).emit()
    return True


class _Pooling:
    def __init__(self, p: Steps, op: Op) -> None:
        self.p, self.op = p, op
        self.x, self.init = op.operands
        self.dtype = op.result.type.dtype
        a = op.attrs
        self.windows = [size.const or 0 for size in a["window"]]
        self.strides, self.steps = ([each.const for each in a[key]] for key in ("strides", "window_dilation"))
        self.low = [a["padding"][2 * axis] for axis in range(len(self.windows))]
        self.counts = op.result.type.dims

    def emit(self) -> None:
        """Add the kernels."""
        p = self.p
        axes = [axis for axis, size in enumerate(self.windows) if size != 1 or self.strides[axis] != 1]
        source, sizes = self.padded()
        passes = [axes] if np.prod(self.windows) <= FEW else [[axis] for axis in axes]
        for number, some in enumerate(passes):
            last = number == len(passes) - 1
            after = tuple(self.counts[axis] if axis in some else size for axis, size in enumerate(sizes))
            p.start()
            target = p.new_buffer(self.op.result) if last else p.scratch("windows", self.dtype, total(after))
            self.fold(source, sizes, target, after, some)
            source, sizes = target, after
        p.places[self.op.result] = source

    def padded(self) -> tuple[Buffer, tuple[Dim, ...]]:
        """What windows read, with the init value where that is no element of the input; and its sizes."""
        p, shape = self.p, self.x.type.dims
        sizes, moved = list(shape), False
        for axis, (window, stride, step, low) in enumerate(
            zip(self.windows, self.strides, self.steps, self.low, strict=True)
        ):
            high = self.op.attrs["padding"][2 * axis + 1]
            if low is not ZERO or high is not ZERO:
                moved = True
                sizes[axis] = maximum((self.counts[axis] - 1) * stride + (window - 1) * step + 1, 0)
        if not moved:
            return p.buffer(self.x), tuple(shape)
        p.start()
        target = p.scratch("padded", self.dtype, total(sizes))
        at, wrap = p.nest(sizes)
        place = tuple(index - low for index, low in zip(at, self.low, strict=True))
        tests = [
            test
            for axis, index in enumerate(place)
            if sizes[axis] is not shape[axis] or index is not at[axis]
            for test in (index, shape[axis] - 1 - index)
        ]
        value: Expr = p.read(self.x, place)
        if tests:
            value = Choose(self.dtype, Test(tuple(tests)), value, p.read(self.init, ()))
        p.run("pad", split_predicates(wrap([Store(target, linear(at, tuple(sizes)), value)])), (target,), once=True)
        return target, tuple(sizes)

    def fold(self, source: Buffer, sizes: Indices, target: Buffer, after: Indices, axes: list[int]) -> None:
        """One pass: windows along some of the axes."""
        p = self.p
        at, _ = p.nest(after)
        value: Expr = p.read(self.init, ())
        for taps in np.ndindex(*[self.windows[axis] for axis in axes]):
            place = list(at)
            for axis, tap in zip(axes, taps, strict=True):
                place[axis] = at[axis] * self.strides[axis] + const(int(tap) * self.steps[axis])
            item = Load(self.dtype, source, linear(tuple(place), sizes))
            (value,) = p.scalars(self.op, self.op.regions[0], [value, item], fast=True)
        nest = loops(zip(at, after, strict=True), [Store(target, linear(at, after), value)])
        p.run("reduce_window", nest, (target,), once=True)
