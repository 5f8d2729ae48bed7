"""What the functions of a contract compute: over sizes when a program is read, over numbers when it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from egshape.dims import Dim, ceildiv, const, floordiv, is_nonnegative, maximum, minimum, mod, product, relu, total
from egshape.dims.core import Function
from egshape.errors import UndefinedSize
from egshape.ir.types import DTYPES, TEXT, TensorType, dtype_name, is_float, is_integer, is_narrow, itemsize

Namespace = Mapping[str, Callable[..., Any]]


class Unranked(Exception):
    """The shape of an operand of unknown rank was asked for: what asked says nothing of this program."""


class Shapeless:
    """An operand of unknown rank, in the place of its type."""

    def __init__(self, type: TensorType) -> None:
        self.type, self.dtype = type, type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Nothing that a contract may use."""
        raise Unranked

    def __str__(self) -> str:
        return str(self.type)


def shown(item: object) -> str:
    """What stands in the hole of a message: types, sizes and lists of them; an array as its dtype and shape."""
    if isinstance(item, list) or (isinstance(item, tuple) and any(hasattr(each, "dtype") for each in item)):
        return ", ".join(map(shown, item))
    if isinstance(item, tuple):
        return f"({', '.join(map(shown, item))}{',' * (len(item) == 1)})"
    if isinstance(item, np.dtype):
        return dtype_name(item)
    if isinstance(item, np.ndarray):
        return f"{item.dtype}{list(item.shape)}"
    return str(item)


# -- operands -------------------------------------------------------------------------------------------------------


def operand(type: TensorType) -> Any:
    """An operand as contracts see it."""
    return Shapeless(type) if type.shape is None else type


def _typed(values: Sequence[Any]) -> list[Any]:
    """Arguments or results of a region."""
    return [operand(value.type) for value in values]


def _own(region: Any, size: Dim) -> bool:
    """Whether a size is written with symbols that the region defines: it means nothing outside."""
    return bool(size.symbols() & {each.name for each in region.symbols})


def _agreed(sizes: Sequence[Dim | None]) -> Dim | None:
    """The size that is the same everywhere, None if there is none."""
    return sizes[0] if all(size is sizes[0] for size in sizes) else None


def _unranked() -> NoReturn:
    raise Unranked


def ranked(operands: Sequence[Any]) -> Any:
    """The first operand of known rank."""
    for operand in operands:
        if not isinstance(operand, Shapeless):
            return operand
    raise Unranked


def _where_ranked(operands: Sequence[Any], shape: Any) -> Any:
    """A shape that is known only where the ranks of all operands are."""
    for operand in operands:
        len(operand.shape)
    return shape


def is_scalar(operand: Any) -> bool:
    """Whether an operand surely has no axes."""
    return not isinstance(operand, Shapeless) and not operand.shape


def common(operands: Sequence[Any], axis: int) -> Any:
    """The size that operands share along an axis: a constant if one has it, else the first."""
    found = [operand.shape[axis] for operand in operands if not isinstance(operand, Shapeless)]
    if not found:
        raise Unranked
    return next((size for size in found if not isinstance(size, Dim) or size.const is not None), found[0])


def _either(one: Any, two: Any) -> Any:
    """One of two sizes that are equal, the constant one if there is one."""
    return two if isinstance(one, Dim) and one.const is None and two.const is not None else one


def common_shape(*operands: Any) -> tuple[Any, ...]:
    """The shape that operands share, as far as their ranks are known."""
    return tuple(common(operands, axis) for axis in range(len(ranked(operands).shape)))


def each_size(indices: Iterable[int], size: Callable[[int], Any]) -> tuple[Any, ...]:
    """A shape size by size; None for one that hangs on an operand of unknown rank."""
    out = []
    for index in indices:
        try:
            out.append(size(index))
        except Unranked:
            out.append(None)
    return tuple(out)


def _if_ranked(shape: Callable[[], Any]) -> Any:
    """A shape, None if it hangs on an operand of unknown rank."""
    try:
        return shape()
    except Unranked:
        return None


def _known(axes: Sequence[int], count: int) -> bool:
    return all(0 <= axis < count for axis in axes)


def _with(items: Sequence[Any], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _arrange(items: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """The list whose item at axes[i] is items[i]."""
    return tuple(items[axes.index(place)] for place in range(len(axes)))


def _placed(items: Sequence[Any], axes: Sequence[int], count: int) -> tuple[Any, ...]:
    """A list of ``count`` items: the first ones at ``axes``, the others in between."""
    inner, outer = iter(items[: len(axes)]), iter(items[len(axes) :])
    return tuple(next(inner if axis in axes else outer) for axis in range(count))


# -- dtypes ---------------------------------------------------------------------------------------------------------


def kind(dtype: str) -> str:
    """bool, signed, unsigned, float, complex, narrow or text."""
    if dtype == "i1":
        return "bool"
    if dtype == TEXT:
        return "text"
    if is_narrow(dtype):
        return "narrow"
    if is_integer(dtype):
        return "unsigned" if dtype.startswith("u") else "signed"
    return "float" if is_float(dtype) else "complex"


def _real_of(dtype: str) -> str:
    return {"c64": "f32", "c128": "f64"}.get(dtype, dtype)


def _complex_of(dtype: str) -> str:
    return {"f32": "c64", "f64": "c128"}[dtype]


# -- sizes ----------------------------------------------------------------------------------------------------------


def _strided(start: Dim, limit: Dim, stride: Dim) -> Dim | None:
    """How many of start, start + stride, ... are below the limit; not known for a stride that may be negative."""
    if stride.const == 1:
        return limit - start
    # Where a stride is 0 the op is rejected before anything has its size.
    return ceildiv(limit - start, stride) if is_nonnegative(stride) else None


def _windows(sizes: Namespace) -> Callable[..., Any]:
    relu, floordiv, dim = sizes["relu"], sizes["floordiv"], sizes["dim"]
    one = dim(1)

    def dilated(size: Any, step: Any) -> Any:
        return size if dim(step) == one else relu(size * step - step + 1)

    def windows(size: Any, window: Any, stride: Any, low: Any, high: Any, base: Any, dilation: Any) -> Any:
        return floordiv(relu(dilated(size, base) + low + high - dilated(window, dilation) + stride), stride)

    return windows


_BOTH: dict[str, Any] = {
    "DTYPES": DTYPES,
    "Unranked": Unranked,
    "agreed": _agreed,
    "array_dtype": lambda array: dtype_name(array.dtype),
    "array_shape": lambda array: tuple(map(const, array.shape)),
    "arrange": _arrange,
    "common": common,
    "common_shape": common_shape,
    "complex_of": _complex_of,
    "each_size": each_size,
    "either": _either,
    "if_ranked": _if_ranked,
    "is_scalar": is_scalar,
    "itemsize": itemsize,
    "kind": kind,
    "known": _known,
    "operand": operand,
    "own": _own,
    "placed": _placed,
    "ranked": ranked,
    "real_of": _real_of,
    "typed": _typed,
    "unranked": _unranked,
    "where_ranked": _where_ranked,
    "with_": _with,
}


def on_numbers(function: Function) -> Callable[..., int]:
    """A size function of an author, for a run. It raises UndefinedSize where it has no value."""

    def number(*args: int) -> int:
        found = function.value(*args)
        if found is None:
            raise UndefinedSize(f"{function.name}({', '.join(map(str, args))}) has no value")
        return found

    return number


SIZES: dict[str, Any] = {
    **_BOTH,
    "ceildiv": ceildiv,
    "dim": lambda size: size if isinstance(size, Dim) else const(size),
    "floordiv": floordiv,
    "maximum": maximum,
    "minimum": minimum,
    "mod": mod,
    "product": product,
    "relu": relu,
    "strided": _strided,
    "total": total,
}
"""The functions that generated code calls when a program is read."""

NUMBERS: dict[str, Any] = {
    **_BOTH,
    "ceildiv": lambda a, b: -(-a // b),
    "dim": lambda size: size,
    "floordiv": lambda a, b: a // b,
    "itemsize": lambda dtype: dtype.itemsize if isinstance(dtype, np.dtype) else itemsize(dtype),
    "maximum": max,
    "minimum": min,
    "mod": lambda a, b: a % b,
    "product": math.prod,
    "relu": lambda a: max(a, 0),
    "strided": lambda start, limit, stride: -((start - limit) // stride),
    "total": sum,
}
"""The same on numbers and arrays, for a run."""

for _functions in (SIZES, NUMBERS):
    _functions["windows"] = _windows(_functions)
