"""A graph without composites, whose decompositions stand in their places: so that kernels reach across their ends."""

from __future__ import annotations

from dataclasses import replace

from egshape.ir.graph import Block, Graph, Op, Value


def inlined(graph: Graph) -> Graph:
    """The graph with each composite in place that defines no sizes and states none."""
    return replace(graph, body=_Inliner(_defining(graph.body)).block(graph.body))


def _defining(block: Block) -> frozenset[Value]:
    """Values whose axes define symbols."""
    inner = (_defining(region) for op in block.ops for region in op.regions)
    own = (each.value for each in block.symbols if each.axis is not None)
    return frozenset(own).union(*inner)


class _Inliner:
    """``defining``: values whose axes define symbols, with which composites are left as they are."""

    def __init__(self, defining: frozenset[Value]) -> None:
        self._defining = defining
        self._names: dict[Value, Value] = {}
        """Values by their other names."""

    def block(self, block: Block) -> Block:
        """The block with the composites inside of it in place; the same one if there are none."""
        ops: list[Op] = []
        for op in block.ops:
            self._put(op, ops)
        results = tuple(self._names.get(value, value) for value in block.results)
        symbols = tuple(replace(each, value=self._names.get(each.value, each.value)) for each in block.symbols)
        return Block(block.args, tuple(ops), results, symbols)

    def _put(self, op: Op, ops: list[Op]) -> None:
        operands = tuple(self._names.get(value, value) for value in op.operands)
        if (
            op.name != "composite"
            or op.regions[0].symbols
            or not self._defining.isdisjoint(op.results)
            or any(arg.type != value.type for arg, value in zip(op.regions[0].args, operands, strict=True))
        ):
            regions = tuple(map(self.block, op.regions))
            ops.append(replace(op, operands=operands, regions=regions))
            return
        (region,) = op.regions
        self._names.update(zip(region.args, operands, strict=True))
        for inner in region.ops:
            self._put(inner, ops)
        for value, result in zip(region.results, op.results, strict=True):
            self._names[result] = self._names.get(value, value)
