"""dot_general and convolution: types over symbolic sizes, and references against loops."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.types import TensorType, numpy_dtype
from egshape.ops import REGISTRY

DOT = REGISTRY["dot_general"]
CONV = REGISTRY["convolution"]
NHWC = (0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
NCW = (0, 1, (2,), 1, 0, (2,), 0, 1, (2,))


def f32(*sizes):
    return TensorType("f32", tuple(const(s) if isinstance(s, int) else symbol(s) for s in sizes))


def dot(lhs, rhs, lb=(), rb=(), lc=(), rc=(), dtype="f32"):
    attrs = {
        "lhs_batch": lb,
        "rhs_batch": rb,
        "lhs_contract": lc,
        "rhs_contract": rc,
        "precision": (),
        "dtype": dtype,
    }
    function = DOT.shape if isinstance(lhs, TensorType) else DOT.reference
    return function(lhs, rhs, **attrs)


def conv_attrs(numbers, **given_attrs):
    n = len(numbers[2])
    attrs = {
        "numbers": numbers,
        "strides": (1,) * n,
        "padding": (0,) * 2 * n,
        "lhs_dilation": (1,) * n,
        "rhs_dilation": (1,) * n,
        "reversal": (0,) * n,
        "feature_groups": 1,
        "batch_groups": 1,
        "precision": (),
        "dtype": "f32",
    }
    return {**attrs, **given_attrs}


def test_dot_type():
    got = dot(f32("m", "b", "k"), f32("b", "k2", "n"), (1,), (0,), (2,), (1,))
    assert got == ("f32", (symbol("b"), symbol("m"), symbol("n")))
    assert dot(f32("m", "k"), f32(4, 5), lc=(1,), rc=(0,)) == ("f32", (symbol("m"), const(5)))
    assert dot(f32("b", 3), f32(2, 3), (0,), (0,)) == ("f32", (const(2), const(3), const(3)))
    assert dot(TensorType("f32", None), f32(2), lc=(0,), rc=(0,)) == ("f32", None)


@pytest.mark.parametrize(
    ("lhs", "rhs", "axes"),
    [
        (f32(2, 3), f32(4, 5), ((), (), (1,), (0,))),
        (f32(2, 3), f32(3, 5), ((), (), (2,), (0,))),
        (f32(2, 3), f32(3, 5), ((), (), (1,), ())),
        (f32(2, 3), f32(3, 5), ((1,), (0,), (1,), (0,))),
    ],
)
def test_dot_rejects(lhs, rhs, axes):
    with pytest.raises(EgshapeError):
        dot(lhs, rhs, *axes)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_dot_is_einsum(b, m, k, n):
    rng = np.random.default_rng(0)
    lhs, rhs = rng.integers(-5, 5, (m, b, k)), rng.integers(-5, 5, (k, n, b))
    got = dot(lhs.astype("f"), rhs.astype("f"), (1,), (2,), (2,), (0,))
    np.testing.assert_array_equal(got, np.einsum("mbk,knb->bmn", lhs, rhs))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_dot_of_16_bits_adds_in_f32(dtype):
    ones = np.ones(4096, numpy_dtype(dtype))
    assert dot(ones, ones, lc=(0,), rc=(0,), dtype=dtype) == 4096


def test_dot_adds_in_order_in_the_result_dtype():
    values = np.array([2048, 1, 1, -2048], np.float16)
    assert dot(values, np.ones(4, np.float16), lc=(0,), rc=(0,), dtype="f16") == np.float16(2)
    assert dot(values, np.ones(4, np.float16), lc=(0,), rc=(0,), dtype="f32") == np.float32(2)
    small = np.full(3, 0.1, ml_dtypes.bfloat16)
    assert dot(small, small, lc=(0,), rc=(0,), dtype="bf16").dtype == ml_dtypes.bfloat16
    assert dot(np.array([100, 100], np.int8), np.array([2, 1], np.int8), lc=(0,), rc=(0,), dtype="i8") == np.int8(44)
    both = np.array([True, True])
    assert dot(both, both, lc=(0,), rc=(0,), dtype="i1").dtype == np.bool_


def test_dot_of_unequal_sizes_fails():
    with pytest.raises(CheckFailed, match="does not fit"):
        dot(np.ones((2, 3), "f"), np.ones((4, 2), "f"), lc=(1,), rc=(0,))


def test_conv_type():
    same = CONV.shape(
        f32("b", "h", "w", 3), f32(3, 3, 3, 8), **conv_attrs(NHWC, padding=tuple(const(1) for _ in range(4)))
    )
    assert same == ("f32", (symbol("b"), symbol("h"), symbol("w"), const(8)))
    numbers = {"strides": (2,), "padding": (const(1), const(2)), "lhs_dilation": (3,), "rhs_dilation": (2,)}
    _, (_, _, width) = CONV.shape(f32("b", 4, "w"), f32(8, 4, "k"), **conv_attrs(NCW, **numbers))
    for w, k in product(range(6), range(6)):
        x, kernel = np.ones((1, 4, w), "f"), np.ones((8, 4, k), "f")
        got = CONV.reference(x, kernel, **conv_attrs(NCW, **{**numbers, "padding": (1, 2)}))
        assert got.shape == (1, 8, width.evaluate({"w": w, "k": k}))


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": (0,)},
        {"padding": (const(0),)},
        {"feature_groups": 3},
        {"feature_groups": 2, "batch_groups": 2},
        {"numbers": NHWC},
    ],
)
def test_conv_rejects(attrs):
    with pytest.raises(EgshapeError):
        CONV.shape(f32(2, 4, 5), f32(8, 4, 3), **conv_attrs(**{"numbers": NCW, "padding": (const(0),) * 2, **attrs}))


def conv_loops(x, kernel, stride, pad, base, dilation, flip, groups, batch_groups):
    """1-d NCW, one product after the other."""
    n, _, w = x.shape
    out_features, depth, k = kernel.shape
    wide = (w - 1) * base + 1 if w else 0
    span = (k - 1) * dilation + 1 if k else 0
    total = wide + sum(pad)
    count = (total - span) // stride + 1 if total >= span else 0
    batch = n // batch_groups
    out = np.zeros((batch, out_features, count), x.dtype)
    per = out_features // (groups * batch_groups)
    for i, o, p, t, c in product(range(batch), range(out_features), range(count), range(k), range(depth)):
        at = p * stride + t * dilation - pad[0]
        if at < 0 or at >= wide or at % base:
            continue
        group = o // per
        row = i + group * batch if batch_groups > 1 else i
        channel = c + group * depth if groups > 1 else c
        tap = k - 1 - t if flip else t
        out[i, o, p] += x[row, channel, at // base] * kernel[o, c, tap]
    return out


@given(
    w=st.integers(0, 5),
    k=st.integers(1, 3),
    stride=st.integers(1, 3),
    low=st.integers(-1, 2),
    high=st.integers(-1, 2),
    base=st.integers(1, 3),
    dilation=st.integers(1, 2),
    flip=st.integers(0, 1),
    groups=st.sampled_from([(1, 1), (2, 1), (1, 2)]),
)
@settings(max_examples=60, deadline=None)
def test_conv_is_its_loops(w, k, stride, low, high, base, dilation, flip, groups):
    features, batches = groups
    rng = np.random.default_rng(w * 7 + k)
    x = rng.integers(-4, 4, (2, 2 * features, w)).astype("f")
    kernel = rng.integers(-4, 4, (4, 2, k)).astype("f")
    got = CONV.reference(
        x,
        kernel,
        **conv_attrs(
            NCW,
            strides=(stride,),
            padding=(low, high),
            lhs_dilation=(base,),
            rhs_dilation=(dilation,),
            reversal=(flip,),
            feature_groups=features,
            batch_groups=batches,
        ),
    )
    np.testing.assert_array_equal(
        got, conv_loops(x, kernel, stride, (low, high), base, dilation, flip, features, batches)
    )


def test_conv_axes_may_stand_anywhere():
    rng = np.random.default_rng(1)
    x, kernel = rng.integers(-4, 4, (2, 5, 6, 3)).astype("f"), rng.integers(-4, 4, (2, 3, 3, 4)).astype("f")
    base = CONV.reference(x, kernel, **conv_attrs(NHWC))
    numbers = (1, 0, (3, 2), 3, 2, (1, 0), 3, 1, (2, 0))
    got = CONV.reference(x.transpose(3, 0, 2, 1), kernel.transpose(1, 0, 3, 2), **conv_attrs(numbers))
    np.testing.assert_array_equal(got, base.transpose(2, 3, 1, 0))
