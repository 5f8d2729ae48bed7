"""Starts of windows in a form that XLA reads right: i32 or i64, and clamped explicitly where windows nest.

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

_MOVES = frozenset({"movement", "unary", "binary", "ternary", "indexing"})
"""Families of ops through which XLA may see one window from another: an elementwise op may go away there, and a scatter
of one window is an update to it."""

_PLAIN = ("i32", "i64")
"""Dtypes of starts that XLA reads as they are."""


def nested(block: Block) -> frozenset[Op]:
    """The ops that take or write a window of what another one took or wrote, and these; regions included."""
    found: set[Op] = set()
    _follow(block, {}, found)
    return frozenset(found)


def _follow(block: Block, seen: dict[Value, frozenset[Op]], found: set[Op]) -> None:
    """Note for each value the last windows that it may come from: those behind them are found with them."""

    def origins(values: Iterable[Value]) -> frozenset[Op]:
        each, *others = {id(known): known for value in values if (known := seen.get(value))}.values() or (frozenset(),)
        return each.union(*others) if others else each

    for op in block.ops:
        data = _data(op)
        if data:
            behind = origins(data)
            if behind:
                found |= {op, *behind}
            seen[op.result] = frozenset((op,))
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


def is_told_apart(op: Op) -> bool:
    """Whether XLA may read starts of an op in another way than as these integers: it takes those without a sign for
    signed ones where it fuses, and adds those of few bits in their dtype."""
    return bool(_data(op)) and op.name != "slice" and any(v.type.dtype not in _PLAIN for v in op.operands[_first(op) :])


def _first(op: Op) -> int:
    """Where the starts stand among the operands."""
    return 2 if op.name == "dynamic_update_slice" else 1


def written(op: Op, clamps: bool) -> Iterator[Op]:
    """The op with starts of i32 or i64, clamped to where its window fits if so wanted, behind what computes them."""
    if op.name == "slice":  # its start is one that fits
        yield op
        return
    first, x = _first(op), op.operands[0].type.dims
    if op.name == "gather":
        rooms = [[x[axis] - op.attrs["sizes"][axis] for axis in op.attrs["start_index_map"]]]
    else:
        taken = op.operands[1].type.dims if first == 2 else [const(size) for size in op.attrs["sizes"]]
        rooms = [[size - window] for size, window in zip(x, taken, strict=True)]
    operands = list(op.operands)
    for place, room in enumerate(rooms, first):
        made = _plain(operands[place])
        start = made[-1].result if made else operands[place]
        if clamps:
            made += _clamp(start, room, op.attrs.get("index_vector_dim", 0))
        yield from made
        operands[place] = made[-1].result if made else start
    yield replace(op, operands=tuple(operands))


def _plain(start: Value) -> list[Op]:
    """The ops that make integers i32 or i64, if they are neither; what is too large for a signed one stays large."""
    dtype, ops = start.type.dtype, list[Op]()
    if dtype in _PLAIN:
        return ops
    most = integer_range(dtype)[1]
    if most > integer_range("i64")[1]:
        limit = _constant(dtype, integer_range("i64")[1])
        spread = _op("broadcast_in_dim", (limit.result,), {"dims": (), "shape": start.type.dims}, start.type)
        least = _op("minimum", (start, spread.result), {}, start.type)
        ops, start = [limit, spread, least], least.result
    wide = "i64" if most > integer_range("i32")[1] else "i32"
    return [*ops, _op("convert", (start,), {"dtype": wide}, TensorType(wide, start.type.dims))]


def _clamp(start: Value, rooms: Sequence[Dim], axis: int) -> list[Op]:
    """The ops that clamp integers to [0, room]: by one room for all of them, or by one for each entry along an axis."""
    dtype, shape = start.type.dtype, () if len(rooms) == 1 else (len(rooms),)
    vector = TensorType(dtype, tuple(map(const, shape)))
    high = _op("dims", (), {"elements": tuple(rooms), "shape": shape, "dtype": dtype}, vector)
    ops = [_constant(dtype, 0), high]
    if shape and vector.shape != start.type.shape:
        ops.append(_op("broadcast_in_dim", (high.result,), {"dims": (axis,), "shape": start.type.dims}, start.type))
    return [*ops, _op("clamp", (ops[0].result, start, ops[-1].result), {}, start.type)]


def _constant(dtype: str, number: int) -> Op:
    return _op("constant", (), {"value": np.array(number, numpy_dtype(dtype))}, TensorType(dtype, ()))


def _op(name: str, operands: tuple[Value, ...], attrs: dict[str, object], type: TensorType) -> Op:
    return Op(name, operands, attrs, (Value(name, type),))
