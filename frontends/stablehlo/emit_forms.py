"""A block in the form in which it is written: the same program in fewer StableHLO ops.

- A convert to the dtype that its operand has is its operand.
- A slice at a clamped place is a gather, which clamps by itself and takes its sizes as they are; the axis of
  size 1 that a reshape drops after it is collapsed. Where windows nest their starts are clamped explicitly instead.
- Padding behind the last window of a pooling may be any that gives as many windows: a constant, if one does.
- Constants and size tensors that nothing reads are left out, and what only such slices read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from egshape.dims import Dim, const, floordiv, symbol
from egshape.frontends.stablehlo.emit_nests import is_told_apart, nested, written
from egshape.ir.graph import Block, Op, Value, dims_of
from egshape.ir.types import TensorType

_FREE = frozenset({"constant", "dims"})
"""Ops that demand nothing of their operands: left out where nothing reads them."""
_PLACE = frozenset({"clamp", "concatenate", "reshape"})
"""Ops that compute the place of a slice, on tensors of constant sizes."""

_TRIED = 64
"""So many constants are tried as a padding."""


def prepared(block: Block) -> Block:
    """The block and the regions inside of it in the form to be written."""
    return _Writer(block, {}, nested(block)).block()


@dataclass(frozen=True)
class _Cut:
    """A slice of constant extent along one axis: the axis, the integer that places it (of shape [1])."""

    axis: int
    place: Value


class _Writer:
    """One block under conversion; ``same`` are values that another one stands for."""

    def __init__(self, block: Block, same: Mapping[Value, Value], nests: frozenset[Op]) -> None:
        self.source = block
        self.same = dict(same)
        self.nests = nests
        self.maker = {value: op for op in block.ops for value in op.results}
        self.elements = {d.name: d for d in block.symbols if d.element is not None and not d.offset}
        self.skipped: set[Value] = set()
        self.unread: set[Value] = set()

    def block(self) -> Block:
        ops = [done for op in self.source.ops for done in self.op(op)]
        results = tuple(self.same.get(value, value) for value in self.source.results)
        symbols = tuple(replace(d, value=self.same.get(d.value, d.value)) for d in self.source.symbols)
        block = Block(self.source.args, tuple(ops), results, symbols)
        return _without_unread(block, self.unread)

    def op(self, op: Op) -> Iterator[Op]:
        if op.name == "convert" and op.result.type == op.operands[0].type:
            self.same[op.result] = self.same.get(op.operands[0], op.operands[0])
            return
        if len(op.results) == 1 and op.result in self.skipped:
            return
        cut = self.cut(op) if op.name == "slice" and op not in self.nests else None
        if cut is not None:
            yield self.gather(op, cut)
            return
        operands = tuple(self.same.get(value, value) for value in op.operands)
        regions = tuple(_Writer(region, self.same, self.nests).block() for region in op.regions)
        is_nested = op in self.nests
        if operands != op.operands or regions:
            op = replace(op, operands=operands, regions=regions)
        if is_nested or is_told_apart(op):
            yield from written(op, clamps=is_nested)
        else:
            yield _with_fixed_padding(op) if op.name == "reduce_window" else op

    # -- slices at clamped places ----

    def cut(self, op: Op) -> _Cut | None:
        """The place of a slice that a gather would take too: clamped to what fits along its axis."""
        x, attrs = op.operands[0], op.attrs
        if len(op.operands) != 1 or x.type.shape is None or any(s.const != 1 for s in attrs["strides"]):
            return None
        moved = [axis for axis, start in enumerate(attrs["starts"]) if start.const != 0]
        if len(moved) != 1:
            return None
        (axis,) = moved
        start = attrs["starts"][axis]
        room = x.type.shape[axis] - (attrs["limits"][axis] - start)
        place = self.clamped(start, room)
        return None if place is None else _Cut(axis, place)

    def clamped(self, start: Dim, room: Dim) -> Value | None:
        """The integer of shape [1] that, clamped to [0, room], is ``start``."""
        names = start.symbols()
        define = self.elements.get(next(iter(names))) if len(names) == 1 else None
        if define is None or start is not symbol(define.name) or define.element is None:
            return None
        clamp = self.maker.get(define.value)
        if clamp is None or clamp.name != "clamp" or len(define.value.type.dims) != 1:
            return None
        low, value, high = clamp.operands
        if self.known(low, define.element) is not const(0) or self.known(high, define.element) is not room:
            return None
        piece = self.piece(value, define.element)
        if piece is not None:
            self.unread.update((define.value, low, high, value))
        return piece

    def known(self, value: Value, element: int) -> Dim | None:
        """An element of a constant or size tensor; a scalar holds for all elements."""
        op = self.maker.get(value)
        if op is None or op.name not in _FREE:
            return None
        index = element if value.type.shape else 0
        if op.name == "dims":
            found: Dim = op.attrs["elements"][index]
            return found
        return const(int(op.attrs["value"].reshape(-1)[index]))

    def piece(self, value: Value, element: int) -> Value | None:
        """An element of a joined vector as a tensor of shape [1]."""
        if value.type.shape == (const(1),):
            return self.same.get(value, value)
        op = self.maker.get(value)
        if op is None or op.name != "concatenate" or any(v.type.shape != (const(1),) for v in op.operands):
            return None
        found = op.operands[element]
        return self.same.get(found, found)

    def gather(self, op: Op, cut: _Cut) -> Op:
        x = op.operands[0]
        sizes = tuple(limit - start for start, limit in zip(op.attrs["starts"], op.attrs["limits"], strict=True))
        result = self.dropped(op.result, cut.axis) or op.result
        kept = len(result.type.dims)
        attrs = {
            "offset_dims": tuple(range(kept)),
            "collapsed": (cut.axis,) if kept < len(sizes) else (),
            "operand_batch": (),
            "indices_batch": (),
            "start_index_map": (cut.axis,),
            "index_vector_dim": 0,
            "sizes": sizes,
            "sorted": False,
        }
        return replace(op, name="gather", operands=(self.same.get(x, x), cut.place), attrs=attrs, results=(result,))

    def dropped(self, value: Value, axis: int) -> Value | None:
        """The result of the only reader, where that is a reshape which drops an axis of size 1."""
        readers = [op for op in self.source.walk() if value in op.operands]
        sizes = value.type.dims
        if len(readers) != 1 or value in self.source.results or sizes[axis] is not const(1):
            return None
        (reader,) = readers
        if reader.name != "reshape" or len(reader.operands) != 1 or reader.result not in self.maker:
            return None
        if reader.result.type != TensorType(value.type.dtype, (*sizes[:axis], *sizes[axis + 1 :])):
            return None
        self.skipped.add(reader.result)
        return reader.result


def _with_fixed_padding(op: Op) -> Op:
    """A pooling with constant padding at the upper ends, where that leaves its sizes as they are."""
    x, result, padding = op.operands[0], op.results[0], list(op.attrs["padding"])
    if all(dim.const is not None for dim in padding) or x.type.shape is None or result.type.shape is None:
        return op
    for axis, (size, wanted) in enumerate(zip(x.type.shape, result.type.shape, strict=True)):
        if padding[2 * axis + 1].const is None:
            padding[2 * axis + 1] = _upper_padding(op, axis, size, wanted)
    return replace(op, attrs={**op.attrs, "padding": tuple(padding)})


def _upper_padding(op: Op, axis: int, size: Dim, wanted: Dim) -> Dim:
    """The padding behind an axis that gives the wanted number of windows: constant if possible."""
    low, high = op.attrs["padding"][2 * axis : 2 * axis + 2]
    keys = ("window", "strides", "base_dilation", "window_dilation")
    window, stride, spread, dilation = (op.attrs[key][axis].const for key in keys)
    if window is None or stride is None or spread != 1 or dilation is None:
        return high  # type: ignore[no-any-return]
    extent = (window - 1) * dilation + 1
    for number in range(min(extent + stride, _TRIED)):
        if floordiv(size + low + number - extent, const(stride)) + 1 is wanted:
            return const(number)
    return high  # type: ignore[no-any-return]


def _read(block: Block) -> tuple[set[Value], set[str]]:
    """What the ops and results of a block read: values, and symbols in attributes and types."""
    values, names = set(block.results), set[str]()
    for op in block.walk():
        values.update(op.operands)
        for dim in dims_of(tuple(op.attrs.values())):
            names |= dim.symbols()
        for region in op.regions:
            values.update(region.results)
        for value in op.results:
            for dim in value.type.shape or ():
                names |= dim.symbols()
    return values, names


def _without_unread(block: Block, places: set[Value]) -> Block:
    """The block without ops that nothing reads; of those that may demand something, the ones in ``places``."""
    ops = list(block.ops)
    while True:
        values, names = _read(replace(block, ops=tuple(ops)))
        values.update(d.value for d in block.symbols if d.name in names)
        kept = []
        for op in ops:
            free = op.name in _FREE or (op.name in _PLACE and op.result in places)
            if free and not any(value in values for value in op.results):
                places.update(op.operands)
                continue
            kept.append(op)
        if len(kept) == len(ops):
            return replace(block, ops=tuple(kept))
        ops = kept
