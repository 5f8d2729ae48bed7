"""How each elementwise op is written as a C++ expression: one row an op. f16 and bf16 are computed in f32 and rounded
after each op. What is no function of the device's library is one of the prelude.

A new op is a row here, and one in lower/llvm/ops.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from egshape.errors import Unsupported
from egshape.ir.types import is_float
from egshape.lower.cuda import scalar


@dataclass(frozen=True)
class Site:
    """A call that is written: values of ``source`` (of the second operand for select), a result of ``dtype``."""

    dtype: str
    source: str
    args: tuple[str, ...]
    attrs: Mapping[str, Any]
    fast: bool = False

    @property
    def type(self) -> str:
        """The C++ type of the operands."""
        return scalar.register(self.source)

    @property
    def listed(self) -> str:
        """The operands."""
        return ", ".join(self.args)


Form: TypeAlias = Callable[[Site], str]


@dataclass(frozen=True)
class Row:
    """How an op is written for operands that are floats, integers or i1, or for ``every`` one in a way of its own,
    which is "" for dtypes that it does not take; what has no form is not compiled. ``halves``: for f16 and bf16, by
    functions that are good enough for what rounding leaves of them."""

    floats: Form | None = None
    integers: Form | None = None
    bools: Form | None = None
    every: Form | None = None
    halves: Form | None = None

    def form(self, source: str) -> Form | None:
        """For operands of a dtype."""
        if self.halves and scalar.is_half(source):
            return self.halves
        return self.every or (self.floats if is_float(source) else self.bools if source == "i1" else self.integers)


def call(op: str, dtype: str, source: str, args: tuple[str, ...], attrs: Mapping[str, Any], fast: bool = False) -> str:
    """An op on values. Raises Unsupported for what has no row or no form."""
    form = OPS[op].form(source) if op in OPS else None
    found = form(Site(dtype, source, args, attrs, fast)) if form is not None else ""
    if not found:
        raise Unsupported(
            f"{op} of {source} is not compiled for CUDA", where=op, hint="the target 'interpret' runs every op"
        )
    whole = OPS[op].every is not None or not scalar.is_half(source) or not is_float(dtype)
    return found if whole else f"eg_round_{source}({found})"


# -- forms that several ops have --------------------------------------------------------------------------------------


def _infix(sign: str) -> Form:
    return lambda s: f"({s.args[0]} {sign} {s.args[1]})"


def _bitwise(sign: str) -> Form:
    """Operands of fewer bits than an int become ints."""
    return lambda s: f"({s.type})({s.args[0]} {sign} {s.args[1]})"


def _function(name: str) -> Form:
    """Of the device's math library or the prelude, overloaded for float and double."""
    return lambda s: f"{name}({s.listed})"


def _of_half(name: str) -> Form:
    """Of the prelude, one for each of f16 and bf16."""
    return lambda s: f"{name}_{s.source}({s.listed})"


def _typed(name: str) -> Form:
    """A template of the prelude for integers."""
    return lambda s: f"{name}<{s.type}>({s.listed})"


# -- forms that one op has --------------------------------------------------------------------------------------------


def _clamp(s: Site) -> str:
    low, x, high = s.args
    return f"eg_minimum(eg_maximum({x}, {low}), {high})"


def _next_after(s: Site) -> str:
    if not is_float(s.source):
        return ""
    return f"eg_next_{s.source}({s.listed})" if scalar.is_half(s.source) else f"nextafter({s.listed})"


def _exp2(s: Site) -> str:
    """By the unit for special functions, which has 32 bits, where that is exact enough."""
    return f"{'eg_exp2' if s.fast and s.source != 'f64' else 'exp2'}({s.listed})"


def _erfc(s: Site) -> str:
    """As exact as 1 is, where that is exact enough."""
    return f"{'eg_erfc' if s.fast else 'erfc'}({s.listed})"


_COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def _compare(s: Site) -> str:
    args = s.args
    if is_float(s.source) and s.attrs["kind"] == "TOTALORDER":
        args = tuple(f"eg_total({arg})" for arg in args)
    return f"({args[0]} {_COMPARE[s.attrs['direction']]} {args[1]})"


OPS: dict[str, Row] = {
    "add": Row(_infix("+"), _typed("eg_int_add"), _infix("||")),
    "subtract": Row(_infix("-"), _typed("eg_int_subtract")),
    "multiply": Row(_infix("*"), _typed("eg_int_multiply"), _infix("&&")),
    "divide": Row(_infix("/"), _typed("eg_int_divide"), halves=_of_half("eg_divide")),
    "remainder": Row(_function("fmod"), _typed("eg_int_remainder")),
    "maximum": Row(_function("eg_maximum"), _typed("eg_maximum"), _infix("||")),
    "minimum": Row(_function("eg_minimum"), _typed("eg_minimum"), _infix("&&")),
    "power": Row(_function("pow"), _typed("eg_int_power")),
    "negate": Row(lambda s: f"(-{s.args[0]})", _typed("eg_int_negate")),
    "abs": Row(_function("fabs"), _typed("eg_int_abs")),
    "sign": Row(_function("eg_sign"), _typed("eg_int_sign")),
    "square": Row(
        lambda s: f"({s.args[0]} * {s.args[0]})", lambda s: f"eg_int_multiply<{s.type}>({s.args[0]}, {s.args[0]})"
    ),
    "fma": Row(_function("fma")),
    "and": Row(integers=_bitwise("&"), bools=_infix("&&")),
    "or": Row(integers=_bitwise("|"), bools=_infix("||")),
    "xor": Row(integers=_bitwise("^"), bools=_infix("!=")),
    "not": Row(integers=lambda s: f"({s.type})(~{s.args[0]})", bools=lambda s: f"(!{s.args[0]})"),
    "shift_left": Row(integers=_typed("eg_shift_left")),
    "shift_right_logical": Row(integers=_typed("eg_shift_right_logical")),
    "shift_right_arithmetic": Row(integers=_typed("eg_shift_right_arithmetic")),
    "popcnt": Row(integers=_typed("eg_popcnt")),
    "count_leading_zeros": Row(integers=_typed("eg_count_leading_zeros")),
    "floor": Row(_function("floor")),
    "ceil": Row(_function("ceil")),
    "round_nearest_even": Row(_function("rint")),
    "round_nearest_afz": Row(_function("round")),
    "sqrt": Row(_function("sqrt")),
    "rsqrt": Row(_function("eg_rsqrt")),
    "cbrt": Row(_function("cbrt")),
    "exponential": Row(_function("exp"), halves=_of_half("eg_exp")),
    "exponential_minus_one": Row(_function("expm1")),
    "exp2": Row(_exp2),
    "log": Row(_function("log")),
    "log_plus_one": Row(_function("log1p")),
    "logistic": Row(_function("eg_logistic"), halves=_of_half("eg_logistic")),
    "erf": Row(_function("erf"), halves=_of_half("eg_erf")),
    "erfc": Row(_erfc),
    "erf_inv": Row(_function("erfinv")),
    "lgamma": Row(_function("lgamma")),
    "sine": Row(_function("sin")),
    "cosine": Row(_function("cos")),
    "tan": Row(_function("tan")),
    "asin": Row(_function("asin")),
    "acos": Row(_function("acos")),
    "atan": Row(_function("atan")),
    "atan2": Row(_function("atan2")),
    "sinh": Row(_function("sinh")),
    "cosh": Row(_function("cosh")),
    "tanh": Row(_function("eg_tanh"), halves=_function("eg_tanh_approx")),
    "asinh": Row(_function("asinh")),
    "acosh": Row(_function("acosh")),
    "atanh": Row(_function("atanh")),
    "next_after": Row(every=_next_after),
    "is_finite": Row(_function("eg_is_finite")),
    "is_inf": Row(_function("eg_is_inf")),
    "is_pos_inf": Row(_function("eg_is_pos_inf")),
    "is_neg_inf": Row(_function("eg_is_neg_inf")),
    "select": Row(every=lambda s: f"({s.args[0]} ? {s.args[1]} : {s.args[2]})"),
    "clamp": Row(every=_clamp),
    "compare": Row(every=_compare),
    "convert": Row(every=lambda s: scalar.convert(s.source, s.dtype, s.args[0])),
    "bitcast_convert": Row(every=lambda s: scalar.bitcast(s.source, s.dtype, s.args[0])),
}
"""Every op that kernels are made of."""
