"""The ops of the arith dialect. An ``index`` is an i64; integers have no sign, ops say how they are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import Dim, is_nonnegative
from egshape.dims.core import is_positive
from egshape.errors import Unsupported
from egshape.frontends.stablehlo.attributes import TensorInfo
from egshape.frontends.stablehlo.node import Node
from egshape.frontends.stablehlo.scope import Handler, Scope, checked
from egshape.ir.graph import Value
from egshape.ir.types import is_integer, itemsize, numpy_dtype

Results = Sequence[Value | None]


# -- what is known ---------------------------------------------------------------------------------------


def _sizes(scope: Scope, value: Value) -> list[Dim] | None:
    """The elements, if all of them are sizes; an empty tensor has none."""
    known = scope.builder.elements(value)
    items = [] if known is None else known.reshape(-1).tolist()
    return items if items and all(isinstance(item, Dim) for item in items) else None


def _counts(scope: Scope, *values: Value) -> bool:
    """Whether no element is negative, so that signed and unsigned ops are the same."""
    found = [_sizes(scope, value) for value in values]
    return all(items is not None and all(map(is_nonnegative, items)) for items in found)


def _positive(scope: Scope, value: Value) -> bool:
    return all(map(is_positive, _sizes(scope, value) or [])) and _sizes(scope, value) is not None


def _like(scope: Scope, node: Node, value: Value, number: int) -> Value:
    """A number in the dtype and shape of a value."""
    scalar = scope.constant(node, np.array(number, numpy_dtype(value.type.dtype)))
    if value.type.shape == ():
        return scalar
    return scope.one(node, "broadcast_in_dim", (scalar,), dims=(), shape=value.type.dims)


def _as(scope: Scope, node: Node, value: Value, dtype: str) -> Value:
    """The same bits as another dtype."""
    return value if value.type.dtype == dtype else scope.one(node, "bitcast_convert", (value,), dtype=dtype)


# -- elementwise -----------------------------------------------------------------------------------------


def _elementwise(name: str) -> Handler:
    return lambda scope, node: (scope.one(node, name, scope.operands(node)),)


def _unsigned(name: str) -> Handler:
    """An op on integers that are read without a sign."""

    def handler(scope: Scope, node: Node) -> Results:
        values = scope.operands(node)
        dtype = values[0].type.dtype
        if dtype == "i1" or _counts(scope, *values):
            return (scope.one(node, name, values),)
        found = scope.one(node, name, [_as(scope, node, value, f"u{dtype}") for value in values])
        return (_as(scope, node, found, dtype),)

    return handler


def floor_division(scope: Scope, node: Node, x: Value, d: Value) -> Value:
    """Truncate, then step down where the signs differ and the rest is not 0."""
    quotient = scope.one(node, "divide", (x, d))
    if _counts(scope, x) and _positive(scope, d):
        return quotient
    rest = scope.one(node, "remainder", (x, d))
    zero, one = _like(scope, node, x, 0), _like(scope, node, x, 1)
    left, right = (scope.one(node, "sign", (value,)) for value in (x, d))
    signs = _compare(scope, node, "NE", left, right)
    wrong = scope.one(node, "and", (signs, _compare(scope, node, "NE", rest, zero)))
    return scope.one(node, "select", (wrong, scope.one(node, "subtract", (quotient, one)), quotient))


def _floordivsi(scope: Scope, node: Node) -> Results:
    x, d = scope.operands(node)
    return (floor_division(scope, node, x, d),)


def _ceildivsi(scope: Scope, node: Node) -> Results:
    """ceil(x / d) = -floor(-x / d), and (x + d - 1) / d for sizes."""
    x, d = scope.operands(node)
    if _counts(scope, x) and _positive(scope, d):
        return (_rounded_up(scope, node, x, d),)
    return (scope.one(node, "negate", (floor_division(scope, node, scope.one(node, "negate", (x,)), d),)),)


def _rounded_up(scope: Scope, node: Node, x: Value, d: Value) -> Value:
    less = scope.one(node, "subtract", (d, _like(scope, node, d, 1)))
    return scope.one(node, "divide", (scope.one(node, "add", (x, less)), d))


def _ceildivui(scope: Scope, node: Node) -> Results:
    """x / d, and one more where something is left."""
    x, d = scope.operands(node)
    if _counts(scope, x) and _positive(scope, d):
        return (_rounded_up(scope, node, x, d),)
    dtype = x.type.dtype
    top, low = (_as(scope, node, value, f"u{dtype}") for value in (x, d))
    quotient, rest = (scope.one(node, name, (top, low)) for name in ("divide", "remainder"))
    left = _compare(scope, node, "NE", rest, _like(scope, node, rest, 0), "UNSIGNED")
    more = scope.one(node, "add", (quotient, scope.one(node, "convert", (left,), dtype=f"u{dtype}")))
    return (_as(scope, node, more, dtype),)


def _shift(name: str, by_sizes: str) -> Handler:
    """A shift; of sizes by a constant, a product or quotient with a power of two."""

    def handler(scope: Scope, node: Node) -> Results:
        x, by = scope.operands(node)
        numbers = {item.const for item in _sizes(scope, by) or []}
        number = numbers.pop() if len(numbers) == 1 else None
        if _counts(scope, x) and number is not None and 0 <= number < 8 * itemsize(x.type.dtype) - 1:
            return (scope.one(node, by_sizes, (x, _like(scope, node, x, 1 << number))),)
        return (scope.one(node, name, (x, by)),)

    return handler


# -- conversions -----------------------------------------------------------------------------------------


def _convert(scope: Scope, node: Node) -> Results:
    """index_cast, extsi, trunci: the same integer in another dtype; of i1 sign-extended. Floats as they are."""
    x, info = scope.operand(node, 0), checked(node.types[0], node.location, node.name)
    if x.type.dtype == info.dtype:
        return (x,)
    if info.dtype == "i1" and is_integer(x.type.dtype):  # the lowest bit
        low = scope.one(node, "and", (x, _like(scope, node, x, 1)))
        return (scope.one(node, "convert", (low,), dtype="i1"),)
    out = scope.one(node, "convert", (x,), dtype=info.dtype)
    signed = x.type.dtype == "i1" and node.name in ("arith.extsi", "arith.index_cast", "arith.sitofp")
    return (scope.one(node, "negate", (out,)) if signed else out,)


def _convert_unsigned(scope: Scope, node: Node) -> Results:
    """extui, index_castui, uitofp: the integer is read without a sign."""
    x, info = scope.operand(node, 0), checked(node.types[0], node.location, node.name)
    if not is_integer(x.type.dtype) or info.dtype == "i1" or _counts(scope, x):
        return _convert(scope, node)
    return (scope.one(node, "convert", (_as(scope, node, x, f"u{x.type.dtype}"),), dtype=info.dtype),)


def _to_unsigned(scope: Scope, node: Node) -> Results:
    """fptoui."""
    dtype = checked(node.types[0], node.location, node.name).dtype
    return (_as(scope, node, scope.one(node, "convert", scope.operands(node), dtype=f"u{dtype}"), dtype),)


def _bitcast(scope: Scope, node: Node) -> Results:
    return (_as(scope, node, scope.operand(node, 0), checked(node.types[0], node.location, node.name).dtype),)


def _constant(scope: Scope, node: Node) -> Results:
    info: TensorInfo = checked(node.types[0], node.location, node.name)
    value = node.attributes["value"]
    shape = () if info.shape is None else tuple(0 if size is None else size for size in info.shape)
    dtype = numpy_dtype(info.dtype)
    if isinstance(value, np.ndarray):
        return (scope.constant(node, value.astype(dtype, copy=False)),)
    if isinstance(value, int | float):
        return (scope.constant(node, np.full(shape, value).astype(dtype)),)
    raise Unsupported(
        f"arith.constant of type {info.text}", where=str(node.location), hint="give it as stablehlo.constant"
    )


# -- comparisons -----------------------------------------------------------------------------------------


def _compare(scope: Scope, node: Node, direction: str, one: Value, two: Value, kind: str = "SIGNED") -> Value:
    return scope.one(node, "compare", (one, two), direction=direction, kind=kind)


_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""arith.cmpi by number: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""


def _cmpi(scope: Scope, node: Node) -> Results:
    number = node.attributes["predicate"]
    x, y = scope.operands(node)
    kind = "UNSIGNED" if x.type.dtype == "i1" else "SIGNED"
    if x.type.dtype == "i1" and 2 <= number <= 5:  # a signed i1 is 0 or -1
        x, y = y, x
    elif number >= 6 and x.type.dtype != "i1" and not _counts(scope, x, y):
        x, y = (_as(scope, node, value, f"u{value.type.dtype}") for value in (x, y))
        kind = "UNSIGNED"
    return (_compare(scope, node, _PREDICATES[number], x, y, kind),)


_ORDERED = ("EQ", "GT", "GE", "LT", "LE", "NE")
"""arith.cmpf by number, from 1: oeq, ogt, oge, olt, ole, one; ueq and on, from 8, hold for NaN too."""


def _cmpf(scope: Scope, node: Node) -> Results:
    """A comparison is false of NaN but for NE, which is true; an unordered one is true of NaN."""
    number, (x, y) = node.attributes["predicate"], scope.operands(node)
    both = [_compare(scope, node, "EQ", value, value, "FLOAT") for value in (x, y)]
    ordered = scope.one(node, "and", both)
    if number in (0, 15):
        shape = x.type.dims
        flag = scope.constant(node, np.array(number == 15))
        return (scope.one(node, "broadcast_in_dim", (flag,), dims=(), shape=shape) if shape else flag,)
    if number in (7, 14):
        return (ordered if number == 7 else scope.one(node, "not", (ordered,)),)
    found = _compare(scope, node, _ORDERED[(number - 1) % 7], x, y, "FLOAT")
    if number < 8:
        return (scope.one(node, "and", (found, ordered)) if number == 6 else found,)
    return (scope.one(node, "or", (found, scope.one(node, "not", (ordered,)))),)


_SAME = {
    "addi": "add",
    "subi": "subtract",
    "muli": "multiply",
    "divsi": "divide",
    "remsi": "remainder",
    "maxsi": "maximum",
    "minsi": "minimum",
    "andi": "and",
    "ori": "or",
    "xori": "xor",
    "select": "select",
    "addf": "add",
    "subf": "subtract",
    "mulf": "multiply",
    "divf": "divide",
    "remf": "remainder",
    "negf": "negate",
    "maximumf": "maximum",
    "minimumf": "minimum",
}
_UNSIGNED = {"divui": "divide", "remui": "remainder", "maxui": "maximum", "minui": "minimum"}

HANDLERS: dict[str, Handler] = {
    **{f"arith.{name}": _elementwise(ours) for name, ours in _SAME.items()},
    **{f"arith.{name}": _unsigned(ours) for name, ours in _UNSIGNED.items()},
    **{f"arith.{name}": _convert for name in ("index_cast", "extsi", "trunci", "sitofp", "fptosi", "extf", "truncf")},
    **{f"arith.{name}": _convert_unsigned for name in ("index_castui", "extui", "uitofp")},
    "arith.fptoui": _to_unsigned,
    "arith.bitcast": _bitcast,
    "arith.constant": _constant,
    "arith.floordivsi": _floordivsi,
    "arith.ceildivsi": _ceildivsi,
    "arith.ceildivui": _ceildivui,
    "arith.shli": _shift("shift_left", "multiply"),
    "arith.shrsi": _shift("shift_right_arithmetic", "divide"),
    "arith.shrui": _shift("shift_right_logical", "divide"),
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
}
