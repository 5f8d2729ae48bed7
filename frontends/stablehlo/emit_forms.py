"""A block in the form in which it is written: the same program in fewer StableHLO ops.

- A convert to the dtype that its operand has is its operand.
- A slice at clamped places is a gather, which clamps by itself and takes its sizes as they are; the axes of
  size 1 that a reshape drops after it are collapsed.
- Constants and size tensors that nothing reads are left out, and what only the slices read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from egshape.dims import Dim, const, symbol
from egshape.ir.graph import Block, Op, SymbolDef, Value, dims_of
from egshape.ir.types import TensorType

_FREE = frozenset({"constant", "dims"})
"""Ops that demand nothing of their operands: they go where nothing reads them."""
_PLACES = frozenset({"clamp", "concatenate", "reshape", "slice"}) | _FREE
"""Ops that compute the places of slices."""


def prepared(block: Block) -> Block:
    """The block and the regions inside of it in the form to be written."""
    return _Writer(block).block()


@dataclass(frozen=True)
class _Cut:
    """A slice at one clamped place: its axis, and the integer that places it (of shape [1])."""

    axis: int
    place: Value
    before: tuple[Op, ...]
    """Ops that have to stand before it, to have the place."""


class _Writer:
    """One block under conversion."""

    def __init__(self, block: Block, same: Mapping[Value, Value] | None = None) -> None:
        self.source = block
        self.same: dict[Value, Value] = dict(same or {})
        self.maker = {value: op for op in block.ops for value in op.results}
        self.elements = {d.name: d for d in block.symbols if d.element is not None and not d.offset}
        self.uses = _uses(block)
        self.readers: dict[Value, list[Op]] = {}
        for op in block.ops:
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)

    def block(self) -> Block:
        ops: list[Op] = []
        for op in self.source.ops:
            ops.extend(self.op(op))
        results = tuple(self.same.get(value, value) for value in self.source.results)
        symbols = tuple(replace(d, value=self.same.get(d.value, d.value)) for d in self.source.symbols)
        return _without_unread(Block(self.source.args, tuple(ops), results, symbols))

    def op(self, op: Op) -> Iterator[Op]:
        if op.name == "convert" and op.result.type == op.operands[0].type:
            self.same[op.result] = self.same.get(op.operands[0], op.operands[0])
            return
        if op.result_of_cut if False else (len(op.results) == 1 and op.result in self.same):
            return  # the reshape of a gather that collapses already
        cut = self.cut(op) if op.name == "slice" else None
        if cut is not None:
            yield from cut.before
            yield self.gather(op, cut)
            return
        operands = tuple(self.same.get(value, value) for value in op.operands)
        regions = tuple(_Writer(region, self.same).block() for region in op.regions)
        if operands != op.operands or regions:
            op = replace(op, operands=operands, regions=regions)
        yield op
