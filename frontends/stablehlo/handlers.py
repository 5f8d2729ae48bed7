"""StableHLO ops with attributes and no control flow. Those without attributes: see ``Scope.run``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.errors import Unsupported
from egshape.frontends.stablehlo.node import Node
from egshape.frontends.stablehlo.scope import Handler, Scope, dims
from egshape.frontends.stablehlo.stated import shaped, sized
from egshape.ir.graph import Value
from egshape.ops.kinds import comparison

Results = Sequence[Value | None]
Attrs = Callable[[Scope, Node], dict[str, Any]]


def _simple(name: str, attrs: Attrs) -> Handler:
    """An op with the operands of the model's, and attributes made from the node."""

    def handler(scope: Scope, node: Node) -> Results:
        return scope.emit(node, name, scope.operands(node), attrs(scope, node))

    return handler


def _told(name: str, attrs: Attrs) -> Handler:
    """The same of an op whose operands tell the sizes of its result."""

    def handler(scope: Scope, node: Node) -> Results:
        return sized(scope, node, name, scope.operands(node), attrs(scope, node))

    return handler


def _result_dtype(scope: Scope, node: Node) -> dict[str, Any]:
    return {"dtype": scope.declared(node)[0][0]}


def _constant(scope: Scope, node: Node) -> dict[str, Any]:
    value = node.attributes["value"]
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"a constant of type {node.types[0].text} without inline data", where=str(node.location))
    return {"value": value}


def _compare(scope: Scope, node: Node) -> dict[str, Any]:
    kind = node.attributes.get("compare_type", "NOTYPE")
    if kind == "NOTYPE":
        kind = comparison(scope.operand(node, 0).type.dtype)
    return {"direction": node.attributes["comparison_direction"], "kind": kind}


def _iota(scope: Scope, node: Node) -> dict[str, Any]:
    return {
        **_result_dtype(scope, node),
        "dim": node.attributes["iota_dimension"],
        "shape": scope.static(node),
    }


def _broadcast(scope: Scope, node: Node) -> dict[str, Any]:
    rank = scope.operand(node, 0).type.rank
    shape = scope.static(node)
    return {"dims": tuple(range(len(shape) - rank, len(shape))), "shape": shape}


def _axes(key: str, ours: str) -> Attrs:
    return lambda scope, node: {ours: _ints(node.attributes[key])}


def _ints(value: Any) -> tuple[int, ...]:
    """Static integers, given as an array attribute or as a dense one (older text)."""
    if isinstance(value, np.ndarray):
        return tuple(int(item) for item in value.reshape(-1))
    return tuple(int(item) for item in value)


def ints_or(node: Node, key: str, default: int, rank: int) -> tuple[int, ...]:
    """An optional attribute of ``rank`` integers that are all ``default`` if it is left out."""
    return _ints(node.attributes[key]) if key in node.attributes else (default,) * rank


def _slice(scope: Scope, node: Node) -> dict[str, Any]:
    given = node.attributes
    return {
        "starts": dims(_ints(given["start_indices"])),
        "limits": dims(_ints(given["limit_indices"])),
        "strides": dims(_ints(given["strides"])),
    }


def _pad(scope: Scope, node: Node) -> dict[str, Any]:
    given = node.attributes
    return {
        "low": dims(_ints(given["edge_padding_low"])),
        "high": dims(_ints(given["edge_padding_high"])),
        "interior": dims(_ints(given["interior_padding"])),
    }


def _precision(node: Node) -> tuple[str, ...]:
    return tuple(node.attributes.get("precision_config", ()))


def _dot_general(scope: Scope, node: Node) -> dict[str, Any]:
    return {
        **node.attributes["dot_dimension_numbers"],
        "precision": _precision(node),
        **_result_dtype(scope, node),
    }


def _dot(scope: Scope, node: Node) -> dict[str, Any]:
    return {
        "lhs_batch": (),
        "rhs_batch": (),
        "lhs_contract": (scope.operand(node, 0).type.rank - 1,),
        "rhs_contract": (0,),
        "precision": _precision(node),
        **_result_dtype(scope, node),
    }


def _conv_common(scope: Scope, node: Node) -> dict[str, Any]:
    numbers = node.attributes["dimension_numbers"]
    rank = len(numbers[2])
    return {
        "numbers": numbers,
        "strides": ints_or(node, "window_strides", 1, rank),
        "lhs_dilation": ints_or(node, "lhs_dilation", 1, rank),
        "rhs_dilation": ints_or(node, "rhs_dilation", 1, rank),
        "reversal": ints_or(node, "window_reversal", 0, rank),
        "feature_groups": node.attributes["feature_group_count"],
        "batch_groups": node.attributes["batch_group_count"],
        "precision": _precision(node),
        **_result_dtype(scope, node),
    }


def _convolution(scope: Scope, node: Node) -> dict[str, Any]:
    attrs = _conv_common(scope, node)
    return {**attrs, "padding": dims(ints_or(node, "padding", 0, 2 * len(attrs["strides"])))}


def _dynamic_gather(scope: Scope, node: Node) -> dict[str, Any]:
    return {
        **node.attributes["dimension_numbers"],
        "sorted": bool(node.attributes.get("indices_are_sorted", False)),
    }


def _gather(scope: Scope, node: Node) -> dict[str, Any]:
    return {**_dynamic_gather(scope, node), "sizes": dims(_ints(node.attributes["slice_sizes"]))}


_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Bits of exponent and mantissa."""


def keeps_precision(op: Any) -> bool:
    """Whether a ``reduce_precision`` takes nothing away, as those that ``jax.checkpoint`` writes."""
    exponent, mantissa = _FORMATS.get(str(op.operands[0].type.element_type), (64, 64))
    return bool(op.attributes["exponent_bits"].value >= exponent and op.attributes["mantissa_bits"].value >= mantissa)


def _same(scope: Scope, node: Node) -> Results:
    return scope.operands(node)


def _real_dynamic_slice(scope: Scope, node: Node) -> Results:
    """Limits of a window at a start that is data are computed from the start: its size is an expression."""
    x, starts, limits, strides = scope.operands(node)
    requires = scope.builder.name_elements(starts, limits)
    return sized(scope, node, "slice", (x, starts, limits, strides), {}, requires=requires)


def _dynamic_broadcast(scope: Scope, node: Node) -> Results:
    """To common sizes of other shapes the sizes are given as they are: each is one of those that it joins, so it fits
    whatever dtype these fit."""
    x, shape = scope.operands(node)
    attrs: dict[str, Any] = {"dims": _ints(node.attributes["broadcast_dimensions"])}
    known = scope.builder.elements(shape)
    sizes = () if known is None else tuple(known.reshape(-1))
    joins = scope.program.joins
    if any(isinstance(size, Dim) and len(joins.get(size, ())) > 1 for size in sizes) and None not in sizes:
        return sized(scope, node, "broadcast_in_dim", (x,), {**attrs, "shape": sizes})
    return shaped(scope, node, "broadcast_in_dim", (x,), shape, attrs)


def _dynamic_reshape(scope: Scope, node: Node) -> Results:
    x, shape = scope.operands(node)
    return shaped(scope, node, "reshape", (x,), shape, {})


def _dynamic_iota(scope: Scope, node: Node) -> Results:
    attrs = {**_result_dtype(scope, node), "dim": node.attributes["iota_dimension"]}
    return shaped(scope, node, "iota", (), scope.operand(node, 0), attrs)


HANDLERS: dict[str, Handler] = {
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast,
    "stablehlo.reduce_precision": _same,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_pad": _told("pad", lambda scope, node: {}),
    "stablehlo.dynamic_conv": _told("convolution", _conv_common),
    "stablehlo.dynamic_gather": _told("gather", _dynamic_gather),
} | {
    f"stablehlo.{mlir}": _simple(ours, attrs)
    for mlir, ours, attrs in (
        ("constant", "constant", _constant),
        ("convert", "convert", _result_dtype),
        ("bitcast_convert", "bitcast_convert", _result_dtype),
        ("compare", "compare", _compare),
        ("iota", "iota", _iota),
        (
            "get_dimension_size",
            "get_dimension_size",
            lambda scope, node: {"dim": node.attributes["dimension"]},
        ),
        ("broadcast", "broadcast_in_dim", _broadcast),
        (
            "broadcast_in_dim",
            "broadcast_in_dim",
            lambda scope, node: {
                "dims": _ints(node.attributes["broadcast_dimensions"]),
                "shape": scope.static(node),
            },
        ),
        ("reshape", "reshape", lambda scope, node: {"shape": scope.static(node)}),
        ("transpose", "transpose", _axes("permutation", "permutation")),
        ("reverse", "reverse", _axes("dimensions", "dims")),
        ("slice", "slice", _slice),
        ("pad", "pad", _pad),
        ("concatenate", "concatenate", lambda scope, node: {"dim": node.attributes["dimension"]}),
        ("dynamic_slice", "dynamic_slice", _axes("slice_sizes", "sizes")),
        ("dot_general", "dot_general", _dot_general),
        ("dot", "dot_general", _dot),
        ("convolution", "convolution", _convolution),
        ("gather", "gather", _gather),
    )
}
