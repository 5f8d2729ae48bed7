"""Ops that move elements and change none. Source: StableHLO specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.ops.declare import op
from egshape.ops.traits import Cost, Traits

_COPIED = Cost(reads="result")
"""As many bytes are read as are written, whatever the operands' size."""


@op(
    "broadcast_in_dim",
    family="movement",
    operands=("x",),
    attrs={"dims": "axes", "shape": "sizes"},
    dynamic=("shape",),
    traits=Traits(Cost(reads="nothing"), moves=True),
    names={"stablehlo": "broadcast_in_dim"},
    doc="Axis i of x becomes axis dims[i] of the result; axes of size 1 and new axes repeat.",
)
class BroadcastInDim:
    """StableHLO spec: broadcast_in_dim, dynamic_broadcast_in_dim."""

    @staticmethod
    def reference(x: np.ndarray, *, dims: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        middle = [1] * len(shape)
        for axis, target in enumerate(dims):
            middle[target] = x.shape[axis]
        order = sorted(range(x.ndim), key=dims.__getitem__)
        return np.array(np.broadcast_to(x.transpose(order).reshape(middle), shape))


@op(
    "reshape",
    family="movement",
    operands=("x",),
    attrs={"shape": "sizes"},
    dynamic=("shape",),
    traits=Traits(Cost(fixed=6_000.0), moves=True),  # a view for most back ends, but an op all the same
    names={"stablehlo": "reshape"},
    doc="The same elements, row-major, in another shape.",
)
class Reshape:
    """StableHLO spec: reshape, dynamic_reshape."""

    @staticmethod
    def reference(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        return x.reshape(shape)


@op(
    "transpose",
    family="movement",
    operands=("x",),
    attrs={"permutation": "axes"},
    traits=Traits(Cost(reads="result", strided=1.5), moves=True),
    names={"stablehlo": "transpose"},
    doc="Axis i of the result is axis permutation[i] of x.",
)
class Transpose:
    """StableHLO spec: transpose."""

    @staticmethod
    def reference(x: np.ndarray, *, permutation: tuple[int, ...]) -> np.ndarray:
        return x.transpose(permutation)


@op(
    "reverse",
    family="movement",
    operands=("x",),
    attrs={"dims": "axes"},
    traits=Traits(_COPIED),
    names={"stablehlo": "reverse"},
    doc="The order of elements along dims reversed.",
)
class Reverse:
    """StableHLO spec: reverse."""

    @staticmethod
    def reference(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
        return np.flip(x, dims) if dims else x  # of a scalar, numpy gives an element


@op(
    "slice",
    family="movement",
    operands=("x",),
    attrs={"starts": "sizes", "limits": "sizes", "strides": "sizes"},
    dynamic=("starts", "limits", "strides"),
    traits=Traits(_COPIED, moves=True),
    names={"stablehlo": "slice"},
    doc="Elements starts, starts + strides, ... below limits, per axis.",
)
class Slice:
    """StableHLO spec: slice, real_dynamic_slice."""

    @staticmethod
    def reference(
        x: np.ndarray, *, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]
    ) -> np.ndarray:
        return np.asarray(x[tuple(map(slice, starts, limits, strides))])  # of a scalar, numpy gives an element


@op(
    "pad",
    family="movement",
    operands=("x", "value"),
    attrs={"low": "sizes", "high": "sizes", "interior": "sizes"},
    dynamic=("low", "high", "interior"),
    traits=Traits(_COPIED, signed=True),
    names={"stablehlo": "pad"},
    doc="value in front of, behind and between the elements of x, per axis; negative low and high cut off.",
)
class Pad:
    """StableHLO spec: pad, dynamic_pad."""

    @staticmethod
    def reference(
        x: np.ndarray, value: np.ndarray, *, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]
    ) -> np.ndarray:
        shape, source, target = [], [], []
        for size, lo, hi, gap in zip(x.shape, low, high, interior, strict=True):
            total = lo + hi + size + max(size - 1, 0) * gap
            step = gap + 1
            first = max(0, -(lo // step))
            count = max(0, min(size, (total - lo + step - 1) // step) - first)
            start = lo + first * step
            shape.append(total)
            source.append(slice(first, first + count))
            target.append(slice(start, start + (count - 1) * step + 1, step) if count else slice(0, 0))
        out = np.empty(shape, x.dtype)
        out.fill(value.reshape(-1)[0])
        out[tuple(target)] = x[tuple(source)]
        return out


@op(
    "concatenate",
    family="movement",
    operands=("*xs",),
    attrs={"dim": "int"},
    traits=Traits(_COPIED),
    names={"stablehlo": "concatenate"},
    doc="The operands one after the other along dim.",
)
class Concatenate:
    """StableHLO spec: concatenate."""

    @staticmethod
    def reference(*xs: np.ndarray, dim: int) -> np.ndarray:
        return np.concatenate(xs, axis=dim)


def _clamped(starts: Sequence[Any], shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """The window of the given sizes, its start clamped so that it lies inside; of a scalar an array too."""
    firsts = [min(max(int(start), 0), size - taken) for start, size, taken in zip(starts, shape, sizes, strict=True)]
    return *(slice(first, first + taken) for first, taken in zip(firsts, sizes, strict=True)), ...


@op(
    "dynamic_slice",
    family="movement",
    operands=("x", "*starts"),
    attrs={"sizes": "axes"},
    traits=Traits(_COPIED),
    names={"stablehlo": "dynamic_slice"},
    doc="The window of static sizes at starts, clamped to lie inside x.",
)
class DynamicSlice:
    """StableHLO spec: dynamic_slice."""

    @staticmethod
    def reference(x: np.ndarray, *starts: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(x[_clamped(starts, x.shape, sizes)])


@op(
    "dynamic_update_slice",
    family="movement",
    operands=("x", "update", "*starts"),
    names={"stablehlo": "dynamic_update_slice"},
    doc="x with update written at starts, which are clamped so that update lies inside x.",
)
class DynamicUpdateSlice:
    """StableHLO spec: dynamic_update_slice."""

    @staticmethod
    def reference(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        out = x.copy()
        out[_clamped(starts, x.shape, update.shape)] = update
        return out
