"""Ops that move elements and change none. Source: StableHLO specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, ceildiv, const, is_nonnegative, maximum, product
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType, is_integer
from egshape.ops.base import ElementScope, Loose, concrete_attrs, fault, op

Sizes = tuple["Dim | None", ...]


def _wrong(code: str, message: str) -> EgshapeError:
    return EgshapeError(message, code=code)


def _clash(one: Dim, two: Dim) -> bool:
    """Two sizes that are constants and differ."""
    return one.const is not None and two.const is not None and one is not two


def _axes(axes: Sequence[int], rank: int | None, what: str) -> None:
    """Raise unless the axes are distinct and within the rank."""
    if len(set(axes)) != len(axes) or any(axis < 0 or (rank is not None and axis >= rank) for axis in axes):
        raise fault(f"{what} {tuple(axes)} do not fit {rank} axes")


def _unknown_filled(found: np.ndarray | None, type: TensorType) -> np.ndarray | None:
    """Elements, all None where nothing is known; None if the shape is not static."""
    if found is not None:
        return found
    sizes = [dim.const for dim in type.shape or ()]
    if type.shape is None or None in sizes:
        return None
    return np.full(tuple(size for size in sizes if size is not None), None, dtype=object)


@op("broadcast_in_dim", family="movement", operands=("x",), attrs={"dims": "axes", "shape": "sizes"},
    dynamic=("shape",), elements="reference", names={"stablehlo": "broadcast_in_dim"},
    doc="Axis i of x becomes axis dims[i] of the result; axes of size 1 and new axes repeat.")
class BroadcastInDim:
    """StableHLO spec: broadcast_in_dim, dynamic_broadcast_in_dim."""

    @staticmethod
    def shape(x: TensorType, *, dims: tuple[int, ...], shape: tuple[Dim, ...]) -> Loose:
        _axes(dims, len(shape), "dims")
        if x.shape is None:
            return x.dtype, shape
        if len(dims) != x.rank:
            raise fault(f"dims {dims} do not name the axes of {x}")
        for axis, target in enumerate(dims):
            if x.dims[axis].const != 1 and _clash(x.dims[axis], shape[target]):
                raise fault(f"axis {axis} of {x} does not broadcast to {shape[target]}")
        return x.dtype, shape

    @staticmethod
    def reference(x: np.ndarray, *, dims: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        middle = [1] * len(shape)
        for axis, target in enumerate(dims):
            if x.shape[axis] not in (1, shape[target]):
                raise _wrong("shape-mismatch", f"shape {x.shape} does not broadcast to {shape} along {dims}")
            middle[target] = x.shape[axis]
        order = sorted(range(x.ndim), key=dims.__getitem__)
        return np.array(np.broadcast_to(x.transpose(order).reshape(middle), shape))


@op("reshape", family="movement", operands=("x",), attrs={"shape": "sizes"}, dynamic=("shape",),
    elements="reference", names={"stablehlo": "reshape"},
    doc="The same elements, row-major, in another shape.")
class Reshape:
    """StableHLO spec: reshape, dynamic_reshape."""

    @staticmethod
    def shape(x: TensorType, *, shape: tuple[Dim, ...]) -> Loose:
        if x.shape is not None and _clash(product(x.shape), product(shape)):
            raise fault(f"{x} has {product(x.shape)} elements, the new shape {product(shape)}")
        return x.dtype, shape

    @staticmethod
    def reference(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        total = 1
        for size in shape:
            total *= size
        if any(size < 0 for size in shape) or total != x.size:
            raise _wrong("shape-mismatch", f"shape {x.shape} does not reshape to {shape}")
        return x.reshape(shape)


@op("transpose", family="movement", operands=("x",), attrs={"permutation": "axes"}, elements="reference",
    names={"stablehlo": "transpose"}, doc="Axis i of the result is axis permutation[i] of x.")
class Transpose:
    """StableHLO spec: transpose."""

    @staticmethod
    def shape(x: TensorType, *, permutation: tuple[int, ...]) -> Loose:
        _axes(permutation, len(permutation), "permutation")
        if x.shape is None:
            return x.dtype, (None,) * len(permutation)
        if len(permutation) != x.rank:
            raise fault(f"permutation {permutation} does not fit {x}")
        return x.dtype, tuple(x.dims[axis] for axis in permutation)

    @staticmethod
    def reference(x: np.ndarray, *, permutation: tuple[int, ...]) -> np.ndarray:
        return x.transpose(permutation)


@op("reverse", family="movement", operands=("x",), attrs={"dims": "axes"}, elements="reference",
    names={"stablehlo": "reverse"}, doc="The order of elements along dims reversed.")
class Reverse:
    """StableHLO spec: reverse."""

    @staticmethod
    def shape(x: TensorType, *, dims: tuple[int, ...]) -> Loose:
        _axes(dims, None if x.shape is None else x.rank, "dims")
        return x.dtype, x.shape

    @staticmethod
    def reference(x: np.ndarray, *, dims: tuple[int, ...]) -> np.ndarray:
        return np.flip(x, dims) if dims else x  # of a scalar, numpy gives an element


@op("slice", family="movement", operands=("x",),
    attrs={"starts": "sizes", "limits": "sizes", "strides": "sizes"},
    dynamic=("starts", "limits", "strides"), elements="reference", names={"stablehlo": "slice"},
    doc="Elements starts, starts + strides, ... below limits, per axis.")
class Slice:
    """StableHLO spec: slice, real_dynamic_slice."""

    @staticmethod
    def shape(x: TensorType, *, starts: tuple[Dim, ...], limits: tuple[Dim, ...],
              strides: tuple[Dim, ...]) -> Loose:
        rank = len(starts)
        if len(limits) != rank or len(strides) != rank or (x.shape is not None and x.rank != rank):
            raise fault(f"starts, limits and strides do not fit {x}")
        for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
            size = None if x.shape is None else x.shape[axis].const
            if (_below(start, 0) or _below(stride, 1) or _below((limit - start), 0)
                    or (size is not None and _below(size - limit, 0))):
                raise fault(f"takes {start}:{limit}:{stride} of axis {axis} of {x}")
        return x.dtype, tuple(map(_slice_size, starts, limits, strides))

    @staticmethod
    def reference(x: np.ndarray, *, starts: tuple[int, ...], limits: tuple[int, ...],
                  strides: tuple[int, ...]) -> np.ndarray:
        for size, start, limit, stride in zip(x.shape, starts, limits, strides, strict=True):
            if not 0 <= start <= limit <= size or stride < 1:
                raise _wrong("invalid-size", f"takes {start}:{limit}:{stride} of an axis of size {size}")
        return np.asarray(x[tuple(map(slice, starts, limits, strides))])  # of a scalar, numpy gives an element


def _below(dim: Dim, bound: int) -> bool:
    return dim.const is not None and dim.const < bound


def _slice_size(start: Dim, limit: Dim, stride: Dim) -> Dim | None:
    if stride.const == 1:
        return limit - start
    # Where a stride is 0 the op is rejected before anything has its size.
    return ceildiv(limit - start, stride) if is_nonnegative(stride) else None


@op("pad", family="movement", operands=("x", "value"),
    attrs={"low": "sizes", "high": "sizes", "interior": "sizes"}, dynamic=("low", "high", "interior"),
    names={"stablehlo": "pad"},
    doc="value in front of, behind and between the elements of x, per axis; negative low and high cut off.")
class Pad:
    """StableHLO spec: pad, dynamic_pad."""

    @staticmethod
    def shape(x: TensorType, value: TensorType, *, low: tuple[Dim, ...], high: tuple[Dim, ...],
              interior: tuple[Dim, ...]) -> Loose:
        rank = len(low)
        if len(high) != rank or len(interior) != rank or (x.shape is not None and x.rank != rank):
            raise fault(f"low, high and interior do not fit {x}")
        if value.dtype != x.dtype or (value.shape is not None and value.rank != 0):
            raise fault(f"pads {x} with {value}")
        if x.shape is None:
            return x.dtype, (None,) * rank
        sizes = tuple(map(_padded_size, x.shape, low, high, interior))
        for axis, size in enumerate(sizes):
            if _below(size, 0) or _below(interior[axis], 0):
                raise fault(f"gives axis {axis} of {x} the size {size} (interior {interior[axis]})")
        return x.dtype, sizes

    @staticmethod
    def reference(x: np.ndarray, value: np.ndarray, *, low: tuple[int, ...], high: tuple[int, ...],
                  interior: tuple[int, ...]) -> np.ndarray:
        shape, source, target = [], [], []
        for size, lo, hi, gap in zip(x.shape, low, high, interior, strict=True):
            total = lo + hi + size + max(size - 1, 0) * gap
            if total < 0 or gap < 0:
                raise _wrong("invalid-size", f"pads an axis of size {size} to {total} with interior {gap}")
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

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        numbers = concrete_attrs(attrs)
        filled = [_unknown_filled(found, type) for found, type in zip(operands, types, strict=False)]
        if numbers is None or filled[0] is None or filled[1] is None:
            return None
        return Pad.reference(filled[0], filled[1], **numbers)


def _padded_size(size: Dim, low: Dim, high: Dim, interior: Dim) -> Dim:
    gaps = const(0) if interior.const == 0 else maximum(size - 1, 0) * interior
    return low + high + size + gaps


@op("concatenate", family="movement", operands=("*xs",), attrs={"dim": "int"},
    names={"stablehlo": "concatenate"}, doc="The operands one after the other along dim.")
class Concatenate:
    """StableHLO spec: concatenate."""

    @staticmethod
    def shape(*xs: TensorType, dim: int) -> Loose:
        if not xs:
            raise fault("needs an operand")
        if any(x.dtype != xs[0].dtype for x in xs):
            raise fault(f"operands have different dtypes: {', '.join(map(str, xs))}")
        ranked = [x.shape for x in xs if x.shape is not None]
        if not ranked:
            return xs[0].dtype, None
        rank = len(ranked[0])
        if any(len(shape) != rank for shape in ranked) or not 0 <= dim < rank:
            raise fault(f"operands {', '.join(map(str, xs))} do not join along axis {dim}")
        return xs[0].dtype, tuple(
            _joined_size(ranked, axis, dim, len(ranked) == len(xs), xs) for axis in range(rank))

    @staticmethod
    def reference(*xs: np.ndarray, dim: int) -> np.ndarray:
        first = xs[0].shape
        for x in xs:
            if x.ndim != len(first) or x.shape[:dim] + x.shape[dim + 1:] != first[:dim] + first[dim + 1:]:
                raise _wrong("shape-mismatch", f"shapes {first} and {x.shape} do not join along axis {dim}")
        return np.concatenate(xs, axis=dim)

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        filled = [_unknown_filled(found, type) for found, type in zip(operands, types, strict=False)]
        known = [found for found in filled if found is not None]
        return Concatenate.reference(*known, dim=attrs["dim"]) if len(known) == len(filled) else None


def _joined_size(shapes: Sequence[tuple[Dim, ...]], axis: int, dim: int, all_ranked: bool,
                 xs: Sequence[TensorType]) -> Dim | None:
    sizes = [shape[axis] for shape in shapes]
    if axis == dim:
        return sum(sizes, const(0)) if all_ranked else None
    constants = {size.const: size for size in sizes if size.const is not None}
    if len(constants) > 1:
        raise fault(f"operands differ on axis {axis}: {', '.join(map(str, xs))}")
    return next(iter(constants.values()), sizes[0])


def _check_starts(x: TensorType, starts: Sequence[TensorType]) -> None:
    if x.shape is not None and len(starts) != x.rank:
        raise fault(f"has {len(starts)} start indices for {x}")
    if any(not is_integer(start.dtype) or start.shape not in (None, ()) for start in starts):
        raise fault("start indices are integer scalars")


def _clamped(starts: Sequence[Any], shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """The window of the given sizes, its start clamped so that it lies inside; of a scalar an array too."""
    for size, taken in zip(shape, sizes, strict=True):
        if not 0 <= taken <= size:
            raise _wrong("invalid-size", f"a window of shape {sizes} does not lie in the shape {shape}")
    firsts = [min(max(int(start), 0), size - taken)
              for start, size, taken in zip(starts, shape, sizes, strict=True)]
    return *(slice(first, first + taken) for first, taken in zip(firsts, sizes, strict=True)), ...


def _known_starts(operands: Sequence[Any], types: Sequence[TensorType], shape: tuple[int, ...],
                  sizes: tuple[int, ...]) -> list[int] | None:
    """Start indices that are known numbers, or of no consequence as the window is the whole axis."""
    out: list[int] = []
    for found, size, taken in zip(operands, shape, sizes, strict=True):
        if size == taken:
            out.append(0)
            continue
        item = None if found is None else found.reshape(-1)[0]
        if not isinstance(item, Dim) or item.const is None:
            return None
        out.append(item.const)
    return out


@op("dynamic_slice", family="movement", operands=("x", "*starts"), attrs={"sizes": "axes"},
    names={"stablehlo": "dynamic_slice"},
    doc="The window of static sizes at starts, clamped to lie inside x.")
class DynamicSlice:
    """StableHLO spec: dynamic_slice."""

    @staticmethod
    def shape(x: TensorType, *starts: TensorType, sizes: tuple[int, ...]) -> Loose:
        _check_starts(x, starts)
        if len(sizes) != len(starts):
            raise fault(f"has {len(sizes)} sizes for {len(starts)} start indices")
        for axis, taken in enumerate(sizes):
            if taken < 0 or (x.shape is not None and _below(x.dims[axis], taken)):
                raise fault(f"takes {taken} elements of axis {axis} of {x}")
        return x.dtype, tuple(map(const, sizes))

    @staticmethod
    def reference(x: np.ndarray, *starts: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(x[_clamped(starts, x.shape, sizes)])

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        x, *starts = operands
        numbers = None if x is None else _known_starts(starts, types, x.shape, attrs["sizes"])
        return None if numbers is None else x[_clamped(numbers, x.shape, attrs["sizes"])]


@op("dynamic_update_slice", family="movement", operands=("x", "update", "*starts"),
    names={"stablehlo": "dynamic_update_slice"},
    doc="x with update written at starts, which are clamped so that update lies inside x.")
class DynamicUpdateSlice:
    """StableHLO spec: dynamic_update_slice."""

    @staticmethod
    def shape(x: TensorType, update: TensorType, *starts: TensorType) -> Loose:
        _check_starts(x, starts)
        if update.dtype != x.dtype:
            raise fault(f"writes {update} into {x}")
        if x.shape is None or update.shape is None:
            return x.dtype, x.shape
        if update.rank != x.rank:
            raise fault(f"writes {update} into {x}")
        for axis, (size, taken) in enumerate(zip(x.shape, update.shape, strict=True)):
            if taken.const is not None and _below(size, taken.const):
                raise fault(f"writes {taken} elements to axis {axis} of {x}")
        return x.dtype, x.shape

    @staticmethod
    def reference(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        out = x.copy()
        out[_clamped(starts, x.shape, update.shape)] = update
        return out

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        x, update = (_unknown_filled(found, type) for found, type in zip(operands[:2], types, strict=False))
        if x is None or update is None:
            return None
        numbers = _known_starts(operands[2:], types, x.shape, update.shape)
        if numbers is None:
            return None
        out = x.copy()
        out[_clamped(numbers, x.shape, update.shape)] = update
        return out
