"""Facts for rules: neutral elements bit for bit, dtypes of functions, inserted axes, clamped starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from egshape.dims import const, maximum, minimum, symbol
from egshape.egraph.describe import (
    _clamp,
    _inserted,
    absorbing_elements,
    describe_constant,
    describe_function,
    neutral_elements,
)
from egshape.errors import EgshapeError
from egshape.ir.types import (
    DTYPES,
    TensorType,
    integer_range,
    is_complex,
    is_float,
    is_integer,
    is_narrow,
    numpy_dtype,
)
from egshape.ops import REGISTRY
from egshape.ops.base import OpDecl

COMPUTED = [dtype for dtype in DTYPES if not is_narrow(dtype)]
REAL = [dtype for dtype in DTYPES if not is_complex(dtype) and not is_narrow(dtype)]
A, B, ONE = symbol("a"), symbol("b"), const(1)


def special(dtype: str) -> np.ndarray:
    """Values at which float and integer ops are peculiar."""
    if dtype == "i1":
        return np.array([False, True])
    if is_complex(dtype):
        parts = special("f32" if dtype == "c64" else "f64")
        return np.array([complex(x, y) for x in (*parts, 0.1, 7.3, -1e30) for y in (*parts, 2.5)], numpy_dtype(dtype))
    if is_float(dtype):
        kind = numpy_dtype(dtype)
        bits = np.dtype(f"u{kind.itemsize}")
        small = np.array([1, 2], bits).view(kind)  # subnormal
        numbers = [0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan, 3.25]
        return np.concatenate([np.array(numbers).astype(kind), small, -small])
    low, high = integer_range(dtype)
    return np.array([low, low + 1, high, high - 1, 0, 1, 2, 7], dtype=object).astype(numpy_dtype(dtype))


def same(one: Any, two: Any) -> bool:
    """Bit for bit, all NaNs alike."""
    one, two = np.asarray(one), np.asarray(two)
    if one.dtype.kind == "c":
        return same(one.real.copy(), two.real.copy()) and same(one.imag.copy(), two.imag.copy())
    if one.dtype.kind in "fV":
        nan = np.isnan(one.astype(np.float64)) & np.isnan(two.astype(np.float64))
        one, two = one[~nan], two[~nan]
    return bool(one.dtype == two.dtype and one.tobytes() == two.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
def test_neutral_elements_keep_every_bit(dtype: str) -> None:
    for function, number, left in neutral_elements(dtype, REGISTRY):
        x = special(dtype)
        c = np.full(x.shape, number).astype(numpy_dtype(dtype))
        with np.errstate(all="ignore"):
            assert same(REGISTRY[function].reference(x, c), x), (function, number)
            if left:
                assert same(REGISTRY[function].reference(c, x), x), (number, function)


@pytest.mark.parametrize("dtype", REAL)
def test_absorbing_elements_leave_nothing_of_the_other_operand(dtype: str) -> None:
    for function, number, left in absorbing_elements(dtype, REGISTRY):
        x = special(dtype)
        c = np.full(x.shape, number).astype(numpy_dtype(dtype))
        assert left and same(REGISTRY[function].reference(x, c), c) and same(REGISTRY[function].reference(c, x), c)
    assert bool(list(absorbing_elements(dtype, REGISTRY))) is not is_float(dtype)


def test_no_narrow_dtype_has_traits() -> None:
    """Ops that have a trait take no number of 8 bits or fewer but i8 and ui8; one that begins to is tested above."""
    names = {decl.name for decl in REGISTRY if laws(decl, "f32")}
    assert {"negate", "abs", "maximum"} <= names
    assert not any(takes(name, dtype) for name in names for dtype in DTYPES if dtype not in COMPUTED)
    assert not any(list(neutral_elements(dtype, REGISTRY)) for dtype in DTYPES if is_complex(dtype))


def takes(name: str, dtype: str) -> bool:
    decl = REGISTRY[name]
    try:
        decl.shape(*[TensorType(dtype, ())] * len(decl.operands))
    except EgshapeError:
        return False
    return True


def test_the_sign_of_complex_numbers_is_rounded() -> None:
    sign = REGISTRY["sign"].reference
    x = special("c64")
    with np.errstate(all="ignore"):
        assert not same(sign(sign(x)), sign(x))
    traits = REGISTRY["sign"].traits
    assert not traits.is_idempotent("c64") and traits.is_idempotent("f32")
    assert REGISTRY["abs"].traits.is_idempotent("c64")


@pytest.mark.parametrize("dtype", COMPUTED)
def test_classes_of_functions(dtype: str) -> None:
    """Involutions, idempotent functions and those that give one of two equal operands, where they take the dtype."""
    x = special(dtype)
    for decl in REGISTRY:
        for law in laws(decl, dtype):
            with np.errstate(all="ignore"):
                assert not takes(decl.name, dtype) or same(*law(decl.reference, x)), decl.name


def laws(decl: OpDecl, dtype: str) -> list[Callable[..., Any]]:
    """Two sides of each law that an op's traits claim for a dtype."""
    claimed: list[tuple[bool, Callable[..., Any]]] = [
        (decl.traits.involution, lambda f, x: (f(f(x)), x)),
        (decl.traits.is_idempotent(dtype), lambda f, x: (f(f(x)), f(x))),
        (decl.traits.selects, lambda f, x: (f(x, x), x)),
    ]
    return [law for holds, law in claimed if holds]


def test_the_zero_that_is_not_neutral() -> None:
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    describe_constant(0, np.array(0.0, np.float32), "f32", REGISTRY, rows)
    assert ("add", 0) not in rows["in_neutral"] and ("subtract", 0) in rows["in_neutral_right"]
    describe_constant(1, np.array(-0.0, np.float32), "f32", REGISTRY, rows)
    assert ("add", 1) in rows["in_neutral"] and ("subtract", 1) not in rows["in_neutral_right"]
    describe_constant(2, np.zeros(3, np.float32), "f32", REGISTRY, rows)
    assert not any(row[-1] == 2 for table in rows.values() for row in table), "an array is no scalar"


@pytest.mark.parametrize(
    ("function", "given", "found"),
    [("negate", "f64", "f64"), ("abs", "c64", "f32"), ("real", "c128", "f64"), ("complex", "f32", "c64"),
     ("compare.LT.FLOAT", "f32", "i1"), ("convert.bf16", "i8", "bf16"), ("is_finite", "f16", "i1")],
)  # fmt: skip
def test_dtypes_of_results(function: str, given: str, found: str) -> None:
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    describe_function(function, REGISTRY, rows)
    assert (function, given, found) in rows["result_dtype"]
    assert len({row[:2] for row in rows["result_dtype"]}) == len(rows["result_dtype"])


@pytest.mark.parametrize(
    ("source", "target", "axes"),
    [
        ((A,), (ONE, A), (1,)),
        ((A,), (A, ONE), (0,)),
        ((A, B), (A, ONE, B, ONE), (0, 2)),
        ((), (ONE, ONE), ()),
        ((A, B), (B, A), None),
        ((A,), (A, B), None),
        ((A, ONE), (A,), None),
        ((ONE,), (ONE, ONE), (1,)),
        ((A, ONE), (A, ONE, ONE), (0, 2)),
        ((A,), (A,), (0,)),
    ],
)
def test_inserted_axes(source: Any, target: Any, axes: Any) -> None:
    found = _inserted(source, target)
    assert found == axes or (found is not None and axes is not None and ONE in source)
    if found is not None:  # a broadcast with these axes is the reshape
        assert list(found) == sorted(set(found))
        assert all(target[axis] is size for axis, size in zip(found, source, strict=True))
        assert all(size is ONE for axis, size in enumerate(target) if axis not in found)


def test_starts_are_clamped_into_the_operand() -> None:
    n, i = symbol("n"), symbol("i")
    starts = _clamp((1,), (i,), (A, n), (A, const(2)))
    assert starts == [const(0), maximum(const(0), minimum(i, n - 2))]
    env = {"n": 5, "a": 1}
    assert [starts[1].evaluate({**env, "i": at}) for at in (0, 2, 3, 9)] == [0, 2, 3, 3]


def test_integers_are_covered() -> None:
    assert all(list(neutral_elements(dtype, REGISTRY)) for dtype in REAL)
    assert all(is_integer(dtype) or is_float(dtype) or dtype == "i1" for dtype in REAL)
