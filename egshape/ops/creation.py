"""Ops that make tensors from attributes: constants, iota, and sizes as data."""

from __future__ import annotations

import numpy as np

from egshape.ir.types import integer_range, numpy_dtype
from egshape.ops.declare import op
from egshape.ops.traits import Cost, Traits


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


@op(
    "get_dimension_size",
    family="creation",
    operands=("x",),
    attrs={"dim": "int"},
    traits=Traits(Cost(fixed=1_001.0), sized=True),
    names={"stablehlo": "get_dimension_size"},
    doc="The size of axis ``dim`` as an i32 scalar.",
)
class GetDimensionSize:
    """StableHLO spec: get_dimension_size."""

    @staticmethod
    def reference(x: np.ndarray, *, dim: int) -> np.ndarray:
        return np.array(wrap(x.shape[dim], "i32"), np.int32)
