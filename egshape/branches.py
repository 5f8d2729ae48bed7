"""Branches that what is known of sizes decides: the region that runs takes the place of its ``if`` or ``case``.

This comes before all else, so that sizes of what is taken, and its rank, decide the types of what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count

import numpy as np

from egshape.decide.context import Context
from egshape.dims import Dim, const, symbol
from egshape.egraph.obligations import Walk, Walker, obligations_of, required
from egshape.egraph.stages import branch_conditions
from egshape.errors import EgshapeError
from egshape.facts import Facts, Relation
from egshape.ir.calls import substitute, values_of
from egshape.ir.graph import Block, Graph, Op, SymbolDef, Value, blocks_of
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.pipeline import entry_facts


def without_decided(graph: Graph, facts: Facts) -> Graph:
    """The graph without branches whose conditions are known, if all else is well: what is not is said later."""
    if not any(_branches(op) for op in graph.body.walk()):
        return graph
    with suppress(EgshapeError):
        context = Context()
        believed = entry_facts(graph, facts)
        context.assume_all(believed)
        walker = Walker(graph.body, context, frozenset(), REGISTRY, {}, believed, top=True)
        body = _Taken(graph, facts).block(graph.body, walker)
        return graph if body is graph.body else replace(graph, body=body)
    return graph


def _branches(op: Op) -> bool:
    return REGISTRY[op.name].traits.regions == "branch"


class _Taken:
    """Puts regions in the place of ops. ``kept``: symbols that facts speak of."""

    def __init__(self, graph: Graph, facts: Facts) -> None:
        self.names = Counter(value.name for value in values_of(graph.body))
        self.kept = {each.name for each in facts.symbols} | {
            name for fact in facts.statements() for name in fact.symbols()
        }
        self.symbols = Counter(each.name for block in blocks_of(graph.body) for each in block.symbols)

    def block(self, block: Block, walker: Walker) -> Block:
        """A block, and the regions inside; itself where nothing is decided."""
        if not any(map(_branches, block.walk())):
            return block
        walk = walker.run(obligations_of(tuple(required(block, REGISTRY))))
        rest, ops, symbols = _Rest(block, self), list[Op](), list[SymbolDef]()
        for op in block.ops:
            region = _runs(op, walk) if _branches(op) else None
            if region is not None and self.kept.isdisjoint(rest.defined(op)):
                taken = self.block(region, _inside(walker, walk, op, region))
                taken = substitute(taken, {}, self._name, self._renamed(taken))
                ops += (rest.op(each) for each in taken.ops)
                symbols += (replace(each, value=rest.value(each.value)) for each in taken.symbols)
                rest.take(op, taken.results)
                continue
            regions = tuple(self.block(each, _inside(walker, walk, op, each)) for each in op.regions)
            ops.append(rest.op(op if all(map(_same, regions, op.regions)) else replace(op, regions=regions)))
        if not rest.changed and all(map(_same, ops, block.ops)):
            return block
        return rest.finished(ops, symbols)

    def _name(self, wanted: str) -> str:
        """A name for a value that leaves its region."""
        if self.names[wanted] <= 1:
            self.names[wanted] = 1
            return wanted
        self.names[wanted] -= 1
        name = next(name for name in _numbered(wanted) if not self.names[name])
        self.names[name] = 1
        return name

    def fresh(self, wanted: str) -> str:
        """A symbol that is not there."""
        name = next(name for name in chain((wanted,), _numbered(wanted)) if name not in self.symbols)
        self.symbols[name] += 1
        return name

    def _renamed(self, region: Block) -> dict[str, Dim]:
        """Other names for symbols of a region that leave it, where regions beside it have the same ones."""
        shared = [each.name for each in region.symbols if self.symbols[each.name] > 1]
        self.symbols.subtract(shared)
        return {name: symbol(self.fresh(name)) for name in shared}


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}_{k}" for k in count(1))


def _same(one: object, two: object) -> bool:
    return one is two


def _runs(op: Op, walk: Walk) -> Block | None:
    """The region that runs at all sizes."""
    known = walk.elements.get(op.operands[0])
    item = None if known is None else known.reshape(-1)[0]
    last = len(op.regions) - 1
    if isinstance(item, Relation):
        item = {"proved": True, "refuted": False}.get(walk.context.decide(item))
    if isinstance(item, bool | np.bool_):
        return op.regions[0 if item else 1]
    if isinstance(item, Dim):
        for place in range(last + 1):
            if walk.context.decide(Relation("==", item, const(place))) == "proved":
                return op.regions[place]
        others = (Relation("!=", item, const(place)) for place in range(last))
        if all(walk.context.decide(each) == "proved" for each in others):
            return op.regions[last]
    return None


def _inside(walker: Walker, walk: Walk, op: Op, region: Block) -> Walker:
    symbols = walk.entry | {each.name for each in walker.block.symbols}
    held = branch_conditions(op, region, walk, REGISTRY)
    return Walker(region, walk.context.copy(), symbols, REGISTRY, walk.elements, walk.believed, top=False, held=held)


class _Rest:
    """What follows a branch of which a region was taken."""

    def __init__(self, block: Block, names: _Taken) -> None:
        self.names = names
        self.source = block
        self.changed = False
        self._now: dict[Value, Value] = {}
        self._sizes: dict[str, Dim] = {}
        self._more: list[SymbolDef] = []

    def defined(self, op: Op) -> set[str]:
        """The symbols that axes of an op's results define."""
        return {each.name for each in self.source.symbols if each.value in op.results}

    def take(self, op: Op, results: tuple[Value, ...]) -> None:
        """Let values of a region stand for what an op gave."""
        self.changed = True
        for old, new in zip(op.results, results, strict=True):
            self._now[old] = self.value(new)
            for each in self.source.symbols:
                if each.value is old and each.axis is not None and new.type.shape is not None:
                    self._sizes[each.name] = new.type.dims[each.axis].substitute(self._sizes)

    def value(self, value: Value) -> Value:
        """What stands for a value."""
        return self._now.get(value, value)

    def op(self, op: Op) -> Op:
        """An op that reads it; its own results have a rank where that is known now."""
        operands = tuple(map(self.value, op.operands))
        regions = tuple(map(self._region, op.regions))
        if operands == op.operands and all(map(_same, regions, op.regions)):
            return op
        made = replace(op, operands=operands, regions=regions)
        if all(value.type.shape is not None for value in op.results):
            return made
        if any(value.type.shape is None for value in operands):
            return made
        return replace(made, results=tuple(self._ranked(made)))

    def _region(self, region: Block) -> Block:
        mapping = {value: self._now[value] for value in region.captures() if value in self._now}
        return substitute(region, mapping) if mapping else region

    def _ranked(self, op: Op) -> list[Value]:
        out = []
        for value, (dtype, sizes) in zip(op.results, REGISTRY[op.name].inferred(op), strict=True):
            if value.type.shape is not None:
                out.append(value)
                continue
            dims = []
            for axis, size in enumerate(sizes or ()):
                name = "" if size is not None else self.names.fresh(f"%{value.name}.{axis}")
                dims.append(symbol(name) if size is None else size)
            out.append(Value(value.name, TensorType(dtype, None if sizes is None else tuple(dims))))
            own = [(dim, axis) for axis, (dim, size) in enumerate(zip(dims, sizes or (), strict=True)) if size is None]
            self._more += (SymbolDef(min(dim.symbols()), out[-1], axis=axis) for dim, axis in own)
            self._now[value] = out[-1]
        return out

    def finished(self, ops: list[Op], symbols: list[SymbolDef]) -> Block:
        """The block, with the sizes that are known now in the place of symbols."""
        own = (each for each in self.source.symbols if each.name not in self._sizes)
        known = tuple(replace(each, value=self.value(each.value)) for each in own)
        results = tuple(map(self.value, self.source.results))
        block = Block(self.source.args, tuple(ops), results, (*known, *symbols, *self._more))
        args = dict(zip(block.args, block.args, strict=True))
        return substitute(block, args, sizes=self._sizes) if self._sizes else block
