"""Movement ops: shapes over sizes, references, elements."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.ops.base import object_array

N, M = symbol("n"), symbol("m")
DTYPES = (np.float32, ml_dtypes.bfloat16, np.bool_, np.int8, np.complex64)


def run(name, *arrays, **attrs):
    return REGISTRY[name].reference(*arrays, **attrs)


def shape(name, *types, **attrs):
    return REGISTRY[name].shape(*types, **attrs)


def elements(name, operands, types, **attrs):
    return REGISTRY[name].elements(None, operands, attrs, types)


def t(*sizes, dtype="i32"):
    return TensorType(dtype, tuple(const(size) if isinstance(size, int) else size for size in sizes))


def c(*numbers):
    return tuple(map(const, numbers))


def numbers(*size):
    return np.arange(np.prod(size, dtype=int), dtype=np.int32).reshape(size)


def code_of(name, *arrays, **attrs):
    with pytest.raises(EgshapeError) as error:
        run(name, *arrays, **attrs)
    return error.value.code


def test_broadcast_in_dim():
    assert run("broadcast_in_dim", numbers(2), dims=(1,), shape=(3, 2)).tolist() == [[0, 1]] * 3
    assert run("broadcast_in_dim", numbers(2, 1), dims=(2, 0), shape=(3, 1, 2)).tolist() == [[[0, 1]]] * 3
    assert run("broadcast_in_dim", numbers(1), dims=(0,), shape=(0,)).shape == (0,)
    assert run("broadcast_in_dim", np.array(7), dims=(), shape=(1, 2)).tolist() == [[7, 7]]
    assert code_of("broadcast_in_dim", numbers(2), dims=(0,), shape=(3,)) == "shape-mismatch"
    assert code_of("broadcast_in_dim", numbers(0), dims=(0,), shape=(1,)) == "shape-mismatch"
    assert shape("broadcast_in_dim", t(N), dims=(1,), shape=(M, N)) == ("i32", (M, N))
    for bad in ({"dims": (0,), "shape": c(3)}, {"dims": (1,), "shape": c(2)}, {"dims": (), "shape": c(2)}):
        with pytest.raises(EgshapeError):
            shape("broadcast_in_dim", t(2), **bad)
    found = elements("broadcast_in_dim", [object_array([N], ())], (t(), t(2)), dims=(), shape=c(2))
    assert found.tolist() == [N, N]


def test_reshape_transpose_reverse():
    assert run("reshape", numbers(2, 3), shape=(3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert run("reshape", numbers(0, 3), shape=(2, 0)).shape == (2, 0)
    assert code_of("reshape", numbers(4), shape=(3,)) == "shape-mismatch"
    assert code_of("reshape", numbers(4), shape=(-2, -2)) == "invalid-size"
    assert shape("reshape", t(N, 4), shape=(4 * N,)) == ("i32", (4 * N,))
    with pytest.raises(EgshapeError):
        shape("reshape", t(4), shape=c(5))
    assert elements("reshape", [object_array([N], ())], (t(), t(1)), shape=c(1)).tolist() == [N]
    assert run("transpose", numbers(2, 3), permutation=(1, 0)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert shape("transpose", t(N, M, 2), permutation=(2, 0, 1)) == ("i32", (const(2), N, M))
    assert shape("transpose", TensorType("f32", None), permutation=(1, 0)) == ("f32", (None, None))
    for bad in ((0,), (0, 0), (0, 2)):
        with pytest.raises(EgshapeError):
            shape("transpose", t(N, M), permutation=bad)
    assert run("reverse", numbers(2, 3), dims=(1,)).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert run("reverse", numbers(2), dims=()).tolist() == [0, 1]
    assert shape("reverse", t(N), dims=(0,)) == ("i32", (N,))
    assert elements("reverse", [object_array([N, M], (2,))], (t(2), t(2)), dims=(0,)).tolist() == [M, N]
    assert elements("reverse", [object_array([N], ())], (t(), t()), dims=()).tolist() is N


def test_slice():
    assert run("slice", numbers(10), starts=(1,), limits=(8,), strides=(3,)).tolist() == [1, 4, 7]
    assert run("slice", numbers(3), starts=(3,), limits=(3,), strides=(1,)).shape == (0,)
    for start, limit, stride in ((-1, 2, 1), (2, 1, 1), (0, 4, 1), (0, 2, 0)):
        assert code_of("slice", numbers(3), starts=(start,), limits=(limit,), strides=(stride,)) == "invalid-size"
        with pytest.raises(EgshapeError):
            shape("slice", t(3), starts=c(start), limits=c(limit), strides=c(stride))
    assert shape("slice", t(N), starts=(M,), limits=(N,), strides=c(1)) == ("i32", (N - M,))
    (size,) = shape("slice", t(N), starts=c(1), limits=(N,), strides=c(3))[1]
    assert all(size.evaluate({"n": n}) == len(range(1, n, 3)) for n in range(1, 12))
    (size,) = shape("slice", t(N), starts=c(0), limits=(N,), strides=(M,))[1]
    assert size is None or all(size.evaluate({"n": 7, "m": m}) == len(range(0, 7, m)) for m in range(1, 9))
    known = [object_array([N, M, None], (3,))]
    assert elements("slice", known, (t(3), t(1)), starts=c(1), limits=c(2), strides=c(1)).tolist() == [M]
    assert elements("slice", known, (t(3), t(N)), starts=c(0), limits=(N,), strides=c(1)) is None


def pad_slowly(x, low, high, interior):
    spread = list(itertools.chain.from_iterable([item] + [-1] * interior for item in x))
    spread = spread[: len(spread) - interior] if len(x) else []
    spread = [-1] * low + spread if low >= 0 else spread[-low:]
    return spread + [-1] * high if high >= 0 else spread[: len(spread) + high]


@pytest.mark.parametrize("low", range(-4, 3))
@pytest.mark.parametrize("interior", range(3))
def test_pad(low, interior):
    for size, high in itertools.product(range(4), range(-4, 3)):
        total = size + low + high + max(size - 1, 0) * interior
        attrs = {"low": (low,), "high": (high,), "interior": (interior,)}
        if total < 0:
            assert code_of("pad", numbers(size), np.array(-1, np.int32), **attrs) == "invalid-size"
            continue
        found = run("pad", numbers(size), np.array(-1, np.int32), **attrs)
        if low + size + max(size - 1, 0) * interior >= 0:
            assert found.tolist() == pad_slowly(list(range(size)), low, high, interior)
        (inferred,) = shape("pad", t(N), t(), low=c(low), high=c(high), interior=c(interior))[1]
        assert inferred.evaluate({"n": size}) == total == len(found)


def test_pad_shape_and_elements():
    assert shape("pad", t(N), t(), low=(M,), high=c(-1), interior=c(0)) == ("i32", (N + M - 1,))
    with pytest.raises(EgshapeError):
        shape("pad", t(2), t(), low=c(-3), high=c(0), interior=c(0))
    with pytest.raises(EgshapeError):
        shape("pad", t(2), t(dtype="f32"), low=c(0), high=c(0), interior=c(0))
    attrs = {"low": c(1), "high": c(0), "interior": c(1)}
    found = elements("pad", [object_array([N, M], (2,)), None], (t(2), t(), t(4)), **attrs)
    assert found.tolist() == [None, N, None, M]
    assert run("pad", numbers(2), np.array(9, np.int32), low=(-1,), high=(1,), interior=(0,)).tolist() == [
        1,
        9,
    ]


def test_concatenate():
    assert run("concatenate", numbers(2, 1), numbers(2, 2), dim=1).tolist() == [[0, 0, 1], [1, 2, 3]]
    assert code_of("concatenate", numbers(2, 1), numbers(1, 2), dim=1) == "shape-mismatch"
    assert shape("concatenate", t(N, M), t(N + 1, 4), dim=0) == ("i32", (2 * N + 1, const(4)))
    assert shape("concatenate", TensorType("i32", None), t(N, 4), dim=0) == ("i32", (None, const(4)))
    for types in ((t(2, 3), t(2, 4)), (t(2), t(2, 2)), (t(2), t(2, dtype="i64")), ()):
        with pytest.raises(EgshapeError):
            shape("concatenate", *types, dim=0)
    found = elements("concatenate", [object_array([N], (1,)), None], (t(1), t(2), t(3)), dim=0)
    assert found.tolist() == [N, None, None]


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=2))
def test_dynamic_slices_clamp(starts):
    x = numbers(4, 5)
    row, column = min(max(starts[0], 0), 2), min(max(starts[1], 0), 2)
    index = [np.array(start, np.int32) for start in starts]
    window = (slice(row, row + 2), slice(column, column + 3))
    assert (run("dynamic_slice", x, *index, sizes=(2, 3)) == x[window]).all()
    written = run("dynamic_update_slice", x, np.full((2, 3), -1, np.int32), *index)
    assert (written[window] == -1).all() and (written == -1).sum() == 6 and (x >= 0).all()


def test_dynamic_slice_shapes_and_elements():
    i = t()
    assert shape("dynamic_slice", t(N, 3), i, i, sizes=(2, 3)) == ("i32", c(2, 3))
    assert shape("dynamic_update_slice", t(N), t(M), i) == ("i32", (N,))
    for types, attrs in (
        ((t(3), i), {"sizes": (4,)}),
        ((t(3), i, i), {"sizes": (1, 1)}),
        ((t(3), t(1)), {"sizes": (1,)}),
    ):
        with pytest.raises(EgshapeError):
            shape("dynamic_slice", *types, **attrs)
    assert code_of("dynamic_slice", numbers(1), np.array(0), sizes=(2,)) == "invalid-size"
    x, one = object_array([N, M, N + M], (3,)), object_array([const(9)], ())
    types = (t(3), i, t(1))
    assert elements("dynamic_slice", [x, one], types, sizes=(1,)).tolist() == [N + M]
    assert elements("dynamic_slice", [x, None], types, sizes=(1,)) is None
    assert elements("dynamic_slice", [object_array([N], ())], (t(), t()), sizes=()).tolist() is N
    assert elements("dynamic_slice", [x, None], types, sizes=(3,)).tolist() == [N, M, N + M]
    new = object_array([const(5)], (1,))
    found = elements("dynamic_update_slice", [None, new, object_array([const(1)], ())], (t(3), t(1), i, t(3)))
    assert found.tolist() == [None, const(5), None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_movement_keeps_every_dtype(dtype):
    x = np.ones((1, 2), dtype)
    for name, attrs in (
        ("broadcast_in_dim", {"dims": (0, 1), "shape": (3, 2)}),
        ("reshape", {"shape": (2,)}),
        ("transpose", {"permutation": (1, 0)}),
        ("reverse", {"dims": (0,)}),
        ("slice", {"starts": (0, 0), "limits": (1, 1), "strides": (1, 1)}),
        ("concatenate", {"dim": 0}),
    ):
        assert run(name, x, **attrs).dtype == x.dtype
    padded = run("pad", x, np.zeros((), dtype), low=(1, 0), high=(0, 0), interior=(0, 0))
    assert padded.dtype == x.dtype and padded.shape == (2, 2)
