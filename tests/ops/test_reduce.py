"""reduce, reduce_window, select_and_scatter, sort: types, and references against loops."""

import functools
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ops import REGISTRY
from egshape.ops.regions import total_order


class Body:
    """A region callable."""

    def __init__(self, function, kind=None, vectorised=True):
        self.function, self.kind, self.vectorised = function, kind, vectorised

    def __call__(self, *arrays):
        found = self.function(*arrays)
        return found if isinstance(found, list) else [np.asarray(found)]


ADD = Body(np.add, "add")
SLOW_ADD = Body(np.add, None, vectorised=False)
MAX = Body(np.maximum, "maximum")


def scalar_region(builder, name, dtype="f32", **attrs):
    child = builder.child()
    one, two = child.arg(None, dtype, []), child.arg(None, dtype, [])
    return child.finish([child.one(name, (one, two), attrs)])


def reduce(x, init, dims, body):
    (out,) = REGISTRY["reduce"].reference(x, np.asarray(init, x.dtype), dims=dims, regions=(body,))
    return out


def test_reduce_type():
    b = BlockBuilder()
    x = b.arg("x", "f32", [None, 3, None], ["n", None, "m"])
    zero = b.one("constant", (), {"value": np.zeros((), np.float32)})
    got = b.one("reduce", (x, zero), {"dims": (0, 1)}, regions=[scalar_region(b, "add")])
    assert got.type.shape == (symbol("m"),)
    with pytest.raises(EgshapeError):
        b.one("reduce", (x, zero), {"dims": (3,)}, regions=[scalar_region(b, "add")])
    with pytest.raises(EgshapeError):
        b.one("reduce", (x, x), {"dims": (0,)}, regions=[scalar_region(b, "add")])


def test_reduce_elements_multiply_a_shape():
    b = BlockBuilder()
    shape = b.one("dims", (), {"elements": (symbol("n"), const(4)), "shape": (2,), "dtype": "i64"})
    one = b.one("constant", (), {"value": np.ones((), np.int64)})
    got = b.one("reduce", (shape, one), {"dims": (0,)}, regions=[scalar_region(b, "multiply", "i64")])
    assert b.elements(got).reshape(-1)[0] == symbol("n") * 4


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (4, 5)])
@pytest.mark.parametrize("dims", [(), (0,), (1,), (0, 1), (1, 0)])
def test_reduce_sums(shape, dims):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    for body in (ADD, SLOW_ADD):
        np.testing.assert_array_equal(reduce(x, 1, dims, body), x.sum(axis=dims) + 1 if dims else x + 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("count", [5, 300])
def test_reduce_adds_in_order_in_f32(dtype, count):
    x = np.random.default_rng(0).normal(size=(2, count)).astype(dtype)
    want = np.zeros(2, np.float32)
    for k in range(count):
        want = want + x[:, k].astype(np.float32)
    got = reduce(x, 0, (1,), ADD)
    assert got.dtype == dtype
    assert (got == want.astype(dtype)).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_many_elements_of_16_bits_are_rounded_once(dtype):
    """In bf16, 256 + 1 is 256; a body that is no single op is what it says."""
    x = np.ones((2, 4096), dtype)
    assert reduce(x, 0, (1,), ADD).tolist() == [4096, 4096]
    assert reduce(x, 0, (1,), SLOW_ADD).tolist() == [256 if dtype is not np.float16 else 2048] * 2
    half = reduce(np.full((1, 600), 1.0078125, dtype), 1, (1,), Body(None, "multiply"))
    assert np.isclose(half.astype(np.float64), 1.0078125**600, rtol=0.01).all()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_extremes_order_zeros_and_keep_nan(dtype):
    low = Body(None, "minimum")
    x = np.array([[-0.0, 0.0], [np.nan, 1], [-np.inf, -1]], dtype)
    got = reduce(x, -np.inf, (1,), MAX)
    assert not np.signbit(got[0]) and np.isnan(got[1]) and got[2] == -1
    got = reduce(x, np.inf, (1,), low)
    assert np.signbit(got[0]) and np.isnan(got[1]) and got[2] == -np.inf
    assert reduce(np.array([3, -7], np.int8), -128, (0,), MAX) == 3
    assert reduce(np.array([True, False]), True, (0,), Body(None, "and")) == np.False_


def test_reduce_of_pairs_is_argmax():
    x, index = np.array([[3, 9, 9], [1, 0, -5]], np.float32), np.tile(np.arange(3, dtype=np.int32), (2, 1))

    def pick(best, at, value, place):
        better = value > best
        return [np.where(better, value, best), np.where(better, place, at)]

    for body in (Body(pick), Body(pick, vectorised=False)):
        best, at = REGISTRY["reduce"].reference(x, index, np.float32(-np.inf), np.int32(-1), dims=(1,), regions=(body,))
        assert best.tolist() == [9, 1] and at.tolist() == [1, 0] and at.dtype == np.int32
    with pytest.raises(CheckFailed):
        REGISTRY["reduce"].reference(x, index[:1], np.float32(0), np.int32(0), dims=(1,), regions=(Body(pick),))


def window_loops(x, init, window, stride, low, high, base, dilation):
    wide = [None] * ((x.size - 1) * base + 1 if x.size else 0)
    wide[::base] = list(x)
    padded = [None] * low + wide if low >= 0 else wide[-low:]
    padded = padded + [None] * high if high >= 0 else padded[: max(0, len(padded) + high)]
    total = max(0, len(wide) + low + high)
    span = (window - 1) * dilation + 1
    out = []
    for p in range(0, total - span + 1, stride):
        value = init
        for t in range(window):
            item = padded[p + t * dilation]
            value = value if item is None else value * 2 + item
        out.append(value)
    return out


@given(
    n=st.integers(0, 6),
    window=st.integers(1, 3),
    stride=st.integers(1, 3),
    low=st.integers(-1, 2),
    high=st.integers(0, 2),
    base=st.integers(1, 3),
    dilation=st.integers(1, 2),
)
@settings(max_examples=80, deadline=None)
def test_reduce_window_is_its_loops_and_its_type(n, window, stride, low, high, base, dilation):
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    init = b.arg("init", "f32", [])
    attrs = {"window": window, "strides": stride, "base_dilation": base, "window_dilation": dilation}
    got = b.one(
        "reduce_window",
        (x, init),
        {**{key: (const(value),) for key, value in attrs.items()}, "padding": (const(low), const(high))},
        regions=[scalar_region(b, "add")],
    )
    array = np.arange(1, n + 1, dtype=np.float32)
    body = Body(lambda total, item: total * 2 + item)
    (out,) = REGISTRY["reduce_window"].reference(
        array,
        np.float32(5),
        **{key: (value,) for key, value in attrs.items()},
        padding=(low, high),
        regions=(body,),
    )
    want = window_loops(array, 5.0, window, stride, low, high, base, dilation)
    assert out.tolist() == want
    assert got.type.dims[0].evaluate({"n": n}) == len(want)


def test_same_window_keeps_its_size():
    b = BlockBuilder()
    x, init = b.arg("x", "f32", [None], ["n"]), b.arg("init", "f32", [])
    ones = (const(1),)
    got = b.one(
        "reduce_window",
        (x, init),
        {
            "window": (const(3),),
            "strides": ones,
            "base_dilation": ones,
            "window_dilation": ones,
            "padding": (const(1), const(1)),
        },
        regions=[scalar_region(b, "add")],
    )
    assert got.type.dims[0] is symbol("n")


def select_and_scatter(x, source, window, strides, padding):
    return REGISTRY["select_and_scatter"].reference(
        x,
        source,
        np.float32(0),
        window=window,
        strides=strides,
        padding=padding,
        regions=(Body(np.greater_equal), Body(np.add, "add")),
    )


@given(h=st.integers(1, 5), w=st.integers(1, 5), stride=st.integers(1, 2), low=st.integers(0, 1))
@settings(max_examples=30, deadline=None)
def test_select_and_scatter_is_its_loops(h, w, stride, low):
    rng = np.random.default_rng(h * 6 + w)
    x = rng.integers(-3, 3, (h, w)).astype("f")
    counts = tuple(max(0, (size + 2 * low - 2) // stride + 1) for size in (h, w))
    source = rng.integers(1, 9, counts).astype("f")
    want = np.zeros_like(x)
    for i, j in np.ndindex(counts):
        best = None
        for di, dj in product(range(2), range(2)):
            at = (i * stride + di - low, j * stride + dj - low)
            inside = 0 <= at[0] < h and 0 <= at[1] < w
            if inside and (best is None or not x[best] >= x[at]):
                best = at
        if best is not None:
            want[best] += source[i, j]
    got = select_and_scatter(x, source, (2, 2), (stride, stride), (low,) * 4)
    np.testing.assert_array_equal(got, want)


def sort(xs, comparator, dim=0):
    return REGISTRY["sort"].reference(*xs, dim=dim, stable=True, regions=(comparator,))


def less(a, b, *rest):
    return np.less(a, b)


FLOATS = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 2.5]), max_size=12)


@given(FLOATS)
@settings(max_examples=60, deadline=None)
def test_sort_is_stable_in_every_way(values):
    x, place = np.array(values, np.float32), np.arange(len(values), dtype=np.int32)
    want = sorted(range(len(values)), key=lambda i: values[i])
    for body in (Body(less), Body(less, "compare:0:LT:FLOAT"), Body(less, vectorised=False)):
        assert sort([x, place], body)[1].tolist() == want
    down = sorted(range(len(values)), key=lambda i: -values[i])
    more = Body(lambda a, b, *rest: np.greater(a, b))
    for body in (more, Body(None, "compare:0:GT:FLOAT")):
        assert sort([x, place], body)[1].tolist() == down


def test_sort_in_total_order():
    values = np.array([np.nan, 0.0, -0.0, -np.inf, np.inf, -np.nan, 1e-45], np.float32)
    (got,) = sort([values], Body(None, "compare:0:LT:TOTALORDER"))
    assert np.isnan(got[0]) and np.signbit(got[0]) and np.isnan(got[-1]) and not np.signbit(got[-1])
    assert got[1] == -np.inf and np.signbit(got[2]) and not np.signbit(got[3])
    assert (np.diff(total_order(got).astype(np.int64)) >= 0).all()


def test_sort_with_an_inconsistent_comparator_permutes():
    values = np.array([3, np.nan, 1, np.nan, 2, 0, np.nan], np.float32)
    for body in (Body(less, "compare:0:LT:FLOAT"), Body(lambda a, b: np.ones(np.shape(a), bool))):
        (got,) = sort([values], body)
        np.testing.assert_array_equal(np.sort(got), np.sort(values))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 4), (5, 33)])
@pytest.mark.parametrize("dim", [0, 1])
def test_sort_along_an_axis(shape, dim):
    x = np.random.default_rng(0).integers(0, 7, shape).astype(np.int32)
    for body in (Body(less), Body(less, "compare:0:LT:SIGNED")):
        np.testing.assert_array_equal(sort([x], body, dim)[0], np.sort(x, axis=dim))


def test_sort_by_two_keys():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, 40), rng.integers(0, 9, 40)
    body = Body(lambda a0, a1, b0, b1: (a0 < a1) | ((a0 == a1) & (b0 > b1)))
    one, two = sort([a, b], body)
    want = sorted(zip(a, b, strict=True), key=functools.cmp_to_key(lambda p, q: p[0] - q[0] or q[1] - p[1]))
    assert list(zip(one, two, strict=True)) == want
