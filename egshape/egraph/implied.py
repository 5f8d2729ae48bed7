"""Rows for the obligations of ops whose attributes rules cannot see: those with regions.

Each row names the operands and the axes of them that belong together; which facts follow from that is said by the
rules of ``shape.obligations``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from egshape.dims import Dim
from egshape.ir.graph import Op
from egshape.ops.windows import windowed_dims

if TYPE_CHECKING:
    from egshape.egraph.encode import Encoder


def imply(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    """Add the rows of one op; ``nodes`` are those of its operands. Ops on unranked operands imply nothing here."""
    write = _WRITERS.get(op.name)
    if write is not None and all(operand.type.shape is not None for operand in op.operands):
        write(encoder, op, nodes)


def _reduce(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    _same_shapes(encoder, op, nodes[:len(nodes) // 2])


def _reduce_window(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    _reduce(encoder, op, nodes)
    for name in ("strides", "base_dilation", "window_dilation"):
        _steps(encoder, op, tuple(op.attrs[name]))


def _sort(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    _same_shapes(encoder, op, nodes)


def _region(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    """The sizes of operands, and those that the arguments of the regions state: a symbol of a region's own is any."""
    for region in op.regions:
        own = {each.name for each in region.symbols}
        given = tuple(size for operand in op.operands for size in operand.type.dims)
        stated = tuple(size for arg in region.args for size in arg.type.dims)
        for one, two in zip(given, stated, strict=True):
            if one is not two and op.results and not two.symbols() & own:
                sides = encoder.shape((one,)), encoder.shape((two,))
                encoder.out.tables["taken_of"].append((_node(encoder, op), *sides))


def _select_and_scatter(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    attrs, sizes = op.attrs, op.operands[0].type.dims
    ones = (1,) * len(sizes)
    counts = windowed_dims(sizes, attrs["window"], attrs["strides"], attrs["padding"], ones, ones)
    source = op.operands[1].type.dims
    encoder.out.tables["taken_of"].append((_node(encoder, op), encoder.shape(source), encoder.shape(counts)))


def _same_shapes(encoder: Encoder, op: Op, nodes: Sequence[int]) -> None:
    encoder.out.tables["same_shapes"] += [(_node(encoder, op), nodes[0], node) for node in nodes[1:]]


def _steps(encoder: Encoder, op: Op, steps: tuple[Dim, ...]) -> None:
    if any(step.const is None for step in steps):
        encoder.out.tables["steps_of"].append((_node(encoder, op), encoder.shape(steps)))


def _node(encoder: Encoder, op: Op) -> int:
    """The node by which the op's place in the block is known."""
    return encoder.leaf(op.results[0])


_WRITERS: dict[str, Callable[[Encoder, Op, Sequence[int]], None]] = {
    "composite": _region, "while": _region,
    "reduce": _reduce, "reduce_window": _reduce_window, "sort": _sort,
    "select_and_scatter": _select_and_scatter,
}
