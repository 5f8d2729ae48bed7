"""What an op does to the elements of shape tensors: its contract's part ``:elements``, run.

Rows of elementwise ops are run on one element after the other (``egshape.ops.shapecode``). Ops that move elements run
their reference on arrays of them, as it does not look inside; what they take of an operand, and from which attributes,
is said by the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import CheckFailed
from egshape.ir.graph import Block
from egshape.ir.types import TensorType, dtype_name, is_float, numpy_dtype
from egshape.ops import floatcode
from egshape.ops.base import REGISTRY, Element, ElementScope, concrete_attrs, object_array
from egshape.ops.contracts import OpContract
from egshape.ops.kinds import region_kind
from egshape.ops.shapecode import FUNCTIONS, PARTIAL, Elementwise, mapped, wrapped

if TYPE_CHECKING:
    from egshape.rulelang.contract_elements import ArrayRule, ElementRule

Elements = Callable[[ElementScope, Sequence[Any], Mapping[str, Any], Any], Any]


class _Unknown(Exception):
    """An element that must be known is not: nothing is known of the result."""


def elements_of(name: str, contract: OpContract, reference: Callable[..., Any]) -> Elements:
    """The function from a scope, the operands' elements (None for an operand of which nothing is known), attributes,
    and types of operands and result to the result's elements: an object array, or None."""

    def elements(scope: ElementScope, operands: Sequence[Any], attrs: Mapping[str, Any], types: Any) -> Any:
        rule = _rule_of(contract)
        if rule is None:
            return None
        given = contract.given(attrs)
        if rule.arrays is None:
            return mapped(Elementwise(name, rule, reference), scope, operands, given, types)
        return _Arrays(scope, reference, given, types[-1]).result(rule.arrays, operands, types[:-1])

    return elements


@lru_cache(maxsize=512)
def _rule_of(contract: OpContract) -> ElementRule | None:
    return contract.elements(FUNCTIONS, PARTIAL)


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand as rules of arrays see it: what contracts ask of a type, and its elements."""

    type: TensorType
    elements: np.ndarray | None

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        if self.type.shape is None:
            raise _Unknown
        return self.type.shape


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Gives the arrays of elements that a rule names."""

    scope: ElementScope
    reference: Callable[..., Any]
    attrs: Mapping[str, Any]
    type: TensorType
    """Of the result."""

    def result(self, rule: ArrayRule, operands: Sequence[Any], types: Sequence[TensorType]) -> Any:
        """The elements of the result, None where nothing is known of them."""
        try:
            return rule(self, *map(_Operand, types, operands), **self.attrs)
        except (_Unknown, CheckFailed):  # an op that is rejected has no elements to speak of
            return None

    def known(self, operand: _Operand) -> np.ndarray:
        """Elements of an operand of which something must be known."""
        if operand.elements is None:
            raise _Unknown
        return operand.elements

    def whole(self, operand: _Operand) -> np.ndarray:
        """Elements of an operand of which nothing need be known but the shape."""
        return np.full(_static(operand), None, dtype=object) if operand.elements is None else operand.elements

    def numbers(self, operand: _Operand) -> np.ndarray:
        """Elements that are numbers, all of them."""
        found = self.known(operand)
        items = [item.const if isinstance(item, Dim) else None for item in found.reshape(-1)]
        if None in items:
            raise _Unknown
        numbers = [wrapped(item or 0, operand.dtype) for item in items]
        return np.array(numbers, numpy_dtype(operand.dtype)).reshape(found.shape)

    def zeros(self, operand: _Operand) -> np.ndarray:
        """Zeros in the place of an operand of which nothing need be known."""
        return np.zeros(_static(operand), dtype=np.int64)

    def moved(self, *arrays: np.ndarray) -> Any:
        """The reference on arrays of elements; attributes must be numbers."""
        numbers = concrete_attrs(self.attrs)
        if numbers is None:
            raise _Unknown
        return self.array(self.reference(*arrays, **numbers))

    def array(self, items: Any) -> np.ndarray:
        """An array of elements, or of numbers."""
        found = np.asarray(items)
        if found.dtype == object:
            return found
        return object_array([_element(item) for item in found.reshape(-1)], found.shape)

    def sizes(self, items: Sequence[Dim]) -> np.ndarray:
        """The sizes that the result holds, row by row."""
        return object_array(items, tuple(int(dim.const or 0) for dim in self.type.dims))

    def fold(self, x: _Operand, init: _Operand, dims: Sequence[int], region: Block) -> Any:
        """Axes folded with the known function that a region is: that op's elements, one after the other."""
        items, start, kind = self.known(x), self.known(init), region_kind(region)
        if kind is None:
            raise _Unknown
        combine = REGISTRY[kind].elements
        kept = [axis for axis in range(items.ndim) if axis not in dims]
        shape = tuple(items.shape[axis] for axis in kept)
        count = prod(items.shape[axis] for axis in dims)
        flat = items.transpose(*kept, *sorted(dims)).reshape(*shape, count)
        total: Any = object_array([start.reshape(-1)[0]] * prod(shape), shape)
        for k in range(count):
            item = object_array(list(flat[..., k].reshape(-1)), shape)
            if total is not None and combine is not None:
                total = combine(self.scope, [total, item], {}, (self.type,) * 3)
        return total


def _static(operand: _Operand) -> tuple[int, ...]:
    sizes = [dim.const for dim in operand.shape]
    if None in sizes:
        raise _Unknown
    return tuple(size for size in sizes if size is not None)


def _element(item: Any) -> Element:
    """The element that a number is."""
    dtype = dtype_name(item.dtype)
    if dtype == "i1":
        return bool(item)
    return floatcode.of_number(float(item)) if is_float(dtype) else const(int(item))
