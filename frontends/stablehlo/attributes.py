"""MLIR attributes, types and locations as plain Python, each distinct one read once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from egshape.errors import Unsupported
from egshape.frontends.stablehlo.ranks import UNRANKED
from egshape.ir.graph import NOWHERE, Location
from egshape.ir.types import DTYPES, numpy_dtype

_DTYPE_OF = {name: name for name in DTYPES if not name.startswith("c")} | {
    "complex<f32>": "c64",
    "complex<f64>": "c128",
    "index": "i64",
}
_DENSE = re.compile(r"dense<(.*)>\s*:\s*tensor<(.*)>\Z", re.DOTALL)
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?\d[\d.eE+-]*")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A type as the model states it. ``shape`` None: unranked, or (with ``dtype`` "") no tensor at all."""

    dtype: str
    shape: tuple[int | None, ...] | None
    text: str = ""
    bounds: tuple[int | None, ...] | None = None

    @property
    def declared(self) -> tuple[str, tuple[int | None, ...] | None]:
        """As ``BlockBuilder.add`` takes it."""
        return self.dtype, self.shape


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute that only its text describes."""

    text: str


class Reader:
    """Reads attributes, types and locations of one module."""

    def __init__(self, hlo: SimpleNamespace, name: str) -> None:
        self._ir = hlo.ir
        self._name = name
        self._attributes: dict[Any, Any] = {}
        self._types: dict[Any, TensorInfo] = {}
        self._locations: dict[Any, Location] = {}
        ir = hlo.ir
        self._readers: dict[type, Callable[[Any], Any]] = {
            ir.IntegerAttr: lambda a: a.value,
            ir.BoolAttr: lambda a: bool(a.value),
            ir.FloatAttr: lambda a: a.value,
            ir.StringAttr: lambda a: a.value,
            ir.FlatSymbolRefAttr: lambda a: a.value,
            ir.UnitAttr: lambda a: True,
            ir.DenseI64ArrayAttr: tuple,
            ir.DenseI32ArrayAttr: tuple,
            ir.DenseBoolArrayAttr: lambda a: tuple(bool(item) for item in a),
            ir.ArrayAttr: lambda a: tuple(self.attribute(item) for item in a),
            ir.DictAttr: lambda a: {each.name: self.attribute(each.attr) for each in a},
            ir.DenseIntElementsAttr: _dense,
            ir.DenseFPElementsAttr: _dense,
            ir.TypeAttr: lambda a: self.type(a.value),
        }
        self._structs = (
            (hlo.stablehlo.DotDimensionNumbers, _dot_numbers),
            (hlo.stablehlo.GatherDimensionNumbers, _gather_numbers),
            (hlo.stablehlo.ScatterDimensionNumbers, _scatter_numbers),
            (hlo.stablehlo.ConvDimensionNumbers, _conv_numbers),
            (hlo.stablehlo.ComparisonDirectionAttr, lambda a: str(a.value)),
            (hlo.stablehlo.ComparisonTypeAttr, lambda a: str(a.value)),
            (hlo.stablehlo.PrecisionAttr, lambda a: str(a.value)),
        )

    def attribute(self, attr: Any) -> Any:
        """int, float, bool, str, tuple, dict, numpy array; dimension numbers as a tuple; else ``Opaque``."""
        found = self._attributes.get(attr)
        if found is None:
            found = self._attributes[attr] = self._read(attr)
        return found

    def _read(self, attr: Any) -> Any:
        reader = self._readers.get(type(attr))
        if reader is not None:
            return reader(attr)
        for struct, read in self._structs:
            if struct.isinstance(attr):
                return read(struct(attr))
        return Opaque(str(attr))

    def attributes(self, operation: Any) -> dict[str, Any]:
        """All attributes of an op, properties included."""
        held = operation.attributes
        if not len(held):
            return {}
        out = {}
        for key in held:
            try:
                attr = held[key]
            except TypeError:  # the bindings have no class for dense complex numbers
                out[key] = dense_of_text(_attribute_text(operation))
                continue
            out[key] = self.attribute(attr)
        return out

    def texts(self, operation: Any, inside: str) -> tuple[tuple[str, str], ...]:
        """Names and texts of an op's attributes, or of those in its dictionary attribute ``inside``."""
        held = operation.attributes
        if not inside:
            return tuple((key, str(held[key])) for key in held if key != "call_target_name")
        return tuple((each.name, str(each.attr)) for each in held[inside]) if inside in held else ()

    def type(self, found: Any) -> TensorInfo:
        """A tensor type, or ``index`` as a scalar; any other type has the dtype "" and its text."""
        info = self._types.get(found)
        if info is None:
            info = self._types[found] = self._read_type(found)
        return info

    def _read_type(self, found: Any) -> TensorInfo:
        ir = self._ir
        text = str(found)
        if isinstance(found, ir.RankedTensorType):
            dtype = _DTYPE_OF.get(str(found.element_type), "")
            unknown = ir.ShapedType.get_dynamic_size()
            shape = tuple(None if size == unknown else size for size in found.shape)
            encoding = found.encoding
            if str(encoding) == UNRANKED:
                return TensorInfo(dtype, None, text)
            bounds = None if encoding is None else _bounds(str(encoding))
            return TensorInfo(dtype, shape if dtype else None, text, bounds)
        if isinstance(found, ir.UnrankedTensorType):
            return TensorInfo(_DTYPE_OF.get(str(found.element_type), ""), None, text)
        dtype = _DTYPE_OF.get(text, "")
        return TensorInfo(dtype, () if dtype else None, text)

    def location(self, found: Any) -> Location:
        """File, line, column and name; ``-``, as MLIR calls a text without a file, is the model itself."""
        known = self._locations.get(found)
        if known is None:
            known = self._locations[found] = self._read_location(found)
        return known

    def _read_location(self, found: Any) -> Location:
        ir = self._ir
        if isinstance(found, ir.FileLineColLoc):
            file = found.filename
            file = str(getattr(file, "value", file))
            return Location(self._name if file == "-" else file, found.start_line, found.start_col)
        if isinstance(found, ir.NameLoc):
            inner = self.location(found.child_loc)
            name = found.name_str
            return Location(inner.file, inner.line, inner.column, str(getattr(name, "value", name)))
        if isinstance(found, ir.CallSiteLoc):
            inner = self.location(found.callee)
            return inner if inner != NOWHERE else self.location(found.caller)
        if isinstance(found, ir.FusedLoc):
            for part in found.locations:
                inner = self.location(part)
                if inner != NOWHERE:
                    return inner
        return NOWHERE


def _dense(attr: Any) -> np.ndarray:
    try:
        array = np.array(attr)  # a copy: the buffer belongs to the MLIR context
    except TypeError:  # bf16 and small floats have no buffer
        return dense_of_text(str(attr))
    return array


def _attribute_text(operation: Any) -> str:
    """The ``dense<...> : tensor<...>`` of a constant, from its generic form."""
    text = operation.get_asm(print_generic_op_form=True, use_local_scope=True, assume_verified=True)
    found = re.search(r"dense<.*?>\s*:\s*tensor<[^{}]*?complex<f\d+>>", text, re.DOTALL)
    if found is None:
        raise Unsupported("an attribute that jaxlib's bindings cannot read", where=str(operation.name))
    return found.group(0)


def dense_of_text(text: str) -> np.ndarray:
    """The array of ``dense<...> : tensor<...>`` where jaxlib gives no buffer (bf16, complex)."""
    found = _DENSE.fullmatch(text.strip())
    if found is None:
        raise Unsupported(f"a constant of the form {text[:60]!r}")
    body, type_text = found.groups()
    *sizes, element = re.split(r"x(?=[\d?]|[a-z])", type_text) if type_text[:1].isdigit() else [type_text]
    if element not in _DTYPE_OF:
        raise Unsupported(f"a constant of element type {element}")
    shape = tuple(int(size) for size in sizes)
    dtype = numpy_dtype(_DTYPE_OF[element])
    if body.startswith('"'):
        raw = np.frombuffer(bytes.fromhex(ast.literal_eval(body)[2:]), dtype)
        return raw.reshape(shape) if raw.size != 1 else np.full(shape, raw[0], dtype)
    part = numpy_dtype({"c64": "f32", "c128": "f64"}.get(_DTYPE_OF[element], _DTYPE_OF[element]))
    numbers = np.array([_number(item, part) for item in _NUMBER.findall(body)], part).view(dtype)
    return numbers.reshape(shape) if numbers.size != 1 else np.full(shape, numbers[0], dtype)


def _number(text: str, dtype: np.dtype) -> Any:
    if text.startswith("0x"):
        return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    if text in ("true", "false"):
        return text == "true"
    return dtype.type(float(text))


def _bounds(text: str) -> tuple[int | None, ...] | None:
    found = re.search(r"bounds<([^>]*)>", text)
    if found is None:
        return None
    return tuple(None if part.strip() == "?" else int(part) for part in found.group(1).split(","))


def _dot_numbers(a: Any) -> dict[str, tuple[int, ...]]:
    return {
        "lhs_batch": tuple(a.lhs_batching_dimensions),
        "rhs_batch": tuple(a.rhs_batching_dimensions),
        "lhs_contract": tuple(a.lhs_contracting_dimensions),
        "rhs_contract": tuple(a.rhs_contracting_dimensions),
    }


def _gather_numbers(a: Any) -> dict[str, Any]:
    return {
        "offset_dims": tuple(a.offset_dims),
        "collapsed": tuple(a.collapsed_slice_dims),
        "operand_batch": tuple(a.operand_batching_dims),
        "indices_batch": tuple(a.start_indices_batching_dims),
        "start_index_map": tuple(a.start_index_map),
        "index_vector_dim": a.index_vector_dim,
    }


def _scatter_numbers(a: Any) -> dict[str, Any]:
    return {
        "update_window_dims": tuple(a.update_window_dims),
        "inserted_window_dims": tuple(a.inserted_window_dims),
        "operand_batch": tuple(a.input_batching_dims),
        "indices_batch": tuple(a.scatter_indices_batching_dims),
        "scatter_dims_to_operand_dims": tuple(a.scattered_dims_to_operand_dims),
        "index_vector_dim": a.index_vector_dim,
    }


def _conv_numbers(a: Any) -> tuple[Any, ...]:
    return (
        a.input_batch_dimension,
        a.input_feature_dimension,
        tuple(a.input_spatial_dimensions),
        a.kernel_input_feature_dimension,
        a.kernel_output_feature_dimension,
        tuple(a.kernel_spatial_dimensions),
        a.output_batch_dimension,
        a.output_feature_dimension,
        tuple(a.output_spatial_dimensions),
    )
