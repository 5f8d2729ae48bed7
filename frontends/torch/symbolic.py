"""Arithmetic of sizes: what a program computes of ``SymInt`` becomes a ``Dim`` at once; comparisons become relations,
and floats computed of sizes tensors without axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from egshape.dims import Dim, const, floordiv, maximum, minimum, mod, product
from egshape.facts import Relation
from egshape.frontends.torch.moves import ONE, against, compare, convert, fold, reshape
from egshape.frontends.torch.registry import NoLowering
from egshape.frontends.torch.scope import Scope
from egshape.ir.graph import Value

Symbolic = Callable[..., Any]

SYMBOLIC: dict[Any, Symbolic] = {}
"""What computes with sizes, by the target of a node or the name of its op."""

_OPPOSITE = {"==": "!=", "!=": "=="}

SHIFTS = 63
"""A size has fewer bits."""


def symbolic(*targets: Any) -> Callable[[Symbolic], Symbolic]:
    """Declare what a node with one of these targets gives."""

    def declare(function: Symbolic) -> Symbolic:
        SYMBOLIC.update(dict.fromkeys(targets, function))
        return function

    return declare


def is_size(x: object) -> bool:
    """Whether a scalar is an integer or a size."""
    return isinstance(x, Dim) or (isinstance(x, int) and not isinstance(x, bool))


def dim(x: Any) -> Dim:
    """A size as a ``Dim``. Raises NoLowering for what is no size."""
    if isinstance(x, Dim):
        return x
    if isinstance(x, int):
        return const(int(x))
    raise NoLowering("a size is no integer")


def plain(x: Any) -> Any:
    """A size that is a number as that number."""
    return x.const if isinstance(x, Dim) and x.const is not None else x


def real(s: Scope, x: Any) -> Value:
    """A scalar as an f64 tensor without axes."""
    return convert(s, x, "f64") if isinstance(x, Value) else s.scalar(x, "f64")


def truth(s: Scope, x: Any) -> Value:
    """A condition as an i1 tensor without axes."""
    if isinstance(x, Value):
        return convert(s, x, "i1")
    return s.scalar(x if isinstance(x, Relation) else bool(x), "i1")


# -- arithmetic --------------------------------------------------------------------------------------------------


def _arithmetic(ours: str, of_sizes: Callable[[Dim, Dim], Dim] | None) -> Symbolic:
    """Of two scalars, or more: the guards of torch have the maximum of any number."""

    def of_two(s: Scope, x: Any, y: Any) -> Any:
        if of_sizes is not None and is_size(x) and is_size(y):
            return plain(of_sizes(dim(x), dim(y)))
        return s.one(ours, (real(s, x), real(s, y)))

    return lambda s, *scalars: reduce(partial(of_two, s), scalars)


for _targets, _ours, _function in (
    ((operator.add, "sym_add"), "add", operator.add),
    ((operator.sub,), "subtract", operator.sub),
    ((operator.mul,), "multiply", operator.mul),
    ((operator.truediv,), "divide", None),
    (("sym_max",), "maximum", maximum),
    (("sym_min",), "minimum", minimum),
):
    symbolic(*_targets)(_arithmetic(_ours, _function))


@symbolic(operator.floordiv)
def floor_divide(s: Scope, x: Any, y: Any) -> Any:
    """x // y, rounded down."""
    if is_size(x) and is_size(y):
        return plain(floordiv(dim(x), dim(y)))
    return s.one("floor", (s.one("divide", (real(s, x), real(s, y))),))


@symbolic(operator.mod)
def modulo(s: Scope, x: Any, y: Any) -> Any:
    """x % y, with the sign of y."""
    if is_size(x) and is_size(y):
        return plain(mod(dim(x), dim(y)))
    raise NoLowering("a remainder of floats")


@symbolic(operator.neg)
def negative(s: Scope, x: Any) -> Any:
    """-x."""
    return plain(-dim(x)) if is_size(x) else s.one("negate", (real(s, x),))


@symbolic(abs, operator.abs)
def absolute(s: Scope, x: Any) -> Any:
    """|x|."""
    return plain(maximum(dim(x), -dim(x))) if is_size(x) else s.one("abs", (real(s, x),))


def _shifted(times: Callable[[Dim, int], Dim]) -> Symbolic:
    def compute(s: Scope, x: Any, y: Any) -> Any:
        if not is_size(x) or not isinstance(y, int) or not 0 <= y < SHIFTS:
            raise NoLowering("a shift by a size")
        return plain(times(dim(x), 2**y))

    return compute


symbolic(operator.lshift)(_shifted(operator.mul))
symbolic(operator.rshift)(_shifted(floordiv))


@symbolic(operator.pow)
def power(s: Scope, x: Any, y: Any) -> Any:
    """x ** y."""
    if is_size(x) and isinstance(y, int) and y >= 0:
        return plain(product([dim(x)] * y))
    if is_size(x) and is_size(y) and s.decide("<=", const(0), dim(y)) is True:
        return as_size(s, s.one("power", (s.scalar(x, "i64"), s.scalar(y, "i64"))))
    return s.one("power", (real(s, x), real(s, y)))


@symbolic("sym_sum")
def total(s: Scope, parts: Any) -> Any:
    """The sum of sizes."""
    return plain(sum(map(dim, parts), const(0)))


@symbolic("sym_float")
def as_float(s: Scope, x: Any) -> Any:
    """A size as a float."""
    return real(s, x)


@symbolic("_sym_sqrt", "sym_sqrt", math.sqrt)
def root(s: Scope, x: Any) -> Any:
    """The square root of a size."""
    return s.one("sqrt", (real(s, x),))


def _rounded(ours: str) -> Symbolic:
    def compute(s: Scope, x: Any, digits: int | None = None) -> Any:
        if digits is not None:
            raise NoLowering("rounding to digits")
        return x if is_size(x) else as_size(s, s.one(ours, (real(s, x),)))

    return compute


symbolic(math.floor)(_rounded("floor"))
symbolic(math.ceil)(_rounded("ceil"))
symbolic(round)(_rounded("round_nearest_even"))


@symbolic(math.trunc, "sym_int", int)
def truncated(s: Scope, x: Any) -> Any:
    """A float rounded towards zero."""
    return x if is_size(x) else as_size(s, x)


def as_size(s: Scope, x: Value) -> Any:
    """The integer that a tensor of one element holds, as a size: never negative where torch knows so."""
    whole = reshape(s, convert(s, x, "i64"), (ONE,))
    signed = not any(each in s.program.free for each in s.call.symbols)
    (found,) = s.sizes(whole, s.call.label, "item", signed=signed)
    return plain(found)


# -- conditions --------------------------------------------------------------------------------------------------


def _compared(kind: str, direction: str) -> Symbolic:
    def compute(s: Scope, x: Any, y: Any) -> Any:
        if is_size(x) and is_size(y):
            relation = Relation.of(dim(x), kind, dim(y))
            known = s.decide(relation.kind, relation.lhs, relation.rhs)
            return relation if known is None else known
        return compare(s, direction, real(s, x), real(s, y))

    return compute


for _target, _kind, _direction in (
    (operator.eq, "==", "EQ"),
    (operator.ne, "!=", "NE"),
    (operator.le, "<=", "LE"),
    (operator.lt, "<", "LT"),
    (operator.ge, ">=", "GE"),
    (operator.gt, ">", "GT"),
):
    symbolic(_target)(_compared(_kind, _direction))


@symbolic("sym_not", operator.not_)
def negated(s: Scope, x: Any) -> Any:
    """not x."""
    if isinstance(x, bool):
        return not x
    if isinstance(x, Relation):
        if x.kind in _OPPOSITE:
            return Relation(_OPPOSITE[x.kind], x.lhs, x.rhs)
        return Relation("<" if x.kind == "<=" else "<=", x.rhs, x.lhs)
    return s.one("not", (truth(s, x),))


def _joined(ours: str) -> Symbolic:
    def compute(s: Scope, x: Any, y: Any) -> Any:
        if is_size(x) and is_size(y):
            return as_size(s, s.one(ours, (s.scalar(x, "i64"), s.scalar(y, "i64"))))
        return (both if ours == "and" else either)(s, x, y)

    return compute


symbolic(operator.and_)(_joined("and"))
symbolic(operator.or_)(_joined("or"))


def both(s: Scope, x: Any, y: Any) -> Any:
    """Whether both hold."""
    return (x and y) if isinstance(x, bool) and isinstance(y, bool) else s.one("and", (truth(s, x), truth(s, y)))


def either(s: Scope, x: Any, y: Any) -> Any:
    """Whether one holds."""
    return (x or y) if isinstance(x, bool) and isinstance(y, bool) else s.one("or", (truth(s, x), truth(s, y)))


@symbolic("sym_ite")
def chosen(s: Scope, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    if isinstance(condition, bool):
        return x if condition else y
    kind = "i64" if is_size(x) and is_size(y) else "f64"
    parts = [each if isinstance(each, Value) else s.scalar(each, kind) for each in (x, y)]
    found = s.one("select", (truth(s, condition), *parts))
    return as_size(s, found) if kind == "i64" else found


# -- between tensors and scalars -----------------------------------------------------------------------------------


@symbolic("sym_size.int")
def size(s: Scope, x: Value, dim: int) -> Any:
    """The size of an axis."""
    return plain(x.type.dims[dim])


@symbolic("sym_storage_offset.default")
def offset(s: Scope, x: Value) -> int:
    """Where the elements of a tensor begin in its memory: what we give begins at 0."""
    return 0


@symbolic("sym_numel.default")
def count(s: Scope, x: Value) -> Any:
    """How many elements a tensor has."""
    out = const(1)
    for each in x.type.dims:
        out = out * each
    return plain(out)


@symbolic("item.default", "_local_scalar_dense.default")
def item(s: Scope, x: Value) -> Any:
    """The only element of a tensor as a scalar."""
    flat = reshape(s, x, ())
    if x.type.dtype == "i1":
        return flat
    return as_size(s, x) if x.type.dtype.lstrip("u").startswith("i") else convert(s, flat, "f64")


# -- what must hold ------------------------------------------------------------------------------------------------


@symbolic("_assert_scalar.default", "_assert_async.msg", "_assert_async.default")
def asserted(s: Scope, condition: Any, message: str = "", *_: Any) -> None:
    """A check."""
    text = message or f"the assertion {s.call.label} does not hold"
    if isinstance(condition, Relation):
        s.check(condition, text)
    elif isinstance(condition, Value):
        s.check_value(condition, text)
    elif not condition:
        s.check(Relation("==", const(0), const(1)), text)


@symbolic("sym_constrain_range_for_size.default", "sym_constrain_range.default", "_check_is_size.default")
def within(s: Scope, size: Any, min: int | None = None, max: int | None = None) -> None:
    """Checks of the bounds of a size."""
    if "for_size" in s.call.op or min is not None:
        s.check(Relation("<=", const(min or 0), dim(size)), "a size is {1}, which is below {0}")
    if max is not None:
        s.check(Relation("<=", dim(size), const(max)), "a size is {0}, which is above {1}")


@symbolic("_linalg_check_errors.default")
def factored(s: Scope, info: Value, name: str, *_: Any, **__: Any) -> None:
    """A check that no factorization of a batch failed."""
    flat = s.one("reshape", (info,), shape=(product(info.type.dims),)) if info.type.rank != 1 else info
    s.check_value(fold(s, "and", against(s, "EQ", flat, 0), (0,)), f"{name}: a matrix has no such factors")


@symbolic("_assert_tensor_metadata.default")
def typed(s: Scope, *_: Any, **__: Any) -> None:
    """Nothing: dtypes are part of our types."""
