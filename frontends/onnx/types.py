"""ONNX's element types and tensors: ours and numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper, numpy_helper

from egshape.errors import EgshapeError, ParseError, Unsupported
from egshape.ir.types import SUBBYTE, TEXT, dtype_name, numpy_dtype

_OURS = {
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.FLOAT16: "f16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.INT8: "i8",
    TensorProto.INT16: "i16",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
    TensorProto.UINT8: "ui8",
    TensorProto.UINT16: "ui16",
    TensorProto.UINT32: "ui32",
    TensorProto.UINT64: "ui64",
    TensorProto.BOOL: "i1",
    TensorProto.COMPLEX64: "c64",
    TensorProto.COMPLEX128: "c128",
    TensorProto.STRING: TEXT,
    TensorProto.INT4: "i4",
    TensorProto.UINT4: "ui4",
    TensorProto.FLOAT8E4M3FN: "f8E4M3FN",
    TensorProto.FLOAT8E4M3FNUZ: "f8E4M3FNUZ",
    TensorProto.FLOAT8E5M2: "f8E5M2",
    TensorProto.FLOAT8E5M2FNUZ: "f8E5M2FNUZ",
    **{
        getattr(TensorProto, theirs): ours
        for theirs, ours in (
            ("FLOAT4E2M1", "f4E2M1FN"),
            ("FLOAT8E8M0", "f8E8M0FNU"),
            ("INT2", "i2"),
            ("UINT2", "ui2"),
            ("FLOAT6E2M3", "f6E2M3FN"),
            ("FLOAT6E3M2", "f6E3M2FN"),
        )
        if hasattr(TensorProto, theirs)
    },  # newer onnx only
}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}

_TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")

DENSE_LIMIT = 1 << 28
"""Bytes that a sparse initializer may take when it is written out."""


def dtype_of(elem_type: int, where: str) -> str:
    """Our dtype of an ONNX element type. Raises Unsupported for one that is not known."""
    found = _OURS.get(elem_type)
    if found is None:
        name = TensorProto.DataType.Name(elem_type) if elem_type in TensorProto.DataType.values() else str(elem_type)
        raise Unsupported(f"elements of type {name.lower()} are not supported", where=where)
    return found


def elem_type_of(dtype: str) -> int:
    """The ONNX element type of one of our dtypes. Raises Unsupported for one that ONNX lacks."""
    if dtype not in _THEIRS:
        raise Unsupported(f"ONNX has no elements of {dtype}", hint="save the model as StableHLO")
    return int(_THEIRS[dtype])


def tensor_type(dtype: str, shape: Sequence[int | str | None] | None) -> TypeProto:
    """The ONNX type of a tensor."""
    return helper.make_tensor_type_proto(elem_type_of(dtype), shape)


def size_of(tensor: TensorProto, where: str) -> tuple[int, ...]:
    """The shape of a tensor. Raises ParseError for a negative size."""
    shape = tuple(int(size) for size in tensor.dims)
    if any(size < 0 for size in shape):
        raise ParseError(f"the tensor {tensor.name!r} has the shape {list(shape)}", where=where)
    return shape


def array_of(tensor: TensorProto, where: str, raw: Any = None) -> np.ndarray:
    """The array of a tensor; ``raw`` are its bytes if they stand outside of it, which are viewed and not copied.

    Raises ParseError where the data do not fit the shape."""
    shape = size_of(tensor, where)
    dtype = numpy_dtype(dtype_of(tensor.data_type, where or f"tensor {tensor.name!r}"))
    if raw is None and tensor.HasField("raw_data"):
        raw = tensor.raw_data
    count = prod(shape)
    packed = SUBBYTE.get(dtype_name(dtype))
    if packed is not None:
        return _unpacked(tensor, where, raw, shape, packed)
    if raw is not None:
        if len(raw) != count * dtype.itemsize:
            raise ParseError(
                f"the tensor {tensor.name!r} of shape {list(shape)} needs {count * dtype.itemsize} bytes, "
                f"has {len(raw)}",
                where=where,
                hint="the file is damaged",
            )
        return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    held = sum(len(getattr(tensor, field)) for field in _TYPED)
    if held != count * (2 if dtype.kind == "c" else 1):
        raise ParseError(
            f"the tensor {tensor.name!r} of shape {list(shape)} holds {held} numbers",
            where=where,
            hint="the file is damaged",
        )
    try:
        return np.asarray(numpy_helper.to_array(tensor)).astype(dtype, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise ParseError(f"the tensor {tensor.name!r} cannot be read: {error}", where=where) from None


def _unpacked(tensor: TensorProto, where: str, raw: Any, shape: tuple[int, ...], bits: int) -> np.ndarray:
    """The array of elements of less than a byte, several of which lie in one."""
    count, held = prod(shape), tensor
    if raw is not None:
        if len(raw) != -(-count * bits // 8):
            raise ParseError(
                f"the tensor {tensor.name!r} of shape {list(shape)} needs {-(-count * bits // 8)} bytes, "
                f"has {len(raw)}",
                where=where,
                hint="the file is damaged",
            )
        held = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=bytes(raw))
    try:
        return np.asarray(numpy_helper.to_array(held)).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise ParseError(f"the tensor {tensor.name!r} cannot be read: {error}", where=where) from None


def dense(sparse: Any, where: str) -> np.ndarray:
    """A sparse tensor, written out. Raises EgshapeError where that is too large or an index is out of range."""
    values = array_of(sparse.values, where)
    shape = tuple(int(size) for size in sparse.dims)
    if any(size < 0 for size in shape) or prod(shape) * values.dtype.itemsize > DENSE_LIMIT:
        raise EgshapeError(
            f"the sparse tensor {sparse.values.name!r} of shape {list(shape)} is too large to write out",
            where=where,
            code="limit",
        )
    places = array_of(sparse.indices, where)
    flat = np.ravel_multi_index(tuple(places.T), shape, mode="raise") if places.ndim == 2 else places
    out = np.zeros(prod(shape), values.dtype)
    if flat.size and (int(flat.min()) < 0 or int(flat.max()) >= out.size):
        raise ParseError(f"an index of the sparse tensor {sparse.values.name!r} is out of range", where=where)
    out[flat] = values
    return out.reshape(shape)


def nearest_of_old(scales: np.ndarray) -> str | None:
    """Which element ONNX Runtime takes for the nearest in a Resize before opset 11, or an Upsample; None where that
    differs from axis to axis."""
    if (scales >= 1).all():
        return "floor"
    return "ceil" if (scales <= 1).all() else None
