"""Tensor types: a dtype name and a shape of symbolic sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from egshape.dims import Dim

_NUMPY: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    "i4": np.dtype(ml_dtypes.int4),
    "ui4": np.dtype(ml_dtypes.uint4),
    "i2": np.dtype(ml_dtypes.int2),
    "ui2": np.dtype(ml_dtypes.uint2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
}
DTYPES = tuple(_NUMPY)
"""The dtypes of numbers."""

FOREIGN = ("i1", 0)
"""Dtype and only size of what stands for a value that is no tensor (a token of StableHLO): though such values have no
element, they are not equal."""

TEXT = "text"
"""Elements that are texts, Python's ``str`` in arrays of objects. They are moved and handed to host calls only."""

_NUMPY[TEXT] = np.dtype(object)
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}

NARROW = tuple(name for name, dtype in _NUMPY.items() if name != TEXT and dtype.itemsize == 1 and dtype.isbuiltin != 1)
"""Floats of at most 8 bits and integers of less: no arithmetic is done with them, they are moved and converted. An
element takes a byte in memory; those of fewer bits lie in its low ones, the others being 0."""

_NARROW = frozenset(NARROW)

SUBBYTE = {name: int(re.findall(r"\d+", name)[0]) for name in NARROW if not name.startswith("f8")}
"""Bits of an element of the dtypes that files pack."""


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
    """True for signed and unsigned integers of 8 bits or more; i1 (bool) is none."""
    return name != "i1" and name not in _NARROW and name.lstrip("u").startswith("i")


def is_narrow(name: str) -> bool:
    """True for the dtypes that are only moved and converted (``NARROW``)."""
    return name in _NARROW


def is_narrow_integer(name: str) -> bool:
    """True for the integers of less than 8 bits."""
    return name in _NARROW and not name.startswith("f")


_INTEGERS = [
    integers for bits in (8, 16, 32, 64) for integers in ((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), (0, 2**bits - 1))
]
_LEAST, _MOST = frozenset(low for low, _ in _INTEGERS if low), frozenset(high for _, high in _INTEGERS)


def is_fit(kind: str, lhs: Dim, rhs: Dim) -> bool:
    """Whether a relation says that an integer lies in the range of a dtype."""
    return kind == "<=" and (lhs.const in _LEAST or rhs.const in _MOST)


@cache
def integer_range(name: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype, a narrow one too (i1: 0 and 1)."""
    if name == "i1":
        return 0, 1
    info = ml_dtypes.iinfo(_NUMPY[name])
    return int(info.min), int(info.max)


def holds(wide: str, dtype: str) -> bool:
    """Whether every value of ``dtype`` is one of ``wide`` too, and comes back from it bit for bit; not asked of the
    floats of at most 8 bits."""
    if is_integer(dtype) or is_narrow_integer(dtype) or dtype == "i1":
        low, high = integer_range(dtype)
        if is_integer(wide):
            least, most = integer_range(wide)
            return least <= low and high <= most
        return is_float(wide) and max(-low, high) <= exact_integers(wide)
    if is_complex(dtype):
        return is_complex(wide) and itemsize(wide) >= itemsize(dtype)
    if not (is_float(dtype) and is_float(wide)):
        return False
    one, two = ml_dtypes.finfo(numpy_dtype(wide)), ml_dtypes.finfo(numpy_dtype(dtype))
    return bool(one.nmant >= two.nmant and one.maxexp >= two.maxexp and one.minexp <= two.minexp)


def exact_integers(name: str) -> int:
    """The number up to which a float dtype holds every integer."""
    return int(2 ** (ml_dtypes.finfo(_NUMPY[name]).nmant + 1))


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
