"""Elementwise ops as calls of ATen; broadcasts that torch makes by itself are left to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from egshape.dims import Dim
from egshape.frontends.torch.emit import Emitter, broadcast, dtype_of
from egshape.frontends.torch.emit_moves import placed
from egshape.frontends.torch.emitting import NARROW, emits, narrows
from egshape.ir.graph import Op, Value
from egshape.ir.types import integer_range, is_complex, is_float, is_integer, numpy_dtype
from egshape.ops.contraction import summed_in

UNARY = {
    "abs": "abs",
    "negate": "neg",
    "floor": "floor",
    "ceil": "ceil",
    "round_nearest_even": "round",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "tanh": "tanh",
    "tan": "tan",
    "sine": "sin",
    "cosine": "cos",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "is_finite": "isfinite",
    "is_inf": "isinf",
    "not": "bitwise_not",
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erfinv",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "lgamma": "lgamma",
    "digamma": "digamma",
    "real": "real",
    "imag": "imag",
    "conj": "conj_physical",
}
BINARY = {
    "add": "add.Tensor",
    "subtract": "sub.Tensor",
    "multiply": "mul.Tensor",
    "and": "bitwise_and.Tensor",
    "or": "bitwise_or.Tensor",
    "xor": "bitwise_xor.Tensor",
    "shift_left": "bitwise_left_shift.Tensor",
    "atan2": "atan2.default",
    "next_after": "nextafter.default",
    "complex": "complex.default",
}
_NUMBERED = frozenset(("add.Tensor", "mul.Tensor", "sub.Tensor"))
"""Calls that take a number for their second operand."""

_COMMUTES = frozenset(("add", "multiply"))
_COMPARE = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
_TURNED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}
_FEW = frozenset(("ui16", "ui32", "ui64"))
"""torch has these dtypes, but computes little in them."""


@emits(*UNARY)
def unary(e: Emitter, op: Op) -> Any:
    """An op of one operand that ATen has."""
    return e.call(f"{UNARY[op.name]}.default", e.node(op.operands[0]))


def operands(e: Emitter, op: Op, values: Sequence[Value] | None = None) -> list[Any]:
    """The operands of an elementwise op, without the broadcasts that torch makes by itself."""
    given = list(values or op.operands)
    shape = op.result.type.dims
    if op.result.type.dtype in _FEW:
        raise e.unsupported(op, f"{op.name} of {op.result.type.dtype}")
    sources = [e.source(value) for value in given]

    def held(axis: int) -> list[Dim]:
        return [each.dims[each.axes.index(axis)] for each in sources if axis in each.axes]

    if not all(
        any(size is each for each in held(axis)) or broadcast(held(axis)) is size for axis, size in enumerate(shape)
    ):
        return [e.node(value) for value in given]
    return [placed(e, each.write(), each.axes, each.dims, len(shape)) for each in sources]


def numbered(e: Emitter, op: Op, call: str, scalar: str) -> Any:
    """A call whose second operand may be a number, which has a form of its own."""
    x, y = op.operands
    number = e.number(y)
    if number is None or e.number(x) is not None:
        return e.call(call, *operands(e, op))
    return e.call(scalar, *_alone(e, op, x), number)


def _alone(e: Emitter, op: Op, x: Value) -> list[Any]:
    """An operand beside a number."""
    return operands(e, op, [x])


@emits(*(name for name in BINARY if name != "add"))
def binary(e: Emitter, op: Op) -> Any:
    """An op of two operands that ATen has."""
    call = BINARY[op.name]
    x, y = op.operands
    number = e.number(x) if op.name in _COMMUTES or op.name == "subtract" else None
    if number is not None and e.number(y) is None and x.type.dtype != "i1":
        return e.call("rsub.Scalar" if op.name == "subtract" else call, *_alone(e, op, y), number)
    if call in _NUMBERED and x.type.dtype != "i1":
        return numbered(e, op, call, call)
    return e.call(call, *operands(e, op))


@emits("divide")
def divide(e: Emitter, op: Op) -> Any:
    """Of integers rounded towards zero; by 0 it is -1, which torch refuses."""
    x, y = op.operands
    dtype = op.result.type.dtype
    number = e.number(y)
    if not is_integer(dtype):
        if e.number(x) == 1 and number is None:
            return e.call("reciprocal.default", *_alone(e, op, y))
        return numbered(e, op, "div.Tensor", "div.Tensor")
    if isinstance(number, int) and number not in (0, -1):
        return e.call("div.Tensor_mode", *_alone(e, op, x), number, rounding_mode="trunc")
    one, two = operands(e, op)
    found = e.call("div.Tensor_mode", one, _harmless(e, two, dtype), rounding_mode="trunc")
    if dtype.startswith("ui"):
        return _where(e, e.call("eq.Scalar", two, 0), integer_range(dtype)[1], found)
    found = _where(e, e.call("eq.Scalar", two, -1), e.call("neg.default", one), found)
    return _where(e, e.call("eq.Scalar", two, 0), -1, found)


@narrows("multiply", "divide")
def narrow_scaled(e: Emitter, op: Op, dtype: str) -> Any:
    """A product with a number, or a quotient by one, of what was widened."""
    x, y = op.operands
    pairs = ((x, y), (y, x)) if op.name == "multiply" else ((x, y),)
    for value, other in pairs:
        number, node = e.number(other), e.narrow(value, dtype)
        if isinstance(number, float) and node is not None:
            return e.call("mul.Tensor" if op.name == "multiply" else "div.Tensor", node, number)
    return None


@emits("remainder")
def remainder(e: Emitter, op: Op) -> Any:
    """With the sign of the dividend; of integers by 0 it is that."""
    number = e.number(op.operands[1])
    if not is_integer(op.result.type.dtype) or (isinstance(number, int) and number not in (0, -1)):
        return numbered(e, op, "fmod.Tensor", "fmod.Scalar")
    one, two = operands(e, op)
    found = e.call("fmod.Tensor", one, _harmless(e, two, op.result.type.dtype))
    if not op.result.type.dtype.startswith("ui"):
        found = _where(e, e.call("eq.Scalar", two, -1), 0, found)
    return _where(e, e.call("eq.Scalar", two, 0), one, found)


def _harmless(e: Emitter, divisor: Any, dtype: str) -> Any:
    """A divisor with 1 for 0 and -1, by which processors do not divide all numbers."""
    found = e.call("eq.Scalar", divisor, 0)
    if not dtype.startswith("ui"):
        found = e.call("bitwise_or.Tensor", found, e.call("eq.Scalar", divisor, -1))
    return e.call("where.ScalarSelf", found, 1, divisor)


def _where(e: Emitter, condition: Any, x: Any, y: Any) -> Any:
    if isinstance(x, int | float):
        return e.call("where.ScalarSelf", condition, x, y)
    return e.call("where.self", condition, x, y)


@emits("maximum", "minimum")
def extreme(e: Emitter, op: Op) -> Any:
    """relu where the other is 0; clamp by a number."""
    largest = op.name == "maximum"
    for x, y in (op.operands, op.operands[::-1]):
        number = e.number(y)
        if isinstance(number, int | float) and e.number(x) is None and not isnan(number) and x.type.dtype != "i1":
            if largest and number == 0 and is_float(x.type.dtype):
                return e.call("relu.default", *_alone(e, op, x))
            return e.call("clamp_min.default" if largest else "clamp_max.default", *_alone(e, op, x), number)
    return e.call(f"{op.name}.default", *operands(e, op))


@emits("power")
def power(e: Emitter, op: Op) -> Any:
    """pow."""
    return numbered(e, op, "pow.Tensor_Tensor", "pow.Tensor_Scalar")


@emits("square")
def square(e: Emitter, op: Op) -> Any:
    """x times x."""
    x = e.node(op.operands[0])
    return e.call("mul.Tensor", x, x)


@emits("shift_right_arithmetic", "shift_right_logical")
def shift_right(e: Emitter, op: Op) -> Any:
    """torch shifts signed numbers with their sign, unsigned ones without."""
    unsigned = op.result.type.dtype.startswith("ui")
    if unsigned != op.name.endswith("logical"):
        raise e.unsupported(op, f"{op.name} of {op.result.type.dtype}")
    return e.call("bitwise_right_shift.Tensor", *operands(e, op))


@emits("sign")
def sign(e: Emitter, op: Op) -> Any:
    """NaN stays NaN, which torch's sign makes 0."""
    x = e.node(op.operands[0])
    found = e.call("sgn.default", x)
    if not is_float(op.result.type.dtype):
        return found
    return _where(e, e.call("isnan.default", x), x, found)


@emits("round_nearest_afz")
def round_away(e: Emitter, op: Op) -> Any:
    """Rounded towards zero, and one step on where half or more is cut off: both are exact."""
    x = e.node(op.operands[0])
    whole = e.call("trunc.default", x)
    cut = e.call("abs.default", e.call("sub.Tensor", x, whole))
    step = e.call("where.ScalarOther", e.call("ge.Scalar", cut, 0.5), e.call("sgn.default", x), 0.0)
    return e.call("add.Tensor", whole, step)


@emits("cbrt")
def cube_root(e: Emitter, op: Op) -> Any:
    """The root of |x|, with the sign of x."""
    x = e.node(op.operands[0])
    return e.call("copysign.Tensor", e.call("pow.Tensor_Scalar", e.call("abs.default", x), 1 / 3), x)


@emits("is_pos_inf", "is_neg_inf")
def infinite(e: Emitter, op: Op) -> Any:
    """Infinite with one sign."""
    return e.call("eq.Scalar", e.node(op.operands[0]), float("inf" if op.name == "is_pos_inf" else "-inf"))


@emits("compare")
def compare(e: Emitter, op: Op) -> Any:
    """The comparisons of numbers; floats in their total order torch does not have."""
    x, y = op.operands
    if op.attrs["kind"] == "TOTALORDER":
        raise e.unsupported(op, "the total order of floats")
    if x.type.dtype in _FEW:
        raise e.unsupported(op, f"a comparison of {x.type.dtype}")
    direction = op.attrs["direction"]
    if x is y and direction == "NE" and is_float(x.type.dtype):
        return e.call("isnan.default", e.node(x))
    if e.number(x) is not None and e.number(y) is None:
        return e.call(f"{_COMPARE[_TURNED[direction]]}.Scalar", *_alone(e, op, y), e.number(x))
    return numbered(e, op, f"{_COMPARE[direction]}.Tensor", f"{_COMPARE[direction]}.Scalar")


@emits("select")
def select(e: Emitter, op: Op) -> Any:
    """where, of numbers too."""
    condition, x, y = op.operands
    one, two = (e.number(each) for each in (x, y))
    if isinstance(two, bool | int | float) and one is None:
        return e.call("where.ScalarOther", *operands(e, op, [condition, x]), two)
    if isinstance(one, bool | int | float) and two is None:
        return e.call("where.ScalarSelf", *_between(operands(e, op, [condition, y]), one))
    return e.call("where.self", *operands(e, op))


def _between(pair: Sequence[Any], number: Any) -> tuple[Any, ...]:
    condition, y = pair
    return condition, number, y


@emits("clamp")
def clamp(e: Emitter, op: Op) -> Any:
    """clamp by numbers, else the larger and then the smaller."""
    low, x, high = op.operands
    bounds = [e.number(each) for each in (low, high)]
    if all(isinstance(each, int | float) and not isnan(each) for each in bounds):
        return e.call("clamp.default", e.node(x), *bounds)
    least = e.call("maximum.default", e.node(x), e.node(low))
    return e.call("minimum.default", least, e.node(high))


@emits("convert")
def convert(e: Emitter, op: Op) -> Any:
    """To another dtype. Floats beyond a range of integers stop at its ends; NaN is 0."""
    x = op.operands[0]
    dtype = op.result.type.dtype
    wide = e.waiting(x, *NARROW) if summed_in(dtype) == x.type.dtype else None
    if wide is not None and (found := NARROW[wide.name](e, wide, dtype)) is not None:
        return found
    node = e.node(x)
    if is_complex(x.type.dtype) and not is_complex(dtype):
        raise e.unsupported(op, "a conversion of complex numbers to real ones")
    if not (is_float(x.type.dtype) and is_integer(dtype)) or e.trusting:
        return converted(e, node, dtype)
    low, high = integer_range(dtype)
    node = e.call("where.ScalarSelf", e.call("isnan.default", node), 0.0, node)
    found = _where(e, e.call("ge.Scalar", node, float(high)), high, converted(e, node, dtype))
    return _where(e, e.call("le.Scalar", node, float(low)), low, found)


def converted(e: Emitter, node: Any, dtype: str) -> Any:
    """A node's elements in another dtype."""
    return e.call("_to_copy.default", node, dtype=dtype_of(dtype))


@emits("bitcast_convert")
def bitcast(e: Emitter, op: Op) -> Any:
    """The same bits as another dtype."""
    x = op.operands[0]
    dtype = op.result.type.dtype
    node = e.call("contiguous.default", e.node(x))
    old, new = (numpy_dtype(each).itemsize for each in (x.type.dtype, dtype))
    if old > new:
        return e.call("view.dtype", e.call("unsqueeze.default", node, x.type.rank), dtype_of(dtype))
    found = e.call("view.dtype", node, dtype_of(dtype))
    return found if old == new else e.call("squeeze.dim", found, x.type.rank - 1)


@emits("optimization_barrier")
def barrier(e: Emitter, op: Op) -> Any:
    """The operands themselves."""
    return [e.node(value) for value in op.operands]
