"""Elementary functions of f32 as scalar LLVM IR that inlines and vectorizes.

The coefficients are minimax fits made for these ranges (weighted least squares at Chebyshev nodes, Lawson's
iteration); tests/lower/test_functions.py holds each function against f64 within 4 ulp over the full range, NaN,
infinities and denormals included."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_EXP = (0.5000000078434016, 0.16666666856880527, 0.041666268263855256, 0.008333265164025341, 0.0013946189717051888,
        0.00019917972500982988)
_LOG = (0.333333126028028, -0.2500000960365395, 0.20002118732203875, -0.16667995667114552, 0.1421955090823652,
        -0.12405591416767642, 0.11888174597913917, -0.11675641305293369, 0.06746601330906965)
_TANH = (-0.33333283923590706, 0.13331491248513774, -0.053743495261281776, 0.02065057900334781, -0.0057170365609069615)
_ERF = (1.128379167058023, -0.37612638434649415, 0.11283781974083844, -0.02686540004097258, 0.005220945429690357,
        -0.0008482828801871843, 0.00011256947608742628, -9.641515267579575e-06)
_LOG_ERFC = (0.00020435988168188146, -1.12966115699623, -0.6330396126271033, -0.10863899774871237,
             0.02537355574930914, -0.004282382628986117, 0.0004637880210357709, -2.5314808816751867e-05,
             2.5132664456297274e-07)

FMA = "declare float @llvm.fma.f32(float, float, float)"
HEADER = f"""{FMA}
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
"""


def f32(value: float) -> str:
    """A float constant as LLVM writes it."""
    return "0x" + struct.pack(">d", struct.unpack("f", struct.pack("f", value))[0]).hex().upper()


class _Body:
    """The instructions of one function of x."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def fma(self, a: str, b: str, c: str) -> str:
        return self(f"call float @llvm.fma.f32(float {a}, float {b}, float {c})")

    def mul(self, a: str, b: str) -> str:
        return self(f"fmul float {a}, {b}")

    def poly(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's scheme, the constant first."""
        total = f32(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            total = self.fma(total, x, f32(each))
        return total

    def select(self, test: str, a: str, b: str) -> str:
        return self(f"select i1 {test}, float {a}, float {b}")

    def done(self, name: str, result: str) -> str:
        body = "\n".join(self.lines)
        head = f"define internal float @egs_{name}(float %x) alwaysinline nounwind"
        return f"{head} {{\n{body}\n  ret float {result}\n}}\n"


def _exp() -> str:
    """exp(x) = 2^n * exp(r), |r| <= ln(2)/2; 2^n in two factors, so that denormals round once."""
    b = _Body()
    low = b.select(b(f"fcmp olt float %x, {f32(-104.0)}"), f32(-104.0), "%x")
    x = b.select(b(f"fcmp ogt float {low}, {f32(89.0)}"), f32(89.0), low)
    magic = b.fma(x, f32(1.4426950408889634), f32(12582912.0))
    n = b(f"fsub float {magic}, {f32(12582912.0)}")
    whole = b(f"sub i32 {b(f'bitcast float {magic} to i32')}, {0x4B400000}")
    r = b.fma(n, f32(-0.693145751953125), x)
    r = b.fma(n, f32(-1.428606765330187e-06), r)
    power = b.fma(b.mul(r, r), b.poly(r, _EXP), r)
    half = b(f"ashr i32 {whole}, 1")
    scaled = b(f"fadd float {power}, 1.0")
    for part in (half, b(f"sub i32 {whole}, {half}")):
        bits = b(f"shl i32 {b(f'add i32 {part}, 127')}, 23")
        scaled = b.mul(scaled, b(f"bitcast i32 {bits} to float"))
    return b.done("exp", scaled)


def _log() -> str:
    """log(x) = e*ln(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2))."""
    b = _Body()
    small = b(f"fcmp olt float %x, {f32(1.1754943508222875e-38)}")
    x = b.select(small, b.mul("%x", f32(8388608.0)), "%x")
    shifted = b(f"sub i32 {b(f'bitcast float {x} to i32')}, {0x3F3504F3}")
    e = b(f"sitofp i32 {b(f'ashr i32 {shifted}, 23')} to float")
    e = b(f"fadd float {e}, {b.select(small, f32(-23.0), f32(0.0))}")
    mantissa = b(f"add i32 {b(f'and i32 {shifted}, 8388607')}, {0x3F3504F3}")
    f = b(f"fsub float {b(f'bitcast i32 {mantissa} to float')}, 1.0")
    z = b.mul(f, f)
    tail = b.mul(b.mul(z, f), b.poly(f, _LOG))
    tail = b.fma(e, f32(-0.0002121944400546905), tail)
    tail = b.fma(z, f32(-0.5), tail)
    total = b.fma(e, f32(0.693359375), b(f"fadd float {f}, {tail}"))
    infinite = b(f"fcmp oeq float %x, {f32(float('inf'))}")
    total = b.select(infinite, "%x", total)
    total = b.select(b(f"fcmp oeq float %x, {f32(0.0)}"), f32(float("-inf")), total)
    return b.done("log", b.select(b(f"fcmp uge float %x, {f32(0.0)}"),
                                  b.select(b("fcmp uno float %x, %x"), "%x", total), "0x7FF8000000000000"))


def _tanh() -> str:
    """An odd polynomial near 0, else 1 - 2/(exp(2|x|) + 1)."""
    b = _Body()
    size = b("call float @llvm.fabs.f32(float %x)")
    z = b.mul("%x", "%x")
    near = b.fma(b.mul(b.poly(z, _TANH), z), "%x", "%x")
    grown = b(f"call float @egs_exp(float {b(f'fadd float {size}, {size}')})")
    share = b(f"fdiv float 2.0, {b(f'fadd float {grown}, 1.0')}")
    far = b(f"call float @llvm.copysign.f32(float {b(f'fsub float 1.0, {share}')}, float %x)")
    return b.done("tanh", b.select(b(f"fcmp olt float {size}, {f32(0.625)}"), near, far))


def _logistic() -> str:
    """e/(1 + e) or 1/(1 + e) with e = exp(-|x|), which does not overflow."""
    b = _Body()
    size = b("call float @llvm.fabs.f32(float %x)")
    e = b(f"call float @egs_exp(float {b(f'fneg float {size}')})")
    top = b.select(b(f"fcmp olt float %x, {f32(0.0)}"), e, f32(1.0))
    return b.done("logistic", b(f"fdiv float {top}, {b(f'fadd float {e}, 1.0')}"))


def _erf() -> str:
    """An odd polynomial below 1, else 1 - exp(g(|x|)) with a fit g of log(erfc)."""
    b = _Body()
    size = b("call float @llvm.fabs.f32(float %x)")
    near = b.mul("%x", b.poly(b.mul("%x", "%x"), _ERF))
    capped = b.select(b(f"fcmp ogt float {size}, 4.0"), f32(4.0), size)
    rest = b(f"call float @egs_exp(float {b.poly(capped, _LOG_ERFC)})")
    far = b(f"call float @llvm.copysign.f32(float {b(f'fsub float 1.0, {rest}')}, float %x)")
    return b.done("erf", b.select(b(f"fcmp olt float {size}, 1.0"), near, far))


INLINE = {"exponential": "exp", "log": "log", "tanh": "tanh", "logistic": "logistic", "erf": "erf"}
"""f32 ops with a function here."""


def text() -> str:
    """All functions, as LLVM IR."""
    return "".join((_exp(), _log(), _tanh(), _logistic(), _erf()))
