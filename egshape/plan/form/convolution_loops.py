"""Convolutions of any dtype as plain loops, where no product of panels computes them."""

from __future__ import annotations

from egshape.dims import Dim, const, symbol
from egshape.ir.graph import Op
from egshape.ops.contraction import summed_in
from egshape.plan.analysis.elements import ZERO
from egshape.plan.form.dots import converted, undilated, zero
from egshape.plan.form.matrices import ONE, Axes, loops
from egshape.plan.form.steps import Steps
from egshape.plan.ir.loops import Call, Choose, Load, Store, Test, linear


def direct(p: Steps, op: Op) -> None:
    """Convolution of any dtype: sums in the result's memory, or their own where they have another dtype, over the taps
    and then the features, the innermost loop along the result's last axis."""
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
    dtype = summed_in(out.dtype)
    held = out if dtype == out.dtype else p.scratch("sums", dtype, out.size)
    flat = linear(tuple(at), shape)
    seen = converted(dtype, p.read(x, tuple(place)))
    if tests:
        # Padding is 0 and not nothing: 0 times an infinite weight counts.
        seen = Choose(dtype, Test(tuple(tests)), seen, zero(dtype))
    item = Call(dtype, "multiply", (seen, converted(dtype, p.read(kernel, tuple(tap)))))
    axes: Axes = []
    for axis, size in enumerate(shape):
        axes += [(group, const(groups)), (inner, each)] if axis == o_feature else [(names[axis], size)]
    axes = [(index, size) for index, size in axes if index is not ZERO]
    *outer, last = axes or [(ZERO, ONE)]
    store = Store(held, flat, Call(dtype, "add", (Load(dtype, held, flat), item), fast=True))
    sums = loops([(channel, kernel.type.dims[k_in])], loops([last], [store]))
    done = loops([last], [Store(out, flat, converted(out.dtype, Load(dtype, held, flat)))]) if held is not out else ()
    body = loops(outer, [*loops([last], [Store(held, flat, zero(dtype))]), *loops(taps, sums), *done])
    p.run("convolution", body, (*dict.fromkeys((held, out)),))
    p.places[op.result] = out


def _may_fail(a: object, d: int, size: Dim) -> bool:
    """Whether a tap can lie outside of the input."""
    assert hasattr(a, "__getitem__")
    low, high = a["padding"][2 * d], a["padding"][2 * d + 1]
    return not (low is ZERO and high is ZERO and a["lhs_dilation"][d] == 1)
