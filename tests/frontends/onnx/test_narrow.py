"""Elements of 8-bit floats and of less than a byte on every road."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX needs the extra onnx")

from onnx import helper

from egshape.errors import Unsupported
from egshape.frontends.onnx.types import dtype_of, elem_type_of
from egshape.ir.types import NARROW, is_narrow_integer, numpy_dtype
from tests.frontends.onnx.roads import FLOAT, check, made

LACKING = ("f8E3M4", "f8E4M3", "f8E4M3B11FNUZ")
"""Dtypes of StableHLO that ONNX has no element type for."""
KNOWN = [name for name in NARROW if name not in LACKING]
QUANTIZED = [name for name in KNOWN if name not in ("f8E8M0FNU", "f6E2M3FN", "f6E3M2FN")]
FLOATS = np.array([[0.0, -0.0, 1.0, -1.5], [0.3, 448.0, 1e9, -1e9], [1e-9, np.nan, 0.0078125, 57344.0]], np.float32)
WHOLE = np.arange(-3, 9, dtype=np.float32).reshape(3, 4)


def codes(dtype: str) -> np.ndarray:
    """Some elements of a dtype."""
    return (
        (np.arange(12) % 2 if dtype.endswith(("i2", "i4")) else np.linspace(-2, 2, 12))
        .astype(np.float32)
        .reshape(3, 4)
        .astype(numpy_dtype(dtype))
    )


@pytest.mark.parametrize("dtype", KNOWN)
def test_every_narrow_dtype_has_an_element_type_and_back(dtype: str) -> None:
    assert dtype_of(elem_type_of(dtype), "") == dtype


@pytest.mark.parametrize("dtype", LACKING)
def test_what_onnx_lacks_is_one_error(dtype: str) -> None:
    with pytest.raises(Unsupported, match=f"ONNX has no elements of {dtype}"):
        elem_type_of(dtype)


@pytest.mark.parametrize("dtype", QUANTIZED)
@pytest.mark.parametrize("saturate", [1, 0])
def test_casts(dtype: str, saturate: int, tmp_path) -> None:
    plain = {} if is_narrow_integer(dtype) or dtype.startswith("f4") else {"saturate": saturate}
    if plain == {} and not saturate:
        pytest.skip("saturate is for 8-bit floats")
    if not is_narrow_integer(dtype) and dtype.startswith("f4"):
        data = np.nan_to_num(FLOATS, nan=1.0)
    else:
        data = WHOLE if is_narrow_integer(dtype) else FLOATS
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=elem_type_of(dtype), **plain),
        helper.make_node("Cast", ["q"], ["y"], to=FLOAT),
    ]
    model = made(nodes, [("x", FLOAT, ["n", 4])], [("q", elem_type_of(dtype), ["n", 4]), ("y", FLOAT, ["n", 4])], 25)
    check(model, {"x": data}, tmp_path, host=False)
    check(model, {"x": data[:0]}, tmp_path, host=False)


@pytest.mark.parametrize("dtype", KNOWN)
def test_constants_move_and_are_packed(dtype: str, tmp_path) -> None:
    held = codes(dtype)[:, :3]  # 9 elements: the last byte of packed ones is not full
    nodes = [
        helper.make_node("Transpose", ["c"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["x", "t"], ["both"], axis=0),
        helper.make_node("Reshape", ["both", "flat"], ["y"]),
    ]
    model = made(
        nodes,
        [("x", elem_type_of(dtype), ["n", 3])],
        [("y", elem_type_of(dtype), [None])],
        25,
        {"c": held, "flat": np.array([-1], np.int64)},
    )
    check(model, {"x": held[:2]}, tmp_path, host=False)


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantization(dtype: str, tmp_path) -> None:
    scale = np.array([0.5, 1.0, 2.0, 4.0], np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], axis=1, output_dtype=elem_type_of(dtype)),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"], axis=1),
    ]
    model = made(
        nodes,
        [("x", FLOAT, ["n", 4])],
        [("q", elem_type_of(dtype), ["n", 4]), ("y", FLOAT, ["n", 4])],
        25,
        {"s": scale},
    )
    check(model, {"x": np.linspace(-9, 9, 12, dtype=np.float32).reshape(3, 4)}, tmp_path, host=False)


def test_powers_of_two_run_on_the_host(tmp_path) -> None:
    kind = elem_type_of("f8E8M0FNU")
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=kind, round_mode="up"),
        helper.make_node("Cast", ["q"], ["y"], to=FLOAT),
    ]
    model = made(nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], 25)
    check(model, {"x": np.array([1.0, 3.0, 0.3], np.float32)}, tmp_path)
