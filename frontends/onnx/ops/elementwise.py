"""Elementwise ops: those that are one of ours, after broadcasting, and those that are a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce, wraps
from typing import Any

import ml_dtypes
import numpy as np

from egshape.dims import Dim, const, floordiv, maximum, mod
from egshape.frontends.onnx.broadcast import broadcast, expand, joined
from egshape.frontends.onnx.composites import composite
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.program import Choice, Operand
from egshape.frontends.onnx.registry import Handler, NoLowering, onnx_op, results_of
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.builder import small
from egshape.ir.graph import Value
from egshape.ir.types import TEXT, is_float, is_integer, is_narrow_integer, numpy_dtype
from egshape.ops.base import object_array
from egshape.ops.contraction import summed_in
from egshape.ops.kinds import comparison

_UNARY = {
    "Abs": "abs",
    "Neg": "negate",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round_nearest_even",
    "Exp": "exponential",
    "Log": "log",
    "Sqrt": "sqrt",
    "Sigmoid": "logistic",
    "Tanh": "tanh",
    "Tan": "tan",
    "Sin": "sine",
    "Cos": "cosine",
    "Erf": "erf",
    "Not": "not",
    "BitwiseNot": "not",
    "Sign": "sign",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
}
BROADCASTS = 8
"""The opset since which ops of any number of operands broadcast."""

_FOLDED = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
_COMPARED = {"Equal": "EQ", "Less": "LT", "LessOrEqual": "LE", "Greater": "GT", "GreaterOrEqual": "GE"}


def _unary(ours: str) -> Handler:
    def handler(s: Scope, node: Node, x: Value) -> Value:
        return unary(s, ours, x)

    return handler


def unary(s: Scope, ours: str, x: Value) -> Value:
    """One of our unary ops; the identity where an op of floats is asked of integers."""
    if ours == "sign" and x.type.dtype.startswith("ui"):
        return s.one("minimum", (x, s.full(1, x)))
    if ours == "abs" and x.type.dtype.startswith("ui"):
        return x
    return s.one(ours, (x,))


def _binary(ours: str) -> Handler:
    def handler(s: Scope, node: Node, x: Value, y: Value) -> Value:
        return binary(s, ours, x, y)

    return handler


def binary(s: Scope, ours: str, x: Value, y: Value) -> Value:
    """One of our binary ops on operands that broadcast."""
    return s.one(ours, broadcast(s, x, y))


def _folded(ours: str) -> Handler:
    def handler(s: Scope, node: Node, *values: Value) -> Value:
        return folded(s, node, ours, values)

    return handler


def folded(s: Scope, node: Node, ours: str, values: Sequence[Value]) -> Value:
    """A binary op over all operands, which broadcast since opset 8, and have one shape before."""
    if not values:
        raise node.error("has no inputs")
    if node.opset >= BROADCASTS:
        return reduce(partial(binary, s, ours), values)
    if any(value.type.rank != values[0].type.rank for value in values):
        raise node.error(f"takes tensors of one shape before opset {BROADCASTS}")
    return reduce(lambda out, value: s.one(ours, (out, value)), values)


def _compared(direction: str) -> Handler:
    def handler(s: Scope, node: Node, x: Value, y: Value) -> Value:
        return compare(s, direction, x, y)

    return handler


def compare(s: Scope, direction: str, x: Value, y: Value) -> Value:
    """A comparison of operands that broadcast."""
    return s.one("compare", broadcast(s, x, y), direction=direction, kind=comparison(x.type.dtype))


for _name, _ours in _UNARY.items():
    onnx_op(_name)(_unary(_ours))
for _name, _ours in _BINARY.items():
    onnx_op(_name, since=7 if _name in ("Add", "Sub", "Mul", "And", "Or", "Xor") else 1)(_binary(_ours))
for _name, _ours in _FOLDED.items():  # an older one stays a node of its own, which rejects other shapes by itself
    onnx_op(_name, composite=True)(_folded(_ours))
    onnx_op(_name, since=BROADCASTS)(_folded(_ours))
for _name, _direction in _COMPARED.items():
    onnx_op(_name)(_compared(_direction))


@onnx_op("Div", since=7)
def divide(s: Scope, node: Node, x: Value, y: Value) -> Value:
    """x / y; integers are rounded towards zero. Of a size that is negative by less than y nothing is left, which is
    shorter said than with the sign."""
    out = binary(s, "divide", x, y)
    sizes, divisors, known = (s.dims(each) for each in (x, y, out))
    if sizes and divisors and known and len(divisors) in (1, len(known)) and len(sizes) == len(known):
        pairs = zip(sizes, divisors * (len(sizes) // len(divisors)), known, strict=True)
        shorter = [
            floordiv(maximum(one, const(0)), two) if _just_below(s, one, two) else held for one, two, held in pairs
        ]
        s.builder.set_elements(out, object_array(shorter, tuple(size.const or 0 for size in out.type.dims)))
    return out


def _just_below(s: Scope, size: Dim, divisor: Dim) -> bool:
    """Whether a size may be negative, but not by as much as the divisor."""
    if s.decide("<=", const(0), size) is True or s.decide("<=", const(1), divisor) is not True:
        return False
    return s.decide("<=", const(1), size + divisor) is True


@onnx_op("Identity", sequences=True)
def identity(s: Scope, node: Node, x: Operand) -> list[Operand]:
    """The operand itself."""
    return [x]


@onnx_op("Dropout")
def dropout(s: Scope, node: Node, x: Value, ratio: Value | None = None, training: Value | None = None) -> list[Value]:
    """The operand itself, where nothing is trained; the mask is all true."""
    if training is not None and s.numbers(training) != (0,):
        raise NoLowering("training")
    if not node.wants(1):
        return [x]
    mask = s.spread(s.constant(np.array(True)), x.type.dims)
    return [x, mask if node.opset >= 10 else convert(s, mask, x.type.dtype)]


def convert(s: Scope, x: Value, dtype: str) -> Value:
    """A value in another dtype; itself where it has that."""
    return x if x.type.dtype == dtype else s.one("convert", (x,), dtype=dtype)


def in_f32(handler: Handler) -> Handler:
    """What computes an op on f32 where operands are floats of 16 bits, and rounds its results once, as ONNX Runtime
    does. A sum of many in 16 bits would stay where the next element is less than half of its last place."""

    @wraps(handler)
    def wide(s: Scope, node: Node, *operands: Value | None) -> Any:
        short = [x.type.dtype for x in operands if x is not None and x.type.dtype != summed_in(x.type.dtype)]
        if not short:
            return handler(s, node, *operands)
        given = [x if x is None else convert(s, x, summed_in(x.type.dtype)) for x in operands]
        return [each and convert(s, each, short[0]) for each in results_of(handler(s, node, *given))]

    return wide


@onnx_op("Cast")
def cast(s: Scope, node: Node, x: Value) -> Value:
    """Another element type."""
    return _cast(s, node, dtype_of(node.int("to"), str(node.location)), x)


@onnx_op("CastLike")
def cast_like(s: Scope, node: Node, x: Value, like: Value) -> Value:
    """The element type of another tensor."""
    return _cast(s, node, like.type.dtype, x, like)


def _cast(s: Scope, node: Node, dtype: str, x: Value, *others: Value) -> Value:
    """A conversion; one to floats of 8 bits is a composite where it saturates, which our own does not, and so is one
    of floats to integers of less, which wraps."""
    if x.type.dtype == dtype:
        return x
    if dtype == TEXT:
        raise NoLowering("numbers as text")
    if dtype == "f8E8M0FNU":
        raise NoLowering("rounding to powers of two")
    if is_narrow_integer(dtype) and is_float(x.type.dtype):
        return _composite(s, node, lambda inner, x: convert(inner, convert(inner, x, "i32"), dtype), x, *others)
    if not dtype.startswith("f8") or not node.flag("saturate", True):
        found = convert(s, x, dtype)
        s.rely(found)
        return found
    return _composite(s, node, lambda inner, x: saturating(inner, x, dtype), x, *others)


def _composite(s: Scope, node: Node, body: Callable[[Scope, Value], Value], *operands: Value) -> Value:
    """The node as one op whose body needs the first operand alone."""
    found = composite(s, node, operands, lambda inner, _, x, *_rest: body(inner, x))[0]
    assert isinstance(found, Value)
    return found


def saturating(s: Scope, x: Value, dtype: str) -> Value:
    """A conversion to floats of 8 bits, in which the largest one stands for what is beyond it; NaN stays."""
    wide = x if is_float(x.type.dtype) else convert(s, x, "f32")
    largest = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
    return convert(
        s, s.one("clamp", (s.scalar(-largest, wide.type.dtype), wide, s.scalar(largest, wide.type.dtype))), dtype
    )


@onnx_op("Where")
def where(s: Scope, node: Node, condition: Value, x: Value, y: Value) -> Value:
    """x where the condition holds, else y."""
    flags, one, two = broadcast(s, condition, x, y)
    found = s.one("select", (flags, one, two))
    if small(found.type) and s.single(condition):
        numbers = s.numbers(one), s.numbers(two)
        if numbers[0] is not None and numbers[1] is not None:
            s.program.choices[found] = Choice(condition, (numbers[0], numbers[1]))
    return found


@onnx_op("Relu")
def relu(s: Scope, node: Node, x: Value) -> Value:
    """max(x, 0)."""
    return s.one("maximum", (x, s.full(0, x)))


@onnx_op("Reciprocal")
def reciprocal(s: Scope, node: Node, x: Value) -> Value:
    """1 / x."""
    return s.one("divide", (s.full(1, x), x))


@onnx_op("IsNaN")
def is_nan(s: Scope, node: Node, x: Value) -> Value:
    """x != x."""
    return s.one("compare", (x, x), direction="NE", kind="FLOAT")


@onnx_op("IsInf")
def is_inf(s: Scope, node: Node, x: Value) -> Value:
    """Infinite, of the signs asked for."""
    ways = {(1, 1): "is_inf", (1, 0): "is_pos_inf", (0, 1): "is_neg_inf"}
    ours = ways.get((node.int("detect_positive", 1), node.int("detect_negative", 1)))
    return s.one(ours, (x,)) if ours else s.spread(s.constant(np.array(False)), x.type.dims)


@onnx_op("Pow")
def power(s: Scope, node: Node, x: Value, y: Value) -> Value:
    """x to the power y, in the dtype of x; an integer to a float power is computed in the float's dtype."""
    dtype = x.type.dtype
    if is_integer(dtype) and is_float(y.type.dtype):
        return convert(s, binary(s, "power", convert(s, x, y.type.dtype), y), dtype)
    return binary(s, "power", x, convert(s, y, dtype))


@onnx_op("Mod")
def modulo(s: Scope, node: Node, x: Value, y: Value) -> Operand:
    """The remainder with the sign of y, or with ``fmod`` that of x: a composite, but of sizes."""
    if not is_integer(x.type.dtype) or not small(x.type) or not small(y.type):
        return composite(s, node, (x, y), _modulo)[0]
    sizes, divisors = (_grid(s, each, least) for each, least in ((x, 0), (y, 1)))
    if sizes is None or divisors is None:
        return composite(s, node, (x, y), _modulo)[0]
    pairs = np.broadcast(sizes, divisors)
    return s.vector([mod(*pair) for pair in pairs], x.type.dtype, pairs.shape)


def _grid(s: Scope, x: Value, least: int) -> np.ndarray | None:
    """The elements of a small tensor where all are sizes that are surely no less than a number."""
    sizes = s.dims(x)
    if not sizes or any(s.decide("<=", const(least), size) is not True for size in sizes):
        return None
    return object_array(sizes, tuple(size.const or 0 for size in x.type.dims))


def _modulo(s: Scope, node: Node, x: Value, y: Value) -> Value:
    x, y = broadcast(s, x, y)
    rest = s.one("remainder", (x, y))
    if node.flag("fmod", False) or x.type.dtype.startswith("ui"):
        return rest
    zero = s.full(0, x)
    negative = [compare(s, "LT", each, zero) for each in (rest, y)]
    wrong = s.one("and", (s.one("xor", tuple(negative)), compare(s, "NE", rest, zero)))
    return s.one("select", (wrong, s.one("add", (rest, y)), rest))


@onnx_op("BitShift")
def bit_shift(s: Scope, node: Node, x: Value, y: Value) -> Value:
    """Shifts; a signed number to the right keeps its sign."""
    right = "shift_right_logical" if x.type.dtype.startswith("ui") else "shift_right_arithmetic"
    return binary(s, "shift_left" if node.text("direction") == "LEFT" else right, x, y)


_LARGEST = float(np.finfo(np.float32).max)


@onnx_op("Clip")
def clip(s: Scope, node: Node, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """min(max(x, low), high); opsets before 11 hold the bounds in attributes, which are the least and the largest
    number of f32 where they are not written, so that infinities are clipped."""
    if node.opset < 11:
        low, high = (_bound(s, node, x, *known) for known in (("min", -_LARGEST), ("max", _LARGEST)))
    bounds = [None if bound is None else _scalar(s, bound) for bound in (low, high)]
    if bounds[0] is not None and bounds[1] is not None:
        return s.one("clamp", (bounds[0], x, bounds[1]))
    if bounds[0] is not None:
        return s.one("maximum", (x, s.spread(bounds[0], x.type.dims)))
    return x if bounds[1] is None else s.one("minimum", (x, s.spread(bounds[1], x.type.dims)))


def _bound(s: Scope, node: Node, x: Value, key: str, default: float) -> Value | None:
    """A bound of an attribute; none by default where the dtype ends before it."""
    is_free = x.type.dtype == "f16" and not node.has(key)
    return None if is_free else s.scalar(node.float(key, default), x.type.dtype)


def _scalar(s: Scope, x: Value) -> Value:
    return x if x.type.rank == 0 else s.one("reshape", (x,), shape=())


@onnx_op("Mean", composite=True)
@in_f32
def mean(s: Scope, node: Node, *values: Value) -> Value:
    """The elementwise mean of tensors that broadcast."""
    total = folded(s, node, "add", values)
    return s.one("divide", (total, s.full(len(values), total)))


# -- activations -------------------------------------------------------------------------------------------------


def _number(s: Scope, x: Value, op: str, number: float) -> Value:
    return s.one(op, (x, s.full(number, x)))


@onnx_op("LeakyRelu", composite=True)
@in_f32
def leaky_relu(s: Scope, node: Node, x: Value) -> Value:
    """x where x >= 0, else alpha x."""
    return s.one("select", (compare(s, "GE", x, s.full(0, x)), x, _number(s, x, "multiply", node.float("alpha", 0.01))))


@onnx_op("PRelu", composite=True)
def p_relu(s: Scope, node: Node, x: Value, slope: Value) -> Value:
    """x where x >= 0, else slope x; the slope broadcasts to x only. A vector that does not is one of the only axis of
    this size, as models from before opset 7 and ONNX's reference have it."""
    if (
        slope.type.rank == 1
        and x.type.rank
        and slope.type.dims[0].const != 1
        and s.decide("==", slope.type.dims[0], x.type.dims[-1]) is False
    ):
        axes = [axis for axis, size in enumerate(x.type.dims) if size is slope.type.dims[0]]
        if len(axes) == 1:
            slope = s.one("broadcast_in_dim", (slope,), dims=(axes[0],), shape=x.type.dims)
    slope = expand(s, slope, joined(s, [x.type.dims, slope.type.dims]))
    return s.one("select", (compare(s, "GE", x, s.full(0, x)), x, s.one("multiply", (x, slope))))


@onnx_op("HardSigmoid", composite=True)
@in_f32
def hard_sigmoid(s: Scope, node: Node, x: Value) -> Value:
    """max(0, min(1, alpha x + beta))."""
    line = _number(s, _number(s, x, "multiply", node.float("alpha", 0.2)), "add", node.float("beta", 0.5))
    return s.one("clamp", (s.scalar(0, x.type.dtype), line, s.scalar(1, x.type.dtype)))


@onnx_op("Shrink", composite=True)
@in_f32
def shrink(s: Scope, node: Node, x: Value) -> Value:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    limit, bias = node.float("lambd", 0.5), node.float("bias", 0.0)
    wide = convert(s, x, "f32") if is_integer(x.type.dtype) else x
    above = s.one(
        "select", (compare(s, "GT", wide, s.full(limit, wide)), _number(s, wide, "subtract", bias), s.full(0, wide))
    )
    below = compare(s, "LT", wide, s.full(-limit, wide))
    return convert(s, s.one("select", (below, _number(s, wide, "add", bias), above)), x.type.dtype)


@onnx_op("HardSwish", composite=True)
@in_f32
def hard_swish(s: Scope, node: Node, x: Value) -> Value:
    """x max(0, min(1, x/6 + 1/2))."""
    line = _number(s, _number(s, x, "multiply", 1 / 6), "add", 0.5)
    gate = s.one("clamp", (s.scalar(0, x.type.dtype), line, s.scalar(1, x.type.dtype)))
    return s.one("multiply", (x, gate))


@onnx_op("Softplus", composite=True)
@in_f32
def softplus(s: Scope, node: Node, x: Value) -> Value:
    """log(1 + exp(x)), without overflow: max(x, 0) + log1p(exp(-|x|))."""
    tail = s.one("log_plus_one", (s.one("exponential", (s.one("negate", (s.one("abs", (x,)),)),)),))
    return s.one("add", (s.one("maximum", (x, s.full(0, x))), tail))


@onnx_op("Elu", "Celu", "Selu", composite=True)
@in_f32
def elu(s: Scope, node: Node, x: Value) -> Value:
    """x where x > 0, else alpha (exp(x) - 1); Celu divides x by alpha in there, Selu scales by gamma."""
    selu = node.op == "Selu"
    alpha = node.float("alpha", 1.67326319217681884765625 if selu else 1.0)
    inner = _number(s, x, "divide", alpha) if node.op == "Celu" else x
    low = _number(s, s.one("exponential_minus_one", (inner,)), "multiply", alpha)
    out = s.one("select", (compare(s, "GT", x, s.full(0, x)), x, low))
    return _number(s, out, "multiply", node.float("gamma", 1.05070102214813232421875)) if selu else out


@onnx_op("Gelu", composite=True)
@onnx_op("Gelu", domain="com.microsoft", composite=True)
@in_f32
def gelu(s: Scope, node: Node, x: Value) -> Value:
    """x/2 (1 + erf(x / sqrt 2)), or its tanh form."""
    if node.text("approximate", "none") == "tanh":
        cube = s.one("multiply", (s.one("multiply", (x, x)), x))
        inner = s.one("add", (x, _number(s, cube, "multiply", 0.044715)))
        gate = s.one("tanh", (_number(s, inner, "multiply", (2 / np.pi) ** 0.5),))
    else:
        gate = s.one("erf", (_number(s, x, "multiply", 0.5**0.5),))
    return s.one("multiply", (_number(s, x, "multiply", 0.5), _number(s, gate, "add", 1)))
