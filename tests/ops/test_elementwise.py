"""Elementwise references: dtypes, special values, integer wrapping, and what they reject."""

import math

import ml_dtypes
import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.types import (
    DTYPES,
    TensorType,
    dtype_name,
    is_complex,
    is_float,
    is_integer,
    is_narrow,
    numpy_dtype,
)
from egshape.ops import REGISTRY

INTS = [name for name in DTYPES if is_integer(name)]
FLOATS = [name for name in DTYPES if is_float(name)]
NAN, INF = math.nan, math.inf


def run(name, *arrays, **attrs):
    return REGISTRY[name].reference(*arrays, **attrs)


def arr(dtype, *values):
    return np.array(values).astype(numpy_dtype(dtype))


def same(found, wanted):
    """Equal bits but for NaN."""
    wanted = np.asarray(wanted).astype(found.dtype)
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    numbers = ~np.isnan(wanted.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


def samples(dtype):
    if dtype == "i1":
        return arr(dtype, True, False)
    if is_integer(dtype):
        info = np.iinfo(numpy_dtype(dtype))
        return np.array([0, 1, 2, 5, info.max, info.min, info.min + 1, info.max - 1], numpy_dtype(dtype))
    if is_narrow(dtype):
        return arr(dtype, 1, 2)
    plain = [0.25, -0.5, 1.0, 0.0, -0.0, 0.75, INF, -INF, NAN, 2.5]
    return arr(dtype, *plain) if is_float(dtype) else arr(dtype, *[complex(x, 0.5) for x in (0.25, -0.5, 1, 0)])


@pytest.mark.parametrize(
    "decl", [d for d in REGISTRY if d.family in ("unary", "binary") and not d.attrs], ids=lambda d: d.name
)
def test_type_and_array_agree_for_every_dtype_and_for_sizes_0_and_1(decl):
    accepted = 0
    for dtype in DTYPES:
        for shape in ((), (0,), (1,), (4,), (2, 2), (1, 0)):
            x = np.resize(samples(dtype), shape).astype(numpy_dtype(dtype))
            operands = [x] * len(decl.operands)
            type = TensorType(dtype, tuple(map(const, shape)))
            try:
                stated, sizes = decl.shape(*[type] * len(operands))
            except EgshapeError:
                break
            accepted += 1
            found = decl.reference(*operands)
            assert isinstance(found, np.ndarray)
            assert dtype_name(found.dtype) == stated and found.shape == shape
            assert tuple(size.const for size in sizes) == shape
    assert accepted


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("exponential", math.exp),
        ("tanh", math.tanh),
        ("sine", math.sin),
        ("cosine", math.cos),
        ("tan", math.tan),
        ("logistic", lambda x: 1 / (1 + math.exp(-x))),
        ("erf", math.erf),
        ("erfc", math.erfc),
        ("log_plus_one", math.log1p),
        ("exponential_minus_one", math.expm1),
        ("floor", math.floor),
        ("ceil", math.ceil),
        ("abs", abs),
        ("asin", math.asin),
        ("acos", math.acos),
        ("atan", math.atan),
        ("sinh", math.sinh),
        ("cosh", math.cosh),
        ("asinh", math.asinh),
        ("atanh", math.atanh),
        ("square", lambda x: x * x),
        ("negate", lambda x: -x),
    ],
)
def test_float_functions(name, function, dtype):
    x = arr(dtype, 0.25, -0.5, 0.75, -0.9)
    found = run(name, x)
    wanted = np.array([function(float(value)) for value in x])
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2 * float(ml_dtypes.finfo(x.dtype).eps))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_special_values(dtype):
    x = arr(dtype, -0.0, 0.0, NAN, INF, -INF, -1.5, 2.5, -2.5, 0.5)
    same(run("sign", x), [-0.0, 0.0, NAN, 1, -1, -1, 1, -1, 1])
    same(run("round_nearest_even", x), [-0.0, 0.0, NAN, INF, -INF, -2, 2, -2, 0])
    same(run("round_nearest_afz", x), [-0.0, 0.0, NAN, INF, -INF, -2, 3, -3, 1])
    same(run("negate", x), [0.0, -0.0, NAN, -INF, INF, 1.5, -2.5, 2.5, -0.5])
    assert run("is_finite", x).tolist() == [True, True, False, False, False, True, True, True, True]
    assert run("is_inf", x).tolist() == [False] * 3 + [True] * 2 + [False] * 4
    one, two = arr(dtype, -0.0, 0.0, NAN, 1, 0.0, -0.0), arr(dtype, 0.0, -0.0, 1, NAN, 0.0, -0.0)
    same(run("maximum", one, two), [0.0, 0.0, NAN, NAN, 0.0, -0.0])
    same(run("minimum", one, two), [-0.0, -0.0, NAN, NAN, 0.0, -0.0])
    same(run("remainder", arr(dtype, 5, -5, 5, -0.0, 1), arr(dtype, 3, 3, -3, 3, 0)), [2, -2, 2, -0.0, NAN])
    same(run("divide", arr(dtype, 1, -1, 0), arr(dtype, 0, 0, 0)), [INF, -INF, NAN])
    same(run("add", arr(dtype, -0.0, -0.0), arr(dtype, -0.0, 0.0)), [-0.0, 0.0])


def test_rounding_away_just_below_a_half():
    x = np.array([0.49999997, -0.49999997, 8388609.0], np.float32)
    same(run("round_nearest_afz", x), [0.0, -0.0, 8388609.0])


def test_half_precision_rounds_once():
    x, y = arr("bf16", 256.0, 1.0), arr("bf16", 1.0, 2.0**-8)
    assert run("add", x, y).astype(np.float32).tolist() == [256.0, 1.0]


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_against_python(dtype):
    values = samples(dtype)
    info = np.iinfo(values.dtype)
    x, y = (grid.reshape(-1) for grid in np.meshgrid(values, values))

    def wrap(number):
        return (number - int(info.min)) % 2**info.bits + int(info.min)

    def divide(a, b):
        return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)

    def power(a, b):
        if b >= 0:
            return pow(a % 2**info.bits, b, 2**info.bits)
        return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)

    formulas = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": divide,
        "remainder": lambda a, b: a if b == 0 else a - b * divide(a, b),
        "maximum": max,
        "minimum": min,
        "power": power,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "shift_left": lambda a, b: a << b if 0 <= b < info.bits else 0,
        "shift_right_logical": lambda a, b: (a % 2**info.bits) >> b if 0 <= b < info.bits else 0,
        "shift_right_arithmetic": lambda a, b: signed(a) >> (b if 0 <= b < info.bits else info.bits - 1),
    }

    def signed(a):
        return (a + 2 ** (info.bits - 1)) % 2**info.bits - 2 ** (info.bits - 1)

    for name, formula in formulas.items():
        wanted = [wrap(formula(int(a), int(b))) for a, b in zip(x, y, strict=True)]
        assert run(name, x, y).tolist() == wanted, name
    for name, formula in {
        "popcnt": lambda a: (a % 2**info.bits).bit_count(),
        "not": lambda a: ~a,
        "count_leading_zeros": lambda a: info.bits - (a % 2**info.bits).bit_length(),
        "negate": lambda a: -a,
    }.items():
        assert run(name, values).tolist() == [wrap(formula(int(a))) for a in values], name
    if dtype.startswith("i"):
        assert run("abs", values).tolist() == [wrap(abs(int(a))) for a in values]
        assert run("sign", values).tolist() == [(a > 0) - (a < 0) for a in values.tolist()]


def test_bool_arithmetic():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for name in ("add", "or", "maximum"):
        assert run(name, x, y).tolist() == [False, True, True, True]
    for name in ("multiply", "and", "minimum"):
        assert run(name, x, y).tolist() == [False, False, False, True]
    assert run("not", x).tolist() == [True, True, False, False]
    assert run("compare", x, y, direction="LT", kind="UNSIGNED").tolist() == [False, True, False, False]


def test_functions_without_a_numpy_twin():
    x = np.array([-1.0, -0.999, -0.5, -0.0, 1e-9, 0.3, 0.99999, 1.0, 1.5, NAN])
    found = run("erf_inv", x)
    np.testing.assert_allclose([math.erf(v) for v in found[1:7]], x[1:7], rtol=1e-13)
    same(found[[0, 3, 7, 8, 9]], [-INF, -0.0, INF, NAN, NAN])
    np.testing.assert_allclose(
        run("lgamma", np.array([0.5, 4.0, -1.5])), [math.log(math.pi) / 2, math.log(6), math.lgamma(-1.5)]
    )
    same(run("lgamma", np.array([0.0, -1.0, INF, -INF])), [INF] * 4)
    euler = 0.5772156649015329
    np.testing.assert_allclose(
        run("digamma", np.array([1.0, 2.0, 0.5, -0.5])),
        [-euler, 1 - euler, -euler - 2 * math.log(2), -euler - 2 * math.log(2) + 2],
        rtol=1e-12,
    )
    same(run("digamma", np.array([0.0, -3.0, INF, -INF])), [NAN, NAN, INF, NAN])
    same(run("next_after", arr("bf16", 1.0), arr("bf16", 2.0)), [1.0078125])


def test_complex():
    z = np.array([3 + 4j, 0j], np.complex64)
    assert run("abs", z).dtype == np.float32 and run("abs", z).tolist() == [5, 0]
    np.testing.assert_allclose(run("sign", z), [0.6 + 0.8j, 0], rtol=1e-6)
    assert run("real", z).tolist() == [3, 0] and run("imag", z).tolist() == [4, 0]
    assert run("conj", z).tolist() == [3 - 4j, 0]
    made = run("complex", np.float32([1, NAN]), np.float32([-0.0, 2]))
    assert made.dtype == np.complex64 and np.signbit(made.imag[0]) and made.imag[1] == 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_compare_orders(dtype):
    x = arr(dtype, -INF, -1, -0.0, 0.0, 1, INF, NAN)
    total = run("compare", x[:-1], x[1:], direction="LT", kind="TOTALORDER")
    assert total.all()
    assert run("compare", x, x, direction="EQ", kind="TOTALORDER").all()
    assert run("compare", x[2:3], x[3:4], direction="EQ", kind="FLOAT").tolist() == [True]
    assert run("compare", x[6:], x[6:], direction="NE", kind="FLOAT").tolist() == [True]
    assert run("compare", -np.abs(x[6:]), x[:1], direction="LT", kind="TOTALORDER").tolist() == [True]


def test_convert():
    x = np.array([1.9, -1.9, NAN, INF, -INF, 3e9, -0.0], np.float32)
    assert run("convert", x, dtype="i32").tolist() == [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1, 0]
    assert run("convert", x, dtype="ui8").tolist() == [1, 0, 0, 255, 0, 255, 0]
    assert run("convert", x, dtype="i64").tolist() == [1, -1, 0, 2**63 - 1, -(2**63), 3_000_000_000, 0]
    assert run("convert", x, dtype="i1").tolist() == [True, True, True, True, True, True, False]
    assert run("convert", np.array([300, -1], np.int32), dtype="i8").tolist() == [44, -1]
    assert run("convert", np.array([-1], np.int8), dtype="ui32").tolist() == [2**32 - 1]
    assert run("convert", np.array([True, False]), dtype="bf16").tolist() == [1, 0]
    assert run("convert", np.array([1 + 2j]), dtype="f32").tolist() == [1]
    assert run("convert", np.array(7, np.int64), dtype="f64").shape == ()
    for source in DTYPES:
        for target in DTYPES:
            assert run("convert", np.ones((2, 1), numpy_dtype(source)), dtype=target).dtype == numpy_dtype(target)


def test_bitcast_convert():
    x = np.array([1.0, -2.0], np.float32)
    narrow = run("bitcast_convert", x, dtype="ui8")
    assert narrow.tolist() == [[0, 0, 128, 63], [0, 0, 0, 192]]
    assert run("bitcast_convert", narrow, dtype="f32").tolist() == x.tolist()
    assert run("bitcast_convert", x[0], dtype="i32").shape == ()
    assert run("bitcast_convert", x[:0], dtype="ui8").shape == (0, 4)
    shape = REGISTRY["bitcast_convert"].shape
    n = symbol("n")
    assert shape(TensorType("f32", (n,)), dtype="ui8") == ("ui8", (n, const(4)))
    assert shape(TensorType("ui8", (n, const(4))), dtype="f32") == ("f32", (n,))
    for bad in ((TensorType("ui8", (n, const(3))), "f32"), (TensorType("i1", (n,)), "i8")):
        with pytest.raises(EgshapeError):
            shape(bad[0], dtype=bad[1])


def test_select_and_clamp():
    x, y = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)
    assert run("select", np.array([True, False]), x, y).tolist() == [1, 4]
    assert run("select", np.array(False), x, y).tolist() == [3, 4]
    clamped = run("clamp", np.float32(0).reshape(()), np.array([-1.0, NAN, 5], np.float32), np.array(2, np.float32))
    same(clamped, [0, NAN, 2])
    assert run("clamp", arr("bf16", 0, 1), arr("bf16", -1, 3), arr("bf16", 4, 2)).tolist() == [0, 2]


def test_no_broadcasting_and_no_promotion():
    x, y = np.ones((2, 1), np.float32), np.ones((1, 2), np.float32)
    for name, operands in (("add", (x, y)), ("select", (np.ones(1, bool), x, x)), ("clamp", (y, x, x))):
        with pytest.raises(EgshapeError) as error:
            run(name, *operands)
        assert error.value.code == "shape-mismatch"
    with pytest.raises(EgshapeError):
        run("compare", x, y, direction="EQ", kind="FLOAT")


def test_shapes_of_results():
    n, m, four = symbol("n"), symbol("m"), const(4)
    shape = REGISTRY["add"].shape
    assert shape(TensorType("f32", (n, m)), TensorType("f32", (m, four))) == ("f32", (n, four))
    assert shape(TensorType("f32", None), TensorType("f32", (n,))) == ("f32", (n,))
    assert shape(TensorType("f32", None), TensorType("f32", None)) == ("f32", None)
    for one, two in (("f32[n]", ("f64", (n,))), ("rank", ("f32", (n, n))), ("size", ("f32", (const(5),)))):
        with pytest.raises(EgshapeError) as error:
            shape(TensorType("f32", (four,)), TensorType(*two))
        assert error.value.code == "invalid-op", one
    pred = TensorType("i1", ())
    assert REGISTRY["select"].shape(pred, TensorType("i32", (n,)), TensorType("i32", (n,))) == ("i32", (n,))
    assert REGISTRY["clamp"].shape(TensorType("i32", ()), TensorType("i32", (n,)), TensorType("i32", (four,))) == (
        "i32",
        (four,),
    )
    with pytest.raises(EgshapeError):
        REGISTRY["compare"].shape(TensorType("c64", ()), TensorType("c64", ()), direction="LT", kind="FLOAT")
    assert not any(is_complex(name) for name in FLOATS)
