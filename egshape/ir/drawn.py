"""Inputs for a point: arrays whose elements are drawn, small ones and those at the ends of what a dtype holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import ml_dtypes
import numpy as np

from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph, Value
from egshape.ir.points import Data, Point
from egshape.ir.types import integer_range, is_complex, is_integer, is_narrow_integer, numpy_dtype

_LARGEST = 2**59
"""Elements: numpy makes no array with larger sizes, though one of them is 0."""

_SMALL_INTEGERS = (1, 3, None)
"""The largest integers that inputs hold, in turn: places in a table of two rows, in larger ones, and beyond the largest
axis of the point."""

_ZEROS = (-0.0, 0.0, 1.0, -1.0)
_SPECIAL = (np.nan, -0.0, 0.0, np.inf, -np.inf)
_SPECIAL_SHARE = 0.25


def inputs_at(graph: Graph, point: Point, number: int) -> list[np.ndarray] | None:
    """Inputs of a point's sizes, None if a size is negative or undefined there. ``number`` seeds the elements."""
    out = []
    most = _SMALL_INTEGERS[number % len(_SMALL_INTEGERS)]
    if most is None:
        most = max(point.sizes.values(), default=_SMALL_INTEGERS[0]) + 1
    for place, value in enumerate(graph.inputs):
        try:
            shape = [dim.evaluate(point.env) for dim in value.type.shape or ()]
        except UndefinedSize:
            return None
        if min(shape, default=0) < 0 or prod(max(size, 1) for size in shape) > _LARGEST:
            return None
        random = np.random.default_rng([number, place])
        out.append(_elements(value.type.dtype, shape, random, _data_of(graph, value, point.data), most))
    return out


def _data_of(graph: Graph, value: Value, data: Data) -> Data:
    """The data of an input; elements that are sizes stay small."""
    is_size = any(each.value is value and each.element is not None for each in graph.body.symbols)
    return "plain" if is_size and data == "extreme" else data


def _elements(dtype: str, shape: Sequence[int], random: np.random.Generator, data: Data, most: int) -> np.ndarray:
    """Floats as ``data`` says; integers up to ``most``, so that indices mean something, or of the full width."""
    target = numpy_dtype(dtype)
    if dtype == "i1":
        return np.asarray(random.integers(0, 2, shape).astype(target))
    if is_integer(dtype) or is_narrow_integer(dtype):
        low, high = integer_range(dtype)
        if data == "extreme":
            return _wide_integers(dtype, shape, random)
        least = -1 if data == "special" and low < 0 else 0
        return np.asarray(random.integers(least, min(most, high) + 1, shape).astype(target))
    values = _floats(dtype, shape, random, data)
    if is_complex(dtype):
        values = values.astype(np.complex128)
        values.imag = _floats(dtype, shape, random, data)
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(target))


def _wide_integers(dtype: str, shape: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Half of them at the ends of the range, in its middle and next to that, the others small or of any bits."""
    low, high = integer_range(dtype)
    target = numpy_dtype(dtype)
    ends = np.array([low, high, low, high, low + 1, high - 1, high // 2, high // 2 + 1], object).astype(target)
    small = np.array([each for each in (-1, 0, 1, 2) if low <= each <= high], object).astype(target)
    wide = "u" if low == 0 else "i"
    anything = random.integers(low, high, shape, dtype=f"{wide}{max(target.itemsize, 1)}", endpoint=True).astype(target)
    kind = random.integers(0, 4, shape)
    chosen = np.where(kind < 2, random.choice(ends, shape), np.where(kind == 2, random.choice(small, shape), anything))
    return np.asarray(chosen.astype(target))


def _floats(dtype: str, shape: Sequence[int], random: np.random.Generator, data: Data) -> np.ndarray:
    if data == "zeros":
        return np.asarray(random.choice(_ZEROS, shape))
    values = random.standard_normal(shape)
    if data == "special":
        values = np.where(random.random(shape) < _SPECIAL_SHARE, random.choice(_SPECIAL, shape), values)
    if data == "extreme":
        values = np.where(random.random(shape) < 2 * _SPECIAL_SHARE, random.choice(_ends_of(dtype), shape), values)
    return np.asarray(values)


def _ends_of(dtype: str) -> np.ndarray:
    """The least and the largest floats of a dtype of either sign, what is next to 1, and what is no number."""
    part = numpy_dtype(dtype).type(0).real.dtype if is_complex(dtype) else numpy_dtype(dtype)
    told = ml_dtypes.finfo(part)
    least = [float(told.smallest_subnormal), float(told.tiny), float(told.max), 1 + float(told.eps)]
    return np.array([*least, *(-each for each in least), *_SPECIAL])
