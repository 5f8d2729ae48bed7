"""Elements: shape code as size expressions, against the references on numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egshape.dims import Dim, const, floordiv, maximum, minimum, mod, symbol
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import TensorType, integer_range, numpy_dtype
from egshape.ops import REGISTRY
from egshape.ops.base import object_array
from egshape.ops.creation import wrap
from egshape.ops.kinds import comparison
from egshape.ops.shapecode import ATOM_LIMIT
from egshape.prove import prove

N, M = symbol("n"), symbol("m")
SIZES = st.fixed_dictionaries({"n": st.integers(0, 12), "m": st.integers(0, 12)})


class Scope:
    """Knows the facts it is given and keeps the fits that it is asked for."""

    def __init__(self, *facts):
        self.facts, self.fits = facts, []

    def decide(self, relation):
        return True if relation in self.facts else None

    def require_fit(self, dim, dtype):
        self.fits.append((dim, dtype))


def element(scope, name, *items, dtype="i32", result=None, **attrs):
    """One element through an op; i1 operands are told by what they are. None if one is unknown."""
    if any(item is None for item in items):
        return None
    operands = [object_array([item], ()) for item in items]
    types = [TensorType("i1" if isinstance(item, (bool, Relation)) else dtype, ()) for item in items]
    stated = REGISTRY[name].shape(*types, **attrs)[0] if result is None else result
    found = REGISTRY[name].elements(scope, operands, attrs, (*types, TensorType(stated, ())))
    return None if found is None else found.reshape(-1)[0]


def compare(scope, direction, one, two, dtype="i32"):
    """A comparison of two elements."""
    kind = "UNSIGNED" if isinstance(one, (bool, Relation)) else comparison(dtype)
    return element(scope, "compare", one, two, dtype=dtype, direction=direction, kind=kind)


def floor_divide(scope, x, d):
    """As JAX writes it."""
    quotient = element(scope, "divide", x, d)
    signs = compare(scope, "NE", element(scope, "sign", x), element(scope, "sign", d))
    inexact = compare(scope, "NE", element(scope, "remainder", x, d), const(0))
    wrong = element(scope, "and", signs, inexact)
    return element(scope, "select", wrong, element(scope, "subtract", quotient, const(1)), quotient)


def remainder(scope, x, d):
    """As JAX writes it."""
    zero = const(0)
    divisor = element(scope, "select", compare(scope, "EQ", d, zero), const(1), d)
    rest = element(scope, "remainder", x, divisor)
    crossed = compare(scope, "NE", compare(scope, "LT", rest, zero), compare(scope, "LT", divisor, zero))
    wrong = element(scope, "and", crossed, compare(scope, "NE", rest, zero))
    return element(scope, "select", wrong, element(scope, "add", rest, divisor), rest)


DIVIDENDS = (
    N,
    N + 3,
    N - 3,
    2 * N - 6,
    3 * N - 7,
    N - M,
    N * M - 5,
    -N,
    3 - N,
    N // 2 - 4,
    N * M - M,
    const(-7),
)


@pytest.mark.parametrize("x", DIVIDENDS, ids=str)
@pytest.mark.parametrize("d", [const(1), const(2), const(3), const(4), symbol("d") + 1], ids=str)
def test_floor_division_as_frontends_write_it(x, d):
    assert floor_divide(Scope(), x, d) is floordiv(x, d)
    assert remainder(Scope(), x, d) is mod(x, d)


SHAPE_ARITHMETIC = (
    N - 1,
    1 - N,
    N - N // 2,
    3 * ((N + 2) // 3) - N,
    2 * ((N + 5) // 8) - (N + 1) // 4,
    -(N // 3) - 2,
    2 * N + 1,
    3 - 2 * (N // 2),
    -mod(N, 3),
    mod(N, 5) - 2,
)
"""Dividends as convolutions and pools have them: numbers of windows, paddings and their halves."""


@pytest.mark.parametrize("x", SHAPE_ARITHMETIC, ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 8])
def test_floor_division_of_window_arithmetic(x, d):
    for found, wanted in (
        (floor_divide(Scope(), x, const(d)), floordiv(x, d)),
        (remainder(Scope(), x, const(d)), mod(x, d)),
    ):
        assert found is wanted or prove(f"{found} == {wanted}").status == "proved"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SHAPE_ARITHMETIC), st.sampled_from([1, 2, 3, 4, 8, -2, -3]), SIZES)
def test_each_step_of_window_arithmetic_is_what_the_reference_gives(x, d, env):
    agrees("divide", (x, const(d)), env, "i32")
    agrees("remainder", (x, const(d)), env, "i32")
    rest = element(Scope(), "remainder", x, const(d))
    for direction, number in itertools.product(("NE", "LT", "EQ"), (0, 1, -1)):
        if rest is None:
            continue
        agrees("compare", (rest, const(number)), env, "i32", direction=direction, kind="SIGNED")
        negated = element(Scope(), "negate", rest)
        agrees("compare", (negated, const(number)), env, "i32", direction=direction, kind="SIGNED")


def test_division_of_what_is_known_to_be_negative():
    known = Scope(Relation("<=", const(0), M - N))
    assert element(known, "divide", N - M, const(4)) is -floordiv(M - N, 4)
    assert element(known, "remainder", N - M, const(4)) is -mod(M - N, 4)
    assert element(Scope(), "divide", -N, const(4)) is -(N // 4)


def test_whether_a_remainder_is_zero_is_a_size_without_relu():
    odd = compare(Scope(), "NE", mod(N, 2), const(0))
    assert element_convert(Scope(), odd) is mod(N, 2)
    rest = compare(Scope(), "NE", -mod(N, 3), const(0))
    assert element_convert(Scope(), rest) is (N + 2) // 3 - N // 3
    assert element(Scope(), "select", rest, N // 3 + 1, N // 3) is (N + 2) // 3
    assert element(Scope(), "maximum", N - N // 2, const(0)) is N - N // 2
    assert element(Scope(), "minimum", mod(N, 2), const(1)) is mod(N, 2)


def test_a_remainder_needs_no_fit():
    scope = Scope()
    element(scope, "abs", mod(N, 7))
    compare(scope, "LT", -mod(N, 7), const(0))
    assert scope.fits == [(const(7), "i32")] * 2 or scope.fits == []


def test_what_grows_too_large_is_unknown():
    scope, x, sizes = Scope(), N, [symbol(f"s{i}") for i in range(ATOM_LIMIT)]
    for size in sizes:
        chosen = compare(scope, "LT", x, size)
        x = element(scope, "select", chosen, element(scope, "multiply", x, size), size + 1)
    assert x is None
    wide = sum(sizes, N)
    assert element(scope, "divide", wide - 50, const(2)) is None
    assert element(scope, "add", wide, N) is None


def test_floor_division_by_a_size():
    assert remainder(Scope(), N, M) is mod(N, maximum(1, M))
    assert element(Scope(), "divide", N, M) is None
    known = Scope(Relation("<=", const(1), M))
    assert element(known, "divide", N, M) is floordiv(N, M)
    assert known.fits == [(N, "i32"), (M, "i32")]
    assert element(known, "divide", N, -M) is -floordiv(N, M)


def test_min_max_and_index_normalisation():
    scope = Scope()
    assert element(scope, "minimum", N, const(3)) is minimum(N, 3)
    assert element(scope, "maximum", N, N + 1) is N + 1
    assert element(scope, "clamp", const(0), N - 2, M) is minimum(maximum(N - 2, 0), M)
    negative = compare(scope, "LT", N, const(0))
    assert negative is False
    assert element(scope, "select", negative, N + M, N) is N
    shifted = compare(scope, "LT", N - 3, const(0))
    found = element(scope, "select", shifted, N - 3 + M, N - 3)
    assert all(found.evaluate({"n": n, "m": 7}) == (n - 3 if n >= 3 else n + 4) for n in range(6))
    assert element(scope, "select", compare(scope, "LT", N, M), N, M) is minimum(N, M)
    assert element(scope, "select", compare(scope, "LE", N, M), M, N) is maximum(N, M)


def test_conditions():
    scope = Scope()
    less = compare(scope, "LT", N, M)
    assert less == Relation("<", N, M) and compare(scope, "GT", M, N) == less
    assert element(scope, "not", less) == Relation("<=", M, N)
    assert element(scope, "and", less, True) == less and element(scope, "and", False, less) is False
    assert element(scope, "or", less, True) is True and element(scope, "or", less, False) == less
    assert element(scope, "and", less, compare(scope, "EQ", N, const(2))) is None
    assert compare(scope, "EQ", N, N) is True and compare(scope, "GE", N + 1, N) is True
    assert element(scope, "select", less, True, False) == less
    assert compare(scope, "NE", less, False) == less and compare(scope, "EQ", less, False) == element(
        scope, "not", less
    )
    count = element_convert(scope, less)
    assert [count.evaluate({"n": n, "m": 2}) for n in range(4)] == [1, 1, 0, 0]


def element_convert(scope, item, source="i1", target="i32"):
    types = (TensorType(source, ()), TensorType(target, ()))
    return REGISTRY["convert"].elements(scope, [object_array([item], ())], {"dtype": target}, types).reshape(-1)[0]


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("i64", "i32", []),
        ("i32", "i32", []),
        ("i32", "i64", ["i32"]),
        ("i32", "ui64", ["i32"]),
        ("i32", "ui32", []),
        ("ui32", "i32", []),
        ("ui64", "i8", []),
        ("ui32", "i64", ["ui32"]),
        ("ui32", "ui32", []),
    ],
)
def test_convert_requires_what_it_needs(source, target, fits):
    scope = Scope()
    assert element_convert(scope, N + 5, source, target) is N + 5
    assert scope.fits == [(N + 5, dtype) for dtype in fits]


@pytest.mark.parametrize(
    ("source", "item", "known"),
    [
        ("ui32", N, True),
        ("ui32", N * M, False),
        ("ui32", N - 1, False),
        ("ui64", N * M, True),
        ("i32", N * M, True),
        ("ui8", N, False),
        ("i8", N, False),
        ("i8", minimum(N, 100), True),
    ],
)
def test_what_may_wrap_without_a_sign_or_in_few_bits_is_left_to_the_arrays(source, item, known):
    found = element_convert(Scope(), item, source, "i64" if source != "ui64" else "i32")
    assert (found is item) == known or source == "ui64"
    less = compare(Scope(), "LT", item, const(7), dtype=source)
    assert (less is not None) == known


def test_convert_of_constants_and_conditions():
    assert element_convert(Scope(), const(2**31), "i32", "i64") is const(-(2**31))
    assert element_convert(Scope(), const(-1), "i32", "ui8") is const(255)
    assert element_convert(Scope(), True) is const(1)
    assert element_convert(Scope(), N, "i32", "i1") == Relation("!=", N, const(0))


def test_a_complex_number_is_no_size():
    """``convert`` of a constant integer."""
    b = BlockBuilder()
    zero = b.one("constant", (), {"value": np.array(0, np.int32)})
    assert b.elements(b.one("convert", [zero], {"dtype": "f32"})) is not None
    assert b.elements(b.one("convert", [zero], {"dtype": "c64"})) is None


def test_ring_operations_need_no_fit():
    scope = Scope()
    for name, wanted in (("add", N + M), ("subtract", N - M), ("multiply", N * M)):
        assert element(scope, name, N, M) is wanted
    assert element(scope, "negate", N) is -N
    assert element(scope, "and", N, const(7)) is mod(N, 8)
    assert element(scope, "shift_left", N, const(3)) is 8 * N
    assert scope.fits == []
    assert element(scope, "abs", N) is N and scope.fits == [(N, "i32")]


def test_unknown_stays_unknown():
    types = (TensorType("i32", (const(2),)),) * 3
    found = REGISTRY["add"].elements(Scope(), [object_array([N, None], (2,)), object_array([M, M], (2,))], {}, types)
    assert found.tolist() == [N + M, None]
    assert REGISTRY["add"].elements(Scope(), [None, None], {}, types) is None
    floats = (TensorType("f32", ()),) * 3
    assert REGISTRY["add"].elements(Scope(), [object_array([N], ())] * 2, {}, floats).tolist() is None


def test_a_select_does_not_read_a_division_by_zero():
    assert element(Scope(), "select", compare(Scope(), "EQ", M, const(0)), const(1), floordiv(N, M)) is None


FORMS = (
    N,
    M,
    N + M,
    N - 3,
    2 * N - M,
    N * M,
    const(7),
    const(-3),
    const(0),
    const(2**31 - 1),
    const(-(2**31)),
    N // 3,
    3 - N,
    N * 2**28,
)
BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "power",
    "and",
    "or",
    "xor",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
)
UNARY = ("abs", "negate", "sign", "not", "popcnt", "count_leading_zeros", "square")


def value_of(item, env, dtype):
    if isinstance(item, Dim):
        return wrap(item.evaluate(env), dtype)
    if isinstance(item, Relation):
        difference = item.lhs.evaluate(env) - item.rhs.evaluate(env)
        return {"==": difference == 0, "!=": difference != 0, "<=": difference <= 0, "<": difference < 0}[item.kind]
    return item


def agrees(name, items, env, dtype, **attrs):
    """The element evaluates to what the reference gives, wherever all fits hold."""
    scope = Scope()
    found = element(scope, name, *items, dtype=dtype, **attrs)
    for dim, wanted in scope.fits:
        low, high = integer_range(wanted)
        if not low <= dim.evaluate(env) <= high:
            return
    if found is None:
        return
    arrays = [
        np.array(value_of(item, env, dtype), bool if isinstance(item, (bool, Relation)) else numpy_dtype(dtype))
        for item in items
    ]
    result = REGISTRY[name].reference(*arrays, **attrs)
    stated = dtype if isinstance(found, Dim) else "i1"
    assert value_of(found, env, stated) == result.tolist(), (name, items, env, found)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(BINARY),
    st.sampled_from(FORMS),
    st.sampled_from(FORMS),
    SIZES,
    st.sampled_from(["i32", "ui8", "i64"]),
)
def test_binary_elements_are_what_the_reference_gives(name, x, y, env, dtype):
    agrees(name, (x, y), env, dtype)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(UNARY), st.sampled_from(FORMS), SIZES)
def test_unary_elements_are_what_the_reference_gives(name, x, env):
    agrees(name, (x,), env, "i32")


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["EQ", "NE", "LT", "LE", "GT", "GE"]),
    st.lists(st.sampled_from(FORMS), min_size=4, max_size=4),
    SIZES,
)
def test_compare_and_select_elements(direction, items, env):
    one, two, yes, no = items
    agrees("compare", (one, two), env, "i32", direction=direction, kind="SIGNED")
    scope = Scope()
    pred = compare(scope, direction, one, two)
    if all(-(2**31) <= dim.evaluate(env) < 2**31 for dim, _ in scope.fits) and pred is not None:
        agrees("select", (pred, yes, no), env, "i32")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(DIVIDENDS), st.sampled_from([1, 2, 3, 5, -2, -3]), SIZES)
def test_division_chains_evaluate_to_floor_division(x, d, env):
    for build, wanted in ((floor_divide, x.evaluate(env) // d), (remainder, x.evaluate(env) % d)):
        found = build(Scope(), x, const(d))
        assert found is None or found.evaluate(env) == wanted


@given(st.lists(st.sampled_from(FORMS), min_size=3, max_size=3), SIZES)
def test_clamp_elements(items, env):
    agrees("clamp", tuple(items), env, "i32")


def test_logic_table():
    less, same = Relation("<", N, M), Relation("==", N, M)
    for name in ("and", "or", "xor", "add", "multiply", "maximum", "minimum"):
        for one, two in itertools.product((True, False, less, same), repeat=2):
            for n, m in itertools.product(range(3), repeat=2):
                agrees(name, (one, two), {"n": n, "m": m}, "i32")
    agrees("not", (less,), {"n": 1, "m": 1}, "i32")
