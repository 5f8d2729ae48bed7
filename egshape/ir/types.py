"""Tensor types: a dtype name and a shape of symbolic sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from egshape.dims import Dim

_NUMPY: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16), "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}

DTYPES = tuple(_NUMPY)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of one of our dtype names (StableHLO's: ``f32``, ``i1``, ``ui8`` ...). KeyError if unknown."""
    return _NUMPY[name]


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Our name of a numpy dtype. KeyError if the dtype is not one of ours."""
    return _NAMES[np.dtype(dtype)]


def itemsize(name: str) -> int:
    """Bytes an element of this dtype takes in memory."""
    return int(_NUMPY[name].itemsize)


def is_float(name: str) -> bool:
    """True for f16, bf16, f32, f64."""
    return name in ("f16", "bf16", "f32", "f64")


def is_complex(name: str) -> bool:
    """True for c64, c128."""
    return name in ("c64", "c128")


def is_integer(name: str) -> bool:
    """True for signed and unsigned integers; i1 (bool) is none."""
    return name != "i1" and name.lstrip("u").startswith("i")


def integer_range(name: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype (i1: 0 and 1)."""
    if name == "i1":
        return 0, 1
    info = np.iinfo(_NUMPY[name])
    return int(info.min), int(info.max)


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape of a value; ``shape`` is None for a value of unknown rank."""

    dtype: str
    shape: tuple[Dim, ...] | None

    @property
    def rank(self) -> int:
        """Number of axes. Raises ValueError for an unranked type."""
        return len(self.dims)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape of a ranked type. Raises ValueError for an unranked one."""
        if self.shape is None:
            raise ValueError("the type is unranked")
        return self.shape

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[*]"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"
