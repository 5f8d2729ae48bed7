"""Where in a graph something can stand: behind the ops that make what it reads, in the innermost of their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from egshape.errors import InvalidInput
from egshape.ir.graph import Block, Graph, Op, Value, blocks_of
from egshape.sizes import parents_of

Place = tuple[Block, int]
"""A block, and the number of its op behind which something stands; -1 at the beginning."""


def place_of(graph: Graph, value: Value) -> Place:
    """Where a value is there. Raises InvalidInput for one of another graph."""
    for block in blocks_of(graph.body):
        if value in block.args:
            return block, -1
        for number, op in enumerate(block.ops):
            if value in op.results:
                return block, number
    raise InvalidInput(f"%{value.name} is no value of the model")


def innermost(graph: Graph, places: Sequence[Place], what: str) -> Place:
    """The first place at which all of several places have been passed; ``what`` is to stand there.

    Raises InvalidInput where there is none, or no check can stand there."""
    parents = parents_of(graph.body)

    def around(block: Block) -> list[Block]:
        out = [block]
        while out[-1] in parents:
            out.append(parents[out[-1]][0])
        return out

    block = max((each for each, _ in places), key=lambda each: len(around(each)))
    outer = around(block)
    if any(each not in outer for each, _ in places):
        raise InvalidInput(f"{what} speaks of values of different regions", hint="state one each")
    whole = next((parents[each][1] for each in outer if each in parents and parents[each][1].attrs.get("whole")), None)
    if whole is not None:
        raise InvalidInput(
            f"{what} speaks of the inside of {whole.attrs['name']}, which stays one op",
            hint="speak of its operands or results",
        )
    return block, max(number for each, number in places if each is block)


def with_ops(block: Block, places: Mapping[Place, list[Op]]) -> Block:
    """A block with further ops at their places, those of regions too."""
    ops = list(places.get((block, -1), ()))
    for number, op in enumerate(block.ops):
        regions = tuple(with_ops(region, places) for region in op.regions)
        same = all(one is two for one, two in zip(regions, op.regions, strict=True))
        ops += [op if same else replace(op, regions=regions), *places.get((block, number), ())]
    changed = len(ops) != len(block.ops) or any(one is not two for one, two in zip(ops, block.ops, strict=True))
    return replace(block, ops=tuple(ops)) if changed else block
