"""torch's dtypes, tensors and sizes under our names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from egshape.dims import Dim, const, floordiv, maximum, minimum, mod, product
from egshape.errors import Unsupported

_NAMES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}
_TORCH = {ours: theirs for theirs, ours in _NAMES.items()}
_AS_BITS = {"bf16": ("int16", ml_dtypes.bfloat16)} | {
    ours: ("int8", getattr(ml_dtypes, theirs)) for theirs, ours in _NAMES.items() if theirs.startswith("float8")
}
"""Dtypes that torch does not hand to numpy: the integers of their bits, and numpy's dtype."""


@cache
def dtype_of(dtype: Any) -> str:
    """Our name of a ``torch.dtype``. Raises Unsupported for one that egshape does not have."""
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise Unsupported(f"tensors of {dtype} are not supported")
    return _NAMES[name]


def torch_dtype(dtype: str) -> Any:
    """The ``torch.dtype`` of one of our names."""
    import torch

    return getattr(torch, _TORCH[dtype])


def array_of(tensor: Any) -> np.ndarray:
    """A tensor's elements as an array on the same memory, where it lies on the CPU."""
    import torch

    held = tensor.detach().cpu().resolve_conj().resolve_neg()
    bits = _AS_BITS.get(dtype_of(held.dtype))
    if bits is None:
        return np.asarray(held.numpy(force=True))  # zeros that have no memory get some
    return np.asarray(held.view(getattr(torch, bits[0])).numpy().view(bits[1]))


def tensor_of(array: np.ndarray, dtype: str) -> Any:
    """An array's elements as a tensor of one of our dtypes; on the same memory where that may be written."""
    import torch

    held = array if array.flags.writeable and array.flags.c_contiguous else np.array(array, order="C")
    bits = _AS_BITS.get(dtype)
    if bits is None:
        return torch.from_numpy(held)
    return torch.from_numpy(held.view(np.dtype(bits[0]))).view(torch_dtype(dtype))


def size_of(size: Any, symbols: Mapping[Any, Dim]) -> Dim | None:
    """A size of torch, a number or a ``SymInt``, as ours; None for an expression that has no form of ours or holds a
    symbol that is not among these."""
    return const(size) if isinstance(size, int) else dim_of(size.node.expr, symbols)


def dim_of(expr: Any, symbols: Mapping[Any, Dim]) -> Dim | None:
    """An expression of sympy as a size."""
    if expr.is_Integer:
        return const(int(expr))
    if expr.is_Symbol:
        return symbols.get(expr)
    args = [dim_of(each, symbols) for each in expr.args]
    known = [each for each in args if each is not None]
    kind = type(expr).__name__
    if len(known) < len(args) or kind not in _FORMS:
        return None
    out = known[0]
    for other in known[1:]:
        if kind == "Pow":
            return None if other.const is None or other.const < 0 else product([out] * other.const)
        out = _FORMS[kind](out, other)
    return out


_FORMS: dict[str, Any] = {
    "Add": lambda x, y: x + y,
    "Mul": lambda x, y: x * y,
    "Pow": None,
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "Mod": mod,
    "PythonMod": mod,
    "Max": maximum,
    "Min": minimum,
}
