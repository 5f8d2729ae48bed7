"""Composites that say which function they are: CHLO's, such as ``chlo.erf``, which come with a formula beside. Where
the formula gives the function's values it is the function, which takes fewer instructions and is more exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import numpy_dtype
from egshape.ops import REGISTRY

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
DIALECT = "chlo"
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}
"""How far a formula's values may be from the function's, as a share of these, in the dtypes that have one."""
_FAMILIES = ("unary", "binary", "ternary")


def named(graph: Graph) -> Graph:
    """The graph with functions in the place of composites that say which one they are, and are."""
    return replace(graph, body=_block(graph.body))


def _block(block: Block) -> Block:
    return replace(block, ops=tuple(map(_op, block.ops)))


def _op(op: Op) -> Op:
    if op.name == "composite":
        function = _function(op)
        if function is not None:
            return Op(function, op.operands, {}, op.results, (), op.location)
    return replace(op, regions=tuple(map(_block, op.regions))) if op.regions else op


def _function(op: Op) -> str | None:
    """The function that a composite of one value says that it is, if its region has the values of it."""
    decl = REGISTRY.by_frontend(DIALECT).get(op.attrs["name"].removeprefix(f"{DIALECT}."))
    if decl is None or decl.family != "unary" or op.attrs["attrs"] or len(op.operands) != 1 or len(op.results) != 1:
        return None
    (x,), (result,), (region,) = op.operands, op.results, op.regions
    if x.type != result.type or x.type.dtype not in TOLERANCE or not op.attrs["name"].startswith(f"{DIALECT}."):
        return None
    grid = _grid(x.type.dtype)
    with np.errstate(all="ignore"):
        found = _values(region, {region.args[0]: grid})
        return decl.name if found is not None and _near(found, decl.reference(grid.astype(np.float64)), x) else None


def _values(region: Block, known: dict[Value, Array]) -> Array | None:
    """The values of a region that works on elements alone, at those of its argument; None if it does not. What is made
    of a scalar is, in whatever shape, the same everywhere."""
    (shape,) = (each.shape for each in known.values())
    for op in region.ops:
        decl, operands = REGISTRY[op.name], [known.get(each) for each in op.operands]
        if op.name == "constant" and np.ndim(op.attrs["value"]) == 0:
            known[op.result] = np.asarray(op.attrs["value"])
        elif op.name == "broadcast_in_dim" and not op.operands[0].type.rank and operands[0] is not None:
            known[op.result] = np.broadcast_to(operands[0], shape)
        elif decl.family in _FAMILIES and not op.regions and all(each is not None for each in operands):
            known[op.result] = np.asarray(decl.reference(*operands, **_attrs(op.attrs)))
    return known.get(region.results[0])


def _attrs(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes without sizes, of which functions of elements have none that matter."""
    return {name: value for name, value in attrs.items() if name != "shape"}


@cache
def _grid(dtype: str) -> Array:
    """Numbers of a dtype: dense where functions bend, of all magnitudes, and special ones."""
    large = np.exp(np.linspace(-87, 88, 701))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    with np.errstate(over="ignore"):
        return np.concatenate([np.linspace(-9, 9, 9001), large, -large, special]).astype(numpy_dtype(dtype))


def _near(found: Array, exact: Array, x: Value) -> bool:
    dtype = numpy_dtype(x.type.dtype)
    if found.dtype != dtype or found.shape != exact.shape:
        return False
    one, two = found.astype(np.float64), exact.astype(dtype).astype(np.float64)
    limit = np.maximum(TOLERANCE[x.type.dtype] * np.abs(two), float(np.finfo(np.float32).tiny))
    same = (one == two) & (np.signbit(one) == np.signbit(two)) | (np.isnan(one) & np.isnan(two))
    return bool(np.all(same | (np.abs(one - two) <= limit)))
