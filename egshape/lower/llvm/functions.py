"""Elementary functions of our own, and the text of those that a module calls.

The coefficients are minimax fits (Remez' exchange) made for these ranges; tests/lower/test_functions.py holds each
function over its full range, NaN, infinities and denormals included."""

from __future__ import annotations

import re
from collections.abc import Callable

from egshape.lower.llvm import functions32 as single
from egshape.lower.llvm import functions64 as double

TEXTS: dict[str, Callable[[], str]] = {
    "exp_f32": single.exp,
    "expm1_f32": single.expm1,
    "log_f32": single.log,
    "log1p_f32": single.log1p,
    "tanh_f32": single.tanh,
    "logistic_f32": single.logistic,
    "erf_f32": single.erf,
    "pow_f32": double.pow,
    "cbrt_f32": double.cbrt,
    "sin_f32": double.sin,
    "cos_f32": double.cos,
    "tan_f32": double.tan,
    "exp_f64": double.exp,
    "expm1_f64": double.expm1,
    "log_f64": double.log,
    "log1p_f64": double.log1p,
    "tanh_f64": double.tanh,
    "logistic_f64": double.logistic,
    "erf_f64": double.erf,
    "erf_inv_f32": double.erf_inv_short,
    "erf_inv_f64": double.erf_inv,
}
"""By their names and the floats that they are of."""
_CALLS = re.compile(r"@egs_([a-z0-9_]+_f(?:32|64))\(")

_SCALE_WIDE = """define internal {type} @egs_scale_{suffix}({type} %x, i32 %n) alwaysinline nounwind {{
  %v0 = call {type} @llvm.ldexp.{suffix}.i32({type} %x, i32 %n)
  ret {type} %v0
}}
"""
_SCALE = """define internal {type} @egs_scale_{suffix}({type} %x, i32 %n) alwaysinline nounwind {{
  %h = ashr i32 %n, 1
  %k = sub i32 %n, %h
  %h1 = add i32 %h, {bias}
  %k1 = add i32 %k, {bias}
  %h2 = {widen} i32 %h1 to {bits}
  %k2 = {widen} i32 %k1 to {bits}
  %h3 = shl {bits} %h2, {shift}
  %k3 = shl {bits} %k2, {shift}
  %h4 = bitcast {bits} %h3 to {type}
  %k4 = bitcast {bits} %k3 to {type}
  %y = fmul {type} %x, %h4
  %z = fmul {type} %y, %k4
  ret {type} %z
}}
"""


def text(module: str) -> str:
    """The functions that the text of a module calls, and those that they call."""
    found: dict[str, str] = {}
    wanted = list(dict.fromkeys(_CALLS.findall(module)))
    while wanted:
        name = wanted.pop()
        if name in found or name not in TEXTS:
            continue
        found[name] = TEXTS[name]()
        wanted += _CALLS.findall(found[name])
    parts = [found[name] for name in sorted(found)]
    return (double.turns() if any("@egs_turns" in part for part in parts) else "") + "".join(parts)


def scales(module: str, features: str) -> str:
    """x * 2^n for the module: one instruction where the machine has one for vectors, else two factors."""
    wide = "+avx512f" in features.split(",")
    parts = []
    for type, suffix, bits, bias, shift in (("float", "f32", "i32", 127, 23), ("double", "f64", "i64", 1023, 52)):
        if f"@egs_scale_{suffix}(" in module:
            made = _SCALE_WIDE if wide else _SCALE
            widen = "bitcast" if bits == "i32" else "zext"
            parts.append(made.format(type=type, suffix=suffix, bits=bits, bias=bias, shift=shift, widen=widen))
    return "".join(parts)
