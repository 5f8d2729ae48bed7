"""Rows for the obligations of ops whose attributes rules cannot see: those with regions, and convolutions.

Each row names the operands and the axes of them that belong together; which facts follow from that is said by the
rules of ``shape.obligations``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from egshape.dims import Dim, minimum, product
from egshape.ir.graph import Op, Value
from egshape.ir.types import itemsize
from egshape.ops.windows import windowed_dims


class Rows(Protocol):
    """What rows are added to (``encode.Encoder``)."""

    def add(self, table: str, *row: Any) -> None:
        """Add a row to a table."""

    def shape(self, dims: tuple[Dim, ...]) -> int:
        """The number of a shape."""

    def axes(self, axes: tuple[int, ...]) -> int:
        """The number of a list of static integers."""

    def leaf(self, value: Value) -> int:
        """The node of a value."""


def imply(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    """Add the rows of one op; ``nodes`` are those of its operands. Ops on unranked operands imply nothing here."""
    write = _WRITERS.get(op.name)
    if write is not None and all(operand.type.shape is not None for operand in op.operands):
        write(rows, op, nodes)


def _reduce(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    _same_shapes(rows, op, nodes[:len(nodes) // 2])


def _reduce_window(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    _reduce(rows, op, nodes)
    for name in ("strides", "base_dilation", "window_dilation"):
        _steps(rows, op, tuple(op.attrs[name]))


def _sort(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    _same_shapes(rows, op, nodes)


def _scatter(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    """The axes of inputs that a window of the updates covers, in order, and the axes of updates and indices that
    count the windows."""
    count = len(nodes) // 2
    inputs, indices, updates = nodes[:count], nodes[count], nodes[count + 1:]
    attrs = op.attrs
    gone = (*attrs["inserted_window_dims"], *attrs["operand_batch"])
    covered = tuple(axis for axis in range(op.operands[0].type.rank) if axis not in gone)
    window, vector = attrs["update_window_dims"], attrs["index_vector_dim"]
    counted = tuple(axis for axis in range(op.operands[count + 1].type.rank) if axis not in window)
    counting = tuple(axis for axis in range(op.operands[count].type.rank) if axis != vector)
    lists = (covered, window, counted, counting, attrs["operand_batch"], attrs["indices_batch"])
    rows.add("scatter_of", _node(rows, op), inputs[0], indices, updates[0], *map(rows.axes, lists), vector,
             len(attrs["scatter_dims_to_operand_dims"]))
    _same_shapes(rows, op, inputs)
    _same_shapes(rows, op, updates)


def _gather(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    """The slice sizes of axes that the result drops, and what each is at least: 1 where the result has elements."""
    sizes = tuple(op.attrs["sizes"][axis] for axis in (*op.attrs["collapsed"], *op.attrs["operand_batch"]))
    if any(size.const != 1 for size in sizes):
        least = minimum(product(op.result.type.dims), 1)
        rows.add("dropped_of", _node(rows, op), rows.shape((least,) * len(sizes)), rows.shape(sizes))


def _region(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    """The sizes of operands, and those that the arguments of the regions state: a symbol of a region's own is any."""
    for region in op.regions:
        own = {each.name for each in region.symbols}
        given = tuple(size for operand in op.operands for size in operand.type.dims)
        stated = tuple(size for arg in region.args for size in arg.type.dims)
        for one, two in zip(given, stated, strict=True):
            if one is not two and op.results and not two.symbols() & own:
                rows.add("taken_of", _node(rows, op), rows.shape((one,)), rows.shape((two,)))


def _select_and_scatter(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    attrs, sizes = op.attrs, op.operands[0].type.dims
    ones = (1,) * len(sizes)
    counts = windowed_dims(sizes, attrs["window"], attrs["strides"], attrs["padding"], ones, ones)
    source = op.operands[1].type.dims
    rows.add("taken_of", _node(rows, op), rows.shape(source), rows.shape(counts))


def _convolution(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    batch, feature, _, kernel_in, kernel_out, *_ = op.attrs["numbers"]
    rows.add("convolution_of", _node(rows, op), nodes[0], nodes[1], batch, feature, kernel_in, kernel_out,
             op.attrs["feature_groups"], op.attrs["batch_groups"])


def _bitcast(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    """A bitcast to a wider dtype takes the last axis, whose elements make up one element."""
    source, target = op.operands[0].type, op.result.type
    ratio, rest = divmod(itemsize(target.dtype), itemsize(source.dtype))
    if ratio > 1 and not rest:
        rows.add("widened_of", _node(rows, op), nodes[0], ratio)


def _same_shapes(rows: Rows, op: Op, nodes: Sequence[int]) -> None:
    for node in nodes[1:]:
        rows.add("same_shapes", _node(rows, op), nodes[0], node)


def _steps(rows: Rows, op: Op, steps: tuple[Dim, ...]) -> None:
    if any(step.const is None for step in steps):
        rows.add("steps_of", _node(rows, op), rows.shape(steps))


def _node(rows: Rows, op: Op) -> int:
    """The node by which the op's place in the block is known."""
    return rows.leaf(op.results[0])


_WRITERS: dict[str, Callable[[Rows, Op, Sequence[int]], None]] = {
    "gather": _gather, "composite": _region, "while": _region,
    "reduce": _reduce, "reduce_window": _reduce_window, "sort": _sort, "scatter": _scatter,
    "select_and_scatter": _select_and_scatter, "convolution": _convolution, "bitcast_convert": _bitcast,
}
