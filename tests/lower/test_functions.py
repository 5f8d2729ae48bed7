"""Elementary functions of our own over their full range, against f64 (f32) or extended precision (f64)."""

import ctypes
import math
import platform
import sys

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.lower.llvm import native
from egshape.lower.llvm.functions import TEXTS
from egshape.lower.llvm.ops import OPS
from tests.fuzz.differential import argument, graph_of
from tests.lower.checking import compiled

ULP = {("erf", "f32"): 6, ("erf", "f64"): 12}
"""Bounds in units of the last place; 4 where nothing stands here (erf: 4e-7 and 2e-15 relative)."""
N = symbol("n")
WIDE = np.longdouble
_erf = np.vectorize(math.erf, otypes=[np.float64])
EXACT = {
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: _erf(x.astype(np.float64)),
    "cbrt": np.cbrt,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
ONE_ARGUMENT = [
    (op, dtype)
    for dtype in ("f32", "f64")
    for op, row in OPS.items()
    if f"{row.function}_{dtype}" in TEXTS and op not in ("power", "erf_inv")
]


def points(dtype):
    """Every exponent and sign, the ranges where functions bend, and the edges."""
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    bits = rng.integers(0, 2**64, 40000, dtype=np.uint64)
    anywhere = bits.view(np.float64) if kind.itemsize == 8 else bits.view(np.float32)[::2]
    limits = (-760, 720) if kind.itemsize == 8 else (-110, 95)
    tiny = np.finfo(kind)
    edges = [*SPECIAL, tiny.max, -tiny.max, tiny.tiny, -tiny.tiny, tiny.smallest_subnormal, -tiny.smallest_subnormal]
    turns = np.arange(1, 2000) * (math.pi / 2)
    parts = (anywhere, np.linspace(*limits, 40001), rng.normal(size=10000), rng.normal(size=5000) * 1e-4, turns, edges)
    return np.concatenate([np.asarray(part).astype(kind) for part in parts])


def ulps(found, exact, dtype):
    """Distance in units of the last place of the right result, where it is finite; ends must agree."""
    with np.errstate(all="ignore"):
        near = exact.astype(dtype)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(near))
        ends = np.isinf(near)
        np.testing.assert_array_equal(found[ends], near[ends])
        fine = np.isfinite(near)
        step = np.maximum(np.spacing(np.abs(near[fine])), np.finfo(dtype).smallest_subnormal).astype(WIDE)
        return np.abs(found[fine].astype(WIDE) - exact[fine].astype(WIDE)) / step


@pytest.mark.parametrize(("op", "dtype"), ONE_ARGUMENT, ids=lambda value: value)
def test_within_four_ulp(op, dtype):
    kind = np.float32 if dtype == "f32" else np.float64
    x = points(kind)
    b = BlockBuilder()
    found = compiled(graph_of(b, b.one(op, [argument(b, "x", dtype, [N])])))(x)
    with np.errstate(all="ignore"):
        exact = EXACT[op](x.astype(np.float64 if dtype == "f32" else WIDE))
    worst = ulps(found, exact, kind).max()
    assert worst <= ULP.get((op, dtype), 4), f"{op} of {dtype}: {worst:.2f} ulp"
    kept = ("exponential_minus_one", "log_plus_one", "tanh", "erf", "cbrt", "sine", "tan")
    if op in kept:
        zero = found[(x == 0)]
        np.testing.assert_array_equal(np.signbit(zero), np.signbit(x[x == 0]), err_msg=op)


def test_power():
    x, y = points(np.float32), points(np.float32)
    rng = np.random.default_rng(5)
    some = np.array([*SPECIAL, 2, -2, 3, -3, 0.5, -0.5, 1e30, -1e30, 16777216, 16777215, 1e-40], np.float32)
    pairs = np.stack(np.meshgrid(some, some)).reshape(2, -1)
    base = np.abs(rng.normal(size=40000)).astype(np.float32)
    x = np.concatenate([rng.permutation(x), rng.permutation(x), base, pairs[0]])
    whole, other = np.round(rng.normal(size=len(y)) * 9), rng.normal(size=40000) * 20
    y = np.concatenate([rng.permutation(y), whole.astype(np.float32), other.astype(np.float32), pairs[1]])
    b = BlockBuilder()
    found = compiled(graph_of(b, b.one("power", [argument(b, name, "f32", [N]) for name in "xy"])))(x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(found, exact, np.float32).max() <= 4
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("features", ["+avx512f,+avx512dq,+avx512bw,+avx512vl", "+avx2,+fma", ""])
def test_functions_of_other_machines(features):
    """Code is made whatever the vector width, with and without an instruction that scales by powers of two."""
    from egshape.lower.host.program import module
    from egshape.plan.cpu.program import on_processor
    from egshape.plan.targets import plan

    machine = native.host_machine()
    if not machine.triple.startswith("x86_64"):
        pytest.skip("x86-64 only")
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    program = plan(graph_of(b, *(b.one(op, [x]) for op in ("exponential", "tanh", "erf", "log"))))
    text = module(on_processor(program)).text
    made = native.Machine(machine.triple, "x86-64", features, machine.version)
    assert native.object_code(native.whole(text, features), made)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_inverse_of_erf(dtype):
    """erf (erfc close to 1) of the result is the argument, but for what an ulp of the result changes."""
    kind = np.dtype(numpy_dtype(dtype))
    rng = np.random.default_rng(7)
    tails = 1 - 2.0 ** -np.arange(1, 25 if dtype == "f32" else 53)
    small = np.concatenate([rng.normal(size=100) * 1e-6, rng.normal(size=9) * 1e-35])
    edges = [0.0, -0.0, 1.0, -1.0, 1.5, -np.inf, np.nan]
    x = np.concatenate([rng.uniform(-1, 1, 5000), tails, -tails, small, edges]).astype(kind)
    b = BlockBuilder()
    found = compiled(graph_of(b, b.one("erf_inv", [argument(b, "x", dtype, [N])])))(x)
    np.testing.assert_array_equal(found[-7:], np.array([0, 0, np.inf, -np.inf, np.nan, np.nan, np.nan], kind))
    assert np.signbit(found[-6])
    for value, y in zip(x[:-7].astype(np.float64), found[:-7].astype(np.float64), strict=True):
        miss = abs(math.erfc(abs(y)) - (1 - abs(value))) if abs(value) > 0.5 else abs(math.erf(y) - value)
        slope = 2 / math.sqrt(math.pi) * math.exp(-y * y)
        assert miss <= (4 if dtype == "f32" else 16) * slope * abs(y) * float(np.finfo(kind).eps) + 1e-300, (value, y)


UNDERFLOW = 0x10
"""The flag of x86 that the last instructions underflowed, which takes a hundred times as long."""


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the flag is read as x86 has it, by glibc"
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exp_of_what_is_masked_does_not_underflow(dtype):
    """Masks of attention: -inf, or a large number below; as vectors, under masks, and one by one."""
    flags = ctypes.CDLL("libm.so.6")
    b = BlockBuilder()
    function = compiled(graph_of(b, b.one("exponential", [argument(b, "x", dtype, [N])])))

    def underflowed(value, length):
        x = np.full(length, value, numpy_dtype(dtype))
        flags.feclearexcept(UNDERFLOW)
        y = function(x)
        raised = flags.fetestexcept(UNDERFLOW)
        assert (y == 0).all() if value < -1000 else (y > 0).all()
        return bool(raised)

    for length in (1, 2, 5, 8, 9, 16, 23, 64, 83):
        assert not any(underflowed(value, length) for value in (-np.inf, -1e9, -3.4e38, -1001.0, -80.0, 0.0))
    assert underflowed({"f32": -95.0, "f64": -740.0}[dtype], 9)
