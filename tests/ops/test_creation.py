"""Constants, iota, sizes as data."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.ops.base import Ratio

N = symbol("n")


def elements(name, operands=(), types=(), **attrs):
    """Elements of a result, of operands of these types."""
    result = TensorType(*REGISTRY[name].shape(*types, **attrs))
    return REGISTRY[name].elements(None, operands, attrs, (*types, result))


def test_constant():
    decl = REGISTRY["constant"]
    assert decl.shape(value=np.zeros((2, 0), np.float32)) == ("f32", (const(2), const(0)))
    assert decl.reference(value=np.array(3, np.int8)) == 3
    assert elements("constant", value=np.array([[1, -2]], np.int32)).tolist() == [[const(1), const(-2)]]
    assert elements("constant", value=np.array(True)).reshape(-1)[0] is True
    assert elements("constant", value=np.array([1.5, 0.1], np.float32)).tolist() == [Ratio(const(3), 2), None]


def test_iota():
    decl = REGISTRY["iota"]
    assert decl.shape(dtype="i32", dim=1, shape=(N, const(3))) == ("i32", (N, const(3)))
    assert decl.reference(dtype="i32", dim=1, shape=(2, 3)).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert decl.reference(dtype="bf16", dim=0, shape=(2, 0)).shape == (2, 0)
    assert decl.reference(dtype="i8", dim=0, shape=(130,))[-2:].tolist() == [-128, -127]
    assert decl.reference(dtype="c64", dim=0, shape=(2,)).tolist() == [0, 1]
    assert elements("iota", dtype="i32", dim=0, shape=(const(2),)).tolist() == [const(0), const(1)]
    assert elements("iota", dtype="i32", dim=0, shape=(N,)) is None
    assert elements("iota", dtype="f32", dim=0, shape=(const(2),)).tolist() == [Ratio(const(0)), Ratio(const(1))]
    for bad in ({"dtype": "i1", "dim": 0}, {"dtype": "i32", "dim": 1}):
        with pytest.raises(EgshapeError):
            decl.shape(shape=(N,), **bad)


def test_dims():
    decl = REGISTRY["dims"]
    assert decl.shape(elements=(N, N + 1), shape=(2, 1), dtype="i64") == ("i64", (const(2), const(1)))
    assert decl.reference(elements=(7, 2**31), shape=(2,), dtype="i32").tolist() == [7, -(2**31)]
    assert decl.reference(elements=(-1,), shape=(), dtype="ui8") == 255
    assert elements("dims", elements=(N,), shape=(), dtype="i32").reshape(-1)[0] is N
    for bad in (
        {"elements": (N,), "shape": (2,), "dtype": "i32"},
        {"elements": (N,), "shape": (), "dtype": "f32"},
    ):
        with pytest.raises(EgshapeError):
            decl.shape(**bad)


def test_get_dimension_size():
    decl = REGISTRY["get_dimension_size"]
    x = TensorType("f32", (const(2), N))
    assert decl.shape(x, dim=1) == ("i32", ())
    found = decl.reference(np.zeros((2, 5)), dim=1)
    assert found == 5 and found.dtype == np.int32 and found.shape == ()
    assert elements("get_dimension_size", (None,), (x,), dim=1).reshape(-1)[0] is N
    assert elements("get_dimension_size", (None,), (TensorType("f32", None),), dim=1) is None
    with pytest.raises(EgshapeError):
        decl.shape(x, dim=2)
