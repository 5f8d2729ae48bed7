"""Tensors whose elements are sizes: those of the program's own shape code, and functions of such tensors that rules
bring together, where what moves them has been moved away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from egshape.dims import Dim, const
from egshape.egraph.encode import Encoder
from egshape.egraph.snapshot import Snapshot
from egshape.facts import Relation
from egshape.ir.builder import fits, small
from egshape.ir.functions import function_parts
from egshape.ir.graph import Op, Value
from egshape.ir.types import TensorType, is_integer, numpy_dtype
from egshape.ops.base import Ratio, Registry, object_array
from egshape.ops.shapecode import wrapped
from egshape.rulelang.schema import MAX_RANK

Known = tuple[np.ndarray, TensorType]


class Elements:
    """Says what the elements of nodes are. One for each e-graph; it is the scope that ``elements`` functions ask."""

    def __init__(
        self, encoder: Encoder, registry: Registry, answer: Callable[[Relation], str], normal: Callable[[Dim], Dim]
    ) -> None:
        """``answer`` says what is known of a relation where the block is entered."""
        self.encoder = encoder
        self.registry = registry
        self._answer = answer
        self._normal = normal
        self._asked: set[tuple[Any, ...]] = set()
        self._granted = True

    def decide(self, relation: Relation) -> bool | None:
        """True or False if the relation holds at all, or at no admitted sizes, else None."""
        return {"proved": True, "refuted": False}.get(self._answer(relation))

    def require_fit(self, dim: Dim, dtype: str) -> None:
        """Note whether a size surely lies within the range of an integer dtype: here no check can be added."""
        self._granted &= all(self.decide(relation) is True for relation in fits(dim, dtype, "elements"))

    def say(self, node: int, elements: np.ndarray, dtype: str) -> None:
        """Add the rows that give a node its elements, where they are known sizes or truth values."""
        flat, static = list(elements.reshape(-1)), tuple(elements.shape)
        tables = self.encoder.out.tables
        if dtype == "i1" and all(isinstance(item, bool) for item in flat):
            number = self.encoder.constant(np.array(flat, np.bool_).reshape(static), "i1")
            tables["in_constant"].append((node, number))
            return
        if not all(isinstance(item, Dim) for item in flat) or len(flat) > MAX_RANK or dtype == "i1":
            return
        sizes = tuple(map(self._normal, flat))
        tables["in_dims_of"].append((node, self.encoder.shape(sizes), self.encoder.axes(static), dtype))
        numbers = [wrapped(size.const, dtype) for size in sizes if size.const is not None]
        if len(numbers) == len(sizes):
            array = np.array(numbers, np.uint64 if dtype == "ui64" else np.int64).reshape(static)
            tables["in_constant"].append((node, self.encoder.constant(array.astype(numpy_dtype(dtype)), dtype)))

    def of_ops(self, ops: Iterable[tuple[Op, Op]], known: Mapping[Value, np.ndarray]) -> dict[Value, np.ndarray]:
        """The elements of ops that have none yet, each op with the same one whose sizes are written as they are known
        now. ``known``: those of the values of the block."""
        out = dict(known)
        for op, same in ops:
            elements = self.registry[op.name].elements
            if op.result in out or elements is None or not small(same.result.type):
                continue
            fixed = len(op.operands) if self.registry[op.name].variadic else len(self.registry[op.name].operands)
            attrs = {**same.attrs, "regions": op.regions} if op.regions else same.attrs
            types = (*(operand.type for operand in same.operands[:fixed]), same.result.type)
            self._granted = True
            found = elements(self, [out.get(operand) for operand in op.operands[:fixed]], attrs, types)
            if found is not None and self._granted:
                out[op.result] = found
        return out

    def round(self, snapshot: Snapshot, shapes: Mapping[int, tuple[Dim, ...]]) -> None:
        """Give elements to functions of tensors that have some."""
        sizes = {row[-1] for row in snapshot.table("dims")}
        if not sizes:
            return
        known = self._known(snapshot, shapes)
        asked = [
            (family, function, operands, cls)
            for family in ("unary", "binary")
            for function, *operands, cls in snapshot.table(family.capitalize())
            if cls not in known and not sizes.isdisjoint(operands) and all(x in known for x in operands)
        ]
        if not asked:
            return
        nodes = {cls: node for node, cls in snapshot.table("Node")}
        dtype_of = snapshot.mapping("dtype_of")
        for family, function, operands, cls in asked:
            if cls in dtype_of and all(x in nodes for x in operands):
                self._apply(family, function, [nodes[x] for x in operands], [known[x] for x in operands], dtype_of[cls])

    def _known(self, snapshot: Snapshot, shapes: Mapping[int, tuple[Dim, ...]]) -> dict[int, Known]:
        out: dict[int, Known] = {}
        for number, cls in snapshot.table("constant"):
            array, dtype = self.encoder.out.constants[number], self.encoder.out.constant_dtypes[number]
            if is_integer(dtype) and array.size <= MAX_RANK:
                items = [const(int(item)) for item in array.reshape(-1)]
                out[cls] = object_array(items, array.shape), TensorType(dtype, tuple(map(const, array.shape)))
        for elements, axes, dtype, cls in snapshot.table("dims"):
            if elements in shapes:
                out[cls] = object_array(shapes[elements], axes), TensorType(dtype, tuple(map(const, axes)))
        return out

    def _apply(self, family: str, function: str, nodes: Sequence[int], operands: Sequence[Known], dtype: str) -> None:
        name, attrs = function_parts(function, self.registry)
        elements = self.registry[name].elements
        if (function, *nodes) in self._asked or elements is None:
            return
        self._asked.add((function, *nodes))
        types = [type for _, type in operands]
        self._granted = True
        found = elements(self, [items for items, _ in operands], attrs, (*types, TensorType(dtype, types[0].dims)))
        if found is None or not self._granted or any(isinstance(item, Ratio) for item in found.reshape(-1)):
            return
        node = self.encoder.node()
        self.encoder.out.tables[f"in_{family}"].append((node, function, *nodes))
        self.encoder.out.tables["live"].append((node,))
        self.say(node, found, dtype)
