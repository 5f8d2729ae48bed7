"""Elementary functions in f32. docs/llvm.md lists the errors, tests/lower/test_functions.py holds them."""

from __future__ import annotations

from egshape.lower.llvm.formulas import Body

_EXP = (1.0, 0.9999997071884885, 0.49999149529757425, 0.16667636197782154, 0.04189792938746476, 0.008290314529070381)
_EXPM1 = (0.5000000027086513, 0.16666576620974374, 0.04166637412164208, 0.008363237885573721, 0.0013941215601065715)
_LOG = (
    0.333333126028028,
    -0.2500000960365395,
    0.20002118732203875,
    -0.16667995667114552,
    0.1421955090823652,
    -0.12405591416767642,
    0.11888174597913917,
    -0.11675641305293369,
    0.06746601330906965,
)
_ERF_END = 3.8
"""erf rounds to 1 from here on, but for 1.3 ulp."""
_ERF = (
    0.3721076184559675,
    -0.025712090430236582,
    0.002642318215131125,
    -0.0002954095794719659,
    3.3424236220674434e-05,
    -3.69763775650512e-06,
    3.890417215199919e-07,
    -3.7957032814712225e-08,
    3.5898781692953703e-09,
    -3.4817707854546933e-10,
    2.669874771302095e-11,
    -1.1126454934585476e-12,
    1.0399730032763243e-13,
    -1.9099884863897765e-14,
    1.0657607461758605e-15,
)
_MAGIC = 12582912.0
"""1.5 * 2^23: adding it rounds to a whole number, which then stands in the low bits."""


def _reduced(b: Body, x: str) -> tuple[str, str, str]:
    """x = n*ln(2) + r, |r| <= ln(2)/2: n as float, n as i32, and r."""
    magic = b.fma(x, 1.4426950408889634, _MAGIC)
    n = b.sub(magic, _MAGIC)
    r = b.fma(n, -1.428606765330187e-06, b.fma(n, -0.693145751953125, x))
    return n, b.integer("sub", b.to_bits(magic), 0x4B400000), r


_EXP_NONE = -104.0
"""Below this exp rounds to 0."""


def exp() -> str:
    """exp(x) = 2^n * exp(r); 2^n * 0 where that rounds to 0, as of numbers that a mask leaves out: processors take a
    hundred times as long for what underflows."""
    b = Body()
    _, n, r = _reduced(b, b.between("%x", _EXP_NONE, 89.0))
    return b.done("exp_f32", b.scaled(b.zero_below(_EXP_NONE, b.poly(r, _EXP)), n))


def expm1() -> str:
    """exp(x) - 1 = 2^n * (exp(r) - 1) + (2^n - 1); half of it where 2^n would overflow."""
    b = Body()
    high = b.test("ogt", "%x", 88.0)
    _, n, r = _reduced(b, b.between("%x", -18.0, 89.0))
    n = b.integer("sub", n, b(f"zext i1 {high} to i32"))
    power = b.from_bits(b.integer("shl", b.integer("add", n, 127), 23))
    grown = b.fma(power, b.fma(b.mul(r, r), b.poly(r, _EXPM1), r), b.sub(power, b.select(high, 0.5, 1.0)))
    twice = b.select(high, b.add(grown, grown), grown)
    return b.done("expm1_f32", b.select(b.test("olt", b.fabs("%x"), 1e-30), "%x", twice))


def log() -> str:
    """log(x) = e*ln(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2))."""
    b = Body()
    small = b.test("olt", "%x", 1.1754943508222875e-38)
    x = b.select(small, b.mul("%x", 8388608.0), "%x")
    shifted = b.integer("sub", b.to_bits(x), 0x3F3504F3)
    e = b(f"sitofp i32 {b.integer('ashr', shifted, 23)} to float")
    e = b.add(e, b.select(small, -23.0, 0.0))
    f = b.sub(b.from_bits(b.integer("add", b.integer("and", shifted, 8388607), 0x3F3504F3)), 1.0)
    z = b.mul(f, f)
    tail = b.mul(b.mul(z, f), b.poly(f, _LOG))
    tail = b.fma(z, -0.5, b.fma(e, -0.0002121944400546905, tail))
    total = b.fma(e, 0.693359375, b.add(f, tail))
    return b.done("log_f32", log_ends(b, "%x", total))


def log_ends(b: Body, x: str, total: str) -> str:
    """The logarithm with its values at 0, infinity, NaN and below 0."""
    total = b.select(b.test("oeq", x, float("inf")), x, total)
    total = b.select(b.test("oeq", x, 0.0), float("-inf"), total)
    return b.select(b.test("uge", x, 0.0), b.select(b.test("uno", x, x), x, total), float("nan"))


def log1p() -> str:
    """log(u) + (what rounding u = 1 + x lost)/u."""
    b = Body()
    return b.done("log1p_f32", log1p_body(b, "log_f32"))


def log1p_body(b: Body, log_name: str) -> str:
    """The same in either type."""
    u = b.add("%x", 1.0)
    lost = b.select(b.test("olt", "%x", 1.0), b.sub("%x", b.sub(u, 1.0)), b.sub(1.0, b.sub(u, "%x")))
    finite = b.test("olt", b.fabs(u), float("inf"))
    plain = b.test("one", u, 0.0)
    rest = b.select(b(f"and i1 {finite}, {plain}"), b.div(lost, u), 0.0)
    total = b.add(b.call(log_name, u), rest)
    return b.select(b.test("olt", b.fabs("%x"), 1e-30), "%x", total)


def tanh() -> str:
    """m/(m + 2) with m = exp(2x) - 1."""
    b = Body()
    x = b.between("%x", -9.1, 9.1)
    _, n, r = _reduced(b, b.add(x, x))
    power = b.from_bits(b.integer("shl", b.integer("add", n, 127), 23))
    m = b.fma(power, b.fma(b.mul(r, r), b.poly(r, _EXPM1), r), b.sub(power, 1.0))
    return b.done("tanh_f32", b.copysign(b.div(m, b.add(m, 2.0)), "%x"))


def logistic() -> str:
    """e/(1 + e) or 1/(1 + e) with e = exp(-|x|), which does not overflow."""
    b = Body()
    return b.done("logistic_f32", logistic_body(b, "exp_f32"))


def logistic_body(b: Body, exp_name: str) -> str:
    """The same in either type."""
    e = b.call(exp_name, b(f"fneg {b.type} {b.fabs('%x')}"))
    return b.div(b.select(b.test("olt", "%x", 0.0), e, 1.0), b.add(e, 1.0))


def erf() -> str:
    """x * p(x*x) up to where erf is 1."""
    b = Body()
    x = b.between("%x", -_ERF_END, _ERF_END)
    y = b.mul(x, b.poly(b.fma(x, x, -_ERF_END * _ERF_END / 2), _ERF))
    return b.done("erf_f32", b.between(y, -1.0, 1.0))
