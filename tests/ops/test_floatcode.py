"""Sizes in floats: what is said of a float must be what numpy computes, wherever its needs fit."""

from __future__ import annotations

from math import ceil, floor

import ml_dtypes
import numpy as np
import pytest

from egshape.dims import Dim, ceildiv, const, floordiv, symbol
from egshape.dims.functions import SHIPPED
from egshape.facts import Relation
from egshape.ir.builder import BlockBuilder, fits
from egshape.ir.graph import Value
from egshape.ir.types import exact_integers, numpy_dtype
from egshape.ops import floatcode
from egshape.ops.base import Ratio
from egshape.rulebook.without import without

N = symbol("n")
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


class Silent:
    """Decides what has no symbols."""

    def decide(self, relation: Relation) -> bool | None:
        gap = (relation.rhs - relation.lhs).const
        return None if gap is None else gap >= 0

    def require_fit(self, dim: Dim, dtype: str) -> None:
        raise AssertionError("nothing is taken from a float here")


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_integers_that_a_float_holds(dtype: str) -> None:
    most, kind = exact_integers(dtype), FLOATS[dtype]
    assert int(kind(most)) == most and int(kind(most - 1)) == most - 1
    assert int(kind(most + 1)) != most + 1


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("by", [2, 3, 5, 7, 10, 49, 127, 160, 511])
def test_floor_and_ceil_of_a_rounded_quotient(dtype: str, by: int) -> None:
    """At every integer that fits in 16 bits; near the quotients' ends and at random in 32."""
    most, kind = exact_integers(dtype), FLOATS[dtype]
    rng = np.random.default_rng(by)
    picked = np.arange(most + 1) if most < 4096 else rng.integers(0, most + 1, 200_000)
    sizes = np.concatenate([picked, picked // by * by, np.maximum(picked // by * by - 1, 0), [most, most - 1]])
    with np.errstate(all="ignore"):
        quotients = sizes.astype(kind) / kind(by)
    np.testing.assert_array_equal(np.floor(quotients).astype(np.int64), sizes // by)
    np.testing.assert_array_equal(np.ceil(quotients).astype(np.int64), -(-sizes // by))


def test_beyond_what_fits_it_is_wrong() -> None:
    """The need is as weak as it can be by a factor of two: without it floor(n / 3) is wrong somewhere."""
    sizes = np.arange(2**25, 2**25 + 1000)
    wrong = np.floor(sizes.astype(np.float32) / np.float32(3)).astype(np.int64) != sizes // 3
    assert wrong.any()


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_what_the_rules_speak_of_is_what_floats_do(dtype: str) -> None:
    """``float_of`` and ``float_whole``, which the rules are sampled with, are numpy's floats, rounded or not."""
    most, kind = exact_integers(dtype), FLOATS[dtype]
    rng = np.random.default_rng(0)
    limits = (10, 3 * most, 15 * most)
    numbers = [int(each) for limit in limits for each in rng.integers(-limit, limit + 1, 60)]
    for n in (*numbers, most, most + 1, most + 2, most + 3, -most - 1):
        held = kind(np.float64(n))
        assert SHIPPED["float_of"].value(n, most) == int(held)
        for by in (1, 2, 3, 7, 10, 49, 160) if abs(n) <= most else ():
            nearest = float(kind(n / by))
            ways = {-1: floor(nearest), 0: int(nearest), 1: ceil(nearest)}
            assert {way: SHIPPED["float_whole"].value(n, by, most, way) for way in ways} == ways, (n, by)


RULES = {
    "size.float/exact": ("convert", "add", "multiply"),
    "size.float/floor": ("floor",),
    "size.float/ceil": ("ceil",),
    "size.float/truncated": ("truncate",),
    "size.float/truncated-negative": ("truncate-negative",),
}


def kept() -> set[str]:
    """What is kept of sizes through floats."""
    scope, third = Silent(), Ratio(N, 3)
    found = {
        "convert": floatcode.of_size(scope, N, "i64", "f32"),
        "add": ratio("add", Ratio(N), number(0.5)),
        "multiply": ratio("multiply", Ratio(N), number(0.5)),
        "floor": ratio("floor", third),
        "ceil": ratio("ceil", third),
        "truncate": floatcode.size_of(Positive(1), third, "f32"),
        "truncate-negative": floatcode.size_of(Positive(-1), third, "f32"),
        "maximum": ratio("maximum", Ratio(N), number(3.0)),
        "floor of a whole number": ratio("floor", Ratio(N)),
    }
    return {name for name, item in found.items() if item is not None}


class Positive(Silent):
    """Knows the sign of n."""

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def decide(self, relation: Relation) -> bool | None:
        gap = relation.rhs - relation.lhs
        return True if gap is self.sign * N else super().decide(relation)

    def require_fit(self, dim: Dim, dtype: str) -> None:
        pass


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_just_that_is_unknown(rule: str) -> None:
    everything = kept()
    with without([rule]):
        assert everything - kept() == set(RULES[rule])


def ratio(name: str, *items: Ratio, dtype: str = "f32") -> Ratio | None:
    return floatcode.RULES[name](Silent(), dtype, *items)


def number(value: float) -> Ratio:
    found = floatcode.of_number(value)
    assert found is not None
    return found


SIZE = floatcode.of_size(Silent(), N, "i64", "f32")


def test_what_is_said_of_floats() -> None:
    half = ratio("multiply", SIZE, number(0.5))
    assert half == Ratio(N, 2, ((N, "f32"),))
    assert ratio("floor", half).num is floordiv(N, const(2))  # type: ignore[union-attr]
    assert ratio("ceil", ratio("divide", SIZE, number(3.0))).num is ceildiv(N, const(3))  # type: ignore[union-attr]
    assert ratio("divide", SIZE, number(0.25)) == Ratio(4 * N, 1, ((N, "f32"), (4 * N, "f32")))
    assert ratio("add", half, number(0.5)) == Ratio(N + 1, 2, ((N, "f32"), (N + 1, "f32")))
    assert ratio("round_nearest_even", SIZE) == SIZE


def test_what_is_not_said() -> None:
    third = ratio("divide", SIZE, number(3.0))
    assert third is not None
    assert (
        floatcode.of_number(0.1) is None and floatcode.of_number(np.inf) is None and floatcode.of_number(-0.0) is None
    )
    assert ratio("multiply", third, number(3.0)) is None  # 3 * (n/3) is rounded twice
    assert ratio("add", third, number(1.0)) is None
    assert ratio("round_nearest_even", ratio("multiply", SIZE, number(0.5))) is None  # type: ignore[arg-type]
    assert ratio("divide", SIZE, SIZE) is None and ratio("multiply", SIZE, SIZE) is None
    assert ratio("divide", SIZE, number(0.0)) is None
    assert floatcode.converted(Silent(), third, "f64") is None


def scalar(b: BlockBuilder, value: float, dtype: str) -> Value:
    return b.one("constant", (), {"value": np.array(value, numpy_dtype(dtype))})


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_random_chains_against_numpy(dtype: str) -> None:
    """Up to four steps of arithmetic with numbers, a rounding, and back: right wherever all requirements hold."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(400):
        b = BlockBuilder()
        x = b.arg("x", "f32", (None,), ("n",))
        held = b.one("dims", (), {"elements": x.type.dims, "shape": (), "dtype": "i64"})
        value = b.one("convert", (held,), {"dtype": dtype})
        steps: list[tuple[str, float]] = []
        for _ in range(rng.integers(0, 4)):
            name = str(rng.choice(["add", "subtract", "multiply", "divide", "floor", "ceil"]))
            by = float(rng.choice([0.5, 1.0, 2.0, 3.0, 0.25, 7.0, 1.5, 100.0]))
            steps.append((name, by))
            operands = (value,) if name in ("floor", "ceil") else (value, scalar(b, by, dtype))
            value = b.one(name, operands)
        last = str(rng.choice(["floor", "ceil"]))
        back = b.one("convert", (b.one(last, (value,)),), {"dtype": "i64"})
        known = b.elements(back)
        if known is None or known.reshape(-1)[0] is None:
            continue
        size = known.reshape(-1)[0]
        needs = b.ops[-1].requires
        for n in (0, 1, 2, 3, 5, 10, 97, 1000, 2047, 2048, 2**23, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1):
            if not all(need.holds({"n": n}) for need in needs):
                continue
            with np.errstate(all="ignore"):
                found = np.array(n).astype(numpy_dtype(dtype))
                for name, by in steps:
                    function = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
                    number_ = numpy_dtype(dtype).type(by)
                    found = function[name](found, number_) if name in function else getattr(np, name)(found)
                result = int({"floor": floor, "ceil": ceil}[last](float(found)))
            assert size.evaluate({"n": n}) == result, (steps, last, n, str(size))
            seen += 1
    assert seen > 500


def test_what_must_fit() -> None:
    assert [str(each) for each in fits(N, "f32", "")] == ["n <= 16777216"]
    assert fits(N, "f64", "") == []  # a size of an axis is below 2**31
    assert [str(each) for each in fits(N - 5, "f16", "")] == ["n - 5 <= 2048", "-2048 <= n - 5"]
