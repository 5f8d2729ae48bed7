"""Ops that make tensors from attributes: constants, iota, and sizes as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.types import dtype_name, integer_range, is_float, is_integer, numpy_dtype
from egshape.ops import floatcode
from egshape.ops.base import ELEMENT_LIMIT, FLOATS, Element, ElementScope, object_array, op
from egshape.ops.traits import Cost, Traits


def _static(sizes: Sequence[Dim]) -> tuple[int, ...] | None:
    numbers = [size.const for size in sizes]
    return None if None in numbers else tuple(number for number in numbers if number is not None)


@op(
    "constant",
    family="creation",
    operands=(),
    attrs={"value": "array"},
    traits=Traits(Cost(fixed=8.0)),
    names={"stablehlo": "constant"},
    doc="The array ``value``.",
)
class Constant:
    """StableHLO spec: constant."""

    @staticmethod
    def reference(*, value: np.ndarray) -> np.ndarray:
        return np.array(value)

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        value: np.ndarray = attrs["value"]
        if is_float(dtype_name(value.dtype)) and value.size <= FLOATS:
            return object_array([floatcode.of_number(float(item)) for item in value.reshape(-1)], value.shape)
        if value.size > ELEMENT_LIMIT or value.dtype.kind not in "iub":
            return None
        boolean = value.dtype.kind == "b"
        items: list[Element] = [bool(item) if boolean else const(int(item)) for item in value.reshape(-1)]
        return object_array(items, value.shape)


@op(
    "iota",
    family="creation",
    operands=(),
    attrs={"dtype": "dtype", "dim": "int", "shape": "sizes"},
    dynamic=("shape",),
    traits=Traits(Cost(reads="nothing")),
    names={"stablehlo": "iota"},
    doc="Counts 0, 1, 2, ... along ``dim``; integers wrap.",
)
class Iota:
    """StableHLO spec: iota, dynamic_iota."""

    @staticmethod
    def reference(*, dtype: str, dim: int, shape: tuple[int, ...]) -> np.ndarray:
        line = np.arange(shape[dim], dtype=np.int64).astype(numpy_dtype(dtype))
        column = line.reshape([-1 if axis == dim else 1 for axis in range(len(shape))])
        return np.array(np.broadcast_to(column, shape))

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        shape = _static(attrs["shape"])
        if shape is None or not is_integer(attrs["dtype"]):
            return None
        numbers = Iota.reference(dtype=attrs["dtype"], dim=attrs["dim"], shape=shape)
        return object_array([const(int(item)) for item in numbers.reshape(-1)], shape)


def wrap(number: int, dtype: str) -> int:
    """An integer reduced to the range of an integer dtype, two's complement."""
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


@op(
    "dims",
    family="creation",
    operands=(),
    attrs={"elements": "sizes", "shape": "axes", "dtype": "dtype"},
    traits=Traits(Cost(fixed=1_000.0), sized=True),
    doc="An integer tensor of static ``shape``; its elements, row-major, are sizes wrapped to ``dtype``.",
)
class Dims:
    """Sizes as data; frontends and the extractor write shape code with it."""

    @staticmethod
    def reference(*, elements: tuple[int, ...], shape: tuple[int, ...], dtype: str) -> np.ndarray:
        wrapped = [wrap(number, dtype) for number in elements]
        return np.array(wrapped, numpy_dtype(dtype)).reshape(shape)

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        return object_array(attrs["elements"], attrs["shape"])


@op(
    "get_dimension_size",
    family="creation",
    operands=("x",),
    attrs={"dim": "int"},
    traits=Traits(sized=True),
    names={"stablehlo": "get_dimension_size"},
    doc="The size of axis ``dim`` as an i32 scalar.",
)
class GetDimensionSize:
    """StableHLO spec: get_dimension_size."""

    @staticmethod
    def reference(x: np.ndarray, *, dim: int) -> np.ndarray:
        return np.array(wrap(x.shape[dim], "i32"), np.int32)

    @staticmethod
    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        shape = types[0].shape
        return None if shape is None else object_array([shape[attrs["dim"]]], ())
