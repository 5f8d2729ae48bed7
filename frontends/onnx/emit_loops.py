"""Control flow as ONNX nodes: If, and while as Loop; reads and writes at run-time places, which loops live from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from egshape.dims import Dim
from egshape.frontends.onnx.emit_moves import COMPUTED_SLICES, LAST
from egshape.frontends.onnx.emit_writer import Emitter
from egshape.frontends.onnx.types import elem_type_of
from egshape.ir.graph import Block, Op, Value


def if_(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> list[str]:
    """If: each branch is a graph that sees the names around it."""
    names = e.fresh_names(op, wanted)
    then, other = (
        e.subgraph(region, [], f"{names[0]}_{label}")
        for region, label in zip(op.regions, ("then", "else"), strict=True)
    )
    e.scope.frame.nodes.append(
        helper.make_node(
            "If",
            [_any_shape(e, op.operands[0])],
            names,
            name=e.scope.titles.fresh(f"If:{names[0]}"),
            then_branch=then,
            else_branch=other,
        )
    )
    return names


def _any_shape(e: Emitter, value: Value) -> str:
    """A scalar for a node that takes one element of any shape: one that was made so is not."""
    maker = e.producer(value)
    while value not in e.scope.name_of and maker is not None and maker.name == "reshape":
        value = maker.operands[0]
        maker = e.producer(value)
    return e.name(value)


def while_(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> list[str]:
    """Loop without a count: the condition is computed before it, and at the end of each round for the next one."""
    test, body = op.regions
    names = e.fresh_names(op, wanted)
    starts = [e.name(value) for value in op.operands]
    (first,) = _inlined(e, test, starts)
    fresh = e.scope.names.fresh
    label = names[0] if names else "loop"
    step, going = fresh(f"{label}_round"), fresh(f"{label}_going")
    arguments = [fresh(f"{label}_{value.name}") for value in body.args]
    frame = e.open(body, arguments)
    e.ops(body, {})
    results = [e.name(value) for value in body.results]
    (again,) = _inlined(e, test, results)
    outputs = e.results((test.results[0], *body.results), f"{label}_next", (again, *results))
    e.scope.close()
    inputs = [
        helper.make_tensor_value_info(step, TensorProto.INT64, ()),
        helper.make_tensor_value_info(going, TensorProto.BOOL, ()),
        *(e.info(name, value) for name, value in zip(arguments, body.args, strict=True)),
    ]
    shown = [
        helper.make_tensor_value_info(outputs[0], TensorProto.BOOL, ()),
        *(e.info(name, value) for name, value in zip(outputs[1:], body.results, strict=True)),
    ]
    graph = helper.make_graph(frame.nodes, f"{label}_body", inputs, shown)
    e.scope.frame.nodes.append(
        helper.make_node("Loop", ["", first, *starts], names, name=e.scope.titles.fresh(f"Loop:{label}"), body=graph)
    )
    return names


def loop(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> list[str]:
    """Loop with a count, a condition, or both (``rounds.LOOP``)."""
    limited, begun = op.attrs["given"]
    values = iter(op.operands)
    limit = _any_shape(e, next(values)) if limited else ""
    begin = e.name(next(values)) if begun else e.scope.constant(np.array(True), "going")  # left out: some never begin
    return _rounds(e, op, wanted, "Loop", [limit, begin, *map(e.name, values)])


def scan(e: Emitter, op: Op, wanted: Mapping[Value, str]) -> list[str]:
    """Scan (``rounds.SCAN``)."""
    turned = {
        "scan_input_axes": op.attrs["axes"],
        "scan_input_directions": op.attrs["backwards"],
        "scan_output_directions": op.attrs["rows_backwards"],
    }
    held = {name: [int(place) for place in places] for name, places in turned.items() if any(places)}
    inputs = [e.name(value) for value in op.operands]
    return _rounds(e, op, wanted, "Scan", inputs, num_scan_inputs=len(op.attrs["axes"]), **held)


def _rounds(
    e: Emitter, op: Op, wanted: Mapping[Value, str], kind: str, inputs: Sequence[str], **attributes: Any
) -> list[str]:
    names, (body,) = e.fresh_names(op, wanted), op.regions
    label = names[0] if names else kind.lower()
    graph = e.subgraph(body, [e.scope.names.fresh(f"{label}_{value.name}") for value in body.args], f"{label}_body")
    node = helper.make_node(kind, inputs, names, name=e.scope.titles.fresh(f"{kind}:{label}"), body=graph, **attributes)
    e.scope.frame.nodes.append(node)
    return names


def _inlined(e: Emitter, block: Block, arguments: Sequence[str]) -> list[str]:
    """The results of a block whose ops are written in place; it may be written again with other arguments."""
    frame = e.open(block, arguments)
    e.ops(block, {})
    names = [e.name(value) for value in block.results]
    names = [e.checks.joined(name, value, value.name) for name, value in zip(names, block.results, strict=True)]
    e.scope.close()
    e.scope.frame.nodes.extend(frame.nodes)
    return names


# -- run-time places -----------------------------------------------------------------------------------------------


def dynamic_slice(e: Emitter, op: Op) -> str:
    """Slice from places that are clamped so that the part lies inside."""
    x, *starts = op.operands
    name = e.name(x)
    for axis, (start, size) in enumerate(zip(starts, op.attrs["sizes"], strict=True)):
        if e.scope.surely_equal(size, x.type.dims[axis]):
            continue
        place = _place(e, start, x.type.dims[axis] - size)
        if size.const == 1:
            name = e.scope.node("Gather", [name, place], op.result.name, axis=axis)
            continue
        _need_slices(e, op)
        end = e.scope.node("Add", [place, e.sizes.one(size)], "end")
        name = e.scope.node("Slice", [name, place, end, e.scope.ints([axis], "axes")], op.result.name)
    return name if name != e.name(x) else e.node(op, "Identity", [name])


def dynamic_update_slice(e: Emitter, op: Op) -> str:
    """What is before the place, the update, what is behind it, joined; one axis after the other, innermost first."""
    x, update, *starts = op.operands
    moved = [axis for axis, size in enumerate(update.type.dims) if not e.scope.surely_equal(size, x.type.dims[axis])]
    if not moved:
        return e.node(op, "Identity", [e.name(update)])
    sizes = {axis: update.type.dims[axis] for axis in moved}
    places = {axis: _place(e, starts[axis], x.type.dims[axis] - size) for axis, size in sizes.items()}
    if len(moved) == 1 and sizes[moved[0]].const == 1 and e.scope.opset < COMPUTED_SLICES:
        return _put_one(e, op, moved[0], places[moved[0]])
    _need_slices(e, op)
    ends = {axis: e.scope.node("Add", [places[axis], e.sizes.one(size)], "end") for axis, size in sizes.items()}
    zero, last = e.scope.ints([0], "size"), e.scope.ints([LAST], "last")

    def cut(name: str, axis: int, start: str, end: str, part: str) -> str:
        return e.scope.node("Slice", [name, start, end, e.scope.ints([axis], "axes")], f"{op.result.name}_{part}")

    wholes = [e.name(x)]  # each is the part, along one axis more, that is written to
    for axis in moved[:-1]:
        wholes.append(cut(wholes[-1], axis, places[axis], ends[axis], "part"))
    name = e.name(update)
    for axis, whole in zip(reversed(moved), reversed(wholes), strict=True):
        parts = [cut(whole, axis, zero, places[axis], "before"), name, cut(whole, axis, ends[axis], last, "behind")]
        outermost = axis == moved[0]
        name = e.node(op, "Concat", parts, axis=axis) if outermost else e.scope.node("Concat", parts, "part", axis=axis)
    return name


def _put_one(e: Emitter, op: Op, axis: int, place: str) -> str:
    """One line of an axis is the update, where slices have no run-time places."""
    x, update = op.operands[:2]
    line = e.moves.line(x.type.dims[axis], "i64")
    here = e.scope.node("Equal", [line, place], f"{op.result.name}_here")
    here = e.moves.aligned(here, (x.type.dims[axis],), (axis,), x.type.rank, op.result.name)
    return e.node(op, "Where", [here, e.name(update), e.name(x)])


def _need_slices(e: Emitter, op: Op) -> None:
    if e.scope.opset < COMPUTED_SLICES:
        raise e.unsupported(op, f"a slice at run-time places before opset {COMPUTED_SLICES}")


def _place(e: Emitter, start: Value, room: Dim) -> str:
    """A start as a vector of int64, clamped to 0 .. room."""
    s, name = e.scope, e.name(start)
    if start.type.dtype != "i64":
        name = s.node("Cast", [name], "place", to=elem_type_of("i64"))
    name = s.node("Reshape", [name, s.ints([1], "one")], "place")
    return e.sizes.clamped(name, s.ints([0], "size"), e.sizes.one(room))
