"""torch's tensors on the CPU at a call. torch is not imported here: who gives a tensor has done so.

The rule: where an input, or one of ``out``, is a tensor, all results are, but for those whose element type torch lacks
and those for which ``out`` gives an array. They have no gradient: what is compiled is not recorded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np


def is_tensor_type(kind: type) -> bool:
    """Whether a type is torch's tensor or one that comes from it."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and issubclass(kind, tensor)


def has_tensor(items: Iterable[Any]) -> bool:
    """Whether a tensor is among these."""
    return any(is_tensor_type(kind) for kind in set(map(type, items)))


def array_of(tensor: Any) -> np.ndarray:
    """A tensor's memory as an array, without a copy where its bits are its elements; its gradient is not followed.
    Raises TypeError or RuntimeError, which torch does, for what numpy cannot read."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    name = str(plain.dtype).removeprefix("torch.")
    if name != "bfloat16" and not name.startswith("float8"):
        found: np.ndarray = plain.numpy(force=plain.device.type == "cpu")  # zeros that have no memory get some
        return found
    torch = sys.modules["torch"]
    bits = plain.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy()
    array: np.ndarray = bits.view(getattr(importlib.import_module("ml_dtypes"), name))
    return array


def resolved(items: Sequence[Any]) -> tuple[Any, ...]:
    """Items where tensors that torch negates lazily are negated, and zeros that have no memory have some: native code
    reads memory as it is."""
    return tuple([array_of(each) if is_lazy(each) else each for each in items])


def is_lazy(item: Any) -> bool:
    """Whether an item is a tensor whose elements are not what its memory says."""
    return is_tensor_type(type(item)) and bool(item.is_neg() or item._is_zerotensor())


def written_array_of(tensor: Any) -> np.ndarray:
    """The same of a tensor that a call writes a result to, of which torch is told. Raises TypeError for one whose
    gradient is asked for, and for one whose elements are not what its memory says."""
    if tensor.requires_grad:
        raise TypeError("a tensor that requires grad cannot be written to")
    if tensor.is_conj() or tensor.is_neg():
        raise TypeError("a lazily conjugated or negated tensor cannot be written to")
    return array_of(tensor)


def note_written(tensors: Iterable[Any]) -> None:
    """Tell torch that tensors have other elements now, so that no gradient is computed from old ones."""
    for tensor in tensors:
        sys.modules["torch"].autograd.graph.increment_version(tensor)


def maker(dtype: np.dtype[Any]) -> Callable[[np.ndarray], Any]:
    """What makes tensors on the memory of arrays of a dtype; it gives the array where torch lacks the dtype."""
    torch = sys.modules["torch"]
    made: Callable[[np.ndarray], Any] = torch.from_numpy
    if dtype.isbuiltin == 1:
        return made
    kind = getattr(torch, dtype.name, None)
    if not isinstance(kind, torch.dtype) or kind.itemsize != dtype.itemsize or "int" in dtype.name:
        return lambda array: array
    return lambda array: made(array.view(f"u{dtype.itemsize}")).view(kind)


def tensor_of(array: np.ndarray) -> Any:
    """A tensor on the memory of an array, which it keeps; the array where torch lacks the element type."""
    return maker(array.dtype)(array)


def tensors_of(results: Sequence[Any]) -> tuple[Any, ...]:
    """Results as tensors; what is none of numpy's arrays stays."""
    return tuple([tensor_of(each) if isinstance(each, np.ndarray) else each for each in results])
