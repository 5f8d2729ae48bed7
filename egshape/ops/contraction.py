"""Contractions: dot_general and convolution. Sums run in logical index order in the result dtype, of 16-bit floats in
f32 (``summed_in``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.ir.graph import Op
from egshape.ir.types import numpy_dtype
from egshape.ops.declare import op
from egshape.ops.traits import Cost, Traits
from egshape.ops.windows import spread, window_slices, windowed_sizes

Numbers = tuple[int, int, tuple[int, ...], int, int, tuple[int, ...], int, int, tuple[int, ...]]


def _rest(rank: int, *used: Sequence[int]) -> list[int]:
    taken = {axis for axes in used for axis in axes}
    return [axis for axis in range(rank) if axis not in taken]


def _contracted(op: Op) -> tuple[Dim, ...]:
    shape = op.operands[0].type.shape
    return () if shape is None else tuple(shape[axis] for axis in op.attrs["lhs_contract"])


def _taps(op: Op) -> tuple[Dim, ...]:
    """The kernel's sizes but for the output features."""
    kernel = op.operands[1].type.shape or ()
    return tuple(dim for axis, dim in enumerate(kernel) if axis != op.attrs["numbers"][4])


@op(
    "dot_general",
    family="contraction",
    operands=("lhs", "rhs"),
    attrs={
        "lhs_batch": "axes",
        "rhs_batch": "axes",
        "lhs_contract": "axes",
        "rhs_contract": "axes",
        "precision": ("record", ()),
        "dtype": "dtype",
    },
    traits=Traits(Cost(inner=_contracted), effort="product"),
    names={"stablehlo": "dot_general"},
    doc="Sum of products over the contracting axes, for each index of the batch axes. Result axes: batch, "
    "then the "
    "free axes of lhs, then those of rhs. StableHLO spec: dot_general.",
)
class DotGeneral:
    @staticmethod
    def reference(
        lhs: np.ndarray,
        rhs: np.ndarray,
        *,
        lhs_batch: tuple[int, ...],
        rhs_batch: tuple[int, ...],
        lhs_contract: tuple[int, ...],
        rhs_contract: tuple[int, ...],
        precision: Any,
        dtype: str,
    ) -> np.ndarray:
        lhs_free = _rest(lhs.ndim, lhs_batch, lhs_contract)
        rhs_free = _rest(rhs.ndim, rhs_batch, rhs_contract)
        batch = tuple(lhs.shape[i] for i in lhs_batch)
        rows = tuple(lhs.shape[i] for i in lhs_free)
        columns = tuple(rhs.shape[i] for i in rhs_free)
        deep = prod(lhs.shape[i] for i in lhs_contract)
        kind = numpy_dtype(summed_in(dtype))
        counts = (prod(batch), prod(rows), prod(columns))
        one = lhs.transpose(*lhs_contract, *lhs_batch, *lhs_free).reshape(deep, *counts[:2], 1)
        two = rhs.transpose(*rhs_contract, *rhs_batch, *rhs_free).reshape(deep, counts[0], 1, counts[2])
        total = sum_of_products(one.astype(kind), two.astype(kind), counts)
        with np.errstate(over="ignore"):
            return total.reshape(batch + rows + columns).astype(numpy_dtype(dtype), copy=False)


def summed_in(dtype: str) -> str:
    """The dtype of the sums of a product, convolution or reduction to ``dtype``: f32 for 16-bit floats, rounded once
    at the end, as XLA, ONNX Runtime and libraries for GPUs do it. In bf16, 256 + 1 is 256."""
    return "f32" if dtype in ("f16", "bf16") else dtype


def sum_of_products(left: np.ndarray, right: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``sum_k left[k] * right[k]``, one k after the other from 0, each step rounded in the dtype of
    ``left``.

    On i1 the sum is or and the product is and (numpy's own meaning on bool)."""
    total = np.zeros(shape, dtype=left.dtype)
    with np.errstate(all="ignore"):
        for one, two in zip(left, right, strict=True) if total.size else ():
            total = total + one * two
    return total


@op(
    "convolution",
    family="contraction",
    operands=("lhs", "rhs"),
    attrs={
        "numbers": "record",
        "strides": "axes",
        "padding": "sizes",
        "lhs_dilation": "axes",
        "rhs_dilation": "axes",
        "reversal": "axes",
        "feature_groups": ("int", 1),
        "batch_groups": ("int", 1),
        "precision": ("record", ()),
        "dtype": "dtype",
    },
    dynamic=("padding",),
    traits=Traits(Cost(inner=_taps), effort="product", signed=True),
    names={"stablehlo": "convolution"},
    doc="Windows of lhs times the kernel rhs. numbers: input batch, feature, spatial axes; kernel input "
    "feature, output "
    "feature, spatial axes; output batch, feature, spatial axes. padding is flat: low and high of each "
    "spatial "
    "axis. reversal holds 0 or 1 for each spatial axis. StableHLO spec: convolution, dynamic_conv.",
)
class Convolution:
    @staticmethod
    def reference(
        lhs: np.ndarray,
        rhs: np.ndarray,
        *,
        numbers: Numbers,
        strides: tuple[int, ...],
        padding: tuple[int, ...],
        lhs_dilation: tuple[int, ...],
        rhs_dilation: tuple[int, ...],
        reversal: tuple[int, ...],
        feature_groups: int,
        batch_groups: int,
        precision: Any,
        dtype: str,
    ) -> np.ndarray:
        (
            batch,
            feature,
            spatial,
            kernel_in,
            kernel_out,
            kernel_spatial,
            out_batch,
            out_feature,
            out_spatial,
        ) = numbers
        kind = numpy_dtype(summed_in(dtype))
        x = lhs.transpose(batch, feature, *spatial).astype(kind)
        kernel = rhs.transpose(kernel_out, kernel_in, *kernel_spatial).astype(kind)
        kernel = kernel[(slice(None), slice(None), *(slice(None, None, -1 if flip else 1) for flip in reversal))]
        groups = []
        each = kernel.shape[0] // (feature_groups * batch_groups)
        for group in range(feature_groups * batch_groups):
            part = x
            if feature_groups > 1:
                part = x[:, group * kernel.shape[1] : (group + 1) * kernel.shape[1]]
            elif batch_groups > 1:
                share = x.shape[0] // batch_groups
                part = x[group * share : (group + 1) * share]
            groups.append(
                _convolve(
                    part,
                    kernel[group * each : (group + 1) * each],
                    strides,
                    padding,
                    lhs_dilation,
                    rhs_dilation,
                )
            )
        out = np.concatenate(groups, axis=1)
        order = np.argsort((out_batch, out_feature, *out_spatial))
        with np.errstate(over="ignore"):
            return out.transpose(order).astype(numpy_dtype(dtype), copy=False)


def _convolve(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    base: Sequence[int],
    dilation: Sequence[int],
) -> np.ndarray:
    """One group in the layout (batch, feature, *spatial) and (output feature, feature, *spatial).

    The sum runs over the kernel's spatial axes in row-major order and then over the features, as the
    spec's dot of a flattened (spatial..., feature) window does."""
    window = kernel.shape[2:]
    counts = windowed_sizes(x.shape[2:], window, strides, padding, base, dilation)
    padded = spread(x, 0, (0, 0, 0, 0, *padding), (1, 1, *base))
    total = np.zeros((x.shape[0], kernel.shape[0], *counts), dtype=x.dtype)
    taps = kernel.reshape(*kernel.shape[:2], prod(window))
    ones = (1,) * len(counts)
    with np.errstate(all="ignore"):
        for tap, place in enumerate(window_slices(counts, window, strides, dilation)):
            for channel in range(x.shape[1]):
                seen = padded[:, channel][(slice(None), *place)][:, None]
                weight = taps[:, channel, tap].reshape(1, -1, *ones)
                total = total + seen * weight
    return total
