"""Elementary functions in f64, and f32 functions that are computed in f64 because that is shorter than f32 with
compensation. docs/llvm.md lists the errors, tests/lower/test_functions.py holds them."""

from __future__ import annotations

from functools import cache

from egshape.lower.llvm.formulas import Body, f64
from egshape.lower.llvm.functions32 import log1p_body, log_ends, logistic_body

_EXPM1 = (
    0.5,
    0.1666666666666667,
    0.041666666666666685,
    0.008333333333326134,
    0.0013888888888874398,
    0.0001984126987482399,
    2.480158734733946e-05,
    2.7557255396471e-06,
    2.7557252912472866e-07,
    2.510521838664829e-08,
    2.0921589370829142e-09,
)
_LOG = (
    0.666666666666667,
    0.3999999999989726,
    0.28571428626933626,
    0.22222210985850976,
    0.18182899540797254,
    0.15331387297424592,
    0.14620458713015855,
)
_LOG_SHORT = (0.6666666666739164, 0.3999999877736311, 0.28571758262926894, 0.2219118017638853, 0.1936670754186653)
_EXP2_SHORT = (
    0.9999999999616187,
    0.6931471807287074,
    0.24022651198764725,
    0.05550410352842092,
    0.0096180271717355,
    0.0013333922846270735,
    0.00015469317588687507,
    1.5201903899169115e-05,
)
_SIN = (1.5707963267877258, -0.645964096098231, 0.07969258173960746, -0.004681259847940117, 0.00015819328510455893)
_COS = (0.9999999999441129, -1.2337005395618212, 0.25366918219640866, -0.020859931805216173, 0.0009033517812834497)
_ERF_END = 5.9
_ERF = (
    0.2396972130902384,
    -0.006885871356878823,
    0.0002967190880975719,
    -1.420645276117865e-05,
    7.141624277976124e-07,
    -3.692136528780525e-08,
    1.943289161919302e-09,
    -1.0349852400512183e-10,
    5.552627953870689e-12,
    -2.988346443342976e-13,
    1.6064346028563445e-14,
    -8.585988431599095e-16,
    4.5406362960918506e-17,
    -2.3646682017806926e-18,
    1.2074628926075723e-19,
    -6.02297894142068e-21,
    2.923829727226579e-22,
    -1.377052263266687e-23,
    6.303397754874934e-25,
    -2.809448871648353e-26,
    1.196715845859713e-27,
    -4.805586878417908e-29,
    1.970701934790159e-30,
    -8.581441110496517e-32,
    2.991862097711219e-33,
    -6.422289455752313e-35,
    3.1139488760356846e-36,
    -2.643612405672193e-37,
    6.355167290425677e-39,
    2.15298813158933e-40,
    -1.9616130010050803e-42,
    -7.395789259264367e-43,
    1.5359318361131111e-44,
    5.963557672657551e-46,
    -1.1387117620729125e-47,
    -5.083722121936767e-49,
    1.1486682685837347e-50,
)
_MAGIC = 6755399441055744.0
"""1.5 * 2^52: adding it rounds to a whole number, which then stands in the low bits."""
_LN2 = 0.6931471803691238, 1.9082149292705877e-10


def _reduced(b: Body, x: str) -> tuple[str, str]:
    """x = n*ln(2) + r, |r| <= ln(2)/2: n as i32, and r."""
    magic = b.fma(x, 1.4426950408889634, _MAGIC)
    n = b.sub(magic, _MAGIC)
    r = b.fma(n, -_LN2[1], b.fma(n, -_LN2[0], x))
    return b(f"trunc i64 {b.to_bits(magic)} to i32"), r


_EXP_NONE = -746.0
"""Below this exp rounds to 0."""


def exp() -> str:
    """exp(x) = 2^n * exp(r), or 2^n * 0 as in f32."""
    b = Body("double")
    n, r = _reduced(b, b.between("%x", _EXP_NONE, 710.0))
    power = b.add(b.fma(b.mul(r, r), b.poly(r, _EXPM1), r), 1.0)
    return b.done("exp_f64", b.scaled(b.zero_below(_EXP_NONE, power), n))


def _power_less_one(b: Body, x: str, high: str = "") -> str:
    """exp(x) - 1 where 2^n is a normal number; half of it where the i1 ``high`` holds."""
    n, r = _reduced(b, x)
    n = b(f"sub i32 {n}, {b(f'zext i1 {high} to i32')}") if high else n
    power = b.from_bits(b.integer("shl", b(f"zext i32 {b(f'add i32 {n}, 1023')} to i64"), 52))
    one = b.select(high, 0.5, 1.0) if high else 1.0
    return b.fma(power, b.fma(b.mul(r, r), b.poly(r, _EXPM1), r), b.sub(power, one))


def expm1() -> str:
    """As in f32."""
    b = Body("double")
    high = b.test("ogt", "%x", 709.0)
    grown = _power_less_one(b, b.between("%x", -40.0, 710.0), high)
    twice = b.select(high, b.add(grown, grown), grown)
    return b.done("expm1_f64", b.select(b.test("olt", b.fabs("%x"), 1e-30), "%x", twice))


def tanh() -> str:
    """m/(m + 2) with m = exp(2x) - 1."""
    b = Body("double")
    x = b.between("%x", -20.0, 20.0)
    m = _power_less_one(b, b.add(x, x))
    return b.done("tanh_f64", b.copysign(b.div(m, b.add(m, 2.0)), "%x"))


def logistic() -> str:
    """As in f32."""
    b = Body("double")
    return b.done("logistic_f64", logistic_body(b, "exp_f64"))


def erf() -> str:
    """x * p(x*x) up to where erf is 1."""
    b = Body("double")
    x = b.between("%x", -_ERF_END, _ERF_END)
    y = b.mul(x, b.poly(b.fma(x, x, -_ERF_END * _ERF_END / 2), _ERF))
    return b.done("erf_f64", b.between(y, -1.0, 1.0))


def _split(b: Body, x: str) -> tuple[str, str]:
    """x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): e as double, and f."""
    small = b.test("olt", x, 2.2250738585072014e-308)
    x = b.select(small, b.mul(x, 2.0**54), x)
    shifted = b.integer("sub", b.to_bits(x), 0x3FE6A09E667F3BCD)
    high = b(f"trunc i64 {b.integer('ashr', shifted, 52)} to i32")
    e = b(f"sitofp i32 {high} to double")
    e = b.add(e, b.select(small, -54.0, 0.0))
    whole = b.integer("add", b.integer("and", shifted, 0xFFFFFFFFFFFFF), 0x3FE6A09E667F3BCD)
    return e, b.sub(b.from_bits(whole), 1.0)


def log() -> str:
    """log(x) = e*ln(2) + log(1 + f); log(1 + f) = f - (f*f/2 - s*(f*f/2 + s*s*p(s*s))), s = f/(2 + f)."""
    b = Body("double")
    e, f = _split(b, "%x")
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    half = b.mul(b.mul(f, f), 0.5)
    inner = b.fma(s, b.fma(z, b.poly(z, _LOG), half), b.mul(e, _LN2[1]))
    total = b.fma(e, _LN2[0], b.sub(f, b.sub(half, inner)))
    return b.done("log_f64", log_ends(b, "%x", total))


def log1p() -> str:
    """As in f32."""
    b = Body("double")
    return b.done("log1p_f64", log1p_body(b, "log_f64"))


def erf_inv() -> str:
    """Winitzki's estimate, then Halley's method on erf, or where erf is close to 1 on erfc (the C library's)."""
    b = Body("double")
    return b.done("erf_inv_f64", _erf_inv(b, "%x", 3, True))


def _erf_inv(b: Body, x: str, rounds: int, near_one: bool) -> str:
    size = b.fabs(x)
    t = b.call("log1p_f64", b(f"fneg double {b.mul(x, x)}"))
    half = b.fma(t, 0.5, 4.330746750799873)
    over = b.mul(t, -6.802721088435375)
    root = b(f"call double @llvm.sqrt.f64(double {b.fma(half, half, over)})")
    y = b(f"call double @llvm.sqrt.f64(double {b.div(over, b.add(root, half))})")
    for _ in range(rounds):
        miss = b.sub(b.call("erf_f64", y), size)
        if near_one:
            tail = b.sub(b.sub(1.0, size), b(f"call double @erfc(double {y})"))
            miss = b.select(b.test("ogt", size, 0.5), tail, miss)
        u = b.mul(b.mul(miss, 0.886226925452758), b.call("exp_f64", b.mul(y, y)))
        y = b.sub(y, b.div(u, b.fma(y, u, 1.0)))
    y = b.select(b.test("olt", size, 1e-30), b.mul(size, 0.886226925452758), y)
    y = b.select(b.test("oeq", size, 1.0), float("inf"), y)
    return b.select(b.test("ole", size, 1.0), b.copysign(y, x), float("nan"))


# -- f32 by way of f64 ------------------------------------------------------------------------------------------------


def _log2_short(b: Body, x: str) -> str:
    """log2 of a double >= 0 that a float holds, within 2e-11; -inf at 0."""
    e, f = _split(b, x)
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    total = b.fma(b.mul(s, b.fma(z, b.poly(z, _LOG_SHORT), 2.0)), 1.4426950408889634, e)
    total = b.select(b.test("olt", x, float("inf")), total, x)
    return b.select(b.test("oeq", x, 0.0), float("-inf"), total)


def _exp2_short(b: Body, x: str) -> str:
    """2^x within 1e-10, where a float holds it; else what rounds to 0 or infinity."""
    x = b.between(x, -200.0, 200.0)
    magic = b.add(x, _MAGIC)
    r = b.sub(x, b.sub(magic, _MAGIC))
    power = b.integer("shl", b.integer("add", b.to_bits(magic), 1023), 52)
    return b.mul(b.poly(r, _EXP2_SHORT), b.from_bits(power))


def pow() -> str:
    """2^(y*log2|x|); a negative x wants a whole y, and an odd y gives its sign. x^0 = 1^y = 1 for all x and y."""
    b = Body("double")
    x, y = b("fpext float %x to double"), b("fpext float %y to double")
    size = b.fabs(x)
    power = b.mul(y, _log2_short(b, size))
    one = b(f"or i1 {b.test('oeq', y, 0.0)}, {b.test('oeq', size, 1.0)}")
    total = _exp2_short(b, b.select(one, 0.0, power))
    whole = b.test("oeq", b(f"call double @llvm.floor.f64(double {y})"), y)
    half = b.mul(y, 0.5)
    odd = b(f"and i1 {whole}, {b.test('une', b(f'call double @llvm.floor.f64(double {half})'), half)}")
    finite = b.test("ogt", x, float("-inf"))
    below = b(f"and i1 {b.test('olt', x, 0.0)}, {finite}")
    wrong = b(f"and i1 {below}, {b(f'xor i1 {whole}, true')}")
    total = b.select(wrong, float("nan"), b.select(odd, b.copysign(total, x), total))
    unordered = b(f"and i1 {b.test('uno', x, y)}, {b(f'xor i1 {one}, true')}")
    total = b.select(unordered, float("nan"), total)
    return b.done("pow_f32", b(f"fptrunc double {total} to float"), "xy", "float")


def cbrt() -> str:
    """2^(log2|x| / 3)."""
    b = Body("double")
    x = b("fpext float %x to double")
    root = _exp2_short(b, b.mul(_log2_short(b, b.fabs(x)), 1 / 3))
    total = b.select(b.test("uno", x, x), x, b.copysign(root, x))
    return b.done("cbrt_f32", b(f"fptrunc double {total} to float"), "x", "float")


def erf_inv_short() -> str:
    """The same; erf in f64 tells enough of numbers close to 1."""
    b = Body("double")
    total = _erf_inv(b, b("fpext float %x to double"), 2, False)
    return b.done("erf_inv_f32", b(f"fptrunc double {total} to float"), "x", "float")


LEAST, MOST = -149, 127
"""Exponents of floats."""


@cache
def turns() -> str:
    """A table of 2^(e - 23) * 2/pi modulo 4 for every exponent of a float, in two doubles: 29 bits, and what follows.

    A float is a whole number of 24 bits times 2^(e - 23): its product with the first double is exact."""
    pi = _pi(400)
    rows = []
    for e in range(LEAST, MOST + 1):
        whole = (2 << (e - 23 + 700)) * (1 << 400) // pi  # in units of 2^-700
        whole %= 4 << 700
        low = max(whole.bit_length() - 29, 0)
        first = whole >> low << low
        rows += [f"double {f64(_ratio(first))}", f"double {f64(_ratio(whole - first))}"]
    return f"@egs_turns = internal constant [{len(rows)} x double] [{', '.join(rows)}]\n"


def _ratio(number: int) -> float:
    return number / (1 << 700)


def _pi(bits: int) -> int:
    """pi * 2^bits by Machin's formula."""
    one = 1 << (bits + 20)

    def arctan(inverse: int) -> int:
        power = total = one // inverse
        k, sign = 3, -1
        while power:
            power //= inverse * inverse
            total += sign * (power // k)
            k, sign = k + 2, -sign
        return total

    return 4 * (4 * arctan(5) - arctan(239)) >> 20


def _quarter(b: Body) -> tuple[str, str, str, str, str]:
    """|x| = (n + r) quarter turns: n as i64, sin and cos of r, x as double, and whether x is finite."""
    x = b("fpext float %x to double")
    size = b.fabs(x)
    bits = b.to_bits(size)
    e = b.integer("sub", b.integer("lshr", bits, 52), 1023 + LEAST)
    e = b(f"call i64 @llvm.smax.i64(i64 {e}, i64 0)")
    e = b(f"call i64 @llvm.smin.i64(i64 {e}, i64 {MOST - LEAST})")
    mantissa = b.from_bits(b.integer("or", b.integer("and", bits, 0xFFFFFFFFFFFFF), (1023 + 23) << 52))
    at = b.integer("shl", e, 1)
    first = b(f"load double, ptr {b(f'getelementptr inbounds double, ptr @egs_turns, i64 {at}')}")
    at = b.integer("or", at, 1)
    rest = b(f"load double, ptr {b(f'getelementptr inbounds double, ptr @egs_turns, i64 {at}')}")
    whole = b.mul(mantissa, first)
    magic = b.add(whole, _MAGIC)
    r = b.fma(mantissa, rest, b.sub(whole, b.sub(magic, _MAGIC)))
    z = b.mul(r, r)
    finite = b.test("olt", size, float("inf"))
    return b.to_bits(magic), b.mul(r, b.poly(z, _SIN)), b.poly(z, _COS), x, finite


def _flip(b: Body, x: str, bit: str) -> str:
    """x with its sign flipped where the lowest bit of an i64 is set."""
    return b.from_bits(b.integer("xor", b.to_bits(x), b.integer("shl", bit, 63)))


def _ended(b: Body, name: str, total: str, finite: str, keep: str = "") -> str:
    """NaN for an infinite x; x itself at 0 where ``keep`` names it."""
    total = b.select(finite, total, float("nan"))
    if keep:
        total = b.select(b.test("oeq", keep, 0.0), keep, total)
    return b.done(name, b(f"fptrunc double {total} to float"), "x", "float")


def sin() -> str:
    """By quarter turns, which a table makes exact at any size."""
    b = Body("double")
    n, s, c, x, finite = _quarter(b)
    total = _flip(b, b.select(b(f"trunc i64 {n} to i1"), c, s), b.integer("lshr", n, 1))
    return _ended(b, "sin_f32", _flip(b, total, b.integer("lshr", b.to_bits(x), 63)), finite, x)


def cos() -> str:
    """The same, a quarter turn on."""
    b = Body("double")
    n, s, c, _, finite = _quarter(b)
    on = b.integer("add", n, 1)
    return _ended(b, "cos_f32", _flip(b, b.select(b(f"trunc i64 {n} to i1"), s, c), b.integer("lshr", on, 1)), finite)


def tan() -> str:
    """sin/cos, or -cos/sin a quarter turn on."""
    b = Body("double")
    n, s, c, x, finite = _quarter(b)
    odd = b(f"trunc i64 {n} to i1")
    ratio = b.div(b.select(odd, c, s), b.select(odd, s, c))
    total = _flip(b, _flip(b, ratio, n), b.integer("lshr", b.to_bits(x), 63))
    return _ended(b, "tan_f32", total, finite, x)
