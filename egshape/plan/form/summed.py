"""Sums and products of many floats of 16 bits, taken in f32 and rounded once, as products of matrices are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from egshape.ir.graph import Block, Graph, Op, Value
from egshape.ir.types import TensorType
from egshape.ops.contraction import summed_in
from egshape.ops.reduce import is_sum


def summed(graph: Graph) -> Graph:
    """The graph with such reductions between conversions; the same one if there are none."""
    body = _block(graph.body)
    return graph if body is graph.body else replace(graph, body=body)


def _block(block: Block) -> Block:
    ops = tuple(made for op in block.ops for made in _ops(op))
    return block if ops == block.ops else replace(block, ops=ops)


def _ops(op: Op) -> Iterator[Op]:
    dtype = op.results[0].type.dtype if op.results else ""
    if op.name == "reduce" and summed_in(dtype) != dtype and is_sum(op):
        yield from _widened(op, summed_in(dtype))
        return
    regions = tuple(map(_block, op.regions))
    yield op if regions == op.regions else replace(op, regions=regions)


def _widened(op: Op, dtype: str) -> Iterator[Op]:
    wide = {value: _of(value, dtype) for value in (*op.operands, op.result)}
    for value in dict.fromkeys(op.operands):
        yield Op("convert", (value,), {"dtype": dtype}, (wide[value],), location=op.location)
    (region,) = op.regions
    (step,) = region.ops
    inner = {value: _of(value, dtype) for value in (*region.args, step.result)}
    operands = tuple(inner[value] for value in step.operands)
    body = Block(
        tuple(inner[value] for value in region.args),
        (replace(step, operands=operands, results=(inner[step.result],)),),
        (inner[step.result],),
    )
    yield replace(op, operands=tuple(wide[value] for value in op.operands), results=(wide[op.result],), regions=(body,))
    yield Op("convert", (wide[op.result],), {"dtype": op.result.type.dtype}, op.results, location=op.location)


def _of(value: Value, dtype: str) -> Value:
    return Value(f"{value.name}.{dtype}", TensorType(dtype, value.type.shape))
