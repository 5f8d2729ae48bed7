"""How each elementwise op is written as LLVM IR: one row an op. f16 and bf16 are computed in f32 and rounded after
each op.

A new op is a row here, and one in lower/cuda/ops.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from egshape.errors import Unsupported
from egshape.ir.types import is_float
from egshape.lower.llvm import scalar
from egshape.lower.llvm.functions import TEXTS
from egshape.lower.llvm.writer import Writer

FAST = "reassoc nsz contract "


@dataclass(frozen=True)
class Site:
    """A call that is written: values of ``source`` (of the second operand for select), a result of ``dtype``; ``flags``
    of its instructions, which only floats have."""

    w: Writer
    dtype: str
    source: str
    args: tuple[str, ...]
    attrs: Mapping[str, Any]
    flags: str = ""

    @property
    def type(self) -> str:
        """The LLVM type of the operands."""
        return scalar.register(self.source)

    @property
    def suffix(self) -> str:
        """Of intrinsics of floats."""
        return "f64" if self.type == "double" else "f32"

    @property
    def signed(self) -> bool:
        """Of integers."""
        return not self.source.startswith("u")

    def listed(self) -> str:
        """The operands with their type."""
        return ", ".join(f"{self.type} {arg}" for arg in self.args)


Form: TypeAlias = Callable[[Site], str]


@dataclass(frozen=True)
class Row:
    """How an op is written for operands that are floats, integers or i1, or for ``every`` one in a way of its own; what
    has no form is not compiled. ``function``: the elementary function that it is of floats, of our own
    (lower/llvm/functions.py) where it is one, else of the C library. ``library``: what else it calls there. ``exact``:
    results have no more digits than the operands, so that nothing is to be rounded."""

    floats: Form | None = None
    integers: Form | None = None
    bools: Form | None = None
    every: Form | None = None
    function: str = ""
    library: tuple[str, ...] = ()
    exact: bool = False

    def form(self, source: str) -> Form | None:
        """For operands of a dtype."""
        if self.every is not None:
            return self.every
        if is_float(source):
            return self.floats or (_function(self.function) if self.function else None)
        return self.bools if source == "i1" else self.integers


def call(
    w: Writer, op: str, dtype: str, types: tuple[str, ...], args: tuple[str, ...], attrs: Mapping[str, Any], fast: bool
) -> str:
    """An op on values of ``types``; the value of ``dtype``. Raises Unsupported for what has no row or no form."""
    source = types[0]
    form = OPS[op].form(source) if op in OPS else None
    if form is None:
        raise Unsupported(f"{op} of {source} is not compiled", where=op, hint="the target 'interpret' runs every op")
    found = form(Site(w, dtype, source, args, attrs, FAST if fast and is_float(source) else ""))
    whole = OPS[op].exact or OPS[op].every is not None or not is_float(source) or not is_float(dtype)
    return found if whole else scalar.rounded(w, source, found, any_nan=False)


# -- forms that several ops have --------------------------------------------------------------------------------------


def _instruction(name: str) -> Form:
    """An instruction of two operands."""
    return lambda s: s.w.value(f"{name} {s.flags}{s.type} {s.args[0]}, {s.args[1]}")


def _intrinsic(name: str) -> Form:
    """An intrinsic of floats."""
    return lambda s: s.w.value(f"call {'nsz ' if s.flags else ''}{s.type} @llvm.{name}.{s.suffix}({s.listed()})")


def _extreme(name: str) -> Form:
    """The larger or the smaller of two integers."""
    return lambda s: s.w.value(f"call {s.type} @llvm.{'s' if s.signed else 'u'}{name}.{s.type}({s.listed()})")


def _counted(name: str, more: str = "") -> Form:
    """An intrinsic of an integer."""
    return lambda s: s.w.value(f"call {s.type} @llvm.{name}.{s.type}({s.listed()}{more})")


def _square(name: str) -> Form:
    return lambda s: s.w.value(f"{name} {s.type} {s.args[0]}, {s.args[0]}")


def _before(name: str, value: str) -> Form:
    """An instruction of a number and the operand."""
    return lambda s: s.w.value(f"{name} {s.type} {value}, {s.args[0]}")


def _behind(name: str, value: str) -> Form:
    """An instruction of the operand and a number."""
    return lambda s: s.w.value(f"{name} {s.type} {s.args[0]}, {value}")


def _function(name: str) -> Form:
    """An elementary function; those of the C library in f64: exact enough for every narrower dtype."""

    def form(s: Site) -> str:
        if f"{name}_{s.suffix}" in TEXTS:
            return s.w.value(f"call {s.type} @egs_{name}_{s.suffix}({s.listed()})")
        wide = s.args if s.type == "double" else tuple(s.w.value(f"fpext float {a} to double") for a in s.args)
        found = s.w.value(f"call double @{name}({', '.join(f'double {a}' for a in wide)})")
        return found if s.type == "double" else s.w.value(f"fptrunc double {found} to float")

    return form


def _is(relation: str, limit: str, absolute: bool = True) -> Form:
    """Whether a float, or its absolute value, is in a relation to an infinity."""

    def form(s: Site) -> str:
        size = s.args[0]
        if absolute:
            size = s.w.value(f"call {s.type} @llvm.fabs.{s.suffix}({s.type} {size})")
        return s.w.value(f"fcmp {relation} {s.type} {size}, {scalar.constant('f64', float(limit))}")

    return form


# -- floats -----------------------------------------------------------------------------------------------------------


def _fma(s: Site) -> str:
    """A product and a sum, rounded once; or twice, where that is allowed and faster."""
    return s.w.value(f"call {s.flags}{s.type} @llvm.{'fmuladd' if s.flags else 'fma'}.{s.suffix}({s.listed()})")


def _exp2(s: Site) -> str:
    factor = scalar.constant("f64" if s.type == "double" else "f32", math.log(2))
    scaled = s.w.value(f"fmul {s.type} {s.args[0]}, {factor}")
    return s.w.value(f"call {s.type} @egs_exp_{s.suffix}({s.type} {scaled})")


def _float_power(s: Site) -> str:
    if s.args[1] == scalar.constant("f64", 2.0):
        return _square("fmul")(s)
    return _function("pow")(s)


def _rsqrt(s: Site) -> str:
    root = s.w.value(f"call {s.type} @llvm.sqrt.{s.suffix}({s.type} {s.args[0]})")
    return s.w.value(f"fdiv {s.type} 1.0, {root}")


def _float_sign(s: Site) -> str:
    w, type, x = s.w, s.type, s.args[0]
    same = w.value(f"fcmp ueq {type} {x}, 0.0")
    unit = w.value(f"call {type} @llvm.copysign.{s.suffix}({type} 1.0, {type} {x})")
    return w.value(f"select i1 {same}, {type} {x}, {type} {unit}")


def _next_after(s: Site) -> str:
    if s.source in ("f32", "f64"):
        return s.w.value(f"call {s.type} @nextafter{'f' if s.source == 'f32' else ''}({s.listed()})")
    return _next_half(s.w, s.source, *s.args)


def _next_half(w: Writer, source: str, x: str, y: str) -> str:
    """The next f16 or bf16 from x towards y: a step of its bits; from 0 the least number with the sign of y."""
    memory_type = scalar.memory(source)

    def bits(value: str) -> str:
        raw = scalar.pack(w, source, value)
        return raw if memory_type == "i16" else w.value(f"bitcast {memory_type} {raw} to i16")

    away = w.value(f"xor i1 {w.value(f'fcmp olt float {x}, {y}')}, {w.value(f'fcmp olt float {x}, 0.0')}")
    step = w.value(f"select i1 {away}, i16 1, i16 -1")
    moved = w.value(f"add i16 {bits(x)}, {step}")
    least = w.value(f"or i16 {w.value(f'and i16 {bits(y)}, -32768')}, 1")
    zero = w.value(f"fcmp oeq float {x}, 0.0")
    raw = w.value(f"select i1 {zero}, i16 {least}, i16 {moved}")
    found = scalar.unpack(w, source, raw if memory_type == "i16" else w.value(f"bitcast i16 {raw} to {memory_type}"))
    same = w.value(f"select i1 {w.value(f'fcmp oeq float {x}, {y}')}, float {y}, float {found}")
    nan = w.value(f"fadd float {x}, {y}")
    return w.value(f"select i1 {w.value(f'fcmp uno float {x}, {y}')}, float {nan}, float {same}")


# -- integers ---------------------------------------------------------------------------------------------------------


def _sign(s: Site) -> str:
    w, type, x = s.w, s.type, s.args[0]
    positive = w.value(f"zext i1 {w.value(f'icmp sgt {type} {x}, 0')} to {type}")
    negative = w.value(f"sext i1 {w.value(f'icmp slt {type} {x}, 0')} to {type}")
    return w.value(f"or {type} {positive}, {negative}")


def _divided(s: Site) -> tuple[str, str, str]:
    """Whether the divisor is 0, whether it is -1, and one that does not fail."""
    w, type, y = s.w, s.type, s.args[1]
    zero, minus = w.value(f"icmp eq {type} {y}, 0"), ""
    odd = zero
    if s.signed:
        minus = w.value(f"icmp eq {type} {y}, -1")
        odd = w.value(f"or i1 {zero}, {minus}")
    return zero, minus, w.value(f"select i1 {odd}, {type} 1, {type} {y}")


def _divide(s: Site) -> str:
    """x / 0 = -1, and the smallest divided by -1 is itself."""
    w, type, x = s.w, s.type, s.args[0]
    zero, minus, safe = _divided(s)
    found = w.value(f"{'s' if s.signed else 'u'}div {type} {x}, {safe}")
    if s.signed:
        negated = w.value(f"sub {type} 0, {x}")
        found = w.value(f"select i1 {minus}, {type} {negated}, {type} {found}")
    return w.value(f"select i1 {zero}, {type} -1, {type} {found}")


def _remainder(s: Site) -> str:
    """x % 0 = x."""
    w, type, x = s.w, s.type, s.args[0]
    zero, _, safe = _divided(s)
    found = w.value(f"{'s' if s.signed else 'u'}rem {type} {x}, {safe}")
    return w.value(f"select i1 {zero}, {type} {x}, {type} {found}")


def _shift(name: str) -> Form:
    """By the width or more: 0, or the sign."""

    def form(s: Site) -> str:
        w, type, (x, y) = s.w, s.type, s.args
        width, keeps = int(type[1:]), name == "ashr"
        inside = w.value(f"icmp ult {type} {y}, {width}")
        amount = w.value(f"select i1 {inside}, {type} {y}, {type} {width - 1 if keeps else 0}")
        found = w.value(f"{name} {type} {x}, {amount}")
        return found if keeps else w.value(f"select i1 {inside}, {type} {found}, {type} 0")

    return form


def _power(s: Site) -> str:
    """By squaring; a negative exponent gives 0 unless |x| = 1."""
    w, type, (x, y) = s.w, s.type, s.args
    result, base, left = "1", x, y
    for _ in range(int(type[1:])):
        odd = w.value(f"trunc {type} {left} to i1")
        result = w.value(f"select i1 {odd}, {type} {w.value(f'mul {type} {result}, {base}')}, {type} {result}")
        base = w.value(f"mul {type} {base}, {base}")
        left = w.value(f"lshr {type} {left}, 1")
    if not s.signed:
        return result
    even = w.value(f"select i1 {w.value(f'trunc {type} {y} to i1')}, {type} {x}, {type} 1")
    unit = w.value(f"icmp ult {type} {w.value(f'add {type} {x}, 1')}, 3")
    unit = w.value(f"and i1 {unit}, {w.value(f'icmp ne {type} {x}, 0')}")
    below = w.value(f"select i1 {unit}, {type} {even}, {type} 0")
    return w.value(f"select i1 {w.value(f'icmp slt {type} {y}, 0')}, {type} {below}, {type} {result}")


# -- every dtype ------------------------------------------------------------------------------------------------------


def _select(s: Site) -> str:
    type = scalar.register(s.dtype)
    return s.w.value(f"select i1 {s.args[0]}, {type} {s.args[1]}, {type} {s.args[2]}")


def _clamp(s: Site) -> str:
    low, x, high = s.args
    least = call(s.w, "maximum", s.dtype, (s.source,), (x, low), {}, False)
    return call(s.w, "minimum", s.dtype, (s.source,), (least, high), {}, False)


_ORDERED = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}


def _compare(s: Site) -> str:
    w, direction, type, (x, y) = s.w, s.attrs["direction"], s.type, s.args
    signed = s.signed and s.source != "i1"
    if is_float(s.source):
        if s.attrs["kind"] != "TOTALORDER":
            return w.value(f"fcmp {_ORDERED[direction]} {type} {x}, {y}")
        type = "i32" if type == "float" else "i64"
        x, y = (_total(w, s.type, type, each) for each in s.args)
    name = direction.lower() if direction in ("EQ", "NE") else ("s" if signed else "u") + direction.lower()
    return w.value(f"icmp {name} {type} {x}, {y}")


def _total(w: Writer, source: str, type: str, x: str) -> str:
    """Bits that order as the total order of floats does."""
    bits = w.value(f"bitcast {source} {x} to {type}")
    sign = w.value(f"ashr {type} {bits}, {int(type[1:]) - 1}")
    return w.value(f"xor {type} {bits}, {w.value(f'lshr {type} {sign}, 1')}")


OPS: dict[str, Row] = {
    "add": Row(_instruction("fadd"), _instruction("add"), _instruction("or")),
    "subtract": Row(_instruction("fsub"), _instruction("sub")),
    "multiply": Row(_instruction("fmul"), _instruction("mul"), _instruction("and")),
    "divide": Row(_instruction("fdiv"), _divide),
    "remainder": Row(integers=_remainder, function="fmod"),
    "maximum": Row(_intrinsic("maximum"), _extreme("max"), _instruction("or"), exact=True),
    "minimum": Row(_intrinsic("minimum"), _extreme("min"), _instruction("and"), exact=True),
    "power": Row(_float_power, _power, function="pow"),
    "negate": Row(lambda s: s.w.value(f"fneg {s.type} {s.args[0]}"), _before("sub", "0"), exact=True),
    "abs": Row(_intrinsic("fabs"), _counted("abs", ", i1 false"), exact=True),
    "sign": Row(_float_sign, _sign, exact=True),
    "square": Row(_square("fmul"), _square("mul")),
    "fma": Row(_fma),
    "and": Row(integers=_instruction("and"), bools=_instruction("and")),
    "or": Row(integers=_instruction("or"), bools=_instruction("or")),
    "xor": Row(integers=_instruction("xor"), bools=_instruction("xor")),
    "not": Row(integers=_behind("xor", "-1"), bools=_behind("xor", "true")),
    "shift_left": Row(integers=_shift("shl")),
    "shift_right_logical": Row(integers=_shift("lshr")),
    "shift_right_arithmetic": Row(integers=_shift("ashr")),
    "popcnt": Row(integers=_counted("ctpop")),
    "count_leading_zeros": Row(integers=_counted("ctlz", ", i1 false")),
    "floor": Row(_intrinsic("floor"), exact=True),
    "ceil": Row(_intrinsic("ceil"), exact=True),
    "round_nearest_even": Row(_intrinsic("rint"), exact=True),
    "round_nearest_afz": Row(_intrinsic("round"), exact=True),
    "sqrt": Row(_intrinsic("sqrt")),
    "rsqrt": Row(_rsqrt),
    "cbrt": Row(function="cbrt"),
    "exponential": Row(function="exp"),
    "exponential_minus_one": Row(function="expm1"),
    "exp2": Row(_exp2),
    "log": Row(function="log"),
    "log_plus_one": Row(function="log1p"),
    "logistic": Row(function="logistic"),
    "erf": Row(function="erf"),
    "erfc": Row(function="erfc"),
    "erf_inv": Row(function="erf_inv"),
    "lgamma": Row(function="lgamma"),
    "sine": Row(function="sin"),
    "cosine": Row(function="cos"),
    "tan": Row(function="tan"),
    "asin": Row(function="asin"),
    "acos": Row(function="acos"),
    "atan": Row(function="atan"),
    "atan2": Row(function="atan2"),
    "sinh": Row(function="sinh"),
    "cosh": Row(function="cosh"),
    "tanh": Row(function="tanh"),
    "asinh": Row(function="asinh"),
    "acosh": Row(function="acosh"),
    "atanh": Row(function="atanh"),
    "next_after": Row(_next_after, library=("nextafter", "nextafterf"), exact=True),
    "is_finite": Row(_is("one", "inf")),
    "is_inf": Row(_is("oeq", "inf")),
    "is_pos_inf": Row(_is("oeq", "inf", absolute=False)),
    "is_neg_inf": Row(_is("oeq", "-inf", absolute=False)),
    "select": Row(every=_select),
    "clamp": Row(every=_clamp),
    "compare": Row(every=_compare),
    "convert": Row(every=lambda s: scalar.convert(s.w, s.source, s.dtype, s.args[0])),
    "bitcast_convert": Row(every=lambda s: scalar.bitcast(s.w, s.source, s.dtype, s.args[0])),
}
"""Every op that kernels are made of."""


def library() -> tuple[str, ...]:
    """The functions of the C library that ops call."""
    whole = [row.function for row in OPS.values() if row.function and f"{row.function}_f64" not in TEXTS]
    return (*whole, *(name for row in OPS.values() for name in row.library))
