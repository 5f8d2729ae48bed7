"""Our names of dtypes, and numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

_PLAIN = {
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
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
EXTENDED = {
    "bf16": "bfloat16",
    "i4": "int4",
    "ui4": "uint4",
    "i2": "int2",
    "ui2": "uint2",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
}
"""Dtypes that numpy lacks, by their names in ml_dtypes."""
DTYPES = frozenset((*_PLAIN, *EXTENDED))


def array_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of one of our dtype names; those of ``EXTENDED`` need ml_dtypes."""
    if name in EXTENDED:
        import importlib

        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), EXTENDED[name]))
        return found
    return _PLAIN[name]
