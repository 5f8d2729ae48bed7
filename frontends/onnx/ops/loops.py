"""Loop and Scan: a ``while`` whose carried values keep their sizes, or get a symbol where a round changes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.frontends.onnx.node import Node
from egshape.frontends.onnx.ops.control import nested, subgraph
from egshape.frontends.onnx.ops.movement import concat_along, transposed
from egshape.frontends.onnx.ops.shaping import reshape, taken
from egshape.frontends.onnx.program import Operand
from egshape.frontends.onnx.registry import NoLowering, onnx_op
from egshape.frontends.onnx.scope import Scope
from egshape.frontends.onnx.sizes import axis_of
from egshape.ir.graph import Block, Value

_ONE = const(1)
WRITTEN = 256
"""Rounds of a loop that carries a sequence."""

_ROUNDS = 8
"""Carried sizes settle within so many conversions of a body, or the loop is left to the host."""


@dataclass
class Carried:
    """A value that a loop carries: what it starts with, and the axes whose size the rounds change."""

    start: Value
    loose: set[int] = field(default_factory=set)

    def arg(self, inner: Scope, label: str) -> Value:
        """The argument of a region for it."""
        name = inner.builder.names.fresh(f"{label}.carried")
        shape = [None if axis in self.loose else size for axis, size in enumerate(self.start.type.dims)]
        axes = [f"%{name}.{axis}" for axis in range(len(shape))]
        return inner.builder.arg(name, self.start.type.dtype, shape, axes)

    def settle(self, arg: Value, result: Value) -> bool:
        """Note the axes that a round changes; whether there were none that were not known."""
        if arg.type.dtype != result.type.dtype or result.type.shape is None or arg.type.rank != result.type.rank:
            raise NoLowering("a carried value changes its type")
        changed = {
            axis for axis, (one, two) in enumerate(zip(arg.type.dims, result.type.dims, strict=True)) if one is not two
        }
        fresh = changed - self.loose
        self.loose |= changed
        return not fresh


Body = Callable[[Scope, list[Value]], list[Value]]


def loop(s: Scope, carried: Sequence[Carried], going: Callable[[Scope, list[Value]], Value], body: Body) -> list[Value]:
    """A ``while`` over values; the body is converted anew until no further size changes."""
    for _ in range(_ROUNDS):
        args, block = _region(s, carried, body)
        settled = [each.settle(arg, result) for each, arg, result in zip(carried, args, block.results, strict=True)]
        if all(settled):
            break
    else:
        raise NoLowering("carried sizes do not settle")
    _, test = _region(s, carried, lambda inner, values: [going(inner, values)])
    return list(s.add("while", [each.start for each in carried], {}, regions=(test, block)))


def _region(s: Scope, carried: Sequence[Carried], body: Body) -> tuple[list[Value], Block]:
    inner = s.child()
    inner.location, inner.label, inner.stack = s.location, s.label, (*s.stack, "subgraph")
    args = [each.arg(inner, s.label) for each in carried]
    return args, inner.builder.finish(body(inner, args))


def _values(found: Sequence[Operand]) -> list[Value]:
    values = [value for value in found if isinstance(value, Value)]
    if len(values) != len(found):
        raise NoLowering("a sequence is carried")
    return values


def _scalar(s: Scope, value: Value) -> Value:
    return value if value.type.rank == 0 else reshape(s, value, ())


def _rows(s: Scope, count: Dim, row: Value) -> Value:
    """Room for rows of the type of ``row``, whose sizes must be known outside of the loop."""
    if not _outside(s, row):
        raise NoLowering("a row's size is known in its round only")
    return s.spread(s.scalar(0, row.type.dtype), (count, *row.type.dims))


def _outside(s: Scope, row: Value) -> bool:
    known = s.known_symbols()
    return row.type.shape is not None and all(size.symbols() <= known for size in row.type.dims)


def _put(s: Scope, rows: Value, row: Value, at: Value) -> Value:
    zero = s.scalar(0, "i64")
    wide = reshape(s, row, (_ONE, *row.type.dims))
    return s.one("dynamic_update_slice", (rows, wide, at, *[zero] * row.type.rank))


# -- Loop --------------------------------------------------------------------------------------------------------


@onnx_op("Loop", sequences=True)
def loop_(s: Scope, node: Node, most: Value | None, first: Value | None, *given: Operand) -> list[Operand]:
    """At most ``most`` rounds while the condition holds. Rows of scan outputs are joined as the rounds give them. A
    loop that carries a sequence is written out."""
    if any(not isinstance(each, Value) for each in given):
        return _written_out(s, node, most, first, given)
    graph, starts = node.graph("body"), _values(given)
    if most is None and first is None:
        raise NoLowering("a loop without an end")
    limit = None if most is None else _scalar(s, most)
    begin = s.scalar(1, "i1") if first is None else _scalar(s, first)
    rows = _probe(s, graph, starts)
    empty = [_rows(s, const(0), row) for row in rows]
    carried = [
        Carried(s.scalar(0, "i64")),
        Carried(begin),
        *map(Carried, starts),
        *(Carried(each, {0}) for each in empty),
    ]
    count = len(starts)

    def going(inner: Scope, values: list[Value]) -> Value:
        if limit is None:
            return values[1]
        below = inner.one("compare", (values[0], limit), direction="LT", kind="SIGNED")
        return inner.one("and", (below, values[1]))

    def body(inner: Scope, values: list[Value]) -> list[Value]:
        step, held, old, joined = values[0], values[1], values[2 : 2 + count], values[2 + count :]
        condition, *found = _values(subgraph(inner, graph, [step, held, *old]))
        grown = [
            inner.one("concatenate", (rows_, reshape(inner, row, (_ONE, *row.type.dims))), dim=0)
            for rows_, row in zip(joined, found[count:], strict=True)
        ]
        return [inner.one("add", (step, inner.scalar(1, "i64"))), _scalar(inner, condition), *found[:count], *grown]

    return [*loop(s, carried, going, body)[2:]]


def _written_out(
    s: Scope, node: Node, most: Value | None, first: Value | None, given: Sequence[Operand]
) -> list[Operand]:
    """The rounds of a loop one after the other. Raises Unsupported where only running tells how many there are."""
    graph, carried = node.graph("body"), list(given)
    limit, going = s.numbers(most), True if first is None else _known(s, first)
    rows: list[list[Value]] = []
    if most is not None and limit is None:
        going = None
    while going and (limit is None or len(rows) < limit[0]):
        if len(rows) == WRITTEN:
            going = None
            break
        step = s.constant(np.array(len(rows), np.int64))
        condition, *found = subgraph(nested(s), graph, [step, s.constant(np.array(True)), *carried])
        carried = found[: len(carried)]
        rows.append(_values(found[len(carried) :]))
        going = _known(s, condition)
    if going is None:
        raise Unsupported(
            "Loop carries a sequence, and only running tells how many rounds it has",
            where=str(node.location),
            hint="make the number of rounds a constant, or collect the tensors as scan outputs",
        )
    if not rows:
        outs = len(graph.output) - 1 - len(carried)
        if outs:
            raise NoLowering("no rounds give rows")
    wide = [[reshape(s, row, (_ONE, *row.type.dims)) for row in column] for column in zip(*rows, strict=True)]
    return [*carried, *(concat_along(s, node, column, 0) for column in wide)]


def _known(s: Scope, condition: Operand) -> bool | None:
    """A condition where it is known now."""
    if not isinstance(condition, Value):
        return None
    array, items = s.array(condition), s.items(condition)
    if array is not None and array.size == 1:
        return bool(array.reshape(-1)[0])
    return items[0] if items and isinstance(items[0], bool) else None


def _probe(s: Scope, graph: GraphProto, starts: Sequence[Value]) -> list[Value]:
    """The rows that a round gives, as far as their types go."""
    with s.trial((*s.stack, "subgraph")) as inner:
        args: list[Operand] = [inner.builder.arg(None, "i64", ()), inner.builder.arg(None, "i1", ())]
        args += [Carried(each).arg(inner, s.label) for each in starts]
        return _values(subgraph(inner, graph, args))[1 + len(starts) :]


# -- Scan --------------------------------------------------------------------------------------------------------


@onnx_op("Scan", since=9)
def scan(s: Scope, node: Node, *given: Operand) -> list[Value]:
    """A round for each place along the scanned axes; a row of each scan output a round."""
    graph, operands, scanned = node.graph("body"), _values(given), node.int("num_scan_inputs")
    states, inputs = operands[: len(operands) - scanned], operands[len(operands) - scanned :]
    if not inputs:
        raise node.error("scans nothing")
    axes = [
        axis_of(node, axis, each.type.rank)
        for axis, each in zip(node.ints("scan_input_axes", None) or (0,) * scanned, inputs, strict=True)
    ]
    turned = node.ints("scan_input_directions", None) or (0,) * scanned
    steps = inputs[0].type.dims[axes[0]]
    count, outs = s.vector([steps], "i64", ()), len(node.outputs) - len(states)
    back = node.ints("scan_output_directions", None) or (0,) * outs

    def reads(inner: Scope, step: Value) -> list[Operand]:
        out: list[Operand] = []
        for value, axis, backwards in zip(inputs, axes, turned, strict=True):
            out.append(taken(inner, value, axis, _from(inner, step, count, bool(backwards))))
        return out

    with s.trial((*s.stack, "subgraph")) as probe:
        begun: list[Operand] = [Carried(each).arg(probe, s.label) for each in states]
        step = probe.builder.arg(None, "i64", ())
        rows = _values(subgraph(probe, graph, [*begun, *reads(probe, step)]))[len(states) :]
    carried = [Carried(s.scalar(0, "i64")), *map(Carried, states), *(Carried(_rows(s, steps, row)) for row in rows)]

    def going(inner: Scope, values: list[Value]) -> Value:
        return inner.one("compare", (values[0], count), direction="LT", kind="SIGNED")

    def body(inner: Scope, values: list[Value]) -> list[Value]:
        step, old, kept = values[0], values[1 : 1 + len(states)], values[1 + len(states) :]
        found = _values(subgraph(inner, graph, [*old, *reads(inner, step)]))
        filled = [
            _put(inner, rows_, row, _from(inner, step, count, bool(backwards)))
            for rows_, row, backwards in zip(kept, found[len(states) :], back, strict=True)
        ]
        return [inner.one("add", (step, inner.scalar(1, "i64"))), *found[: len(states)], *filled]

    found = loop(s, carried, going, body)[1:]
    placed = node.ints("scan_output_axes", None) or (0,) * outs
    return [
        *found[: len(states)],
        *(_moved(s, node, value, axis) for value, axis in zip(found[len(states) :], placed, strict=True)),
    ]


def _from(s: Scope, step: Value, count: Value, backwards: bool) -> Value:
    """The place of a step, counted from the other end if asked for."""
    if not backwards:
        return step
    return s.one("subtract", (s.one("subtract", (count, s.scalar(1, "i64"))), step))


def _moved(s: Scope, node: Node, value: Value, axis: int) -> Value:
    """The first axis moved to another place."""
    at = axis_of(node, axis, value.type.rank)
    order = [*range(1, at + 1), 0, *range(at + 1, value.type.rank)]
    return transposed(s, value, order)
