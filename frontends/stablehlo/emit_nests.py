"""Explicit clamps of starts where windows nest.

XLA folds a window of a window, and the update of a window that goes back to where it came from, into one whose start
is the sum of both, but leaves their clamps out (openxla/xla#49121). Clamped starts add up to the right one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from egshape.dims import Dim, const
from egshape.ir.graph import Block, Op, Value
from egshape.ir.types import TensorType, integer_range, numpy_dtype
from egshape.ops import REGISTRY

_MOVES = frozenset({"movement", "unary", "indexing"})
"""Families of ops through which XLA may see one window from another (a scatter of one window is an update to it)."""

_INDEX = "i32"


def nested(block: Block) -> frozenset[Op]:
    """The ops that take or write a window of what another one took or wrote, and these; regions included."""
    found: set[Op] = set()
    _follow(block, {}, found)
    return frozenset(found)


def _follow(block: Block, seen: dict[Value, frozenset[Op]], found: set[Op]) -> None:
    """Note for each value the windows that it may come from."""

    def origins(values: Iterable[Value]) -> frozenset[Op]:
        return frozenset().union(*(seen.get(value, ()) for value in values))

    for op in block.ops:
        data = _data(op)
        if data:
            behind = origins(data)
            if behind:
                found |= {op, *behind}
            seen[op.result] = behind | {op}
        elif REGISTRY[op.name].family in _MOVES:
            seen.update(dict.fromkeys(op.results, origins(op.operands)))
        elif op.regions:
            _into_regions(op, seen, found)


def _into_regions(op: Op, seen: dict[Value, frozenset[Op]], found: set[Op]) -> None:
    """Calls, branches and loops: what goes in as an operand, and what a region returns, comes out."""
    for region in op.regions:
        if len(region.args) == len(op.operands):
            seen.update(
                (arg, seen.get(value, frozenset())) for arg, value in zip(region.args, op.operands, strict=True)
            )
        _follow(region, seen, found)
        if len(region.results) == len(op.results):
            for result, value in zip(op.results, region.results, strict=True):
                seen[result] = seen.get(result, frozenset()) | seen.get(value, frozenset())


def _data(op: Op) -> tuple[Value, ...]:
    """What a window is taken of, or written to and from; nothing for ops without a window at a start that is data."""
    if op.name == "dynamic_slice" or (op.name == "gather" and _is_one_window(op)):
        return op.operands[:1]
    if op.name == "dynamic_update_slice":
        return op.operands[:2]
    moved = op.name == "slice" and (len(op.operands) > 1 or any(start.const is None for start in op.attrs["starts"]))
    return op.operands[:1] if moved else ()


def _is_one_window(op: Op) -> bool:
    """Whether a gather may take one window only, which XLA makes a dynamic slice."""
    indices, place = op.operands[1].type, op.attrs["index_vector_dim"]
    return all(size.const in (None, 1) for axis, size in enumerate(indices.dims) if axis != place)


def clamped(op: Op) -> Iterator[Op]:
    """The op with starts that lie where its window fits, behind what computes them."""
    if op.name == "gather":
        yield from _clamped_indices(op)
        return
    first = {"dynamic_slice": 1, "dynamic_update_slice": 2}.get(op.name)
    if first is None:  # a slice's start is one that fits
        yield op
        return
    taken = [const(size) for size in op.attrs["sizes"]] if first == 1 else op.operands[1].type.dims
    starts = []
    for start, size, window in zip(op.operands[first:], op.operands[0].type.dims, taken, strict=True):
        *_, last = made = _clamp(start, (size - window,))
        yield from made
        starts.append(last.result)
    yield replace(op, operands=(*op.operands[:first], *starts))


def _clamped_indices(op: Op) -> Iterator[Op]:
    """The same of a gather: each entry of an index vector by the room along its axis."""
    x, indices, *sizes = op.operands
    rooms = [x.type.dims[axis] - op.attrs["sizes"][axis] for axis in op.attrs["start_index_map"]]
    *_, last = made = _clamp(indices, rooms, op.attrs["index_vector_dim"])
    yield from made
    yield replace(op, operands=(x, last.result, *sizes))


def _clamp(start: Value, rooms: Sequence[Dim], axis: int = 0) -> list[Op]:
    """The ops that clamp integers to [0, room]: by one room for all of them, or by one for each entry along an axis.
    Those of few bits become i32 first: XLA adds them in their dtype, and compares with a room that wraps there."""
    ops, dtype = [], start.type.dtype
    if integer_range(dtype)[1] < integer_range(_INDEX)[1]:
        dtype = _INDEX
        ops.append(_op("convert", (start,), {"dtype": dtype}, TensorType(dtype, start.type.dims)))
        start = ops[-1].result
    shape = () if len(rooms) == 1 else (len(rooms),)
    low = _op("constant", (), {"value": np.zeros((), numpy_dtype(dtype))}, TensorType(dtype, ()))
    vector = TensorType(dtype, tuple(map(const, shape)))
    high = _op("dims", (), {"elements": tuple(rooms), "shape": shape, "dtype": dtype}, vector)
    ops += [low, high]
    if shape and vector.shape != start.type.shape:
        high = _op("broadcast_in_dim", (high.result,), {"dims": (axis,), "shape": start.type.dims}, start.type)
        ops.append(high)
    return [*ops, _op("clamp", (low.result, start, high.result), {}, start.type)]


def _op(name: str, operands: tuple[Value, ...], attrs: dict[str, object], type: TensorType) -> Op:
    return Op(name, operands, attrs, (Value(name, type),))
