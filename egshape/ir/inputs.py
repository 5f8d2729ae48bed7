"""Inputs of a graph as arrays: checked against the input types, and the sizes that they give symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, symbol
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph, Value
from egshape.ir.types import TEXT, numpy_dtype


def checked_inputs(graph: Graph, inputs: Sequence[Any] | Mapping[str, Any]) -> list[np.ndarray]:
    """The inputs as arrays in input order. Raises EgshapeError for missing or unknown names, a wrong
    number, dtype or rank."""
    if isinstance(inputs, Mapping):
        names = [value.name for value in graph.inputs]
        for name in names:
            if name not in inputs:
                raise _fault(f"the input {name!r} is missing", f"inputs are {', '.join(names)}")
        for name in inputs:
            if name not in names:
                raise _fault(f"there is no input {name!r}", f"inputs are {', '.join(names)}")
        inputs = [inputs[name] for name in names]
    if len(inputs) != len(graph.inputs):
        raise _fault(f"{graph.name or 'the graph'} takes {len(graph.inputs)} inputs, got {len(inputs)}")
    return [_checked(value, item) for value, item in zip(graph.inputs, inputs, strict=True)]


def _checked(value: Value, item: Any) -> np.ndarray:
    array = np.asarray(item)
    if value.type.dtype == TEXT and array.dtype.kind == "U":
        array = array.astype(object)
    if array.dtype != numpy_dtype(value.type.dtype):
        raise _fault(f"input {value.name!r} is {value.type}, got elements of {array.dtype}")
    if value.type.shape is not None and array.ndim != len(value.type.shape):
        raise _fault(f"input {value.name!r} is {value.type}, got an array of rank {array.ndim}")
    return array


def solve_inputs(graph: Graph, arrays: Sequence[np.ndarray], defined: set[str]) -> dict[str, int]:
    """Sizes of symbols that no definition of the graph binds, read from input axes ``k*symbol + c``.

    Raises EgshapeError if an axis has a size that no size of its symbol gives."""
    axes = [
        (value, axis, size, int(found))
        for value, array in zip(graph.inputs, arrays, strict=True)
        for axis, (size, found) in enumerate(zip(value.type.shape or (), array.shape, strict=False))
    ]
    sizes: dict[str, int] = {}
    for value, axis, size, found in sorted(axes, key=lambda item: len(item[2].terms)):
        solved = linear(size)
        if solved is None or solved[0] in defined or solved[0] in sizes:
            continue
        name, factor, offset = solved
        number, rest = divmod(found - offset, factor)
        if rest or number < 0:
            raise _fault(f"axis {axis} of input {value.name!r} has size {found}, which is never {size}")
        sizes[name] = number
    return sizes


def linear(size: Dim) -> tuple[str, int, int] | None:
    """(symbol, factor, offset) of a size ``factor * symbol + offset``, None for any other."""
    names = size.symbols()
    if len(names) != 1:
        return None
    (name,) = names
    try:
        offset, factor = size.evaluate({name: 0}), size.evaluate({name: 1})
    except EgshapeError:
        return None
    factor -= offset
    return (name, factor, offset) if factor and size is symbol(name) * factor + offset else None


def _fault(message: str, hint: str = "") -> EgshapeError:
    return EgshapeError(message, hint=hint, code="input")
