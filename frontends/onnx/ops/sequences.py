"""Sequences and optional values, while the model is read: a sequence is the tuple of its tensors, an optional value is
what it holds or nothing. A sequence whose length only running tells is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.control import nested, subgraph
from egshape.frontends.onnx.ops.indexing import counted_from_front
from egshape.frontends.onnx.ops.movement import concat_along, cut, must_fill
from egshape.frontends.onnx.ops.shaping import reshape, taken, window
from egshape.frontends.onnx.program import Items, Operand
from egshape.frontends.onnx.registry import onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.frontends.onnx.types import dtype_of
from egshape.ir.graph import Value

_ONE = const(1)

LONGEST = 4096
"""Tensors that a sequence may have."""


def unknown_length(node: Node, why: str) -> Unsupported:
    """The error for a sequence that is no tuple."""
    return Unsupported(
        f"{node.op} makes a sequence whose length only running tells: {why}",
        where=str(node.location),
        hint="give that axis or operand a fixed value in the model, or use ops on tensors (Split, Gather, Concat)",
    )


def listed(node: Node, found: Operand) -> Items:
    """A sequence operand. Raises EgshapeError for a tensor."""
    if not isinstance(found, Items):
        raise node.error("wants a sequence")
    return found


def _place(s: Scope, node: Node, position: Value | None, length: int, default: int) -> int:
    """A constant position, counted from the front."""
    if position is None:
        return default
    numbers = s.numbers(position)
    if numbers is None:
        raise unknown_length(node, "the position is data")
    if len(numbers) != 1 or not -length <= numbers[0] < max(length, 1):
        raise node.error(f"names place {list(numbers)} of a sequence of {length}")
    return numbers[0] % max(length, 1)


@onnx_op("SequenceEmpty")
def sequence_empty(s: Scope, node: Node) -> list[Operand]:
    """No tensors."""
    return [Items(dtype_of(node.int("dtype", 1), str(node.location)), ())]


@onnx_op("SequenceConstruct")
def sequence_construct(s: Scope, node: Node, *values: Value) -> list[Operand]:
    """The operands, one after the other."""
    if not values or len({value.type.dtype for value in values}) != 1:
        raise node.error("wants operands of one element type")
    return [Items(values[0].type.dtype, values)]


@onnx_op("SequenceInsert", sequences=True)
def sequence_insert(
    s: Scope, node: Node, given: Operand, tensor: Value, position: Value | None = None
) -> list[Operand]:
    """A tensor put before the one at a position, at the end by default."""
    items = listed(node, given)
    length = len(items.parts)
    at = length if position is None else (s.numbers(position) or (None,))[0]
    if at is None:
        raise unknown_length(node, "the position is data")
    if not -length <= at <= length:
        raise node.error(f"names place {at} of a sequence of {length}")
    if tensor.type.dtype != items.dtype and items.parts:
        raise node.error(f"puts {tensor.type.dtype} into a sequence of {items.dtype}")
    at = at + length if at < 0 else at
    return [Items(tensor.type.dtype, (*items.parts[:at], tensor, *items.parts[at:]))]


@onnx_op("SequenceErase", sequences=True)
def sequence_erase(s: Scope, node: Node, given: Operand, position: Value | None = None) -> list[Operand]:
    """All but the tensor at a position, the last one by default."""
    items = listed(node, given)
    if not items.parts:
        raise node.error("takes a tensor out of an empty sequence")
    at = _place(s, node, position, len(items.parts), len(items.parts) - 1)
    return [Items(items.dtype, (*items.parts[:at], *items.parts[at + 1 :]))]


@onnx_op("SequenceAt", sequences=True)
def sequence_at(s: Scope, node: Node, given: Operand, position: Value) -> Value:
    """The tensor at a position; at one that only running tells, where all have one shape, out of all of them."""
    items = listed(node, given)
    if s.numbers(position) is not None:
        if not items.parts:
            raise node.error("reads an empty sequence")
        return items.parts[_place(s, node, position, len(items.parts), 0)]
    shapes = {value.type.shape for value in items.parts}
    if len(shapes) != 1 or None in shapes:
        raise Unsupported(
            "SequenceAt takes a tensor at a place that only running tells, and they differ in shape",
            where=str(node.location),
            hint="pad them to one shape, or make the position a constant",
        )
    stacked = concat_along(s, node, [_wide(s, value, 0) for value in items.parts], 0)
    place = counted_from_front(s, reshape(s, position, ()), const(len(items.parts)))
    return taken(s, stacked, 0, place)


@onnx_op("SequenceLength", sequences=True)
def sequence_length(s: Scope, node: Node, given: Operand) -> Value:
    """How many tensors there are."""
    return s.constant(np.array(len(listed(node, given).parts), np.int64))


def _wide(s: Scope, x: Value, axis: int) -> Value:
    return reshape(s, x, (*x.type.dims[:axis], _ONE, *x.type.dims[axis:]))


@onnx_op("ConcatFromSequence", sequences=True)
def concat_from_sequence(s: Scope, node: Node, given: Operand) -> Value:
    """All tensors joined along an axis, or along a new one."""
    items = listed(node, given)
    if not items.parts:
        raise node.error("joins no tensors")
    new = node.int("new_axis", 0)
    axis = axis_of(node, node.int("axis"), items.parts[0].type.rank + new)
    return concat_along(s, node, [_wide(s, each, axis) if new else each for each in items.parts], axis)


@onnx_op("SplitToSequence")
def split_to_sequence(s: Scope, node: Node, x: Value, given: Value | None = None) -> list[Operand]:
    """Parts along an axis: of single places, of one size (the last one smaller), or of the sizes given."""
    axis = axis_of(node, node.int("axis", 0), x.type.rank)
    parts = _part_sizes(s, node, x.type.dims[axis], given)
    if len(parts) > LONGEST:
        raise Unsupported(
            f"SplitToSequence makes {len(parts)} tensors, at most {LONGEST} are taken",
            where=str(node.location),
            hint="split into larger parts",
        )
    if given is None:
        found = [window(s, x, axis, const(at), const(at + 1)) for at in range(len(parts))]
        if not node.flag("keepdims", True):
            shape = [*x.type.dims[:axis], *x.type.dims[axis + 1 :]]
            found = [reshape(s, each, shape) for each in found]
        return [Items(x.type.dtype, tuple(found))]
    if given.type.rank:
        must_fill(s, node, sum(parts, const(0)), x.type.dims[axis])
    return [Items(x.type.dtype, tuple(cut(s, x, axis, parts)))]


def _part_sizes(s: Scope, node: Node, size: Dim, given: Value | None) -> Sequence[Dim]:
    if given is not None and given.type.rank == 1:
        if given.type.dims[0].const is None:
            raise unknown_length(node, f"it splits into {given.type.dims[0]} parts")
        return s.sizes(given, f"{node.outputs[0]}.split")
    step = 1 if given is None else (s.numbers(given) or (None,))[0]
    if size.const is None or step is None:
        raise unknown_length(node, f"an axis of size {size} is split into parts of {step or 'a size that is data'}")
    if step < 1:
        raise node.error(f"splits into parts of {step}")
    return [const(min(step, size.const - start)) for start in range(0, size.const, step)]


@onnx_op("SequenceMap", sequences=True)
def sequence_map(s: Scope, node: Node, given: Operand, *others: Operand) -> list[Operand]:
    """A subgraph on each tensor in turn, with those of the other sequences at its place, and with whole tensors."""
    graph, items = node.graph("body"), listed(node, given)
    if any(isinstance(other, Items) and len(other.parts) != len(items.parts) for other in others):
        raise node.error("goes over sequences of different lengths")
    rounds: list[list[Value]] = []
    for place, part in enumerate(items.parts):
        operands: list[Operand] = [part]
        operands += [other.parts[place] if isinstance(other, Items) else other for other in others]
        found = subgraph(nested(s), graph, operands)
        values = [each for each in found if isinstance(each, Value)]
        if len(values) != len(found):
            raise node.error("has a body that gives a sequence")
        rounds.append(values)
    if not rounds:
        where = str(node.location)
        return [Items(dtype_of(info.type.tensor_type.elem_type, where), ()) for info in graph.output]
    return [Items(column[0].type.dtype, column) for column in zip(*rounds, strict=True)]


# -- optional values ---------------------------------------------------------------------------------------------


@onnx_op("Optional", sequences=True)
def optional(s: Scope, node: Node, x: Operand = None) -> list[Operand]:
    """A value that is there, or none."""
    return [x]


@onnx_op("OptionalHasElement", sequences=True)
def optional_has_element(s: Scope, node: Node, x: Operand = None) -> Value:
    """Whether there is a value."""
    return s.constant(np.array(x is not None))


@onnx_op("OptionalGetElement", sequences=True)
def optional_get_element(s: Scope, node: Node, x: Operand) -> list[Operand]:
    """The value."""
    if x is None:
        raise node.error("takes the value of an optional one that has none")
    return [x]
